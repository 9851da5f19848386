"""Which options of fairseq's Transformer have an effect in a training, and beside which others.

An option that is not listed here is refused, so that none is accepted without being read.
"""

from argparse import Namespace
from typing import Any, Dict, Mapping

from fairseq.models.transformer import TransformerConfig
from omegaconf import DictConfig, OmegaConf

from ..native.options.conditions import Condition, flag, given, other_than
from ..native.options.effects import set_aside
from ..native.options.option import Option
from .model_options import flat_names

# Names of options of both sides, without ``encoder_`` and ``decoder_``.
_SIDES = (
    "attention_heads", "embed_dim", "embed_path", "ffn_embed_dim", "layerdrop", "layers",
    "layers_to_keep", "normalize_before", "xformers_att_config",
)  # fmt: skip
# Options that are read whatever the others are; some by fairseq's trainer (min_params_to_wrap), by
# its task (quant_noise_scalar) or while a model is loaded (layers_to_keep).
READ = frozenset(
    (
        *(f"{side}_{name}" for side in ("encoder", "decoder") for name in _SIDES),
        "activation_dropout", "activation_fn", "adaptive_softmax_cutoff", "attention_dropout",
        "base_layers", "checkpoint_activations", "cross_self_attention", "decoder_output_dim",
        "dropout", "export", "layernorm_embedding", "max_source_positions", "max_target_positions",
        "min_params_to_wrap", "no_cross_attention", "no_scale_embedding",
        "no_token_positional_embeddings", "offload_activations", "quant_noise_pq",
        "quant_noise_scalar", "share_all_embeddings", "share_decoder_input_output_embed",
    )
)  # fmt: skip
_POSITIONS = Condition(
    "positions: leave --no-token-positional-embeddings out",
    ("no_token_positional_embeddings",),
    lambda without: not without,
)
# Options that are read only where a condition holds.
READ_WHEN: Mapping[str, Condition] = {
    "encoder_learned_pos": _POSITIONS,
    "decoder_learned_pos": _POSITIONS,
    "no_decoder_final_norm": given("decoder_normalize_before"),
    "relu_dropout": Condition(
        "--activation-dropout 0", ("activation_dropout",), lambda share: not share
    ),
    "adaptive_softmax_dropout": given("adaptive_softmax_cutoff"),
    "adaptive_softmax_factor": given("adaptive_softmax_cutoff"),
    "tie_adaptive_weights": given("adaptive_softmax_cutoff"),
    "tie_adaptive_proj": given("tie_adaptive_weights"),
    "quant_noise_pq_block_size": other_than("quant_noise_pq", 0),
    "base_sublayers": other_than("base_layers", 0),
    "base_shuffle": other_than("base_layers", 0),
}
# Options that need a part of fairseq's own decoder or attention that the families do not have, and
# those of them that change nothing once a model is trained.
_NOT_OF_FAMILIES = (
    "adaptive_softmax_cutoff", "base_layers", "cross_self_attention",
    "decoder_xformers_att_config", "encoder_xformers_att_config", "no_cross_attention",
)  # fmt: skip
_NOT_IN_TRAINING = ("quant_noise_pq", "quant_noise_scalar")


def as_config(options: Any, config: Any = TransformerConfig) -> Any:
    """A model's options, a namespace or a flat configuration, as an instance of the dataclass
    ``config``; options that are missing get its defaults."""
    if isinstance(options, DictConfig):
        plain: Any = OmegaConf.to_container(options, resolve=True)
        options = Namespace(**plain)
    return config.from_namespace(options)


def flat_values(config: Any) -> Dict[str, Any]:
    """The values of a model's dataclass as {option: value}, e.g. ``{"encoder_layers": 6}``."""
    found = {}
    for name, path in flat_names(type(config)).items():
        found[name] = config
        for step in path:
            found[name] = getattr(found[name], step)
    return found


def refuse_unread(values: Mapping[str, Any]) -> None:
    """Refuses options of fairseq's Transformer that a training would not read.

    Args:
        values: a model's options, as :func:`flat_values` returns them; other options are ignored.

    Raises:
        ValueError: such an option is not at its default; the message names it.
    """
    defaults = flat_values(TransformerConfig())
    for name, default in defaults.items():
        # The width of the decoder's input is that of its embedding, as in every preset.
        neutral = (values["decoder_embed_dim"],) if name == "decoder_input_dim" else ()
        if name in READ or name in READ_WHEN:
            continue
        if Option(default, "", neutral=neutral).is_asked_for(values[name]):
            shown = flag(name) if values[name] is True else f"{flag(name)} {values[name]}"
            raise ValueError(f"{shown}: no Transformer of fairseq reads this option; leave it out")
    set_aside(
        values,
        options={name: Option(defaults[name], "", when=when) for name, when in READ_WHEN.items()},
    )


def refuse_extras(options: Mapping[str, Any], *, training: bool = False) -> None:
    """Refuses options for parts of fairseq's Transformers that the families' models do not have.

    Args:
        options: a model's options, {name on the command line: value}.
        training: True when a training begins: options that have an effect only in training are
            refused, too.

    Raises:
        ValueError: such an option is given; the message names it.
    """
    for name in (*_NOT_OF_FAMILIES, *(_NOT_IN_TRAINING if training else ())):
        if options.get(name):
            raise ValueError(
                f"{flag(name)}: only fairseq's own Transformers support this option; leave it out"
            )
