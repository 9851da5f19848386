"""The buffers of a search that runs on the device alone, for one size of batches, and the step that
works on them."""

import math
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor

from ..ops import at_least_float32
from .constraints import Constraints
from .fused import best_words, choose, close_step
from .fused.output import MOST_ROWS
from .graphs import GraphStore
from .precision import log_softmax
from .static_decoder import EncodedSource, StaticDecoder
from .transfer import to_host
from .transformer import TransformerEngine


class _Flags:
    """Flags of ``count`` sentences, True while a sentence is unfinished: ``open`` ``[B]`` on the
    device, and a copy on the host."""

    def __init__(self, store: GraphStore, count: int) -> None:
        self.open = torch.zeros(count, dtype=torch.bool, device=store.device)  # [B]
        self._host = self.open
        self._ready: List[torch.cuda.Event] = []
        if store.enabled:
            self._host = torch.zeros(count, dtype=torch.bool, pin_memory=True)
            self._ready = [torch.cuda.Event(), torch.cuda.Event()]

    def send(self) -> None:
        """Starts to copy the flags to the host, without waiting for the copy; each step ends with
        this."""
        if self._host is not self.open:
            self._host.copy_(self.open, non_blocking=True)

    def sent(self, step: int) -> None:
        """Must be called right after step ``step`` was launched: marks its end, for which
        :meth:`read` waits."""
        if self._ready:
            self._ready[step % 2].record()

    def read(self, step: int) -> List[bool]:
        """The flags after step ``step``, or after a later one that has run already."""
        if self._ready:
            self._ready[step % 2].synchronize()
        return self._host.tolist()


class SearchRows:
    """The buffers of a search, for one size of batches, and the step that works on them; families
    define :meth:`step`.

    Args:
        store: records the steps as CUDA graphs.
        engine: the model's engine.
        source: the encoded source, with room for B sentences.
        start: ids of the z start symbols of each row; each step feeds and chooses z tokens.
        eos: id of ``</s>``, which closes a row.
        beam: N, the hypotheses of each sentence.
        capacity: C, the number of slots of the cache.
        numbers, ids: how many floating-point numbers, and how many integers, a step logs for each
            sentence.
        layout: further arguments of :class:`.static_decoder.StaticDecoder`.

    Attributes:
        steps: the number of steps for which there are slots.
        limits: LongTensor ``[B]``, the most words of each sentence; -1 in rows without a sentence.
        done: LongTensor ``[1]``, the number of steps so far.
        tokens: LongTensor ``[R, z]``, the inputs of the next step.
        totals: ``[B, N]``, sums of log-probabilities of the open hypotheses.
        ended: LongTensor ``[B]``, how many hypotheses have ended.
    """

    def __init__(
        self,
        store: GraphStore,
        engine: TransformerEngine,
        source: EncodedSource,
        *,
        start: Sequence[int],
        eos: int,
        beam: int,
        capacity: int,
        numbers: int,
        ids: int,
        **layout: Any,
    ) -> None:
        self.source, self.engine, self.beam, self._eos = source, engine, beam, eos
        device, batch, block = store.device, source.rows, len(start)
        self.steps = capacity // block
        self.decoder = StaticDecoder(
            engine, source, beams=beam, capacity=capacity, block=block, **layout
        )
        self.flags = _Flags(store, batch)
        self.done = torch.zeros(1, dtype=torch.long, device=device)
        self._block = block
        self.limits = torch.zeros(batch, dtype=torch.long, device=device)
        self._start = torch.tensor(start, device=device)  # [z]
        self.tokens = self._start.repeat(batch * beam, 1)  # [R, z]
        dtype = at_least_float32(engine.dtype)
        self.totals = torch.zeros(batch, beam, dtype=dtype, device=device)
        self.ended = torch.zeros(batch, dtype=torch.long, device=device)
        self._first = torch.arange(0, batch * beam, beam, device=device).unsqueeze(1)  # [B, 1]
        self._numbers = torch.zeros(self.steps, batch, numbers, dtype=dtype, device=device)
        self._ids = torch.zeros(self.steps, batch, ids, dtype=torch.long, device=device)
        self._clear = store.record(self._reset)
        # With a beam a step writes the other one of two caches, and the next step the first again.
        self._steps: List[Callable[[], None]] = []
        self._home = self.decoder.cache
        for _ in range(1 if beam == 1 else 2):
            self._steps.append(store.record(self._advance))
            self._turn()

    def begin(self) -> None:
        """Resets the buffers to their state before the first step; :attr:`limits` must be set when
        this is called."""
        if self.decoder.cache is not self._home:
            self._turn()
        self._clear()

    def advance(self) -> None:
        """Runs the next step of all rows, on a GPU without waiting for its end."""
        self._steps[int(self.decoder.cache is not self._home)]()
        self._turn()

    def _turn(self) -> None:
        if self.beam > 1:
            self.decoder.swap()

    def step(self) -> Tuple[Tensor, Tensor]:
        """Chooses the next tokens, without reading anything from the device.

        Returns:
            (numbers, ids) for the log, ``[B, …]`` each. Without a beam (N = 1) these are the
            log-probabilities and words chosen; with one, the step itself updates :attr:`tokens`,
            :attr:`totals`, :attr:`ended`, the flags and the order of the rows.
        """
        raise NotImplementedError

    def _reset(self) -> None:
        self.done.zero_()
        self.tokens.copy_(self._start.expand_as(self.tokens))
        # The N beams are equal at first: only beam 0 may have successors, or all would be copies.
        self.totals.fill_(float("-inf"))
        self.totals[:, 0] = 0
        self.ended.zero_()
        self.flags.open.copy_(self.limits.ge(0))
        self.decoder.clear()

    def _advance(self) -> None:
        numbers, ids = self.step()
        if self.beam == 1:
            close_step(
                numbers,
                ids,
                tokens=self.tokens,
                numbers=self._numbers,
                ids=self._ids,
                is_open=self.flags.open,
                done=self.done,
                eos=self._eos,
            )
        else:
            for log, line in ((self._numbers, numbers), (self._ids, ids)):
                log.index_copy_(0, self.done, line[None])
            self.done.add_(1)
        self.flags.send()

    def take(self, other: "SearchRows", kept: Tensor) -> None:
        """Continues the search that ``other`` began in buffers of another size, with its sentences
        ``kept``, LongTensor ``[B']``, which move to the first B' rows."""
        count, beam = kept.numel(), self.beam
        self.limits.fill_(-1)
        self.begin()
        if other.source is not self.source:
            self.source.take(other.source.memory, kept)
        rows = (kept.unsqueeze(1) * beam + torch.arange(beam, device=kept.device)).flatten()
        self.decoder.take(other.decoder, rows)
        self.tokens[: rows.numel()].copy_(other.tokens[rows])
        for name in ("totals", "ended", "limits"):
            getattr(self, name)[:count].copy_(getattr(other, name)[kept])
        self.flags.open[:count].copy_(other.flags.open[kept])
        self.done.copy_(other.done)

    @property
    def first(self) -> Tensor:
        """The slot of the cache for the first of the next tokens, LongTensor ``[1]``."""
        return self.done if self._block == 1 else self.done * self._block

    def keep(self, parents: Tensor) -> Tensor:
        """Has beam n of each sentence continue beam ``parents[:, n]``, LongTensor ``[B, N]``;
        returns the rows of these beams, ``[B, N]``."""
        rows = parents + self._first
        self.decoder.reorder(rows.view(-1))
        return rows

    def log(self, first: int, end: int) -> Tuple[Tensor, Tensor]:
        """The log (numbers, ids) of steps ``first`` to ``end - 1``, ``[steps, B, …]`` each, on the
        host; waits for the device."""
        return to_host(self._numbers[first:end], self._ids[first:end])


class Rules(NamedTuple):
    """The rules for the choice of words that are the same for all batches: ids of the special
    symbols, minimum length and ``<unk>`` penalty, as in :class:`.constraints.Constraints`, and the
    temperature, which divides the logits."""

    pad: int
    eos: int
    unk: int
    min_length: int
    unkpen: float
    temperature: float

    @classmethod
    def of(cls, rules: Constraints, temperature: float) -> "Rules":
        """The part of a batch's ``rules`` that all batches share, with the temperature added."""
        return cls(
            rules.pad, rules.eos, rules.unk, rules.min_length, float(rules.unkpen), temperature
        )

    def choose(
        self, decoder: StaticDecoder, tokens: Tensor, first: Tensor, places: Tensor, full: Tensor
    ) -> Tuple[Tensor, Tensor]:
        """Feeds tokens to the decoder, and chooses the most probable allowed word after each.

        Args:
            tokens: LongTensor ``[R, z]``.
            first: LongTensor ``[1]`` or ``[R]``, the slot of the first of these tokens.
            places: LongTensor, broadcastable to ``[R, z]``, the number of words before each choice.
            full: BoolTensor ``[R, z]``, where only ``</s>`` is allowed.

        Returns:
            Log-probabilities and words, ``[R, z]`` each.
        """
        forbid_eos = (places < self.min_length).expand_as(full).reshape(-1).contiguous()  # [R * z]
        if full.numel() > MOST_ROWS:
            best, words = best_words(
                decoder.logits(tokens, first),
                temperature=self.temperature,
                penalties={self.pad: math.inf, self.unk: self.unkpen},
                eos=self.eos,
                forbid_eos=forbid_eos,
                only_eos=full.reshape(-1),
            )
            return best.view_as(full), words.view_as(full)
        x, norm = decoder.features(tokens, first)
        output = decoder.engine.output
        words, best = choose(
            x,
            output.weight,
            output.bias,
            norm=norm,
            temperature=self.temperature,
            pad=self.pad,
            eos=self.eos,
            unk=self.unk,
            unkpen=self.unkpen,
            forbid_eos=forbid_eos,
            only_eos=full.reshape(-1),
        )
        return best.view_as(full), words.view_as(full)

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """The log-probabilities of logits ``[..., V]``, with padding forbidden (-inf) and ``<unk>``
        penalised."""
        if self.temperature != 1.0:
            logits = logits / self.temperature
        log_probs = log_softmax(logits)
        log_probs.select(-1, self.pad).fill_(float("-inf"))
        if self.unkpen:
            log_probs.select(-1, self.unk).sub_(self.unkpen)
        return log_probs

    def restrict_ends(self, log_probs: Tensor, places: Tensor, full: Tensor) -> Tensor:
        """Forbids ``</s>`` before the minimum length, except where it is the only word allowed.

        Args:
            log_probs: ``[B, n, V]`` of n next words, changed in place.
            places: LongTensor ``[1]`` or ``[n]``, the number of words before each of the n.
            full: BoolTensor ``[B, 1]`` or ``[B, n]``, where only ``</s>`` is allowed.

        Returns:
            The log-probabilities of ``</s>``, ``[B, n]``; a view.
        """
        ends = log_probs.select(2, self.eos)
        if self.min_length:
            ends.masked_fill_((places < self.min_length) & ~full, float("-inf"))
        return ends
