"""Averages checkpoints: makes one whose parameters are the means of those in several checkpoints of
one training run."""

import collections
import logging
import math
import operator
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

import torch
from omegaconf import OmegaConf

from ..native.io.escaping import shown
from ..native.io.progress import Progress
from .checkpoints import read_checkpoint, reading
from .computation import computation

logger = logging.getLogger(__name__)

# checkpoint7.pt (an epoch), checkpoint_3_2500.pt (epoch and update)
_NUMBERED = re.compile(r"checkpoint(?:(\d+)|_\d+_(\d+))\.pt")


def last_checkpoints(folder: Path, count: int) -> List[Path]:
    """The last ``count`` numbered checkpoints in the folder of a run, oldest first: if it has any
    that were saved every so many updates (``checkpoint_3_2500.pt``), the last of these, else those
    of the last epochs (``checkpoint7.pt``).

    Raises:
        ValueError: ``count`` is less than 1.
        FileNotFoundError: there is no such folder, or fewer than ``count`` such checkpoints.
    """
    by_update, by_epoch = {}, {}
    for path in _checkpoints(folder):
        match = _NUMBERED.fullmatch(path.name)
        if match and match.group(2):
            by_update[int(match.group(2))] = path
        elif match:
            by_epoch[int(match.group(1))] = path
    found = by_update or by_epoch
    _require(
        len(found),
        count,
        f"{folder} holds {len(found)} numbered checkpoints",
        "--keep-last-epochs or --keep-interval-updates",
    )
    return [found[number] for number in sorted(found)[-count:]]


def best_checkpoints(folder: Path, count: int) -> List[Path]:
    """The ``count`` checkpoints in a folder with the best validation scores, best first. A
    checkpoint stores its value of the metric that ``--best-checkpoint-metric`` named in training.

    Copies of one training state (``checkpoint_best.pt`` beside ``checkpoint7.pt``) count once.

    Raises:
        ValueError: ``count`` is less than 1, or a file is not a checkpoint.
        FileNotFoundError: there is no such folder, or fewer than ``count`` checkpoints store a
            validation score.
    """
    scored: Dict[int, Any] = {}
    for path in _checkpoints(folder):
        state = read_checkpoint(path, for_decoding=False)
        with reading(path, "does not hold a validation score"):
            value = (state.get("extra_state") or {}).get("val_loss")
            history = state.get("optimizer_history") or [{}]
            update = history[-1].get("num_updates")
            if value is None or update is None:
                continue
            value, update = _number(value), _count(update)
            if update in scored:
                continue
            if not math.isfinite(value):
                logger.warning(
                    "%s is left out: after %d updates its metric was %s", path.name, update, value
                )
                continue
            maximise = state["cfg"]["checkpoint"]["maximize_best_checkpoint_metric"]
            scored[update] = (
                -value if maximise else value,
                path,
                state["cfg"]["checkpoint"]["best_checkpoint_metric"],
            )
            logger.info(
                "%s: %s %s after %d updates", path.name, shown(scored[update][2]), value, update
            )
    held = f"{folder} holds {len(scored)} checkpoints with a validation score"
    _require(len(scored), count, held, "--keep-best-checkpoints")
    return [path for _, path, _ in sorted(scored.values(), key=lambda entry: entry[0])[:count]]


def _checkpoints(folder: Path) -> List[Path]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: give the --save-dir of a training")
    return sorted(folder.glob("checkpoint*.pt"))


def _number(value: Any) -> float:
    """The value of a metric as a float. ``value`` may be a number of Python or NumPy, or a tensor
    with one element; a string raises TypeError."""
    if isinstance(value, str):
        raise TypeError(f"{shown(value)} is not a number")
    return float(value)


def _count(value: Any) -> int:
    """A number of updates as an int. One of more than 63 bits raises OverflowError, since in a
    forged file the number could have millions of digits."""
    number = operator.index(value)
    if number.bit_length() > 63:
        raise OverflowError(f"its number of updates is too large ({number.bit_length()} bits)")
    return number


def _require(found: int, count: int, held: str, option: str) -> None:
    if count < 1:
        raise ValueError(f"{count} checkpoints to average: give at least 1")
    if found < count:
        raise FileNotFoundError(
            f"{held}, {count} are needed: lower the number, or keep more in training with {option}"
        )


def average(paths: Sequence[Path]) -> Dict[str, Any]:
    """The contents of a checkpoint whose parameters are the means of those in the checkpoints
    ``paths``; everything else is taken from the last of ``paths``, without the optimizer's state.

    As in fairseq's script, parameters in half precision are summed and returned in float32, and
    means of integers are rounded down.

    Raises:
        ValueError: ``paths`` is empty; or the models' parameters, languages or options that change
            what they compute differ; or a parameter is NaN. The message names the difference or the
            parameter.
    """
    if not paths:
        raise ValueError("no checkpoints to average: give at least one path")
    sums: Dict[str, torch.Tensor] = collections.OrderedDict()
    state: Dict[str, Any] = {}
    first: Dict[str, Any] = {}
    with Progress("checkpoints", len(paths), visible=True) as progress:
        for path in paths:
            # Drop the previous checkpoint before the next is read, to save memory.
            state = {}
            state = read_checkpoint(path, for_decoding=False)
            with reading(path, "cannot be averaged"):
                first = {**_same_computation(state, first, path, paths[0]), **first}
                if not state["model"]:
                    raise ValueError(f"{path} holds no parameters; leave it out")
                _add(sums, state.pop("model"), path, paths[0])
                # The optimizer's state, twice as large as the model, is that of one checkpoint, not
                # of the mean.
                state["last_optimizer_state"] = None
            progress.add(1)
    with reading(paths[-1], "cannot be averaged"):
        for value in sums.values():
            if value.is_floating_point():
                value.div_(len(paths))
            else:
                value.copy_(torch.div(value, len(paths), rounding_mode="floor"))
    state["model"] = sums
    return state


def _same_computation(
    state: Mapping[str, Any], first: Mapping[str, Any], path: Path, of: Path
) -> Dict[str, Any]:
    """The options that determine what a checkpoint's model computes, and its languages, by name;
    ValueError if they differ from those of the first checkpoint.

    Args:
        state: the contents of the checkpoint.
        first: what this function returned for the first checkpoint; empty if this is the first.
        path, of: the files of this and of the first checkpoint, for the message.
    """
    config = state.get("cfg") or {}
    found = {**computation(config.get("model")), **_direction(config.get("task"))}
    for name, value in found.items():
        if value != first.get(name, value):
            raise ValueError(
                f"{path} and {of} are different models: {name} is"
                f" {shown(_plain(value))} and {shown(_plain(first[name]))}; average checkpoints of"
                " one training run"
            )
    return found


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value


def _direction(config: Any) -> Dict[str, Any]:
    """The source and target language in a checkpoint's ``cfg.task``, by option name. They are
    compared since models of different directions may have the same options and shapes."""
    values = config if isinstance(config, Mapping) else vars(config) if config is not None else {}
    return {
        name: values[name]
        for name in ("source_lang", "target_lang")
        if values.get(name) is not None
    }


def _add(
    sums: Dict[str, torch.Tensor], parameters: Mapping[str, torch.Tensor], path: Path, first: Path
) -> None:
    """Adds a checkpoint's parameters to ``sums``, in place; if ``sums`` is empty, fills it with
    copies of them.

    Args:
        sums: the sums of the parameters of earlier checkpoints, by name.
        parameters: the parameters of this checkpoint, by name.
        path, first: the files of this and of the first checkpoint, for messages.

    Raises:
        ValueError: names or shapes differ, or a parameter contains NaN.
    """
    # fairseq's marker of the device, which is uninitialised memory.
    parameters = {
        name: torch.zeros_like(value) if name.endswith("_float_tensor") else value
        for name, value in parameters.items()
    }
    for name, value in parameters.items():
        if bool(torch.isnan(value).any()):
            raise ValueError(
                f"{path}: the parameter {name} contains NaN; take checkpoints from before the"
                " training diverged"
            )
    if not sums:
        for name, value in parameters.items():
            sums[name] = (
                value.float() if value.dtype in (torch.float16, torch.bfloat16) else value.clone()
            )
        return
    different = set(sums) ^ set(parameters)
    different |= {
        name for name in sums if name in parameters and sums[name].shape != parameters[name].shape
    }
    if different:
        raise ValueError(
            f"{path} and {first} are different models: they differ in {min(different)};"
            " average checkpoints of one training run"
        )
    for name, value in parameters.items():
        sums[name] += value
