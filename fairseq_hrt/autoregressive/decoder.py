"""fairseq's Transformer decoder with Marian's conventions."""

from typing import Any, Dict

import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from ..engine import NativeParts
from .cell import RecurrentDecoderLayer
from .config import MarianModelConfig


class ZeroStartEmbedding(nn.Embedding):
    """An embedding that shares the weights of another one, but embeds one word as zeros.

    Args:
        embedding: the embedding whose weights are shared.
        zero: id of the word that is embedded as zeros.
    """

    def __init__(self, embedding: nn.Embedding, zero: int) -> None:
        # Not built on the device ``meta``: PyTorch would import its compiler, which takes seconds.
        super().__init__(
            embedding.num_embeddings,
            embedding.embedding_dim,
            embedding.padding_idx,
            _weight=embedding.weight,
        )
        self.weight, self.zero = embedding.weight, zero

    def forward(self, input: Tensor) -> Tensor:
        """The embeddings ``[..., D]`` of the ids ``input`` ``[...]``; zeros for the id ``zero``."""
        vectors = F.embedding(input, self.weight, self.padding_idx)  # [..., D]
        return vectors.masked_fill(input.eq(self.zero).unsqueeze(-1), 0.0)


class MarianDecoder(NativeParts, TransformerDecoderBase):
    """The Transformer decoder of Marian's models.

    Attributes:
        cell: ``"attention"``: layers have self-attention; ``"ssru"``: a recurrent unit in its
            place.
        zero_start: whether the start symbol (``</s>``, which the decoder reads nowhere else) is
            embedded as zeros.
    """

    family = "autoregressive"

    def __init__(
        self, cfg: MarianModelConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        self.cell, self.zero_start = str(cfg.marian_cell), str(cfg.marian_zero_start) == "yes"
        embedding = (
            ZeroStartEmbedding(embed_tokens, dictionary.eos()) if self.zero_start else embed_tokens
        )
        super().__init__(cfg, dictionary, embedding)

    def native_fields(self, longest_target: int) -> Dict[str, Any]:
        return dict(cell=self.cell, zero_start=self.zero_start)

    def build_decoder_layer(
        self, cfg: MarianModelConfig, no_encoder_attn: bool = False
    ) -> nn.Module:
        if self.cell == "attention":
            return super().build_decoder_layer(cfg, no_encoder_attn)
        if cfg.checkpoint_activations or cfg.offload_activations:
            raise ValueError(
                "--marian-cell ssru supports neither --checkpoint-activations nor"
                " --offload-activations: leave them out"
            )
        return RecurrentDecoderLayer(cfg, no_encoder_attn)
