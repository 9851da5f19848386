"""Several models (usually just one) that decode together: their probabilities are averaged."""

from typing import Dict, List, Optional, Sequence

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from .cache import DecoderState, Memory
from .counters import GenerationCounters
from .graphs import GraphStore
from .precision import log_mean, log_softmax
from .transformer import TransformerEngine

# score() holds logits over the whole vocabulary for this many tokens at a time.
SCORED_AT_ONCE = 512


class EngineEnsemble:
    """The engines of all models of an ensemble, called as if they were one; the probabilities that
    the models predict are averaged.

    Args:
        models: at least one; all with the same dictionary.
        counters: where encoder and decoder calls are counted.
        static_weights: True promises that the weights will not change, see
            :class:`TransformerEngine`.
    """

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        counters: GenerationCounters,
        *,
        static_weights: bool = False,
    ) -> None:
        self.engines = [TransformerEngine(model, static_weights=static_weights) for model in models]
        self.counters = counters
        self.graphs = GraphStore(self.engines[0].output.weight.device)

    def refresh(self) -> None:
        """Refreshes all engines (:meth:`TransformerEngine.refresh`), and drops the recorded CUDA
        graphs if one of them has packed its weights again."""
        before = [engine.packings for engine in self.engines]
        for engine in self.engines:
            engine.refresh()
        if [engine.packings for engine in self.engines] != before:
            self.graphs.clear()
            self.graphs = GraphStore(self.engines[0].output.weight.device)

    def reserve_positions(self, count: int) -> None:
        """Makes sure that every decoder has vectors for positions 0 to ``count - 1``; see
        :meth:`PackedEmbedding.reserve`."""
        for engine in self.engines:
            engine.embed.reserve(count)

    def encode(self, net_input: Dict[str, Tensor]) -> List[Memory]:
        """Encodes a batch, fairseq's ``sample["net_input"]``; returns one memory per model."""
        self.counters.encoder_calls += len(self.engines)
        return [engine.encode(net_input) for engine in self.engines]

    def start(self, memories: List[Memory], *, beams: int = 1) -> List[DecoderState]:
        """Empty decoder states of B * ``beams`` rows, one per model."""
        return [engine.start(memory, beams=beams) for engine, memory in zip(self.engines, memories)]

    def source_attention(self, memories: List[Memory], tokens: Tensor) -> Tensor:
        """The last decoder layer's attention to the source, averaged over heads and models.

        Args:
            memories: the encoded sources, one memory per model.
            tokens: LongTensor ``[B, T]``, the start symbol and the words of a finished translation,
                which are fed in one causal pass.

        Returns:
            ``[B, T, S]``; row i is the attention with which the word after token i is predicted.
        """
        self.counters.decoder_calls += len(self.engines)
        self.counters.decoder_tokens += len(self.engines) * tokens.numel()
        found: List[Tensor] = []
        positions = torch.arange(tokens.size(1), device=tokens.device)  # [T]
        for engine, memory in zip(self.engines, memories):
            state = engine.start(memory)
            engine.step(state, tokens, positions, attention=found)
        return sum(found[1:], found[0]) / len(found)  # [B, T, S]

    def score(
        self, memories: List[Memory], targets: Tensor, wanted: Tensor, *, start: int, beams: int = 1
    ) -> Tensor:
        """Log-probabilities of the tokens of given translations, from the averaged probabilities of
        the models, in one causal pass.

        Args:
            memories: the encoded sources, one memory per model.
            targets: LongTensor ``[R, T]``, ``beams`` translations of each sentence; shorter ones
                are filled up at their end with any token.
            wanted: BoolTensor ``[R, T]``, True for the n tokens that are scored.
            start: id of the start symbol.
            beams: N, so that R = B * N.

        Returns:
            float32 or float64 ``[n]``, one for each wanted token, row by row.
        """
        tokens = torch.cat([torch.full_like(targets[:, :1], start), targets[:, :-1]], 1)  # [R, T]
        self.counters.decoder_calls += len(self.engines)
        self.counters.decoder_tokens += len(self.engines) * tokens.numel()
        positions = torch.arange(tokens.size(1), device=tokens.device)  # [T]
        words = targets[wanted].unsqueeze(1)  # [n, 1]
        parts = []
        for engine, memory in zip(self.engines, memories):
            state = engine.start(memory, beams=beams)
            features = engine.step(state, tokens, positions, remember=False)[wanted]  # [n, D]
            # The logits of all R * T tokens may need gigabytes.
            pairs = zip(features.split(SCORED_AT_ONCE), words.split(SCORED_AT_ONCE))
            parts.append(
                torch.cat(
                    [log_softmax(engine.logits(part)).gather(1, own) for part, own in pairs]
                ).squeeze(1)  # [n]
            )
        return log_mean(parts)  # [n]

    def log_probabilities(
        self,
        states: List[DecoderState],
        tokens: Tensor,
        positions: Tensor,
        *,
        only: Optional[Tensor] = None,
        every: bool = False,
        visible: Optional[Tensor] = None,
        causal: bool = True,
        remember: bool = True,
        temperature: float = 1.0,
    ) -> Tensor:
        """The averaged predictions of one decoder step of all models, in which each row is fed q
        new tokens.

        Args:
            states: the decoder states, one per model.
            tokens: LongTensor ``[R, q]``, the new tokens.
            positions, visible, causal, remember: arguments of :meth:`TransformerEngine.step`.
            only: LongTensor ``[q']``, indices of the new tokens whose predictions are wanted; the
                last layer and the output projection compute no others. None: the last one of each
                row.
            every: True returns the predictions of all new tokens.
            temperature: divides the logits.

        Returns:
            float32 or float64 log-probabilities ``[R, V]``, or ``[R, q', V]`` with ``only``,
            ``[R, q, V]`` with ``every``.
        """
        self.counters.decoder_calls += len(self.engines)
        self.counters.decoder_tokens += len(self.engines) * tokens.numel()
        parts = []
        for engine, state in zip(self.engines, states):
            features = engine.step(
                state,
                tokens,
                positions,
                visible=visible,
                causal=causal,
                remember=remember,
                only=only,
            )
            logits = engine.logits(features if every or only is not None else features[:, -1])
            if temperature != 1.0:
                logits = logits / temperature
            parts.append(log_softmax(logits))
        return log_mean(parts)  # [R, V], [R, q', V] or [R, q, V]


def reorder(
    states: List[DecoderState], rows: Tensor, *, sentences: Optional[Tensor] = None
) -> None:
    """Has the states of all models, changed in place, continue with the rows ``rows``, LongTensor
    ``[R']``, of the sentences ``sentences``, LongTensor ``[B']`` (None: all of them)."""
    for state in states:
        state.reorder(rows, sentences=sentences)
