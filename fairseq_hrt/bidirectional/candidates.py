"""The best blocks that may follow each hypothesis of a beam (IBDecoder, Algorithm 1, lines 10 to
14), in three scorings.

The words of one step are independent of each other given the earlier steps, so the N best blocks of
a hypothesis are found slot by slot: extend the N best beginnings by the N best words, keep the N
best. That is exact, since whatever follows costs the same after every beginning of the *same*
hypothesis; hypotheses are merged when their blocks are whole.
"""

from typing import NamedTuple, Tuple

import torch
from torch import Tensor


class Blocks(NamedTuple):
    """Blocks, or beginnings of blocks, that continue G hypotheses, P for each.

    Attributes:
        scores: ``[G, P]``, log-probabilities; -inf marks an empty place.
        words: LongTensor ``[G, P, i]``.
    """

    scores: Tensor
    words: Tensor

    def join(self, other: "Blocks") -> "Blocks":
        """Both together."""
        return Blocks(
            torch.cat([self.scores, other.scores], 1), torch.cat([self.words, other.words], 1)
        )

    def best(self, count: int) -> "Blocks":
        """The ``count`` best, in order."""
        scores, places = self.scores.topk(min(count, self.scores.size(1)))
        return Blocks(
            scores, self.words.gather(1, places.unsqueeze(-1).expand(-1, -1, self.words.size(2)))
        )

    def extend(self, scores: Tensor, words: Tensor) -> "Blocks":
        """Every beginning with every next word, given by ``scores`` ``[G, K]`` and ``words``
        ``[G, K]``."""
        groups, count = self.scores.shape
        choices = scores.size(1)
        totals = (self.scores.unsqueeze(2) + scores.unsqueeze(1)).flatten(1)
        before = (
            self.words.unsqueeze(2).expand(-1, -1, choices, -1).reshape(groups, count * choices, -1)
        )
        last = words.unsqueeze(1).expand(-1, count, -1).reshape(groups, -1, 1)
        return Blocks(totals, torch.cat([before, last], 2))

    def pad(self, pad: int) -> "Blocks":
        """Each with a pad behind it, which costs nothing."""
        return Blocks(
            self.scores,
            torch.cat([self.words, self.words.new_full((*self.scores.shape, 1), pad)], 2),
        )


def _nothing(log_probs: Tensor) -> Blocks:
    """One empty beginning for each hypothesis."""
    zeros = log_probs.new_zeros(log_probs.size(0), 1)
    return Blocks(zeros, zeros.long().unsqueeze(2)[..., :0])


def fold_canonical(log_probs: Tensor, count: int, *, eos: int, pad: int) -> Tuple[Blocks, Blocks]:
    """The best open and the best finished blocks of every hypothesis.

    Args:
        log_probs: ``[G, z, V]``.
        count: how many of each.

    Returns:
        (open, finished); finished ones are filled up with pad behind ``</s>``.
    """
    ends = log_probs[..., eos]
    others = log_probs.clone()
    others[..., eos] = float("-inf")
    likely, words = others.topk(min(count, others.size(-1)))
    opened = _nothing(log_probs)
    finished = Blocks(opened.scores[:, :0], opened.words[:, :0])
    ending = words.new_full((len(ends), 1), eos)
    for slot in range(log_probs.size(1)):
        finished = (
            finished.pad(pad).join(opened.extend(ends[:, slot : slot + 1], ending)).best(count)
        )
        opened = opened.extend(likely[:, slot], words[:, slot]).best(count)
    return opened, finished


def fold_paper(log_probs: Tensor, count: int) -> Blocks:
    """Likely blocks of every hypothesis, ``log_probs`` ``[G, z, V]``, as the authors' released
    search makes them.

    The ``count`` best words of each slot; the ``count`` best beginnings before each slot; behind
    the last slot all that remain, ``count`` squared. Blocks of one word, which that search does not
    know, are the 2 * ``count`` best words, so that ``count`` of them are open.
    """
    slots = log_probs.size(1)
    likely, words = log_probs.topk(min(count if slots > 1 else 2 * count, log_probs.size(-1)))
    blocks = _nothing(log_probs)
    for slot in range(slots):
        blocks = blocks.best(count).extend(likely[:, slot], words[:, slot])
    return blocks


class Candidates(NamedTuple):
    """Blocks of all hypotheses of a sentence: total scores ``[B, P]``, hypotheses ``[B, P]`` and
    words ``[B, P, z]``."""

    scores: Tensor
    parents: Tensor
    words: Tensor

    @classmethod
    def of(cls, blocks: Blocks, scores: Tensor, keep: int) -> "Candidates":
        """The ``keep`` best blocks of the N hypotheses of each sentence, whose scores so far are
        ``[B, N]``, best first."""
        batch, beams = scores.shape
        count = blocks.scores.size(1)
        totals = (blocks.scores.view(batch, beams, count) + scores.unsqueeze(2)).flatten(1)
        parents = (
            torch.arange(beams, device=scores.device).repeat_interleave(count).expand(batch, -1)
        )
        return cls(totals, parents, blocks.words.view(batch, beams * count, -1)).best(keep)

    def best(self, count: int) -> "Candidates":
        """The ``count`` best, in order."""
        scores, places = self.scores.topk(min(count, self.scores.size(1)))
        words = self.words.gather(1, places.unsqueeze(-1).expand(-1, -1, self.words.size(2)))
        return Candidates(scores, self.parents.gather(1, places), words)


def canonical_candidates(
    log_probs: Tensor, scores: Tensor, *, eos: int, pad: int
) -> Tuple[Candidates, Candidates]:
    """The N best open continuations of each sentence, and those that have ended among its N best of
    both kinds.

    Args:
        log_probs: ``[B, N, z, V]``.
        scores: ``[B, N]``, of the hypotheses so far.
    """
    beams = scores.size(1)
    opened, ended = (
        Candidates.of(blocks, scores, beams)
        for blocks in fold_canonical(log_probs.flatten(0, 1), beams, eos=eos, pad=pad)
    )
    # As in one-word search: what has ended is finished if it is among the N best of all.
    both = torch.cat([ended.scores, opened.scores], 1)
    ranks = both.argsort(dim=1, descending=True, stable=True).argsort(1)[:, : ended.scores.size(1)]
    return opened, ended._replace(scores=ended.scores.masked_fill(ranks >= beams, float("-inf")))


def whole_candidates(
    log_probs: Tensor, scores: Tensor, *, eos: int, released: bool
) -> Tuple[Candidates, Candidates]:
    """The N best open blocks of each sentence, and those with ``</s>``; -inf marks others.

    Args:
        log_probs: ``[B, N, z, V]``.
        scores: ``[B, N]``, of the hypotheses so far.
        released: of the 2 N best blocks of a sentence, as the released search has it; otherwise of
            the N best of each hypothesis, as the algorithm is printed.
    """
    beams = scores.size(1)
    blocks = fold_paper(log_probs.flatten(0, 1), beams)
    if released:
        likely = Candidates.of(blocks, scores, 2 * beams)
    else:
        likely = Candidates.of(blocks.best(beams), scores, beams * beams)
    over = likely.words.eq(eos).any(-1)
    opened = likely._replace(scores=likely.scores.masked_fill(over, float("-inf"))).best(beams)
    return opened, likely._replace(scores=likely.scores.masked_fill(~over, float("-inf")))
