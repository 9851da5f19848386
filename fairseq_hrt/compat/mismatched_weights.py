"""Explains in one line why a checkpoint does not fit the model that is to load it.

fairseq 0.12.2 passes on PyTorch's message, which lists every parameter (dozens of lines), and in
training replaces it by "please ensure that the architectures match". It compares neither the
optimizer's state (a training that is resumed with parameters of other sizes fails inside Adam), nor
tensors that the model shares and the checkpoint does not (the last one that is loaded overwrites
the others), nor options that change what the same parameters compute.
"""

import logging
import re
from contextvars import ContextVar
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .importing import around

logger = logging.getLogger(__name__)

# Returns the options of a ``cfg.model`` that change what its model computes, by name. The families
# are not known here: ``registration`` sets it.
computation: Optional[Callable[[Any], Mapping[str, Any]]] = None
# ``cfg`` of the checkpoint that was read last.
_configuration: ContextVar[Any] = ContextVar("configuration", default=None)
# Options of a Transformer that fine-tuning has no reason to change.
_TRANSFORMERS = re.compile(
    r"(encoder|decoder)_(attention_heads|normalize_before)|activation_fn|no_scale_embedding"
)

_SIDES = (("source", "encoder"), ("target", "decoder"))
_FITTING = (
    "start from a model of the same architecture and sizes, or an autoregressive one of these sizes"
)
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.")


class MismatchedWeightsError(RuntimeError):
    """The parameters of a checkpoint do not fit the model: their names or shapes differ."""


def explanation(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """How the parameters of a checkpoint differ in names or shapes from those of a model, and what
    to do; empty if they do not.

    Args:
        found, wanted: tensors by name, of the checkpoint and of the model.
    """
    told = []
    words = _unlike(_words(found), _words(wanted))
    if words:
        told.append(
            f"the checkpoint's {' and '.join(words)}: give the dictionaries that it was trained"
            " with (fairseq-preprocess --srcdict and --tgtdict)"
        )
    sizes = _unlike(_sizes(found), _sizes(wanted))
    if sizes:
        told.append(f"the checkpoint has {', '.join(sizes)}: build the model with its values")
    if not words and not sizes:
        told += _difference(found, wanted)
    return "; ".join(told)


def _words(tensors: Mapping[str, Any]) -> Dict[str, int]:
    """The number of words in each dictionary, as {phrase of the message: number}. Each phrase has
    two ``{}``, for the checkpoint's number and the model's; see :func:`_unlike`."""
    tables = {side: tensors.get(f"{part}.embed_tokens.weight") for side, part in _SIDES}
    return {
        f"{side} dictionary has {{}} words (that of the data {{}})": len(table)
        for side, table in tables.items()
        if table is not None
    }


def _sizes(tensors: Mapping[str, Any]) -> Dict[str, int]:
    """Width, number of layers and feed-forward width of encoder and decoder, as {phrase of the
    message: size}. Each phrase names the option that sets the size, and has two ``{}``, for the
    checkpoint's size and the model's; see :func:`_unlike`."""
    sizes: Dict[str, int] = {}
    for _, part in _SIDES:
        table = tensors.get(f"{part}.embed_tokens.weight")
        if table is not None:
            sizes[f"--{part}-embed-dim {{}} (this model {{}})"] = table.size(1)
        layers = {
            int(match[2]) for match in map(_LAYER.match, tensors) if match and match[1] == part
        }
        if layers:
            sizes[f"--{part}-layers {{}} (this model {{}})"] = len(layers)
        inner = tensors.get(f"{part}.layers.0.fc1.weight")
        if inner is not None:
            sizes[f"--{part}-ffn-embed-dim {{}} (this model {{}})"] = len(inner)
    return sizes


def _unlike(found: Mapping[str, int], wanted: Mapping[str, int]) -> List[str]:
    return [
        text.format(found[text], wanted[text])
        for text in found
        if text in wanted and found[text] != wanted[text]
    ]


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> List[str]:
    shapes = [
        f"{name} {list(found[name].shape)} instead of {list(value.shape)}"
        for name, value in wanted.items()
        if name in found and found[name].shape != value.shape
    ]
    told = (
        ("the model has no place for", [name for name in found if name not in wanted]),
        ("the checkpoint lacks", [name for name in wanted if name not in found]),
        ("size mismatch:", shapes),
    )
    listed = ", ".join(f"{what} {_some(names)}" for what, names in told if names)
    return [f"{listed}; {_FITTING}"] if listed else []


def _some(names: List[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _overwritten(found: Mapping[str, Any], model: Any) -> str:
    """Which different tensors of a checkpoint would overwrite each other in a model that shares
    them, and the option to leave out; empty if there are none.

    Args:
        found: the checkpoint's tensors by name.
        model: the model that is to load them.
    """
    shared: Dict[Any, List[str]] = {}
    for name, tensor in model.state_dict().items():
        if name in found and tensor.numel() and tensor.data_ptr():
            shared.setdefault((tensor.data_ptr(), tensor.shape), []).append(name)
    for first, *others in shared.values():
        for other in others:
            if _differ(found[first], found[other]):
                return (
                    f"{first} and {other} differ in the checkpoint and are one tensor in this"
                    f" model: {_unshared(first, found)}"
                )
    return ""


def _unshared(first: str, found: Mapping[str, Any]) -> str:
    """What to do so that the tensor ``first`` of the checkpoint ``found`` is not overwritten."""
    if first.endswith("decoder.embed_tokens.weight"):
        return "leave --share-decoder-input-output-embed out"
    if not first.endswith("encoder.embed_tokens.weight"):
        return "build it without sharing them"
    words, output = (
        found.get(f"decoder.{name}.weight") for name in ("embed_tokens", "output_projection")
    )
    if words is None or output is None or _differ(words, output):
        return "leave --share-all-embeddings out"
    return "give --share-decoder-input-output-embed instead of --share-all-embeddings"


def _differ(one: Any, other: Any) -> bool:
    """Whether two tensors of the same shape hold different numbers. False for tensors of different
    shapes, which are refused when they are loaded."""
    same = one.data_ptr() == other.data_ptr() or one.shape != other.shape
    return not (same or one.equal(other))


def _explained(load: Any, model: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
    overwritten = _overwritten(state_dict, model)
    if overwritten:
        raise MismatchedWeightsError(overwritten)
    try:
        return load(model, state_dict, *args, **kwargs)
    except RuntimeError as error:
        found = explanation(state_dict, model.state_dict())
        if not found:
            raise
        raise MismatchedWeightsError(
            f"the checkpoint's parameters do not fit this {type(model).__name__}: {found}"
        ) from error


def _noted(read: Any, *args: Any, **kwargs: Any) -> Any:
    """Reads a checkpoint by fairseq's ``load_checkpoint_to_cpu``, and stores its ``cfg`` for
    :func:`_different_options`."""
    state = read(*args, **kwargs)
    _configuration.set(state.get("cfg"))
    return state


def _resumed(load: Any, trainer: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls ``load``, fairseq's ``Trainer.load_checkpoint(filename, reset_optimizer=False, ...)``,
    and returns its result. Raises ValueError, with an explanation, if the checkpoint's parameters
    do not fit the model or, unless ``reset_optimizer``, its optimizer's state or its options do
    not. With ``reset_optimizer``, options of the Transformer that differ are warned of."""
    anew = kwargs.get("reset_optimizer", args[0] if args else False)
    _configuration.set(None)
    try:
        extra = load(trainer, filename, *args, **kwargs)
    except Exception as error:
        # fairseq replaces the reason by a message of its own.
        reason = error.__context__
        if "load model parameters" in str(error) and isinstance(reason, (RuntimeError, ValueError)):
            raise ValueError(f"{filename}: {reason}") from reason
        if not anew:
            _require_same_options(trainer, filename)
            if isinstance(error, AssertionError):
                # Other classes of the criterion or the optimizer.
                raise ValueError(f"{filename}: {error}") from error
        raise
    if extra is not None and not anew:
        _require_same_options(trainer, filename)
    elif extra is not None:
        _warn_of_other_options(trainer, filename)
    return extra


def _require_same_options(trainer: Any, filename: Any) -> None:
    """Raises ValueError if the model has changed the checkpoint's parameters to fit its own options
    (see ``decoder.refitted``), since the optimizer's state would not fit the changed parameters; or
    if the criterion, the optimizer or options that change what the model computes differ."""
    changed = getattr(getattr(trainer.get_model(), "decoder", None), "refitted", "")
    different = _different_options(trainer.cfg)
    if different:
        theirs, ours = (", ".join(texts) for texts in zip(*different.values()))
        changed = f"its training has {theirs}, this one {ours}"
    if changed:
        raise ValueError(
            f"{filename}: {changed}; give the options of that training to continue it, or start a"
            " new training from this checkpoint by --finetune-from-model with another --save-dir"
        )


def _warn_of_other_options(trainer: Any, filename: Any) -> None:
    different = {
        name: texts
        for name, texts in _different_options(trainer.cfg).items()
        if _TRANSFORMERS.fullmatch(name)
    }
    if different:
        theirs, ours = (", ".join(texts) for texts in zip(*different.values()))
        logger.warning(
            "%s was trained with %s, this model has %s: it computes something else from the same"
            " parameters; give the same options",
            filename,
            theirs,
            ours,
        )


def _different_options(config: Any) -> Dict[str, Tuple[str, str]]:
    """The options of a training (``config``) that the checkpoint which was read last has other
    values of: {name: (that of the checkpoint, that of ``config``)}, as on a command line."""
    theirs, ours = (_compared(held) for held in (_configuration.get(), config))
    return {
        name: (_written(name, value), _written(name, ours[name]))
        for name, value in theirs.items()
        if name in ours and value != ours[name]
    }


def _compared(config: Any) -> Dict[str, Any]:
    if config is None:
        return {}
    found = {} if computation is None else dict(computation(config["model"]))
    for part in ("criterion", "optimizer"):
        name = getattr(config[part], "_name", None)
        if name is not None:
            found[part] = name
    return found


def _written(name: str, value: Any) -> str:
    """An option as on a command line; ``no --name`` for one that is not given."""
    flag = "--" + name.replace("_", "-")
    if value is None or value is False:
        return f"no {flag}"
    if value is True:
        return flag
    if not isinstance(value, str) and isinstance(value, Sequence):
        value = ",".join(map(str, value))
    return f"{flag} {value}"


REPAIR = around(
    "mismatched-weights",
    "fairseq explains in dozens of lines, or not at all, why a checkpoint does not fit a model",
    {
        "fairseq.models.fairseq_model:BaseFairseqModel.load_state_dict": _explained,
        "fairseq.checkpoint_utils:load_checkpoint_to_cpu": _noted,
        "fairseq.trainer:Trainer.load_checkpoint": _resumed,
    },
)
