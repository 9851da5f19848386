"""Model ``marian_transformer`` and its presets."""

from fairseq.models import register_model

from ..training import COMMON_PRESETS, ConfiguredTransformer, register_presets
from .config import MarianModelConfig
from .decoder import MarianDecoder


@register_model("marian_transformer")
class MarianTransformerModel(ConfiguredTransformer):
    """fairseq's Transformer with Marian's conventions (:class:`MarianModelConfig`), for models
    imported from Marian and new ones."""

    config = MarianModelConfig
    decoder_class = MarianDecoder


register_presets(
    "marian_transformer",
    {
        **COMMON_PRESETS,
        # Small distilled models like those of Firefox and translateLocally (Marian's tiny11).
        "student": dict(
            embed=256, ffn=1536, heads=8, layers=(6, 2), dropout=0.1, marian_cell="ssru",
            activation_fn="relu"
        ),
    },
)  # fmt: skip
