"""Two-stage decoding: every K-th token by beam search, then all others in one parallel pass."""

from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import (
    AutoregressiveGenerator,
    DecodingStep,
    EncodedSource,
    Memory,
    SearchPlan,
    lists_to_host,
    search,
)
from ..engine.buckets import PARTS, bucket
from ..engine.fused import best_words
from ..engine.fused.search import allowed_words
from ..native.decoding import Hypothesis
from ..native.families.hrt import chunk_table, completed
from ..native.options.values import DecodingOptions
from .completion import completions, masked_input, masked_line, same_number


def chunk_sizes_of(table: Sequence[Tuple[float, int]], lengths: Tensor) -> List[int]:
    """The chunk size of each sentence, looked up by its source length.

    Args:
        table: pairs (longest source in subwords, chunk size), ascending, the last limit infinite.
        lengths: LongTensor ``[B]``, source subwords without ``</s>``.
    """
    if len(table) == 1:
        return [table[0][1]] * lengths.numel()
    return [next(size for limit, size in table if length <= limit) for length in lengths.tolist()]


def _by_size(
    sizes: Sequence[int],
    decode: Callable[[int, Optional[Tensor]], List[List[Hypothesis]]],
    device: torch.device,
) -> List[List[Hypothesis]]:
    """The hypotheses of each sentence of a batch, decoded in groups of equal chunk ``sizes``:
    ``decode`` gets a size and the indices of its sentences, LongTensor ``[B']`` on the ``device``;
    None: all sentences."""
    found: List[Any] = [None] * len(sizes)
    for size in sorted(set(sizes)):
        members = [row for row, own in enumerate(sizes) if own == size]
        rows = torch.tensor(members, device=device) if len(members) < len(sizes) else None
        for row, hypotheses in zip(members, decode(size, rows)):
            found[row] = hypotheses
    return found


class HRTGenerator(AutoregressiveGenerator):
    """Hybrid-regressive decoding (HRT, section 4.4): stage I writes every K-th token by beam
    search, stage II all others in one parallel pass. K, the chunk size, may depend on the source's
    length.

    Args:
        models: HRT models, trained for the same chunk sizes.
        dictionary: the target dictionary.
        options: ``beam`` is b_at, the beam of stage I; ``hrt_nat_beam`` is b_nat, the number of its
            hypotheses that stage II completes.
    """

    family = "hrt"

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        options: DecodingOptions,
    ) -> None:
        super().__init__(models, dictionary, options)
        self.decoder = models[0].decoder
        self.table = chunk_table(options, self.decoder.chunk_sizes)
        if self.forced and {size for _, size in self.table} != {1}:
            raise ValueError(
                f"--forced-start {options.forced_start}: chunks cannot continue a given beginning;"
                " use --hrt-decode-chunk 1, or leave --forced-start out"
            )
        self.nat_beam = completed(options, self.table)
        if len({tuple(model.decoder.chunk_sizes) for model in models}) > 1:
            raise ValueError(
                "the models of an ensemble must be trained for the same --hrt-chunk-sizes: leave"
                " those that differ out of --path"
            )

    def decode(
        self, net_input: Dict[str, Tensor], *, prefix: Optional[Tensor], start: Optional[int]
    ) -> List[List[Hypothesis]]:
        if self.by_graphs(net_input["src_tokens"], prefix):
            return self.decode_static(net_input["src_tokens"], start=start)
        memories = self.ensemble.encode(net_input)
        # The table counts subwords without </s>.
        sizes = chunk_sizes_of(self.table, memories[0].lengths - 1)
        if prefix is not None and set(sizes) != {1}:
            raise ValueError(
                "--prefix-size: chunks cannot continue a given prefix; use --hrt-decode-chunk 1,"
                " or leave --prefix-size out"
            )

        def decode(size: int, rows: Optional[Tensor]) -> List[List[Hypothesis]]:
            group = memories if rows is None else [memory.select(rows) for memory in memories]
            if size == 1:
                return self.decode_memories(group, prefix=prefix, start=start)
            return self.decode_chunks(group, size)

        return _by_size(sizes, decode, memories[0].lengths.device)

    def decode_static(
        self, tokens: Tensor, *, start: Optional[int] = None
    ) -> List[List[Hypothesis]]:
        sizes = chunk_sizes_of(self.table, self.host_lengths(tokens) - 1)
        plain = super().decode_static

        def decode(size: int, rows: Optional[Tensor]) -> List[List[Hypothesis]]:
            group = tokens if rows is None else tokens[rows]  # [B', S]
            if size == 1:
                return plain(group, start=start)
            return self.decode_static_chunks(group, size)

        return _by_size(sizes, decode, tokens.device)

    def decode_static_chunks(self, tokens: Tensor, chunk_size: int) -> List[List[Hypothesis]]:
        """Runs both stages of decoding as :meth:`decode_chunks` does, but from the token ids
        ``[B, S]`` of the sources, and by computations of fixed shapes, which a CUDA graph can
        replay.

        The host makes the input of stage II: it reads stage I anyway, to rank the hypotheses and to
        find the number of chunks, on which the shapes of stage II depend. This costs one transfer
        to the device per batch.
        """
        lengths, store = self.host_lengths(tokens), self.ensemble.graphs
        with store.lock:
            source = self.static_search.encode(tokens, self.eos)
            plan = self.skip_at_plan(lengths, chunk_size)
            kept = self.static_search.search(source, len(lengths), plan)
            kept = [hypotheses[: self.nat_beam] for hypotheses in kept]
            rows, beams = same_number(kept)
            # Padded to the rows of the encoded source; below to one of a few numbers of chunks.
            filled = rows + [rows[0]] * (beams * source.rows - len(rows))
            most = bucket(max(row.steps for row in rows), PARTS)
            inputs = [
                torch.tensor(
                    [masked_line(row, chunk_size, most, self.decoder) for row in filled]
                ),  # [R, L]
                torch.tensor([row.steps for row in filled]),  # [R]
            ]
            limits = self._limits_behind(lengths, chunk_size)
            if limits is not None:
                rest = limits[:1].expand(source.rows - len(lengths))
                inputs.append(torch.cat([limits, rest]).repeat_interleave(beams))  # [R]
            names = ("temperature", "unkpen", "min_len", "hrt_eos_last_chunk")
            options = tuple(getattr(self.options, name) for name in names)
            best, choice = store.run(
                # The recorded function keeps the source alive, so that no other object gets its id.
                ("skip_cmlm", id(source), beams, most, chunk_size, len(inputs), options),
                partial(self._fill, source, beams, chunk_size),
                *(part.to(store.device) for part in inputs),
            )
            self.ensemble.counters.decoder_calls += 1
            self.ensemble.counters.decoder_tokens += inputs[0].numel()
            words, numbers = lists_to_host(choice[: len(rows)], best[: len(rows)])
        return completions(kept, rows, words, numbers, chunk_size, self.decoder, self.options)

    def _fill(
        self,
        source: EncodedSource,
        beams: int,
        chunk_size: int,
        tokens: Tensor,
        steps: Tensor,
        limits: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Tensor]:
        """Stage II: the most probable words at the masked positions of each row, a hypothesis of
        stage I. The host reads nothing from the device.

        Args:
            source: the encoded batch.
            beams: rows per sentence.
            chunk_size: K.
            tokens: LongTensor ``[R, L]``, tokens of stage I and masks; see :func:`masked_input`.
            steps: LongTensor ``[R]``, the number of chunks of each row.
            limits: LongTensor ``[R]``, the most words of each row; None if no row can have more.

        Returns:
            (log-probabilities of the words, ids of the words), ``[R, q']`` each, for the q' masked
            positions.
        """
        engine, longest = self.ensemble.engines[0], self.decoder_positions
        engine.embed.reserve(min(tokens.size(1), longest) + 1)
        places = torch.arange(tokens.size(1), device=tokens.device)  # [L]
        masked = places.view(-1, chunk_size)[:, :-1].reshape(-1)  # [q']
        features = engine.step(
            engine.start(source.memory, beams=beams),
            tokens,
            (places + 1).clamp_(max=longest),
            only=masked,
            visible=(places < (steps * chunk_size).unsqueeze(1)).unsqueeze(1),  # [R, 1, L]
            causal=False,
            remember=False,
        )  # [R, q', D]
        choose = partial(best_words, temperature=self.options.temperature)
        logits = engine.logits(features)  # [R, q', V]
        return self._choose(choose, logits, masked + 1, steps, chunk_size, limits)

    def decode_chunks(self, memories: List[Memory], chunk_size: int) -> List[List[Hypothesis]]:
        """Runs both stages of decoding; returns the translations of each sentence, best first.
        ``memories`` are the encoder outputs of each model, ``chunk_size`` is K."""
        kept = self.skip_at(memories, chunk_size)
        kept = [hypotheses[: self.nat_beam] for hypotheses in kept]
        return self.skip_cmlm(memories, kept, chunk_size)

    def skip_at(self, memories: List[Memory], chunk_size: int) -> List[List[Hypothesis]]:
        """Stage I: beam search over z_1 … z_m, the tokens at positions K, 2K, … (K the chunk size);
        z_m is ``</s>``. Returns the hypotheses of each sentence, best first."""
        plan = self.skip_at_plan(memories[0].lengths, chunk_size)
        self.ensemble.reserve_positions(chunk_size * (plan.constraints.longest_limit + 1) + 1)
        return search(self.ensemble, memories, plan, hooks=self.step_hooks)

    def skip_at_plan(self, lengths: Tensor, chunk_size: int) -> SearchPlan:
        """The settings of stage I's beam search for sources of these ``lengths``: LongTensor
        ``[B]``, tokens with ``</s>``."""
        # The limit of words and </s> make ⌊(limit + 1) / K⌋ whole chunks; </s> is the token of the
        # last one.
        chunks = torch.div(self.length_limits(lengths) + 1, chunk_size, rounding_mode="floor")
        rules = self.rules(chunks.clamp(min=1) - 1, stride=chunk_size)
        start = self.decoder.start_symbol(chunk_size)
        return self.search_plan(start, rules, stride=chunk_size, stage="skip_at")

    def skip_cmlm(
        self, memories: List[Memory], kept: List[List[Hypothesis]], chunk_size: int
    ) -> List[List[Hypothesis]]:
        """Stage II: fills K - 1 masks before every token of stage I in one pass, and ranks the
        translations by HRT's Eq. 2.

        Args:
            memories: encoder outputs of each model.
            kept: hypotheses of stage I to complete, of each sentence.
            chunk_size: K.

        Returns:
            The translations of each sentence, best first.
        """
        rows, beams = same_number(kept)
        # [R, L], [R, 1, L]
        tokens, visible = masked_input(rows, chunk_size, self.decoder, memories[0].lengths.device)
        positions = torch.arange(1, tokens.size(1) + 1, device=tokens.device)  # [L]
        masked = (positions - 1).view(-1, chunk_size)[:, :-1].reshape(-1)  # [q']
        log_probs = self.ensemble.log_probabilities(
            self.ensemble.start(memories, beams=beams),
            tokens,
            positions,
            only=masked,
            visible=visible,
            causal=False,
            remember=False,
            temperature=self.options.temperature,
        )
        limits = self._limits_behind(memories[0].lengths, chunk_size)
        if limits is not None:
            limits = limits.repeat_interleave(beams)  # [R]
        steps = torch.tensor([row.steps for row in rows], device=tokens.device)  # [R]
        best, choice = self._choose(  # [R, q'] each
            allowed_words, log_probs, positions[masked], steps, chunk_size, limits
        )
        if self.step_hooks:
            scores = torch.zeros(tokens.shape, dtype=best.dtype, device=best.device)  # [R, L]
            scores[:, masked], tokens[:, masked] = best, choice  # filled in for the hooks
            number = max(row.steps for row in rows) + 1
            for hook in self.step_hooks:
                hook(
                    DecodingStep(
                        "skip_cmlm", number, torch.arange(len(kept)), positions, tokens, scores
                    )
                )
        return completions(
            kept, rows, *lists_to_host(choice, best), chunk_size, self.decoder, self.options
        )

    def _limits_behind(self, lengths: Tensor, chunk_size: int) -> Optional[Tensor]:
        """The most words that each translation may have, LongTensor ``[B]``, if stage II has to
        enforce this limit since a single chunk may exceed it. None if no chunk may: then stage I,
        which limits the number of chunks, has enforced it."""
        # Stage I limits whole chunks; only in a single chunk can more words than allowed precede
        # </s>.
        if self.options.max_len_a + self.options.max_len_b >= chunk_size - 1:
            return None
        return self.length_limits(lengths)  # [B]

    def _choose(
        self,
        choose: Callable[..., Tuple[Tensor, Tensor]],
        scores: Tensor,
        positions: Tensor,
        steps: Tensor,
        chunk_size: int,
        limits: Optional[Tensor],
    ) -> Tuple[Tensor, Tensor]:
        """(Log-probabilities, ids) of the words that ``choose``, :func:`best_words` or
        :func:`allowed_words`, takes from ``scores`` ``[R, q', V]``: ``[R, q']`` each. The other
        arguments are those of :meth:`_ends`."""
        shape = scores.shape[:2]
        early, beyond = self._ends(positions, steps, chunk_size, limits)
        best, choice = choose(
            scores.flatten(0, 1),
            penalties={
                self.dictionary.pad(): float("inf"),
                self.dictionary.unk(): self.options.unkpen,
            },
            eos=self.eos,
            forbid_eos=None if early is None else early.expand(shape).flatten(),
            only_eos=None if beyond is None else beyond.flatten(),
        )
        return best.view(shape), choice.view(shape)

    def _ends(
        self, positions: Tensor, steps: Tensor, chunk_size: int, limits: Optional[Tensor]
    ) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """At which masked positions stage II must not write ``</s>``, and at which it has to write
        ``</s>``; where both hold, it has to.

        Args:
            positions: LongTensor ``[q']``, the masked positions, counted from 1.
            steps: LongTensor ``[R]``, the number of chunks of each row.
            chunk_size: K.
            limits: LongTensor ``[R]``, the most words of each row; None if no row can have more.

        Returns:
            (forbidden, required), each a BoolTensor ``[R, q']`` or None, which means nowhere;
            ``forbidden`` may also be ``[1, q']``, the same for all rows.
        """
        early: Optional[Tensor] = None
        if self.options.hrt_eos_last_chunk:
            earliest = (chunk_size * (steps - 1)).clamp(min=self.options.min_len)  # [R]
            early = positions <= earliest.unsqueeze(1)  # [R, q']
        elif self.options.min_len > 0:
            # The masked ones among the positions 1 to min_len.
            early = (positions <= self.options.min_len).unsqueeze(0)  # [1, q']
        return early, None if limits is None else positions > limits.unsqueeze(1)
