"""Explains in one line why a checkpoint does not fit the model that is to load it.

fairseq 0.12.2 passes on PyTorch's message, which lists every parameter (dozens of lines), and in
training replaces it by "please ensure that the architectures match". The optimizer's state is not
compared at all: a training that is resumed with parameters of other sizes fails inside Adam.
"""

import re
from typing import Any, Dict, List, Mapping

from .importing import around

_SIDES = (("source", "encoder"), ("target", "decoder"))
_FITTING = (
    "start from a model of the same architecture and sizes, or an autoregressive one of these sizes"
)
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.")


class MismatchedWeightsError(RuntimeError):
    """The parameters of a checkpoint do not fit the model: their names or shapes differ."""


def explanation(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """States how the parameters of a checkpoint differ from those of a model, and what to do; empty
    if they are the same.

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
        told.append(f"the checkpoint has {', '.join(sizes)}: build it with the checkpoint's")
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


def _explained(load: Any, model: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        return load(model, state_dict, *args, **kwargs)
    except RuntimeError as error:
        found = explanation(state_dict, model.state_dict())
        if not found:
            raise
        raise MismatchedWeightsError(
            f"the checkpoint's parameters do not fit this {type(model).__name__}: {found}"
        ) from error


def _resumed(load: Any, trainer: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls ``load``, fairseq's ``Trainer.load_checkpoint(filename, reset_optimizer=False, ...)``,
    and returns its result. Raises ValueError, with an explanation, if the checkpoint's parameters
    do not fit the model or, unless ``reset_optimizer``, its optimizer's state does not."""
    anew = kwargs.get("reset_optimizer", args[0] if args else False)
    try:
        extra = load(trainer, filename, *args, **kwargs)
    except Exception as error:
        # fairseq replaces the reason by a message of its own.
        reason = error.__context__
        if "load model parameters" in str(error) and isinstance(reason, (RuntimeError, ValueError)):
            raise ValueError(f"{filename}: {reason}") from reason
        if not anew:
            _require_same_options(trainer, filename)
        raise
    if extra is not None and not anew:
        _require_same_options(trainer, filename)
    return extra


def _require_same_options(trainer: Any, filename: Any) -> None:
    """Raises ValueError if the model has changed the checkpoint's parameters to fit its own options
    (see ``decoder.refitted``), since the optimizer's state would not fit the changed parameters."""
    changed = getattr(getattr(trainer.get_model(), "decoder", None), "refitted", "")
    if changed:
        raise ValueError(
            f"{filename}: {changed}; give the options of that training to continue it, or start a"
            " new training from this checkpoint by --finetune-from-model with another --save-dir"
        )


REPAIR = around(
    "mismatched-weights",
    "fairseq explains in dozens of lines, or not at all, why a checkpoint does not fit a model",
    {
        "fairseq.models.fairseq_model:BaseFairseqModel.load_state_dict": _explained,
        "fairseq.trainer:Trainer.load_checkpoint": _resumed,
    },
)
