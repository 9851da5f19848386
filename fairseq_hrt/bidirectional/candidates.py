"""The best blocks that may follow each hypothesis of a beam (IBDecoder, Algorithm 1, lines 10 to
14).

The words of one step are independent of each other given the earlier steps. The N best blocks of a
hypothesis can therefore be found exactly, slot by slot: extend the N best beginnings by the N best
words and keep the N best. Blocks of different hypotheses are compared once they are complete.
"""

from typing import NamedTuple, Tuple

import torch
from torch import Tensor


class Blocks(NamedTuple):
    """P blocks for each of G hypotheses. A block is the z words that one decoder step writes; while
    a block is being built, it holds its first i words.

    Attributes:
        scores: ``[G, P]``, log-probabilities of the blocks; -inf marks a place without a block.
        words: LongTensor ``[G, P, i]``.
    """

    scores: Tensor
    words: Tensor

    def join(self, other: "Blocks") -> "Blocks":
        """The P blocks of each hypothesis, followed by its P' blocks in ``other``; all must have
        the same number of words."""
        return Blocks(
            torch.cat([self.scores, other.scores], 1), torch.cat([self.words, other.words], 1)
        )

    def best(self, count: int) -> "Blocks":
        """The ``count`` blocks of each hypothesis with the highest scores, best first; all P if
        ``count`` is larger."""
        scores, places = self.scores.topk(min(count, self.scores.size(1)))  # [G, count] each
        return Blocks(
            scores, self.words.gather(1, places.unsqueeze(-1).expand(-1, -1, self.words.size(2)))
        )

    def extend(self, scores: Tensor, words: Tensor) -> "Blocks":
        """Appends each of K words to each of the P blocks of a hypothesis: P * K longer blocks.

        Args:
            scores: ``[G, K]``, log-probabilities of the words, added to the scores of the blocks.
            words: LongTensor ``[G, K]``.
        """
        groups, count = self.scores.shape
        choices = scores.size(1)
        totals = (self.scores.unsqueeze(2) + scores.unsqueeze(1)).flatten(1)  # [G, P * K]
        before = (
            self.words.unsqueeze(2).expand(-1, -1, choices, -1).reshape(groups, count * choices, -1)
        )
        last = words.unsqueeze(1).expand(-1, count, -1).reshape(groups, -1, 1)  # [G, P * K, 1]
        return Blocks(totals, torch.cat([before, last], 2))  # [G, P * K], [G, P * K, i + 1]

    def pad(self, pad: int) -> "Blocks":
        """Appends ``pad``, the id of padding, to each block; scores do not change."""
        return Blocks(
            self.scores,
            torch.cat([self.words, self.words.new_full((*self.scores.shape, 1), pad)], 2),
        )


def _nothing(log_probs: Tensor) -> Blocks:
    """One block without words for each of G hypotheses: scores ``[G, 1]`` of 0, words ``[G, 1,
    0]``. G, dtype and device are those of ``log_probs`` ``[G, z, V]``."""
    zeros = log_probs.new_zeros(log_probs.size(0), 1)  # [G, 1]
    return Blocks(zeros, zeros.long().unsqueeze(2)[..., :0])


def fold_canonical(log_probs: Tensor, count: int, *, eos: int, pad: int) -> Tuple[Blocks, Blocks]:
    """Finds the ``count`` best blocks without ``</s>`` and the ``count`` best blocks with ``</s>``
    that may follow each of G hypotheses. Blocks are canonical: those that agree up to ``</s>`` are
    one block, with padding after ``</s>``, and its score leaves out the words after ``</s>``.

    Args:
        log_probs: ``[G, z, V]``, of the z words of the next step.
        count: the number of blocks.
        eos, pad: ids of ``</s>`` and padding.

    Returns:
        (blocks without ``</s>``, blocks with ``</s>``), best first.
    """
    ends = log_probs[..., eos]  # [G, z]
    others = log_probs.clone()  # [G, z, V]
    others[..., eos] = float("-inf")
    likely, words = others.topk(min(count, others.size(-1)))  # [G, z, K] each
    opened = _nothing(log_probs)
    finished = Blocks(opened.scores[:, :0], opened.words[:, :0])
    ending = words.new_full((len(ends), 1), eos)  # [G, 1]
    for slot in range(log_probs.size(1)):
        finished = (
            finished.pad(pad).join(opened.extend(ends[:, slot : slot + 1], ending)).best(count)
        )
        opened = opened.extend(likely[:, slot], words[:, slot]).best(count)
    return opened, finished


def fold_paper(log_probs: Tensor, count: int) -> Blocks:
    """The best blocks that may follow each of G hypotheses, as the authors' released code finds
    them.

    For each of the z words in turn, the ``count`` best beginnings of blocks are extended by the
    ``count`` best choices of that word; all ``count`` ** 2 results of the last extension are
    returned. For z = 1, which that code does not support, the 2 * ``count`` best words are
    returned, of which at most one is ``</s>``.

    Args:
        log_probs: ``[G, z, V]``, of the z words of the next step.
        count: how many beginnings, and how many choices of a word, are kept.
    """
    slots = log_probs.size(1)
    # [G, z, K] each
    likely, words = log_probs.topk(min(count if slots > 1 else 2 * count, log_probs.size(-1)))
    blocks = _nothing(log_probs)
    for slot in range(slots):
        blocks = blocks.best(count).extend(likely[:, slot], words[:, slot])  # [G, P * K] blocks
    return blocks


class Candidates(NamedTuple):
    """P blocks of z words that may continue the translation of each sentence.

    Attributes:
        scores: ``[B, P]``, log-probability of the hypothesis with the block; -inf marks a place
            without a block.
        parents: LongTensor ``[B, P]``, index from 0 to N - 1, among the sentence's N hypotheses, of
            the one that the block continues.
        words: LongTensor ``[B, P, z]``, the words of each block.
    """

    scores: Tensor
    parents: Tensor
    words: Tensor

    @classmethod
    def of(cls, blocks: Blocks, scores: Tensor, keep: int) -> "Candidates":
        """The ``keep`` best blocks of each sentence, best first, ranked by the score of the
        hypothesis with the block.

        Args:
            blocks: the blocks that may follow B * N hypotheses, sentence by sentence.
            scores: ``[B, N]``, log-probabilities of the hypotheses so far.
            keep: the most blocks kept for a sentence.
        """
        batch, beams = scores.shape
        count = blocks.scores.size(1)
        totals = (blocks.scores.view(batch, beams, count) + scores.unsqueeze(2)).flatten(1)
        parents = (
            torch.arange(beams, device=scores.device).repeat_interleave(count).expand(batch, -1)
        )
        return cls(totals, parents, blocks.words.view(batch, beams * count, -1)).best(keep)

    def best(self, count: int) -> "Candidates":
        """The ``count`` candidates of each sentence with the highest scores, best first; all P if
        ``count`` is larger."""
        scores, places = self.scores.topk(min(count, self.scores.size(1)))  # [B, count] each
        # [B, count, z]
        words = self.words.gather(1, places.unsqueeze(-1).expand(-1, -1, self.words.size(2)))
        return Candidates(scores, self.parents.gather(1, places), words)


def canonical_candidates(
    log_probs: Tensor, scores: Tensor, *, eos: int, pad: int
) -> Tuple[Candidates, Candidates]:
    """The blocks that continue the beam of each sentence, and those that end hypotheses, for
    ``canonical`` scoring: words after ``</s>`` are padding and do not count (see
    :func:`fold_canonical`).

    Args:
        log_probs: ``[B, N, z, V]``, of the z words of the next step.
        scores: ``[B, N]``, log-probabilities of the hypotheses so far.
        eos, pad: ids of ``</s>`` and padding.

    Returns:
        (open, ended): the N best blocks of each sentence without ``</s>``, and its N best blocks
        with ``</s>``. Of these 2 N blocks only the N best count for ending: blocks of ``ended``
        that are not among the N get the score -inf.
    """
    beams = scores.size(1)
    opened, ended = (
        Candidates.of(blocks, scores, beams)
        for blocks in fold_canonical(log_probs.flatten(0, 1), beams, eos=eos, pad=pad)
    )
    # As in ordinary beam search, an ended hypothesis is finished if it is among the N best of all;
    # others get -inf.
    both = torch.cat([ended.scores, opened.scores], 1)  # [B, 2N]
    ranks = both.argsort(dim=1, descending=True, stable=True).argsort(1)[:, : ended.scores.size(1)]
    return opened, ended._replace(scores=ended.scores.masked_fill(ranks >= beams, float("-inf")))


def whole_candidates(
    log_probs: Tensor, scores: Tensor, *, eos: int, released: bool
) -> Tuple[Candidates, Candidates]:
    """The blocks that continue the beam of each sentence, and those that end hypotheses, for
    ``paper`` and ``algorithm1`` scoring: words after ``</s>`` count in the scores.

    Args:
        log_probs: ``[B, N, z, V]``, of the z words of the next step.
        scores: ``[B, N]``, log-probabilities of the hypotheses so far.
        eos: id of ``</s>``.
        released: which P blocks are considered. True: the 2 N best of a sentence, as in the
            authors' released code; False: the N best of each hypothesis, as in the paper's
            algorithm.

    Returns:
        (open, ended): the N best of the P blocks without ``</s>``, and all P blocks, where blocks
        without ``</s>`` get the score -inf.
    """
    beams = scores.size(1)
    blocks = fold_paper(log_probs.flatten(0, 1), beams)  # [B * N, P]
    if released:
        likely = Candidates.of(blocks, scores, 2 * beams)
    else:
        likely = Candidates.of(blocks.best(beams), scores, beams * beams)
    over = likely.words.eq(eos).any(-1)  # [B, P]
    opened = likely._replace(scores=likely.scores.masked_fill(over, float("-inf"))).best(beams)
    return opened, likely._replace(scores=likely.scores.masked_fill(~over, float("-inf")))
