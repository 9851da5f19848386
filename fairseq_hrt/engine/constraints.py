"""What a hypothesis may say next: fairseq's rules on lengths, unknown words, prefixes and repeated
n-grams."""

from typing import List, Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor


class Constraints:
    """Rules that change log-probabilities in place, in the order of fairseq's
    ``SequenceGenerator``.

    Args:
        dictionary: the target dictionary.
        min_length: ``</s>`` is forbidden before this many tokens; for a sentence with a lower
            maximum, before that maximum.
        max_lengths: LongTensor ``[B]``; after this many tokens only ``</s>`` is allowed.
        unkpen: subtracted from the log-probability of ``<unk>``; infinity forbids it.
        no_repeat_ngram_size: n-grams of this size may occur once; 0 = any number of times. The rule
            is fairseq's as it is meant: its ``SequenceGenerator`` 0.12.2 looks into a padded
            buffer, in which no n-gram is ever found on a CPU. Where it leaves no word, the sentence
            ends, even before ``min_length``.
        prefix: LongTensor ``[B, P]``, tokens that each sentence must begin with, whatever they
            repeat; pad where it is free again.
        prefix_scored: False scores these tokens 0, as Hugging Face scores forced ones: they are no
            choice of the model's, and divided by different lengths their log-probability would rank
            translations that all have it.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        *,
        min_length: int,
        max_lengths: Tensor,
        unkpen: float = 0.0,
        no_repeat_ngram_size: int = 0,
        prefix: Optional[Tensor] = None,
        prefix_scored: bool = True,
    ) -> None:
        self.pad, self.eos, self.unk = dictionary.pad(), dictionary.eos(), dictionary.unk()
        self.min_length, self.unkpen, self.prefix = min_length, unkpen, prefix
        self.prefix_scored = prefix_scored
        self.max_lengths = max_lengths
        # The same for the host, read once.
        self.limits: List[int] = max_lengths.tolist()
        self.shortest_limit, self.longest_limit = min(self.limits), max(self.limits)
        # None where n-grams may be repeated, and nobody has to keep a history.
        self.blocker: Optional[int] = no_repeat_ngram_size or None

    def apply_to_all(self, log_probs: Tensor, first: int, end: int) -> bool:
        """Applies the rules to the tokens number ``first`` to ``end - 1`` at once, where they are
        the same for all of them.

        Args:
            log_probs: ``[..., V]``, changed in place.

        Returns:
            Whether they are; if not, nothing was changed and each token needs :meth:`apply`.
        """
        if not self._the_same_everywhere(first, end):
            return False
        self.apply_to_words(log_probs)
        return True

    def apply_to_words(self, log_probs: Tensor) -> None:
        """The rules that depend on neither place nor sentence, in place: no padding, and the
        penalty of ``<unk>``; ``[..., V]``."""
        log_probs.select(-1, self.pad).fill_(float("-inf"))
        if self.unkpen:
            # An infinite penalty forbids it.
            log_probs.select(-1, self.unk).sub_(self.unkpen)

    def _the_same_everywhere(self, first: int, end: int) -> bool:
        inside = self.min_length <= first and end <= self.shortest_limit
        return inside and self.prefix is None and self.blocker is None

    def apply(
        self, log_probs: Tensor, step: int, sentences: Tensor, beams: int, history: Optional[Tensor]
    ) -> Tensor:
        """Applies the rules to the choice of token number ``step`` (0 = first).

        Each sentence is ruled by its own limits: where fairseq looks at the longest sentence of a
        batch, or lets a given beginning of one sentence suspend the minimum length of the others, a
        translation would depend on what it is batched with.

        Args:
            log_probs: ``[R, V]``, changed in place.
            sentences: LongTensor ``[B']``, the sentences that the rows belong to, ``beams`` rows
                each.
            history: LongTensor ``[R, step + 1]``, start symbol and tokens so far; needed for n-gram
                blocking only.

        Returns:
            ``log_probs``.
        """
        forced: Optional[Tensor] = None
        if self.prefix is not None and step < min(self.prefix.size(1), self.longest_limit):
            forced = self.prefix[sentences, step]
            forced = (
                forced.masked_fill(step >= self.max_lengths[sentences], self.pad)
                .repeat_interleave(beams)
                .unsqueeze(1)
            )
            # A given <unk> stands, even where the search may not choose it.
            own = log_probs.gather(1, forced)
        self.apply_to_words(log_probs)
        if step >= self.shortest_limit:
            full = (step >= self.max_lengths[sentences]).repeat_interleave(beams)
            ending = log_probs[:, self.eos].clone()
            log_probs.masked_fill_(full.unsqueeze(1), float("-inf"))
            log_probs[:, self.eos] = ending
        unforbidden = None if self.blocker is None else log_probs[:, self.eos].clone()
        if step < self.min_length:
            self._forbid_end(log_probs, step, sentences, beams)
        if self.blocker is not None:
            assert history is not None and unforbidden is not None, (
                "n-gram blocking needs the history"
            )
            # The start symbol is an </s>, but ending a sentence repeats nothing.
            allowed = log_probs[:, self.eos].clone()
            _forbid_repetitions(log_probs, history, self.blocker)
            log_probs[:, self.eos] = allowed
            log_probs[:, self.eos] = torch.where(
                (log_probs == float("-inf")).all(1), unforbidden, allowed
            )
        if forced is not None:
            self._force(log_probs, forced, own)
        return log_probs

    def _forbid_end(self, log_probs: Tensor, step: int, sentences: Tensor, beams: int) -> None:
        """No ``</s>`` yet, except where a sentence is as long as it may be."""
        ends = log_probs.select(1, self.eos)
        if step < self.shortest_limit:
            ends.fill_(float("-inf"))
        else:
            ends.masked_fill_(
                (step < self.max_lengths[sentences]).repeat_interleave(beams), float("-inf")
            )

    def _force(self, log_probs: Tensor, forced: Tensor, own: Tensor) -> None:
        """Leaves only the forced token ``[R, 1]`` of each row, with its probability ``own`` if that
        is scored; pad forces nothing."""
        bound = forced.ne(self.pad)
        if not self.prefix_scored:
            own = torch.zeros_like(own)
        elif self.unkpen != float("inf"):
            own = torch.where(forced.eq(self.unk), own - self.unkpen, own)
        free = log_probs.gather(1, forced)
        log_probs.masked_fill_(bound, float("-inf"))
        log_probs.scatter_(1, forced, torch.where(bound, own, free))


def _forbid_repetitions(log_probs: Tensor, history: Tensor, size: int) -> None:
    """Forbids, in place, what would complete an n-gram that occurred before, without a look at the
    host.

    Args:
        log_probs: ``[R, V]``.
        history: LongTensor ``[R, T]``, the tokens so far.
        size: n.
    """
    if history.size(1) < size:
        return
    # [R, T - n + 1, n]
    known = history.unfold(1, size, 1)
    recent = history[:, history.size(1) - size + 1 :].unsqueeze(1)
    repeated = known[..., :-1].eq(recent).all(-1)
    last = known[..., -1]
    log_probs.scatter_add_(
        1, last, torch.zeros_like(last, dtype=log_probs.dtype).masked_fill_(repeated, float("-inf"))
    )


def length_limits(widths: Tensor, *, max_len_a: float, max_len_b: int, capacity: int) -> Tensor:
    """fairseq's rule for the most tokens before ``</s>``: min(⌊a·x + b⌋, capacity − 1).

    Args:
        widths: LongTensor ``[B]``, source lengths x.
        capacity: positions of the decoder.
    """
    # In double precision, as Python counts.
    limits = (widths.double() * max_len_a + max_len_b).clamp(max=capacity - 1)
    return limits.long()
