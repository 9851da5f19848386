"""Decodes the positions of a ``ctc_transformer`` into translations."""

from functools import partial
from typing import Dict, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import (
    EncodedSource,
    ParallelGenerator,
    check_number,
    log_mean,
    log_softmax,
    to_host,
)
from ..engine.fused import best_words
from ..native.decoding import Hypothesis, best_first
from ..native.families.ctc import require_search
from ..native.options.values import DecodingOptions, flag
from .beam import prefix_beam


class CtcGenerator(ParallelGenerator):
    """Decodes ``ctc_transformer`` models.

    * ``--beam 1``: each position writes its best token; the text leaves out blanks, and tokens that
      equal the one before. Score: log-probability of that output.
    * ``--beam N``: prefix beam search for the most probable texts. Score: log P(text), summed over
      the outputs that print the text and that the search has seen, plus, with ``--ctc-lm-path``,
      the weighted log-probability of that language model, which also counts when prefixes are
      chosen.

    Scores are divided by the number of words, ``</s>`` included, ** lenpen. Words beyond
    ``--max-len-a/-b`` are cut off (``--beam 1``) or not searched.

    Args:
        models: the ensemble; all have the same ``--ctc-upsample-scale`` and ``--ctc-inputs``.
        dictionary: the target dictionary.
        options: the decoding options.

    Raises:
        ValueError: the models differ, or an option has a value that one parallel pass does not
            support.
    """

    family = "ctc"
    no_beginning = "all positions are written at once, so a translation cannot continue given words"

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        options: DecodingOptions,
    ) -> None:
        super().__init__(models, dictionary, options)
        for name, without in (("no_repeat_ngram_size", 0), ("temperature", 1.0)):
            if getattr(options, name) != without:
                raise ValueError(
                    f"{flag(name)} {getattr(options, name)} has no effect, since all"
                    " positions are written at once: leave it out"
                )
        require_search(options)
        self.rule = models[0].decoder.rule
        self.blank = models[0].decoder.blank
        if len({model.decoder.rule for model in models}) > 1:
            raise ValueError(
                "the models of an ensemble must agree in --ctc-upsample-scale and --ctc-inputs:"
                " leave those that differ out of --path"
            )
        self.penalties = {dictionary.unk(): options.unkpen}
        self.penalties.update({one: float("inf") for one in (dictionary.pad(), self.eos)})

    def decode_sources(self, net_input: Dict[str, Tensor]) -> List[List[Hypothesis]]:
        if self.by_graphs(net_input["src_tokens"]):
            return self.decode_static(net_input["src_tokens"])
        memories = self.ensemble.encode(net_input)
        inputs, lengths = self.rule.inputs(net_input["src_tokens"])  # [B, T], [B]
        log_probs = self.log_probs(memories, net_input["src_tokens"], inputs, lengths)  # [B, T, V]
        limits = self.length_limits(memories[0].lengths).tolist()
        sizes = lengths.tolist()
        if self.beam > 1:
            return self.by_beam(log_probs, sizes, limits)
        scores, tokens = log_probs.max(2)  # [B, T] each
        return self.by_position(tokens.tolist(), scores.tolist(), sizes, limits)

    def graph_refusal(self, tokens: Tensor, prefix: Optional[Tensor] = None) -> Optional[str]:
        return f"--beam {self.beam}" if self.beam > 1 else super().graph_refusal(tokens, prefix)

    def decode_static(self, tokens: Tensor) -> List[List[Hypothesis]]:
        """Decodes sources ``[B, S]`` by the best token of each position, with one function whose
        tensors have fixed shapes, so that a CUDA graph can record it."""
        store, lengths = self.ensemble.graphs, self.host_lengths(tokens)
        with store.lock:
            source = self.static_search.encode(tokens, self.eos)
            # The positions of the longest sentence that the buffer can hold.
            width = int(self.rule.lengths(torch.tensor([source.width])))
            self.ensemble.engines[0].embed.reserve(width)
            sources = F.pad(tokens, (source.width - tokens.size(1), 0), value=self.rule.pad)
            rest = sources[:1].expand(source.rows - len(sources), -1)
            scores, words = store.run(
                # The recorded function keeps the source alive, so that no other object gets its id.
                ("ctc", id(source), width, tuple(self.penalties.items())),
                partial(self._best, source, width),
                torch.cat([sources, rest]),
            )
            self.counters.decoder_calls += 1
            self.counters.decoder_tokens += source.rows * width
            best, chosen = to_host(scores[: len(lengths)], words[: len(lengths)])
        limits = self.length_limits(lengths)
        sizes = self.rule.lengths(lengths)  # [B]
        return self.by_position(chosen.tolist(), best.tolist(), sizes.tolist(), limits.tolist())

    def _best(self, source: EncodedSource, width: int, tokens: Tensor) -> Tuple[Tensor, Tensor]:
        """(Log-probability of each position's best token, id of this token), ``[B, T]`` each. The
        host reads nothing from the device.

        Args:
            source: the encoded sources.
            width: T, the number of positions.
            tokens: LongTensor ``[B, S]``, the same sources as token ids.
        """
        engine = self.ensemble.engines[0]
        inputs, lengths = self.rule.inputs(tokens, width)  # [B, T], [B]
        positions = torch.arange(width, device=tokens.device)  # [T]
        features = engine.step(  # [B, T, D]
            engine.start(source.memory),
            inputs,
            positions,
            visible=(positions < lengths.unsqueeze(1)).unsqueeze(1),  # [B, 1, T]
            causal=False,
            remember=False,
            vectors=self.models[0].decoder.input_vectors(tokens, width, engine.embed.tokens),
        )
        logits = engine.logits(features.flatten(0, 1))  # [B * T, V]
        best, words = best_words(logits, penalties=self.penalties)
        return best.view_as(inputs), words.view_as(inputs)

    def log_probs(self, memories: List, sources: Tensor, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Log-probabilities of all tokens at all positions, ``[B, T, V]``: the logarithm of the
        models' mean probability, less the penalties.

        Args:
            memories: the encoded sources, one for each model.
            sources: LongTensor ``[B, S]``.
            inputs: LongTensor ``[B, T]``, the decoder's inputs.
            lengths: LongTensor ``[B]``, positions of each sentence.
        """
        size = inputs.size(1)
        positions = torch.arange(size, device=inputs.device)  # [T]
        visible = None
        if bool((lengths < size).any()):
            visible = (positions < lengths.unsqueeze(1)).unsqueeze(1)  # [B, 1, T]
        self.ensemble.reserve_positions(size)
        parts = []
        for model, engine, memory in zip(self.models, self.ensemble.engines, memories):
            self.counters.decoder_calls += 1
            self.counters.decoder_tokens += inputs.numel()
            features = engine.step(  # [B, T, D]
                engine.start(memory), inputs, positions,
                visible=visible, causal=False, remember=False,
                vectors=model.decoder.input_vectors(sources, size, engine.embed.tokens),
            )  # fmt: skip
            parts.append(log_softmax(engine.logits(features)))
        found = log_mean(parts)  # [B, T, V]
        for token, penalty in self.penalties.items():
            found[..., token] -= penalty
        return found

    def by_position(
        self,
        tokens: Sequence[Sequence[int]],
        scores: Sequence[Sequence[float]],
        sizes: Sequence[int],
        limits: Sequence[int],
    ) -> List[List[Hypothesis]]:
        """Makes one translation of each sentence from the best token of each position.

        Args:
            tokens, scores: ``[B, T]``, the best tokens and their log-probabilities.
            sizes: the number of positions of each sentence.
            limits: the most words of each translation.
        """
        found = []
        for size, limit, row, parts in zip(sizes, limits, tokens, scores):
            words: List[int] = []
            of_words: List[float] = []
            carried, before = 0.0, self.blank
            for token, part in zip(row[:size], parts[:size]):
                if token in (self.blank, before) or len(words) == limit:
                    # Part of the output, not of the text: its score is added to that of the next
                    # word, or of </s>.
                    carried += part
                else:
                    words.append(token)
                    of_words.append(part + carried)
                    carried = 0.0
                before = token
            found.append([self.in_one_step([*words, self.eos], [*of_words, carried])])
            check_number(found[-1][0].score or 0.0)
        return found

    def by_beam(
        self, log_probs: Tensor, sizes: Sequence[int], limits: Sequence[int]
    ) -> List[List[Hypothesis]]:
        """The most probable texts of each sentence, found by prefix beam search in ``log_probs``
        ``[B, T, V]``. ``sizes`` are the positions of each sentence, ``limits`` the most words of
        each translation."""
        blanks = log_probs[..., self.blank]  # [B, T]
        words = log_probs.clone()
        words[..., self.blank] = float("-inf")
        best, tokens = words.topk(min(2 * self.beam, words.size(2)), 2)  # [B, T, 2 N] each
        found = []
        for size, limit, row, scores, blank in zip(
            sizes, limits, tokens.tolist(), best.tolist(), blanks.tolist()
        ):
            candidates: List[List[Tuple[int, float]]] = [
                [(token, score) for token, score in zip(*pair) if score > float("-inf")]
                for pair in zip(row[:size], scores[:size])
            ]
            texts = prefix_beam(
                blank[:size], candidates, beam=self.beam, longest=limit,
                language_model=self.language_model,
            )  # fmt: skip
            least = min(self.options.min_len, max(len(text.words) for text in texts))
            hypotheses = []
            for text in texts:
                if len(text.words) >= least:
                    # A text's probability has no parts: it is spread evenly over the words and
                    # </s>.
                    length = len(text.words) + 1
                    parts = [text.log_prob / length] * length
                    ids = [*text.words, self.eos]
                    hypotheses.append(self.in_one_step(ids, parts, text.bonus))
            found.append(best_first(hypotheses)[: self.wanted])
            check_number(found[-1][0].score or 0.0)
        return found
