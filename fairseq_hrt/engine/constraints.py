"""Constraints on the next token: length limits, ``<unk>`` penalty, prefixes, no repeated
n-grams."""

from typing import List, Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor


class Constraints:
    """Applies fairseq's constraints to log-probabilities in place, in the order in which fairseq's
    ``SequenceGenerator`` applies them.

    Args:
        dictionary: the target dictionary.
        min_length: ``</s>`` is forbidden before this many tokens, or before the maximum of a
            sentence if that is lower.
        max_lengths: LongTensor ``[B]``; after this many tokens only ``</s>`` is allowed.
        unkpen: subtracted from the log-probability of ``<unk>``; infinity forbids it.
        no_repeat_ngram_size: n; an n-gram may occur only once; 0: any number of times. If this
            forbids every token, the sentence ends, even before ``min_length``. fairseq 0.12.2 has a
            bug here: on a CPU it searches a padded buffer and never finds a repetition.
        prefix: LongTensor ``[B, P]``, tokens that each sentence must begin with, even if this
            repeats an n-gram; where a row has padding, any token may follow.
        prefix_scored: False gives the prefix log-probability 0, as Hugging Face does: all
            translations of a sentence share the prefix, and its log-probability, divided by their
            different lengths, would bias the ranking.
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
        # max_lengths on the host, read once.
        self.limits: List[int] = max_lengths.tolist()
        self.shortest_limit, self.longest_limit = min(self.limits), max(self.limits)
        # None: n-grams may repeat, and no history is needed.
        self.blocker: Optional[int] = no_repeat_ngram_size or None

    def apply_to_all(self, log_probs: Tensor, first: int, end: int) -> bool:
        """Applies the constraints to the choice of tokens ``first`` to ``end - 1`` at once, if the
        same ones hold for all of these: between the minimum and maximum lengths, without prefix and
        n-gram blocking.

        Args:
            log_probs: ``[..., V]``, changed in place.

        Returns:
            False if the constraints differ between these tokens: then nothing was changed, and each
            token needs :meth:`apply`.
        """
        if not self._the_same_everywhere(first, end):
            return False
        self.apply_to_words(log_probs)
        return True

    def apply_to_words(self, log_probs: Tensor) -> None:
        """Applies the constraints that hold for every token of every sentence, in place: padding is
        forbidden, ``<unk>`` penalised. ``log_probs`` is ``[..., V]``."""
        log_probs.select(-1, self.pad).fill_(float("-inf"))
        if self.unkpen:
            # An infinite penalty makes it -inf.
            log_probs.select(-1, self.unk).sub_(self.unkpen)

    def _the_same_everywhere(self, first: int, end: int) -> bool:
        inside = self.min_length <= first and end <= self.shortest_limit
        return inside and self.prefix is None and self.blocker is None

    def apply(
        self, log_probs: Tensor, step: int, sentences: Tensor, beams: int, history: Optional[Tensor]
    ) -> Tensor:
        """Applies all constraints to the choice of token ``step`` (0 = first).

        Each sentence has its own limits. In fairseq the limits of the longest sentence apply to the
        whole batch, and a prefix of one sentence suspends the minimum length of all, so that a
        translation can depend on what it is batched with.

        Args:
            log_probs: ``[R, V]``, changed in place.
            step: index of the token.
            sentences: LongTensor ``[B']``, indices into the batch of the sentences that are still
                being decoded.
            beams: N, the rows of each of these sentences, so that R = B' * N.
            history: LongTensor ``[R, step + 1]``, start symbol and tokens so far; needed for n-gram
                blocking only.

        Returns:
            ``log_probs``.
        """
        forced: Optional[Tensor] = None
        if self.prefix is not None and step < min(self.prefix.size(1), self.longest_limit):
            forced = self.prefix[sentences, step]  # [B']
            forced = (
                forced.masked_fill(step >= self.max_lengths[sentences], self.pad)
                .repeat_interleave(beams)
                .unsqueeze(1)  # [R, 1]
            )
            # [R, 1], read before the penalty: <unk> in a prefix is allowed even with --unkpen inf.
            own = log_probs.gather(1, forced)
        self.apply_to_words(log_probs)
        if step >= self.shortest_limit:
            full = (step >= self.max_lengths[sentences]).repeat_interleave(beams)  # [R]
            ending = log_probs[:, self.eos].clone()  # [R]
            log_probs.masked_fill_(full.unsqueeze(1), float("-inf"))
            log_probs[:, self.eos] = ending
        unforbidden = None if self.blocker is None else log_probs[:, self.eos].clone()
        if step < self.min_length:
            self._forbid_end(log_probs, step, sentences, beams)
        if self.blocker is not None:
            assert history is not None and unforbidden is not None, (
                "n-gram blocking needs the history"
            )
            # </s> is never a repetition, although the start symbol may be an </s>.
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
        """Forbids ``</s>`` as token ``step``, except in sentences that have reached their maximum
        length; arguments as for :meth:`apply`."""
        ends = log_probs.select(1, self.eos)
        if step < self.shortest_limit:
            ends.fill_(float("-inf"))
        else:
            ends.masked_fill_(
                (step < self.max_lengths[sentences]).repeat_interleave(beams), float("-inf")
            )

    def _force(self, log_probs: Tensor, forced: Tensor, own: Tensor) -> None:
        """Forbids all tokens of each row of ``log_probs`` except ``forced`` ``[R, 1]``. A row whose
        forced token is padding stays as it is.

        Args:
            own: ``[R, 1]``, what the log-probability of the forced token becomes if prefixes are
                scored (that of ``<unk>`` is reduced by a finite penalty); otherwise it becomes 0.
        """
        bound = forced.ne(self.pad)  # [R, 1]
        if not self.prefix_scored:
            own = torch.zeros_like(own)
        elif self.unkpen != float("inf"):
            own = torch.where(forced.eq(self.unk), own - self.unkpen, own)
        free = log_probs.gather(1, forced)  # [R, 1]
        log_probs.masked_fill_(bound, float("-inf"))
        log_probs.scatter_(1, forced, torch.where(bound, own, free))


def _forbid_repetitions(log_probs: Tensor, history: Tensor, size: int) -> None:
    """Forbids every token that would complete an n-gram which ``history`` contains; in place and
    without a transfer to the host.

    Args:
        log_probs: ``[R, V]``.
        history: LongTensor ``[R, T]``, the tokens so far.
        size: n, the length of the n-grams.
    """
    if history.size(1) < size:
        return
    known = history.unfold(1, size, 1)  # [R, T - n + 1, n]
    recent = history[:, history.size(1) - size + 1 :].unsqueeze(1)  # [R, 1, n - 1]
    repeated = known[..., :-1].eq(recent).all(-1)  # [R, T - n + 1]
    last = known[..., -1]  # [R, T - n + 1]
    log_probs.scatter_add_(
        1, last, torch.zeros_like(last, dtype=log_probs.dtype).masked_fill_(repeated, float("-inf"))
    )


def length_limits(widths: Tensor, *, max_len_a: float, max_len_b: int, capacity: int) -> Tensor:
    """The most tokens before ``</s>``, LongTensor ``[B]``, by fairseq's rule: min(⌊a·x + b⌋,
    capacity − 1).

    Args:
        widths: LongTensor ``[B]``, source lengths x.
        max_len_a, max_len_b: a and b of the rule.
        capacity: the number of decoder positions.
    """
    # In double precision, as Python's floats.
    limits = (widths.double() * max_len_a + max_len_b).clamp(max=capacity - 1)  # [B]
    return limits.long()
