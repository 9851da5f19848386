"""Decoding in the order of writing; finished translations are put back into natural order."""

from functools import lru_cache
from typing import List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import AutoregressiveGenerator, Memory
from ..native.decoding import Hypothesis
from ..native.options.values import DecodingOptions
from .search import BlockPlan, block_search
from .slots import natural_index, slot_positions, start_symbols
from .static_search import static_block_search

# Attributes of a decoder that determine the order of its slots: the options that set them.
ORDER = {
    "directions": "--bidirectional-directions",
    "block": "--bidirectional-tokens-per-step, --bidirectional-block",
    "causal": "--bidirectional-vanilla-mask",
    "independent": "--bidirectional-independent-directions",
    "middle_to_side": "--bidirectional-middle-to-side",
    "opposite_start": "--bidirectional-distinct-starts",
}


def require_one_order(models: Sequence[FairseqEncoderDecoderModel]) -> None:
    """Raises ValueError if models of an ensemble differ in the order of writing, the words per step
    or start symbols."""
    for name, option in ORDER.items():
        values = [getattr(model.decoder, name) for model in models]
        for number, value in enumerate(values):
            if value != values[0]:
                raise ValueError(
                    f"the models of an ensemble must agree in {option}: model {number + 1} does not"
                    " agree with the first one; leave one of these two out of --path"
                )


class BidirectionalGenerator(AutoregressiveGenerator):
    """Block-wise greedy or beam search of ``bidirectional_transformer`` models.

    Args:
        models: the ensemble; all have the same slot order and words per step.
        dictionary: the target dictionary.
        options: ``beam`` 1 takes the most probable word of each slot; for scoring and length
            penalty see :mod:`.search` and :class:`.search.BlockPlan`.
    """

    family = "bidirectional"

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        options: DecodingOptions,
    ) -> None:
        super().__init__(models, dictionary, options)
        self.decoder = models[0].decoder
        require_one_order(models)
        if self.forced and self.decoder.directions > 1:
            raise ValueError(
                f"--forced-start {options.forced_start}: a given beginning can be continued in one"
                " direction only; remove it, or take a model trained with"
                " --bidirectional-directions 1"
            )
        single = self.decoder.directions == 1 and self.decoder.block == 1
        self.scoring = options.bidirectional_scoring
        self.length_penalty = options.bidirectional_length_penalty
        self.plain = single and self.scoring == "canonical" and self.length_penalty == "power"
        if options.no_repeat_ngram_size and not self.plain:
            raise ValueError(
                "--no-repeat-ngram-size: words of one step are chosen together and their neighbours"
                " come later; give --bidirectional-deduplicate instead, which removes repetitions"
                if not single
                else (
                    "--no-repeat-ngram-size with --bidirectional-scoring paper or algorithm1, or"
                    " with --bidirectional-length-penalty gnmt, is not supported: remove it, or"
                    " give canonical and power"
                )
            )

    def decode_memories(
        self,
        memories: List[Memory],
        *,
        prefix: Optional[Tensor] = None,
        start: Optional[int] = None,
    ) -> List[List[Hypothesis]]:
        """Decodes a batch from the encoder outputs of each model. The translations of each sentence
        are in natural order, from left to right.

        Args:
            memories: encoder outputs of the batch, of each model.
            prefix: LongTensor ``[B, P]``, given first words of the translations; None: no words.
            start: id of the start symbol; None: ``</s>``.
        """
        if self.plain:
            return super().decode_memories(memories, prefix=prefix, start=start)
        return self.decode_blocks(memories, prefix, start)

    def decode_static(
        self, tokens: Tensor, *, start: Optional[int] = None
    ) -> List[List[Hypothesis]]:
        if self.plain:
            return super().decode_static(tokens, start=start)
        lengths = self.host_lengths(tokens)
        plan = self.block_plan(lengths, start=start)
        slots = -(-self.decoder_positions // plan.block) * plan.block
        with self.ensemble.graphs.lock:
            search = self.static_search
            found = static_block_search(
                search,
                search.encode(tokens, self.eos),
                len(lengths),
                plan,
                longest=slots,
                visible=self.decoder.visible_slots(slots) if self.decoder.independent else None,
            )
        return [[self._natural(one) for one in best] for best in found]

    def graph_refusal(self, tokens: Tensor, prefix: Optional[Tensor] = None) -> Optional[str]:
        if self.scoring == "paper" and self.beam > 1:
            return "--bidirectional-scoring paper"
        if self.forced and not self.plain:
            return "--forced-start"
        return super().graph_refusal(tokens, prefix)

    def decode_blocks(
        self, memories: List[Memory], prefix: Optional[Tensor] = None, start: Optional[int] = None
    ) -> List[List[Hypothesis]]:
        """Decodes a batch as :meth:`decode_memories` does (with the same arguments), by
        :func:`.search.block_search`, which writes several words per step."""
        plan = self.block_plan(memories[0].lengths, prefix=prefix, start=start)
        found = block_search(self.ensemble, memories, plan, hooks=self.step_hooks)
        return [[self._natural(hypothesis) for hypothesis in best] for best in found]

    def block_plan(
        self, lengths: Tensor, *, prefix: Optional[Tensor] = None, start: Optional[int] = None
    ) -> BlockPlan:
        """The settings of a block search for sources of these ``lengths``: LongTensor ``[B]``,
        tokens with ``</s>``. ``prefix`` are given first words, ``start`` is the id of the start
        symbol (None: ``</s>``)."""
        decoder, options = self.decoder, self.options
        if prefix is not None and decoder.directions > 1:
            raise ValueError(
                "--prefix-size: a given beginning can be continued in one direction only; remove"
                " it, or take a model trained with --bidirectional-directions 1"
            )
        limits = self.length_limits(lengths)  # [B]
        rules = self.rules(limits, prefix=prefix)
        slots = rules.longest_limit + decoder.block
        positions = (
            slot_positions(slots, decoder.directions)
            if decoder.directions < 3
            else torch.arange(slots)  # [slots]
        )
        symbols = start_symbols(
            decoder.block,
            decoder.directions,
            start=self.eos if start is None else start,
            opposite=decoder.opposite_start,
        )
        device = limits.device
        return BlockPlan(
            start=symbols.to(device),
            block=decoder.block,
            constraints=rules,
            causal=decoder.causal,
            visible=decoder.visible_keys,
            slots=torch.arange(slots, device=device),  # [slots]
            positions=positions.to(device),
            beam=self.beam,
            nbest=min(self.wanted, self.beam),
            scoring=self.scoring,
            length_penalty=self.length_penalty,
            lenpen=options.lenpen,
            normalize=options.normalize,
            temperature=options.temperature,
        )

    def _natural(self, hypothesis: Hypothesis) -> Hypothesis:
        """Reorders a hypothesis' words, scores and steps from the order of writing to the natural
        one. Changes the hypothesis and returns it."""
        decoder = self.decoder
        words = len(hypothesis.tokens) - 1
        slots = _slots_in_natural_order(words, decoder.directions, decoder.middle_to_side)
        if self.options.retain_iter_history:
            hypothesis.history = self._history(hypothesis, slots)
        hypothesis.tokens = [hypothesis.tokens[slot] for slot in slots]
        hypothesis.positional_scores = [hypothesis.positional_scores[slot] for slot in slots]
        hypothesis.token_steps = [hypothesis.token_steps[slot] for slot in slots]
        hypothesis.token_directions = [slot % decoder.directions for slot in slots]
        return hypothesis

    def _history(self, hypothesis: Hypothesis, slots: Sequence[int]) -> List[List[int]]:
        """The partial translation after each step in natural order, with ``<unk>`` for words still
        to come.

        Args:
            hypothesis: a hypothesis whose words are in the order of writing.
            slots: the index in ``hypothesis.tokens`` of each word in natural order.
        """
        unk = self.dictionary.unk()
        return [
            [hypothesis.tokens[slot] if slot < end else unk for slot in slots]
            for end in range(
                self.decoder.block, len(slots) + self.decoder.block, self.decoder.block
            )
        ]


@lru_cache(maxsize=1024)
def _slots_in_natural_order(words: int, directions: int, middle_to_side: bool) -> Tuple[int, ...]:
    """For a translation of ``words`` words, the slot (place in the order of writing, from 0) of
    each word from left to right, and last the slot of ``</s>``. For ``directions`` and
    ``middle_to_side`` see :func:`.slots.natural_index`."""
    order = natural_index(
        torch.arange(words + 1), torch.tensor(words), directions, middle_to_side=middle_to_side
    )
    return tuple(order.argsort().tolist())
