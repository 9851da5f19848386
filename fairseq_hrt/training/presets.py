"""Registers presets: named architectures with default values for the options of a model."""

from argparse import Namespace
from typing import Any, Callable, Dict, Union

from fairseq.models import MODEL_REGISTRY, register_model_architecture
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from .model_options import flatten_options

# Sizes of all families. None shares embeddings: a command line could not switch that off again, and
# separate dictionaries need separate embeddings.
COMMON_PRESETS: Dict[str, Dict[str, Any]] = {
    "tiny": dict(embed=128, ffn=512, heads=4, layers=(2, 2), dropout=0.1),
    "iwslt_de_en": dict(embed=512, ffn=1024, heads=4, layers=(6, 6), dropout=0.3),
    "wmt_en_de": dict(embed=512, ffn=2048, heads=8, layers=(6, 6)),
    "wmt_en_de_big": dict(embed=1024, ffn=4096, heads=16, layers=(6, 6), dropout=0.3),
}


def preset(
    *, embed: int, ffn: int, heads: int, layers: tuple, pre_norm: bool = False, **more: Any
) -> Dict[str, Any]:
    """The values of a preset by fairseq's names of the options.

    Args:
        embed: D, the width of embeddings and layers.
        ffn: inner width of the feed-forward layers.
        heads: number of attention heads.
        layers: (encoder layers, decoder layers).
        pre_norm: True has the layer normalisation before each block instead of after it.
        more: further options, by fairseq's names.
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
    """Registers an architecture ``<model>_<name>`` for each of ``presets``, {name: {argument of
    :func:`preset`: value}}, and ``<model>`` itself with the values of ``wmt_en_de``. Options on the
    command line or in YAML take precedence."""
    for name, sizes in {"": presets["wmt_en_de"], **presets}.items():
        architecture = f"{model}_{name}" if name else model
        register_model_architecture(model, architecture)(_filler(model, preset(**sizes)))
        # Makes ``model=<architecture>`` of fairseq-hydra-train known; _filler adds the values.
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
        # The decoder's input and output have the width that was given for its embedding.
        if given["decoder_embed_dim"] != values["decoder_embed_dim"]:
            for name in ("decoder_input_dim", "decoder_output_dim"):
                if given[name] == values[name]:
                    given[name] = given["decoder_embed_dim"]

    return fill
