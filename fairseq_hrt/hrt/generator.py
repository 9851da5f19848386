"""Two-stage decoding: every K-th token by beam search, then all the others in one pass."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import (
    AutoregressiveGenerator,
    DecodingStep,
    Memory,
    check_number,
    lists_to_host,
    search,
)
from ..native.decoding import Hypothesis, best_first
from ..native.families.hrt import chunk_table, completed
from ..native.options.values import DecodingOptions
from .sample import skip_cmlm_input


def chunk_sizes_of(table: Sequence[Tuple[float, int]], lengths: Tensor) -> List[int]:
    """The chunk size of each sentence.

    Args:
        table: (longest source in subwords, chunk size) pairs, ascending, the last limit infinite.
        lengths: LongTensor ``[B]``, source subwords without ``</s>``.
    """
    if len(table) == 1:
        return [table[0][1]] * lengths.numel()
    return [next(size for limit, size in table if length <= limit) for length in lengths.tolist()]


class HRTGenerator(AutoregressiveGenerator):
    """Hybrid-regressive decoding (HRT, section 4.4).

    Args:
        models: HRT models, trained for the same chunk sizes.
        dictionary: the target dictionary.
        options: ``beam`` is b_at, the beam of the first stage; ``hrt_nat_beam`` is b_nat,
            hypotheses completed in the second.
    """

    family = "hrt"

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        options: DecodingOptions,
    ) -> None:
        super().__init__(models, dictionary, options)
        self.table = chunk_table(options, models[0].decoder.chunk_sizes)
        if self.forced and {size for _, size in self.table} != {1}:
            raise ValueError(
                f"--forced-start {options.forced_start}: chunks cannot continue a given beginning;"
                " use --hrt-decode-chunk 1 for it"
            )
        self.nat_beam = completed(options, self.table)
        if len({tuple(model.decoder.chunk_sizes) for model in models}) > 1:
            raise ValueError(
                "the models of an ensemble must be trained for the same --hrt-chunk-sizes"
            )
        self._layouts: Dict[Tuple[int, int, torch.device], Tuple[Tensor, Tensor]] = {}

    def decode(
        self, net_input: Dict[str, Tensor], *, prefix: Optional[Tensor], start: Optional[int]
    ) -> List[List[Hypothesis]]:
        memories = self.ensemble.encode(net_input)
        # Without </s>, as users count.
        sizes = chunk_sizes_of(self.table, memories[0].lengths - 1)
        if prefix is not None and set(sizes) != {1}:
            raise ValueError(
                "--prefix-size: chunks cannot continue a given prefix; use --hrt-decode-chunk 1"
                " for it"
            )
        found: List[Any] = [None] * len(sizes)
        for size in sorted(set(sizes)):
            members = [row for row, own in enumerate(sizes) if own == size]
            group = memories
            if len(members) < len(sizes):
                rows = torch.tensor(members, device=memories[0].lengths.device)
                group = [memory.select(rows) for memory in memories]
            if size == 1:
                best = self.decode_memories(group, prefix=prefix, start=start)
            else:
                best = self.decode_chunks(group, size)
            for row, hypotheses in zip(members, best):
                found[row] = hypotheses
        return found

    def decode_chunks(self, memories: List[Memory], chunk_size: int) -> List[List[Hypothesis]]:
        """Both stages for sentences that are encoded already; best translations first."""
        kept = self.skip_at(memories, chunk_size)
        kept = [hypotheses[: self.nat_beam] for hypotheses in kept]
        return self.skip_cmlm(memories, kept, chunk_size)

    def skip_at(self, memories: List[Memory], chunk_size: int) -> List[List[Hypothesis]]:
        """Stage I: the beam search over z_1 … z_m, the tokens at positions K, 2K, …; the last one
        is ``</s>``."""
        # A translation of at most that many words and </s> fill this many chunks; the last token is
        # </s>.
        chunks = (
            torch.div(self.length_limits(memories) + 1, chunk_size, rounding_mode="floor").clamp(
                min=1
            )
            - 1
        )
        rules = self.rules(chunks, stride=chunk_size)
        self.ensemble.reserve_positions(chunk_size * (rules.longest_limit + 1) + 1)
        start = self.models[0].decoder.start_symbol(chunk_size)
        plan = self.search_plan(start, rules, stride=chunk_size, stage="skip_at")
        return search(self.ensemble, memories, plan, hooks=self.step_hooks)

    def skip_cmlm(
        self, memories: List[Memory], kept: List[List[Hypothesis]], chunk_size: int
    ) -> List[List[Hypothesis]]:
        """Stage II: K - 1 masks before every token of stage I, all filled in one pass; ranked by
        HRT's Eq. 2."""
        beams = max(len(hypotheses) for hypotheses in kept)
        # Where a sentence has fewer hypotheses its first one fills the row up; the copies are
        # dropped below.
        rows = [
            hypotheses[min(n, len(hypotheses) - 1)] for hypotheses in kept for n in range(beams)
        ]
        tokens, visible = self._masked_input(rows, chunk_size, memories[0].lengths.device)
        positions, masked = self._layout(tokens.size(1), chunk_size, tokens.device)
        log_probs = self.ensemble.log_probabilities(
            # The first position is 1, but only distances count.
            self.ensemble.start(memories, beams=beams, stride=1, capacity=0),
            tokens,
            positions,
            only=masked,
            visible=visible,
            causal=False,
            remember=False,
            temperature=self.options.temperature,
        )
        limits: Optional[Tensor] = None
        # Only of a single chunk more words may stand before </s> than a sentence has at most.
        if self.options.max_len_a + self.options.max_len_b < chunk_size - 1:
            limits = self.length_limits(memories).repeat_interleave(beams)
        self._restrict(log_probs, positions[masked], rows, chunk_size, limits)
        best, choice = log_probs.max(-1)
        if self.step_hooks:
            scores = torch.zeros(tokens.shape, dtype=best.dtype, device=best.device)
            scores[:, masked], tokens[:, masked] = best, choice
            number = max(row.steps for row in rows) + 1
            for hook in self.step_hooks:
                hook(
                    DecodingStep(
                        "skip_cmlm", number, torch.arange(len(kept)), positions, tokens, scores
                    )
                )
        finished = [
            self._complete(row, words, numbers, chunk_size)
            for row, words, numbers in zip(rows, *lists_to_host(choice, best))
        ]
        found = []
        for number, hypotheses in enumerate(kept):
            mine = finished[number * beams : number * beams + len(hypotheses)]
            found.append(best_first(mine))
        return found

    def _masked_input(
        self, rows: List[Hypothesis], chunk_size: int, device: torch.device
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Stage-II inputs ``[R, L]``, padded, and which keys may be seen ``[R, 1, L]`` (None:
        all)."""
        pad, mask = self.dictionary.pad(), self.models[0].decoder.mask
        steps = max(row.steps for row in rows)
        lines = [
            skip_cmlm_input(row.tokens, chunk_size, mask=mask)
            + [pad] * (chunk_size * (steps - row.steps))
            for row in rows
        ]
        tokens = torch.tensor(lines, device=device)
        if all(row.steps == steps for row in rows):
            return tokens, None
        lengths = torch.tensor([chunk_size * row.steps for row in rows], device=device).unsqueeze(1)
        inside = torch.arange(tokens.size(1), device=device) < lengths
        return tokens, inside.unsqueeze(1)

    def _layout(self, length: int, chunk_size: int, device: torch.device) -> Tuple[Tensor, Tensor]:
        """Positions 1 to ``length`` of stage II, and the places of those that are masked; kept for
        the next sentence."""
        key = (length, chunk_size, device)
        if key not in self._layouts:
            positions = torch.arange(1, length + 1, device=device)
            places = torch.arange(length, device=device).view(-1, chunk_size)
            self._layouts[key] = (positions, places[:, :-1].reshape(-1))
        return self._layouts[key]

    def _restrict(
        self,
        log_probs: Tensor,
        positions: Tensor,
        rows: List[Hypothesis],
        chunk_size: int,
        limits: Optional[Tensor],
    ) -> None:
        """Applies the rules of the first stage in place: ``log_probs`` ``[R, q', V]`` of the masked
        ``positions`` ``[q']``.

        Args:
            limits: LongTensor ``[R]``, the most words of each row; None where no row can have more.
        """
        log_probs.select(2, self.dictionary.pad()).fill_(float("-inf"))
        if self.options.unkpen:
            log_probs[..., self.dictionary.unk()] -= self.options.unkpen
        ends = log_probs.select(2, self.eos)
        unforbidden = None if limits is None else ends.clone()
        if self.options.hrt_eos_last_chunk:
            earliest = [max(self.options.min_len, chunk_size * (row.steps - 1)) for row in rows]
            early = positions <= torch.tensor(earliest, device=positions.device).unsqueeze(1)
            ends.masked_fill_(early, float("-inf"))
        elif self.options.min_len > 0:
            # As many masks stand before position min_len + 1.
            first = self.options.min_len - self.options.min_len // chunk_size
            ends[:, :first].fill_(float("-inf"))
        if limits is not None and unforbidden is not None:
            beyond = positions > limits.unsqueeze(1)
            log_probs.masked_fill_(beyond.unsqueeze(2), float("-inf"))
            ends.copy_(torch.where(beyond, unforbidden, ends))

    def _complete(
        self, row: Hypothesis, choice: List[int], best: List[float], chunk_size: int
    ) -> Hypothesis:
        """The translation of one row: cut at the first ``</s>``, scored by Eq. 2, ranked with the
        length penalty unless ``--hrt-scoring eq2``.

        Args:
            choice, best: what stands at the masked positions, and its log-probability.
        """
        length = chunk_size * row.steps
        tokens, scores = [0] * length, [0.0] * length
        tokens[chunk_size - 1 :: chunk_size], scores[chunk_size - 1 :: chunk_size] = (
            row.tokens,
            row.positional_scores,
        )
        gaps = chunk_size - 1
        for place in range(gaps):
            tokens[place::chunk_size] = choice[place : gaps * row.steps : gaps]
            scores[place::chunk_size] = best[place : gaps * row.steps : gaps]
        end = tokens.index(self.eos) + 1
        counted = list(scores)
        if not self.models[0].decoder.learn_tail:
            # Nothing was learnt behind the first </s>: predictions there are noise.
            counted = [
                s for place, s in enumerate(scores) if place < end or (place + 1) % chunk_size == 0
            ]
        total = sum(counted)
        check_number(total)
        divides = self.options.normalize and self.options.hrt_scoring == "normalized"
        steps = [
            place // chunk_size if place % chunk_size == 0 else row.steps + 1
            for place in range(1, end + 1)
        ]
        hypothesis = Hypothesis(
            tokens=tokens[:end],
            score=total / length**self.options.lenpen if divides else total,
            positional_scores=scores[:end],
            token_steps=steps,
            steps=row.steps + 1,
        )
        if self.options.retain_iter_history:
            hypothesis.history = self._history(row, hypothesis, chunk_size)
        return hypothesis

    def _history(self, row: Hypothesis, hypothesis: Hypothesis, chunk_size: int) -> List[List[int]]:
        """The partial translation after each step; ``<unk>`` stands for an open position."""
        gap = [self.dictionary.unk()] * (chunk_size - 1)
        partial: List[int] = []
        history = []
        for token in row.tokens:
            partial = partial + gap + [token]
            history.append(partial)
        return history + [hypothesis.tokens]
