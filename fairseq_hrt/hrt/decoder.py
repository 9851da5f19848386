"""The decoder of both stages: causal over every K-th token, and parallel over all tokens."""

import logging
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules import SinusoidalPositionalEmbedding
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from ..engine import NativeParts, all_layers
from ..native.families.hrt import untrained
from ..native.runtime.header import Header
from ..training import leave_sinusoids_out, start_self_attention
from .attention import RelativeSelfAttention, attention_pattern
from .config import HRTModelConfig
from .sample import SampleView

logger = logging.getLogger(__name__)


class HRTDecoderLayer(TransformerDecoderLayerBase):
    """fairseq's decoder layer with relative self-attention."""

    def build_self_attention(
        self, embed_dim: int, cfg: HRTModelConfig, **variants: bool
    ) -> RelativeSelfAttention:
        if any(variants.values()):
            raise ValueError(
                "hrt_transformer does not support add_bias_kv and add_zero_attn: leave them out"
            )
        return RelativeSelfAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            dropout=cfg.attention_dropout,
            window=cfg.hrt_relative_window,
        )


class HRTDecoder(NativeParts, TransformerDecoderBase):
    """Transformer decoder to which every token is given with its position, whose self-attention
    adds relative positions to the keys, and some of whose input symbols are not in the dictionary.

    In addition to the V dictionary entries there are the mask (id V) and a start symbol ``<s_K>``
    for each chunk size K (ids V + 1, V + 2, …). These have an embedding of their own and no place
    in the softmax, so that dictionaries and binarised data of an ordinary Transformer can be used.
    """

    family = "hrt"

    def __init__(
        self, cfg: HRTModelConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        sizes = cfg.hrt_chunk_sizes
        if not all(isinstance(size, int) and size >= 2 for size in sizes) or not 0 < len(
            sizes
        ) == len(set(sizes)):
            raise ValueError(
                f"--hrt-chunk-sizes {sizes}: give at least one size of 2 or more, each once (size"
                " 1, autoregressive decoding, is always trained as well)"
            )
        if cfg.hrt_relative_window < 0:
            raise ValueError(
                f"--hrt-relative-window {cfg.hrt_relative_window} must not be negative; 0 switches"
                " it off"
            )
        if cfg.decoder.learned_pos or cfg.no_token_positional_embeddings:
            raise ValueError(
                "hrt_transformer needs sinusoidal positions in the decoder: remove"
                " --decoder-learned-pos and --no-token-positional-embeddings"
            )
        super().__init__(cfg, dictionary, embed_tokens)
        self.chunk_sizes: List[int] = list(cfg.hrt_chunk_sizes)
        self.relative_window: int = cfg.hrt_relative_window
        self.learn_tail: bool = str(cfg.hrt_tail_target) == "eos"
        self.vocabulary_size, self.eos = len(dictionary), dictionary.eos()
        # Stage II fills whole chunks: it may be K - 1 positions longer than the longest target.
        self.embed_positions = SinusoidalPositionalEmbedding(
            cfg.decoder.embed_dim,
            self.padding_idx,
            init_size=self.padding_idx + 2 + self.max_target_positions + max(self.chunk_sizes),
        )
        self.embed_special = nn.Embedding(1 + len(self.chunk_sizes), embed_tokens.embedding_dim)
        nn.init.normal_(self.embed_special.weight, std=embed_tokens.embedding_dim**-0.5)
        with torch.no_grad():
            self.embed_special.weight[1:] = embed_tokens.weight[self.eos]
        # Stored in checkpoints: the chunk size of each row of embed_special but the first, the
        # mask.
        self.register_buffer("special_chunk_sizes", torch.tensor(self.chunk_sizes))
        # Whether a checkpoint may lack chunk sizes of this model; False if it is loaded for
        # decoding.
        self.may_gain_sizes = True
        # Whether the decoder of the loaded checkpoint starts with a zero vector instead of </s>.
        self.parent_starts_from_zeros = False
        # How the options of the loaded checkpoint differ, if rows had to be added or moved.
        self.refitted = ""

    def build_decoder_layer(self, cfg: HRTModelConfig, no_encoder_attn: bool = False) -> nn.Module:
        if cfg.checkpoint_activations or cfg.offload_activations:
            raise ValueError(
                "hrt_transformer supports neither --checkpoint-activations nor"
                " --offload-activations: leave them out"
            )
        return HRTDecoderLayer(cfg, no_encoder_attn)

    @property
    def mask(self) -> int:
        """Id of the mask symbol."""
        return self.vocabulary_size

    def start_symbol(self, chunk_size: int) -> int:
        """Id of ``<s_K>``, the first input where every K-th token is decoded (K the chunk size);
        for K = 1 fairseq's ordinary start symbol, ``</s>``.

        Raises:
            ValueError: the model was not trained for this chunk size.
        """
        if chunk_size == 1:
            return self.eos
        if chunk_size not in self.chunk_sizes:
            raise untrained(chunk_size, self.chunk_sizes)
        return self.vocabulary_size + 1 + self.chunk_sizes.index(chunk_size)

    def start_symbols(self, chunk_sizes: Tensor) -> Tensor:
        """The id of the start symbol of each of ``chunk_sizes``, LongTensors of the same shape; see
        :meth:`start_symbol`. Sizes that the model was not trained for get the id of ``</s>``."""
        symbols = torch.full_like(chunk_sizes, self.eos)
        for chunk_size in self.chunk_sizes:
            symbols = torch.where(chunk_sizes == chunk_size, self.start_symbol(chunk_size), symbols)
        return symbols

    def native_fields(self, longest_target: int) -> Dict[str, Any]:
        return dict(
            special_symbols=self.embed_special.num_embeddings, chunk_sizes=tuple(self.chunk_sizes),
            relative_window=self.relative_window, learn_tail=self.learn_tail,
        )  # fmt: skip

    def native_tensors(self, header: Header) -> Dict[str, Tensor]:
        keys = {
            f"decoder.layers.{number}.self.relative": layer.self_attn.relative_keys
            for number, layer in enumerate(all_layers(self))
            if self.relative_window
        }
        return {"decoder.special": self.embed_special.weight, **keys}

    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings ``[..., D]`` of ids ``[...]`` of dictionary entries, mask and start symbols,
        not yet scaled."""
        special = tokens - self.vocabulary_size  # [...], below 0 for dictionary entries
        ordinary = self.embed_tokens(tokens.masked_fill(special >= 0, self.padding_idx))  # [..., D]
        return torch.where(
            (special >= 0).unsqueeze(-1), self.embed_special(special.clamp(min=0)), ordinary
        )

    def view_features(
        self, view: SampleView, encoder_out: Dict[str, List[Tensor]], *, causal: bool
    ) -> Tensor:
        """Runs the decoder on a training sample, up to the output projection.

        Args:
            view: inputs ``[B, T]`` and their positions; its targets are not read.
            encoder_out: the output of fairseq's encoder.
            causal: True hides later tokens (AT and Skip-AT), False none (CMLM and Skip-CMLM).

        Returns:
            Features ``[B, T, D]``.
        """
        x = self.embed_scale * self.embed(view.input)  # [B, T, D]
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        table = self.embed_positions.weights = self.embed_positions.weights.to(x)  # [positions, D]
        x = x + table[view.positions + self.padding_idx + 1]  # [B, T, D]
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        # [B, T, D] -> [T, B, D]
        x = self.dropout_module(x).transpose(0, 1)  # [T, B, D]
        pattern = attention_pattern(
            view.positions,
            view.input.eq(self.padding_idx),
            causal=causal,
            window=self.relative_window,
            like=x,
        )
        source, padding = encoder_out["encoder_out"][0], encoder_out["encoder_padding_mask"]
        for layer in self.layers:
            x, *_ = layer(x, source, padding[0] if padding else None, self_attn_mask=pattern)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = x.transpose(0, 1)  # [B, T, D]
        return x if self.project_out_dim is None else self.project_out_dim(x)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, List[Tensor]]] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        features_only: bool = False,
        full_context_alignment: bool = False,
        **ignored: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """The forward pass of an ordinary autoregressive Transformer, for fairseq's own tools.

        ``incremental_state`` is ignored: the whole prefix is computed again at each step, which is
        correct but slow. The decoder engine is the fast way.

        Args:
            prev_output_tokens: LongTensor ``[B, T]``, the target after the start symbol ``</s>``.
            encoder_out: the output of fairseq's encoder.
            features_only: True returns features instead of logits.
            full_context_alignment: True does not hide later tokens.

        Returns:
            (logits ``[B, T, V]`` or features ``[B, T, D]``, {"attn": [None], "inner_states":
            [features]}).
        """
        assert encoder_out is not None, "a translation model decodes what its encoder returns"
        positions = torch.arange(prev_output_tokens.size(1), device=prev_output_tokens.device)
        view = SampleView(
            prev_output_tokens, positions.expand_as(prev_output_tokens), prev_output_tokens
        )
        x = self.view_features(view, encoder_out, causal=not full_context_alignment)
        return (x if features_only else self.output_layer(x)), {"attn": [None], "inner_states": [x]}

    def upgrade_state_dict_named(
        self, state_dict: Dict[str, Tensor], name: str
    ) -> Dict[str, Tensor]:
        """Adds the parameters that an autoregressive checkpoint lacks to ``state_dict``, in place,
        so that the checkpoint can be fine-tuned. ``name`` is the prefix of the decoder's keys.

        Start symbols are initialised with the checkpoint's ``</s>``, tables of relative positions
        with zeros, and self-attention at random if the checkpoint has recurrent cells instead. The
        start symbols of an HRT checkpoint are put in the order of this model's chunk sizes.
        """
        start_self_attention(state_dict, self, name)
        leave_sinusoids_out(state_dict, self, name)
        super().upgrade_state_dict_named(state_dict, name)
        special, sizes = f"{name}.embed_special.weight", f"{name}.special_chunk_sizes"
        own = self.state_dict().items()
        tables = {
            f"{name}.{key}": value for key, value in own if key.endswith("self_attn.relative_keys")
        }
        if special in state_dict:
            known = self._known_sizes(state_dict[special], state_dict.get(sizes))
            if known != self.chunk_sizes:
                self.refitted = (
                    f"--hrt-chunk-sizes {','.join(map(str, self.chunk_sizes))}: that model was"
                    f" trained for {','.join(map(str, known))}"
                )
            state_dict[special] = self._rows_by_size(state_dict, name, known)
        elif not any(key in state_dict for key in tables):
            self.refitted = "that model has no start symbols of chunk sizes"
            fresh = self.embed_special.weight.detach().clone()
            fresh[1:] = (
                0.0
                if self.parent_starts_from_zeros
                else state_dict[f"{name}.embed_tokens.weight"][self.eos]
            )
            state_dict[special] = fresh
            state_dict.update({key: torch.zeros_like(value) for key, value in tables.items()})
        state_dict[sizes] = torch.tensor(self.chunk_sizes)
        return state_dict

    def _known_sizes(self, rows: Tensor, stored: Optional[Tensor]) -> List[int]:
        """The chunk sizes of the checkpoint's start symbols, in the order of their rows.

        Args:
            rows: ``[1 + sizes, D]``, the checkpoint's embeddings of mask and start symbols.
            stored: the chunk sizes in the checkpoint; None: an old checkpoint, which does not store
                them and is taken to have this model's chunk sizes.

        Raises:
            ValueError: an old checkpoint has more or fewer start symbols than this model.
        """
        if stored is not None:
            return stored.tolist()
        count, given = rows.size(0) - 1, ",".join(map(str, self.chunk_sizes))
        if count != len(self.chunk_sizes):
            raise ValueError(
                f"the checkpoint has start symbols for {count} chunk sizes, this model for"
                f" {len(self.chunk_sizes)} (--hrt-chunk-sizes {given}): give the sizes that the"
                " checkpoint was trained for, which this old checkpoint does not store"
            )
        logger.warning(
            "the checkpoint does not store its chunk sizes; its start symbols are taken for those"
            " of the sizes %s: correct --hrt-chunk-sizes if it was trained for others",
            given,
        )
        return self.chunk_sizes

    def _rows_by_size(self, state_dict: Dict[str, Tensor], name: str, known: List[int]) -> Tensor:
        """The checkpoint's embeddings of the mask and, in the order of this model's chunk sizes, of
        the start symbols: ``[1 + sizes, D]``. Those of new sizes are copies of ``</s>``.

        Args:
            name: prefix of the decoder's keys in ``state_dict``.
            known: chunk sizes of the checkpoint, in the order of its rows.

        Raises:
            ValueError: there is a new size, but the model was not loaded for training.
        """
        trained = state_dict[f"{name}.embed_special.weight"]  # [1 + known sizes, D]
        rows = [trained[0]]
        for size in self.chunk_sizes:
            if size in known:
                rows.append(trained[1 + known.index(size)])
                continue
            if not self.may_gain_sizes:
                raise ValueError(
                    f"--hrt-chunk-sizes {','.join(map(str, self.chunk_sizes))}: the checkpoint was"
                    f" trained for {','.join(map(str, known))}, so {size} cannot be decoded; leave"
                    f" {size} out, or fine-tune the checkpoint with --finetune-from-model"
                )
            rows.append(state_dict[f"{name}.embed_tokens.weight"][self.eos])
        return torch.stack(rows)  # [1 + sizes, D]
