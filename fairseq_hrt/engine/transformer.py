"""Cached decoding of one fairseq Transformer, in steps of one or more tokens.

All families and the autoregressive baseline use this engine, so that their speeds can be compared.
A step returns what the module's full forward pass returns (tested) and shares its parameters (see
:mod:`.shared_weights`); positions and masks are arguments::

    memory = engine.encode(sample["net_input"])
    state = engine.start(memory, beams=5)
    features = engine.step(state, tokens, positions)     # [R, q] -> [R, q, D]
    logits = engine.logits(features[:, -1])              # [R, V]
    state.rollback(3); state.reorder(rows)
"""

from typing import Any, Dict, List, Optional

import torch
import torch.nn.functional as F
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules import TransformerEncoderLayer
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from .cache import DecoderState, Memory
from .embedding import PackedEmbedding
from .layers import (
    PackedDecoderLayer,
    PackedLayer,
    PackedNorm,
    UnsupportedModelError,
    all_layers,
)
from .linear import PackedLinear
from .masks import visibility_bias
from .relative_positions import relative_index
from .shared_weights import fuse_rows


class TransformerEngine:
    """Fast, cached inference of one encoder-decoder Transformer.

    Args:
        model: a model whose decoder is a :class:`TransformerDecoderBase` (all of fairseq's
            ``transformer`` family).
        static_weights: True promises that the weights will not change: faster copies of them may be
            kept (see :class:`PackedLinear`). False: the engine follows every update of its model.

    Raises:
        UnsupportedModelError: the decoder has a part that the engine does not support.
    """

    def __init__(self, model: FairseqEncoderDecoderModel, *, static_weights: bool = False) -> None:
        self.model, self.static_weights = model, static_weights
        # How often the weights were packed.
        self.packings = 0
        self._check_decoder(model.decoder)
        self._pack()

    def refresh(self) -> None:
        """Packs the weights again if the model was moved or cast since they were packed. Else, if
        weights may change, recomputes position vectors that depend on weights
        (:meth:`PackedEmbedding.refresh`); other in-place updates need no refresh."""
        if list(map(Tensor.data_ptr, self._parameters)) != self._addresses:
            self._pack()
        elif not self.static_weights:
            self.embed.refresh()

    # ------------------------------------------------------------------ the source

    def encode(self, net_input: Dict[str, Tensor]) -> Memory:
        """Encodes a batch once for all its decodings.

        Args:
            net_input: fairseq's ``sample["net_input"]``: ``src_tokens`` ``[B, S]``, ``src_lengths``
                ``[B]``, and further arguments of this model's encoder; ``prev_output_tokens`` is
                ignored.
        """
        tokens = net_input["src_tokens"]
        padding = tokens.eq(self.pad)  # [B, S]
        bias, lengths = None, torch.full_like(tokens[:, 0], tokens.size(1))  # [B]
        if bool(padding.any()):
            lengths = lengths - padding.sum(1)
            bias = torch.zeros(padding.shape, dtype=self.dtype, device=tokens.device)  # [B, S]
            bias = bias.masked_fill_(padding, float("-inf"))[:, None, None]  # [B, 1, 1, S]
        encoded = (
            self._encode_packed(tokens, padding, bias)
            if self.encoder_layers
            else self._encode_module(net_input)
        )
        return self.remember(encoded, bias, lengths)

    def encode_static(self, tokens: Tensor) -> Memory:
        """Encodes sources ``[B, S]``, padded anywhere, as :meth:`encode` does, but without copying
        anything from the device to the host.

        Only for encoders that the engine packs (:attr:`encoder_layers`).
        """
        padding = tokens.eq(self.pad)  # [B, S]
        bias = torch.zeros(padding.shape, dtype=self.dtype, device=tokens.device)  # [B, S]
        bias = bias.masked_fill_(padding, float("-inf"))[:, None, None]  # [B, 1, 1, S]
        encoded = self._encode_packed(tokens, padding, bias)
        return self.remember(encoded, bias, (~padding).sum(1))

    def remember(self, encoded: Tensor, bias: Optional[Tensor], lengths: Tensor) -> Memory:
        """The :class:`Memory` of an encoded source ``[B, S, D]``, with the keys and values of all
        decoder layers; the arguments are its attributes of the same names."""
        pairs = [layer.cross.remember(encoded) for layer in self.layers]
        keys, values = ([own[side] for own in pairs] for side in (0, 1))  # [B, H, S, d] each
        return Memory(keys, values, bias, lengths, encoded)

    def _encode_packed(self, tokens: Tensor, padding: Tensor, bias: Optional[Tensor]) -> Tensor:
        """Encodes ``tokens`` ``[B, S]`` → ``[B, S, D]``, as the encoder module does, by packed
        layers. ``padding`` is True for padding; ``bias`` is the mask ``[B, 1, 1, S]``, or None if
        nothing is padded."""
        self.embed_source.reserve(tokens.size(1))
        if bias is None:
            x = self.embed_source(tokens, None)  # [B, S, D]
        else:
            # Positions are counted from the first word, wherever the padding is.
            places = (~padding).cumsum(1).sub_(1).clamp_(min=0)  # [B, S]
            x = self.embed_source(tokens, places).masked_fill_(padding.unsqueeze(-1), 0.0)
        for layer in self.encoder_layers:
            x = layer.block(x, layer.attention_norm, lambda y: layer.attention(y, bias))  # noqa: B023 - called at once
            x = layer.block(x, layer.final_norm, layer.feed_forward)
        return x if self.encoder_norm is None else self.encoder_norm(x)  # [B, S, D]

    def _encode_module(self, net_input: Dict[str, Tensor]) -> Tensor:
        """Encodes a batch to ``[B, S, D]`` by the encoder's own forward pass: for encoders that the
        engine does not pack. ``net_input`` as for :meth:`encode`."""
        inputs = {key: value for key, value in net_input.items() if key != "prev_output_tokens"}
        # [S, B, D] -> [B, S, D]
        return self.model.encoder(**inputs)["encoder_out"][0].transpose(0, 1)

    # ------------------------------------------------------------------ the target

    def start(self, memory: Memory, *, beams: int = 1) -> DecoderState:
        """An empty decoder state of B * ``beams`` rows."""
        batch, heads, _, width = memory.keys[0].shape  # [B, H, S, d]
        device = memory.keys[0].device
        shape = (len(self.layers), 2, batch * beams, heads, 0, width)
        if self.recurrent:
            shape = (len(self.layers), 1, batch * beams, 1, 0, heads * width)
        return DecoderState(
            memory=memory,
            cache=torch.zeros(shape, dtype=self.dtype, device=device),
            positions=torch.zeros(1, 0, dtype=torch.long, device=device),
            sentences=torch.arange(batch, device=device),  # [B]
        )

    def step(
        self,
        state: DecoderState,
        tokens: Tensor,
        positions: Tensor,
        *,
        visible: Optional[Tensor] = None,
        causal: bool = True,
        remember: bool = True,
        only: Optional[Tensor] = None,
        attention: Optional[List[Tensor]] = None,
        vectors: Optional[Tensor] = None,
    ) -> Tensor:
        """Decodes q new tokens of every row.

        Args:
            state: the cache; with ``remember`` it is advanced by q tokens.
            tokens: LongTensor ``[R, q]``, dictionary ids or the model's special ids (V and above).
            positions: LongTensor ``[q]`` or ``[R, q]``, position in the sentence (0 = ``<s>``) of
                each token.
            visible: BoolTensor broadcastable to ``[R, q, T + q]``; False hides a key, besides those
                that ``causal`` hides. None: hides none.
            causal: new tokens do not see later new tokens.
            remember: keep the new keys and values. False saves a copy if there is only one step; T
                must be 0 then.
            only: LongTensor ``[q']``, indices of the new tokens whose features are wanted; the last
                layer computes no others. With one decoder layer and half of the tokens wanted, this
                halves the cost.
            attention: a list to which the last layer's attention to the source, averaged over the
                heads, is appended: ``[R, q, S]``.
            vectors: ``[R, q, E]``, embeddings of width E that are read in place of those of
                ``tokens``.

        Returns:
            Features ``[R, q, D]``, or ``[R, q', D]``, for :meth:`logits`.

        Raises:
            ValueError: ``visible`` or ``causal=False`` for a decoder with recurrent cells, which
                are always causal.
        """
        if self.recurrent and (visible is not None or not causal):
            raise ValueError(
                "a decoder with recurrent cells sees all words before each word and none after it;"
                " leave out visible and causal"
            )
        count = tokens.size(1)
        x = self.embed(tokens, positions, vectors)  # [R, q, D]
        if remember:
            state.reserve(state.length + count)
        bias = None if self.recurrent else visibility_bias(state, count, visible, causal)
        index: Optional[Tensor] = None
        if self.window:
            known = state.place(positions) if remember else positions.view(-1, count)
            index = relative_index(positions, known, self.window)  # [1 or R, q, T + q]
        memory = state.memory
        for number, layer in enumerate(self.layers):
            cache = state if remember else None
            chosen = only if number + 1 == len(self.layers) else None
            x = layer.block(
                x,
                layer.attention_norm,
                lambda y: self._words_before(y, number, cache, bias, index, chosen),  # noqa: B023
                chosen,
            )
            keys, values = memory.layer(number)  # [B * H, S, d] each
            if attention is not None and number + 1 == len(self.layers):
                asking = layer.cross_norm(x) if layer.before else x  # [R, q, D]
                attention.append(layer.cross.weights(asking, keys, memory.bias))  # [R, q, S]
            x = layer.block(
                x,
                layer.cross_norm,
                lambda y: layer.cross(y, keys, values, memory.bias),  # noqa: B023
            )
            x = layer.block(x, layer.final_norm, layer.feed_forward)
        if remember:
            state.length += count
            if state.lengths is not None:
                state.lengths = state.lengths + count  # [R]
        if self.norm is not None:
            x = self.norm(x)
        return x if self.project_out is None else F.linear(x, self.project_out)  # [R, q', D]

    def logits(self, features: Tensor) -> Tensor:
        """Unnormalised scores of the V dictionary entries: ``[..., D]`` → ``[..., V]``."""
        return self.output(features)  # [..., V]

    def _words_before(
        self,
        x: Tensor,
        number: int,
        state: Optional[DecoderState],
        bias: Optional[Tensor],
        index: Optional[Tensor],
        chosen: Optional[Tensor],
    ) -> Tensor:
        """Self-attention of layer ``number``, or its recurrent cells.

        Args:
            x: ``[R, q, D]``, the new tokens.
            state: the cache, to which the new tokens are added; None: no tokens are cached before
                them, and they are not kept.
            bias: the additive mask, ``[1 or R, 1, q, T + q]``, or None.
            index: rows of the tables of relative position vectors, LongTensor ``[1 or R, q, T +
                q]``; None if the model has none.
            chosen: LongTensor ``[q']``, indices of the new tokens whose output is wanted; None:
                all.

        Returns:
            ``[R, q', D]``.
        """
        cell = self.layers[number].cell
        if cell is not None:
            states = cell.states(
                x, torch.zeros_like(x[:, 0]) if state is None else state.last_states(number)
            )
            if state is not None:
                state.write(number, states[None, :, None])  # [1, R, 1, q, D]
            return torch.relu(states if chosen is None else states.index_select(1, chosen))
        attention = self.layers[number].attention
        queries, memorable = attention.project(x, chosen)  # [R, H, q', d], [2, R, H, q, d]
        keys, values = memorable.flatten(1, 2) if state is None else state.append(number, memorable)
        if chosen is not None:
            # [1 or R, 1, q', T]
            bias = bias if bias is None or bias.size(2) == 1 else bias[:, :, chosen]
        if index is not None and attention.relative_keys is not None:
            index = index if chosen is None else index[:, chosen]  # [1 or R, q', T + q]
            if index.numel() == index.size(2):
                # One query in each row, at the same place: q (k + r) is cheaper than q k + q r.
                keys = keys + attention.relative_keys[index[0, 0]]  # [R * H, T + q, d]
            else:
                relative = attention.relative_bias(queries, index)  # [R, H, q', T + q]
                bias = relative if bias is None else relative.add_(bias)
        return attention.combine(queries, keys, values, bias)  # [R, q', D]

    # ------------------------------------------------------------------ packing

    @torch.no_grad()
    @torch.inference_mode(False)
    def _pack(self) -> None:
        """Collects the model's weights; the weights of projections that are computed by a single
        product are stacked in place.

        Inference mode is switched off: parameters moved within it would become inference tensors
        and could not be trained any more.
        """
        self.packings += 1
        decoder, encoder = self.model.decoder, self.model.encoder
        self.pad: int = decoder.padding_idx
        special = getattr(decoder, "embed_special", None)
        tables = [decoder.embed_tokens.weight] + ([] if special is None else [special.weight])
        self.embed = PackedEmbedding(
            fuse_rows(tables),
            scale=decoder.embed_scale,
            positions=decoder.embed_positions,
            pad=self.pad,
            norm=decoder.layernorm_embedding,
            projection=None if decoder.project_in_dim is None else decoder.project_in_dim.weight,
            zero=decoder.dictionary.eos() if getattr(decoder, "zero_start", False) else None,
        )
        self.project_out = (
            None if decoder.project_out_dim is None else decoder.project_out_dim.weight
        )
        self.norm = None if decoder.layer_norm is None else PackedNorm(decoder.layer_norm)
        reorder = self.static_weights
        self.layers = [PackedDecoderLayer(layer, reorder=reorder) for layer in all_layers(decoder)]
        self.recurrent: bool = any(layer.cell is not None for layer in self.layers)
        # w, the distance at which relative positions are clipped; 0: there are none.
        table = None if self.recurrent else self.layers[0].attention.relative_keys
        self.window = 0 if table is None else table.size(0) // 2
        projection = decoder.output_projection
        self.output = PackedLinear(projection.weight, projection.bias, reorder=reorder)
        self.dtype = projection.weight.dtype
        self.encoder_layers: List[PackedLayer] = []
        self.encoder_norm: Optional[PackedNorm] = None
        if _is_plain(encoder):
            self.encoder_layers = [
                PackedLayer(layer, reorder=reorder) for layer in all_layers(encoder)
            ]
            self.encoder_norm = (
                None if encoder.layer_norm is None else PackedNorm(encoder.layer_norm)
            )
            self.embed_source = PackedEmbedding(
                encoder.embed_tokens.weight,
                scale=encoder.embed_scale,
                positions=encoder.embed_positions,
                pad=encoder.padding_idx,
                norm=encoder.layernorm_embedding,
                side="source",
            )
        self.embed.reserve(decoder.max_target_positions)
        # half(), cuda() and the like change the addresses of all parameters; training does not. If
        # weights are static, comparing the first and the last is enough, and quick.
        self._parameters = list(self.model.parameters())
        if self.static_weights:
            self._parameters = [self._parameters[0], self._parameters[-1]]
        self._addresses = list(map(Tensor.data_ptr, self._parameters))

    @staticmethod
    def _check_decoder(decoder: TransformerDecoderBase) -> None:
        """Raises UnsupportedModelError for decoders whose steps the engine cannot reproduce."""
        reason = None
        if not isinstance(decoder, TransformerDecoderBase):
            reason = f"its decoder is a {type(decoder).__name__}, not a Transformer decoder"
        elif not decoder.layers:
            reason = "its decoder has no layers"
        elif decoder.adaptive_softmax is not None:
            reason = "it has an adaptive softmax"
        elif decoder.cross_self_attention:
            reason = "it was trained with --cross-self-attention"
        elif decoder.quant_noise is not None:
            reason = "it was trained with quantisation noise on its embeddings"
        elif not isinstance(decoder.output_projection, nn.Linear):
            reason = "its layers are quantised (--quant-noise-scalar)"
        if reason is not None:
            raise UnsupportedModelError(
                f"the engine cannot decode this model: {reason}; use --task translation"
            )


def _is_plain(encoder: Any) -> bool:
    """Whether this encoder is computed by fairseq's own code, unchanged, so that packed layers can
    compute it as well."""
    if (
        not isinstance(encoder, TransformerEncoderBase)
        or encoder.quant_noise is not None
        or encoder.return_fc
    ):
        return False
    for name in ("forward", "forward_scriptable", "forward_embedding"):
        owner = next(cls for cls in type(encoder).__mro__ if name in vars(cls))
        if not owner.__module__.startswith("fairseq.models.transformer."):
            return False
    return all(
        type(layer) in (TransformerEncoderLayerBase, TransformerEncoderLayer)
        for layer in all_layers(encoder)
    )
