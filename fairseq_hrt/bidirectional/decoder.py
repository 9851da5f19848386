"""fairseq's Transformer decoder with the mask and the positions of slots."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules import LearnedPositionalEmbedding
from torch import Tensor, nn

from ..engine import NativeParts
from ..native.options.conditions import flag
from ..native.runtime.header import Header
from ..training import leave_sinusoids_out, start_self_attention
from .config import BidirectionalModelConfig
from .position_vectors import SlotPositions
from .slots import check_directions, slot_mask, start_symbols


class BidirectionalDecoder(NativeParts, TransformerDecoderBase):
    """Transformer decoder over slots, its positions in the order of writing (see :mod:`.slots`).

    Attributes:
        directions, tokens_per_step, block: h directions of writing, c words that each writes per
            step, z words per step in all.
        causal: True: a slot does not see the inputs of later slots of its own step (z = 1, or an
            ablation). False: slots of one step see all their inputs.
        independent: whether a slot sees slots of its own direction only.
        middle_to_side: whether the two directions write from the middle to both ends.
        opposite_start: id of the start symbol of right-to-left directions; None: ``</s>``, as for
            the others.
    """

    family = "bidirectional"

    def __init__(
        self, cfg: BidirectionalModelConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        check_directions(cfg.bidirectional_directions)
        if cfg.bidirectional_tokens_per_step < 1:
            raise ValueError(
                f"--bidirectional-tokens-per-step {cfg.bidirectional_tokens_per_step} must be at"
                " least 1"
            )
        _check_combination(cfg)
        super().__init__(cfg, dictionary, embed_tokens)
        self.directions: int = cfg.bidirectional_directions
        self.tokens_per_step: int = cfg.bidirectional_tokens_per_step
        self.block: int = cfg.bidirectional_block or self.directions * self.tokens_per_step
        self.causal: bool = cfg.bidirectional_vanilla_mask or self.block == 1
        self.independent: bool = cfg.bidirectional_independent_directions
        self.middle_to_side: bool = cfg.bidirectional_middle_to_side
        self.opposite_start: Optional[int] = (
            dictionary.bos() if cfg.bidirectional_distinct_starts else None
        )
        self.embed_positions: Optional[nn.Module]
        if self.embed_positions is not None and not cfg.decoder.learned_pos:
            self.embed_positions = SlotPositions(
                cfg.decoder.embed_dim,
                self.padding_idx,
                directions=self.directions,
                # The last block may have up to z - 1 slots behind </s>.
                size=self.max_target_positions + self.block,
                vanilla=cfg.bidirectional_vanilla_positions,
                first=cfg.marian_first_position,
            )
        if self.max_positions() < 1:
            raise ValueError(
                f"--max-target-positions {self.max_target_positions} must be at least"
                f" {self.block}, the words per step, as positions are learned"
            )
        self._mask = torch.empty(0)
        # How the loaded checkpoint differs from this model, if parameters had to be added.
        self.refitted = ""

    @property
    def only_task(self) -> Optional[str]:
        """Name of the only task that can decode this model; None for a model that writes word by
        word from left to right, which other tasks can decode as well."""
        return None if self.block == self.directions == 1 else "translation_bidirectional"

    def max_positions(self) -> int:
        """The largest number of target tokens, ``</s>`` included. The decoder computes whole steps
        of z words, so the number of learned positions, which cannot be extended, is rounded down to
        a multiple of z."""
        longest: int = super().max_positions()
        learned = isinstance(self.embed_positions, LearnedPositionalEmbedding)
        return longest - longest % self.block if learned else longest

    def buffered_future_mask(self, tensor: Tensor) -> Tensor:
        """The additive attention mask of inputs ``[W, B, D]``: ``[W, W]`` of (query, key), 0 where
        the query may see the key, else -inf. Overrides fairseq's causal mask."""
        width = tensor.size(0)
        if self._mask.size(0) < width or self._mask.device != tensor.device:
            shown = self.visible_slots(width)  # [W, W]
            self._mask = (
                torch.zeros(width, width).masked_fill_(~shown, float("-inf")).to(tensor.device)
            )
        return self._mask[:width, :width].to(tensor)  # [W, W]

    def visible_slots(self, width: int) -> Tensor:
        """BoolTensor ``[W, W]`` of (query, key) for W = ``width`` slots, True where the query's
        slot may see the key's."""
        shown = slot_mask(width, 1, 1 if self.causal else self.block)
        if self.independent:
            shown &= slot_mask(width, self.directions, width, independent=True)
        return shown

    def visible_keys(self, first: int, device: Optional[torch.device] = None) -> Optional[Tensor]:
        """Which slots (columns) each slot of a step (rows) may see, apart from what the causal mask
        hides: BoolTensor ``[z, first + z]`` for the z slots of the step from slot ``first`` on, and
        all slots up to its end. None: all slots."""
        if not self.independent:
            return None
        slots = torch.arange(first + self.block, device=device)  # [first + z]
        return slots[first:].unsqueeze(1) % self.directions == slots % self.directions

    def native_fields(self, longest_target: int) -> Dict[str, Any]:
        names = ("directions", "block", "causal", "independent", "middle_to_side")
        return {name: getattr(self, name) for name in names}

    def native_tensors(self, header: Header) -> Dict[str, Tensor]:
        """{"decoder.positions": the slots' position vectors ``[positions, D]``} for the native
        decoder, which reads ``</s>`` as the start symbol of every slot; empty without sinusoids.

        Where a slot of the first step has another start symbol in this model, the difference of the
        two embeddings is added to its position vector.
        """
        if not isinstance(self.embed_positions, SlotPositions):
            return {}
        vectors = self.embed_positions.slot_table(header.decoder_positions).clone()
        words, eos = self.embed_tokens.weight, self.dictionary.eos()
        starts = start_symbols(
            self.block, self.directions, start=eos, opposite=self.opposite_start
        )[: header.decoder_positions]
        vectors[: len(starts)] += self.embed_scale * (words[starts] - words[eos])
        return {"decoder.positions": vectors}

    def not_native(self) -> Sequence[str]:
        if self.embed_positions is None and self.opposite_start is not None:
            return ("--bidirectional-distinct-starts without positions",)
        return ()

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, List[Tensor]]] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        **options: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """The forward pass of fairseq's decoder, with its results. ``prev_output_tokens`` are words
        in the order of slots, LongTensor ``[B, W]``: the ``input`` of :class:`.sample.SlotSample`.

        Raises:
            ValueError: ``incremental_state`` is given, as by fairseq's own search, but the model
                does not write word by word from left to right.
        """
        if incremental_state is not None and self.only_task is not None:
            raise ValueError(
                "fairseq's own search cannot decode a bidirectional_transformer; use --task"
                " translation_bidirectional"
            )
        # A left-to-right model in fairseq's own tools: without a cache the prefix is computed
        # again.
        return super().forward(
            prev_output_tokens, encoder_out=encoder_out, incremental_state=None, **options
        )

    def upgrade_state_dict_named(
        self, state_dict: Dict[str, Tensor], name: str
    ) -> Dict[str, Tensor]:
        """Adds what an autoregressive checkpoint lacks to ``state_dict``, in place, so that the
        checkpoint can be fine-tuned: vectors of directions, and self-attention if it has recurrent
        cells instead. ``name`` is the prefix of the decoder's keys.

        Raises:
            ValueError: the checkpoint has learned positions but this model sinusoids, or it has
                vectors for other directions than this model.
        """
        start_self_attention(state_dict, self, name)
        leave_sinusoids_out(state_dict, self, name)
        super().upgrade_state_dict_named(state_dict, name)
        if (
            isinstance(self.embed_positions, SlotPositions)
            and f"{name}.embed_positions.weight" in state_dict
        ):
            raise ValueError(
                "the checkpoint has learned decoder positions, this model has sinusoidal ones:"
                " fine-tune it with --bidirectional-directions 1 --decoder-learned-pos, or start"
                " from a checkpoint without learned positions"
            )
        key = f"{name}.embed_positions.directions"
        wanted = getattr(self.embed_positions, "directions", None)
        known = state_dict.get(key)
        if known is not None and (wanted is None or known.shape != wanted.shape):
            raise ValueError(
                f"the checkpoint has vectors for {known.size(0)} directions, this model is built"
                f" with --bidirectional-directions {self.directions}: build it with the"
                " checkpoint's options, or start from another checkpoint"
            )
        if known is None and wanted is not None:
            state_dict[key] = wanted.detach().clone()
            self.refitted = (
                f"--bidirectional-directions {self.directions}: that model has no vectors of"
                " directions"
            )
        return state_dict


def _check_combination(cfg: BidirectionalModelConfig) -> None:
    """Raises ValueError if two options contradict each other; the message names both."""
    directions = cfg.bidirectional_directions
    if cfg.decoder.learned_pos and directions > 1:
        raise ValueError(
            f"--decoder-learned-pos with --bidirectional-directions {directions}: positions counted"
            " from both ends are sinusoids; remove --decoder-learned-pos (a checkpoint with"
            " learned positions can only be fine-tuned with --bidirectional-directions 1)"
        )
    for name, fits in (
        ("middle_to_side", directions == 2),
        ("independent_directions", directions >= 2),
        ("distinct_starts", directions >= 2),
    ):
        if getattr(cfg, f"bidirectional_{name}") and not fits:
            option = flag(f"bidirectional_{name}")
            raise ValueError(
                f"{option} with --bidirectional-directions {directions}: the former"
                f" needs {'two' if name == 'middle_to_side' else 'two or more'} directions;"
                f" leave {option} out, or change the number of directions"
            )
    if cfg.bidirectional_vanilla_positions and cfg.no_token_positional_embeddings:
        raise ValueError(
            "--bidirectional-vanilla-positions with --no-token-positional-embeddings: there are no"
            " positions to count; leave one of the two out"
        )
    block = cfg.bidirectional_block
    if block == 1 and cfg.bidirectional_distinct_starts:
        raise ValueError(
            "--bidirectional-distinct-starts with --bidirectional-block 1: one word per step needs"
            " one start symbol only; leave --bidirectional-distinct-starts out"
        )
    if block == 1 and cfg.bidirectional_tokens_per_step > 1:
        raise ValueError(
            f"--bidirectional-tokens-per-step {cfg.bidirectional_tokens_per_step} with"
            " --bidirectional-block 1: one word per step is written; leave one of the two out"
        )
    if block is not None and block != 1 and block != directions * cfg.bidirectional_tokens_per_step:
        raise ValueError(
            f"--bidirectional-block {block}: give 1, or leave it out for directions times tokens"
            f" per step ({directions * cfg.bidirectional_tokens_per_step})"
        )
