"""Named architectures as tables; the one place of the package that fills an argument namespace."""

from argparse import Namespace
from typing import Any, Callable, Dict, Union

from fairseq.models import MODEL_REGISTRY, register_model_architecture
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from .model_options import flatten_options

# Sizes that every family offers; a family adds its own rows. No row shares embeddings: fairseq's
# switch for it cannot be taken back on the command line, and separate dictionaries need separate
# embeddings.
COMMON_PRESETS: Dict[str, Dict[str, Any]] = {
    "tiny": dict(embed=128, ffn=512, heads=4, layers=(2, 2), dropout=0.1),
    "iwslt_de_en": dict(embed=512, ffn=1024, heads=4, layers=(6, 6), dropout=0.3),
    "wmt_en_de": dict(embed=512, ffn=2048, heads=8, layers=(6, 6)),
    "wmt_en_de_big": dict(embed=1024, ffn=4096, heads=16, layers=(6, 6), dropout=0.3),
}


def preset(
    *, embed: int, ffn: int, heads: int, layers: tuple, pre_norm: bool = False, **more: Any
) -> Dict[str, Any]:
    """fairseq's argument names and values of a size.

    Args:
        embed: D; ffn: inner width; heads: H.
        layers: (encoder layers, decoder layers).
        pre_norm: layer normalisation before each block instead of after it.
        more: further arguments by their fairseq names.
    """
    values = dict(more)
    for side, count in zip(("encoder", "decoder"), layers):
        values[f"{side}_embed_dim"] = embed
        values[f"{side}_ffn_embed_dim"] = ffn
        values[f"{side}_attention_heads"] = heads
        values[f"{side}_layers"] = count
        if pre_norm:
            values[f"{side}_normalize_before"] = True
    values["decoder_input_dim"] = values["decoder_output_dim"] = values["decoder_embed_dim"]
    return values


def register_presets(model: str, presets: Dict[str, Dict[str, Any]]) -> None:
    """Registers ``<model>_<name>`` for each preset and ``<model>`` itself as ``wmt_en_de``.

    Options that the user gives on the command line or in YAML win over the preset.
    """
    for name, sizes in {"": presets["wmt_en_de"], **presets}.items():
        architecture = f"{model}_{name}" if name else model
        register_model_architecture(model, architecture)(_filler(model, preset(**sizes)))
        # For ``model=<architecture>`` of fairseq-hydra-train; all else of it is filled in here as
        # well.
        ConfigStore.instance().store(
            name=architecture, group="model", node={"_name": architecture}, provider="fairseq_hrt"
        )


def _filler(model: str, values: Dict[str, Any]) -> Callable[[Union[Namespace, DictConfig]], None]:
    def fill(args: Union[Namespace, DictConfig]) -> None:
        given: Any = args
        if isinstance(args, Namespace):
            given = vars(args)
        else:
            flatten_options(args, MODEL_REGISTRY[model].config)
        for name, value in values.items():
            given.setdefault(name, value)
        # A width given on the command line also is the width of the tied input and output.
        if given["decoder_embed_dim"] != values["decoder_embed_dim"]:
            for name in ("decoder_input_dim", "decoder_output_dim"):
                if given[name] == values[name]:
                    given[name] = given["decoder_embed_dim"]

    return fill
