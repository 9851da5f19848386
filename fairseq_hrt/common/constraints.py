"""What a hypothesis may say next: fairseq's rules on lengths, unknown words, prefixes and repeated n-grams."""

from typing import Optional

import torch
from fairseq.data import Dictionary
from fairseq.ngram_repeat_block import NGramRepeatBlock
from torch import Tensor


class Constraints:
    """Rules that change log-probabilities in place, in the order of fairseq's ``SequenceGenerator``.

    Args:
        dictionary: the target dictionary.
        min_length: ``</s>`` is forbidden before this many tokens.
        max_lengths: LongTensor ``[B]``; after this many tokens only ``</s>`` is allowed.
        unkpen: subtracted from the log-probability of ``<unk>``.
        no_repeat_ngram_size: n-grams of this size may occur once; 0 = any number of times. The rule is fairseq's, but
            its ``SequenceGenerator`` 0.12.2 hands it the padded buffer, in which no n-gram is ever found on a CPU.
        prefix: LongTensor ``[B, P]``, tokens that each sentence must begin with, pad where it is free again.
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
    ) -> None:
        self.pad, self.eos, self.unk = dictionary.pad(), dictionary.eos(), dictionary.unk()
        self.min_length, self.unkpen, self.prefix = min_length, unkpen, prefix
        self.max_lengths = max_lengths
        self.shortest_limit, self.longest_limit = int(max_lengths.min()), int(max_lengths.max())
        if min_length > self.shortest_limit:
            raise ValueError(
                f"--min-len {min_length} is greater than the maximum length {self.shortest_limit} of a sentence; "
                "lower --min-len or raise --max-len-a/--max-len-b"
            )
        self.blocker = NGramRepeatBlock(no_repeat_ngram_size) if no_repeat_ngram_size > 0 else None

    def only_padding(self, first: int, end: int) -> bool:
        """Whether padding is all that is forbidden for the tokens number ``first`` to ``end - 1``."""
        inside = self.min_length <= first and end <= self.shortest_limit
        return inside and not self.unkpen and self.prefix is None and self.blocker is None

    def apply(self, log_probs: Tensor, step: int, sentences: Tensor, beams: int, history: Optional[Tensor]) -> Tensor:
        """Applies the rules to the choice of token number ``step`` (0 = first).

        Args:
            log_probs: ``[R, V]``, changed in place.
            sentences: LongTensor ``[B']``, the sentences that the rows belong to, ``beams`` rows each.
            history: LongTensor ``[R, step + 1]``, start symbol and tokens so far; needed for n-gram blocking only.

        Returns:
            ``log_probs``.
        """
        log_probs.select(1, self.pad).fill_(float("-inf"))
        if self.unkpen:
            log_probs[:, self.unk] -= self.unkpen
        if step >= self.shortest_limit:
            full = (step >= self.max_lengths[sentences]).repeat_interleave(beams)
            ending = log_probs[:, self.eos].clone()
            log_probs.masked_fill_(full.unsqueeze(1), float("-inf"))
            log_probs[:, self.eos] = ending
        if self.prefix is not None and step < min(self.prefix.size(1), self.longest_limit):
            self._force_prefix(log_probs, self.prefix[sentences, step].repeat_interleave(beams))
        elif step < self.min_length:
            log_probs.select(1, self.eos).fill_(float("-inf"))
        if self.blocker is not None:
            log_probs = self.blocker(history, log_probs, sentences.numel(), beams, step)
        return log_probs

    def _force_prefix(self, log_probs: Tensor, forced: Tensor) -> None:
        """Leaves only the forced token of each row, with its own probability."""
        bound = forced.ne(self.pad)
        kept = log_probs.gather(1, forced.unsqueeze(1))
        log_probs.masked_fill_(bound.unsqueeze(1), float("-inf"))
        log_probs[bound] = log_probs[bound].scatter(1, forced[bound].unsqueeze(1), kept[bound])


def length_limits(widths: Tensor, *, max_len_a: float, max_len_b: int, capacity: int) -> Tensor:
    """fairseq's rule for the most tokens before ``</s>``: min(⌊a·x + b⌋, capacity − 1).

    Args:
        widths: LongTensor ``[B]``, source lengths x.
        capacity: positions of the decoder.
    """
    limits = [min(int(max_len_a * width + max_len_b), capacity - 1) for width in widths.tolist()]
    return torch.tensor(limits, dtype=torch.long, device=widths.device)
