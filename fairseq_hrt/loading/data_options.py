"""Selects the task options that data of unknown origin may set, and those that decoding takes from
a checkpoint."""

from argparse import Namespace
from dataclasses import fields
from enum import Enum
from typing import Any, Mapping, Optional

from ..native.bundles.data_options import JOINED, MODEL, NEVER, SEARCH, language_of_data, wanted
from ..native.options.conditions import option_text

_PACKAGE = __name__.split(".")[0]


def allowed_options(task: str) -> Mapping[str, Optional[type]]:
    """The options that a file of unknown origin may set for a task: {name: type of value}, with
    None as type of options that name how subwords are joined (``post_process``)."""
    # Without the languages: language_of_data checks them, without fairseq.
    from fairseq.dataclass.configs import GenerationConfig
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    found = {
        own.name: _type(GenerationConfig, own.name)
        for own in fields(GenerationConfig)
        if own.name in SEARCH
    }
    found.update(dict.fromkeys(JOINED))
    found["fp16"] = bool
    config = TASK_DATACLASS_REGISTRY.get(task)
    if config is not None:
        found.update(
            {
                own.name: _type(config, own.name)
                for own in fields(config)
                if _is_decoding(config, own.name)
            }
        )
    return found


def _is_decoding(config: type, name: str) -> bool:
    if name in MODEL:
        return True
    # Options declared by this package; some of fairseq's own tasks open files.
    owner = next(
        base for base in reversed(config.__mro__) if name in getattr(base, "__annotations__", {})
    )
    return owner.__module__.startswith(_PACKAGE + ".") and not NEVER.fullmatch(name)


def _type(config: type, name: str) -> Any:
    from fairseq.dataclass.utils import interpret_dc_type

    return interpret_dc_type(next(own.type for own in fields(config) if own.name == name))


def options_of_training(saved: Any, task: str) -> Mapping[str, Any]:
    """The options in a checkpoint's ``cfg.task``, given as ``saved``, that decoding with the same
    task uses, by name. Options whose value does not have the option's type are left out."""
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    from .checkpoints import value_of

    config, allowed = TASK_DATACLASS_REGISTRY.get(task), allowed_options(task)
    own = {field.name for field in fields(config)} if config is not None else set()
    held = vars(saved) if isinstance(saved, Namespace) else saved
    found = {}
    for name in sorted(own & allowed.keys() & set(held)):
        value = value_of(saved, name)
        value = value.value if isinstance(value, Enum) else value
        text = option_text(value)
        if value is None or (
            isinstance(value, (str, int, float)) and wanted(allowed[name], text) is None
        ):
            found[name] = value
    return found


def task_of_training(saved: Any, name: str, subject: str) -> Any:
    """A new configuration of a task: the task's defaults with the decoding options and languages
    of a checkpoint.

    Nothing else of the checkpoint's ``cfg.task`` is used: it may name two different tasks (``task``
    and ``_name``), and a key that one task ignores may open a file in another.

    Args:
        saved: the checkpoint's ``cfg.task``.
        name: the name of the task, which :func:`.checkpoints.require_known_task` has accepted.
        subject: the file, for error messages.

    Raises:
        ValueError: the name of a language is invalid.
    """
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.tasks import TASK_DATACLASS_REGISTRY
    from omegaconf import OmegaConf

    from .checkpoints import value_of

    made = TASK_DATACLASS_REGISTRY.get(name)
    # Interpolated options (seed, training subset) refer to other parts of the whole configuration.
    whole = OmegaConf.structured(FairseqConfig())
    whole.task = (
        OmegaConf.structured(made())
        if made is not None
        else OmegaConf.create({"data": None, "_name": None})
    )
    config = whole.task
    OmegaConf.set_struct(config, False)
    config._name = name
    for option, value in options_of_training(saved, name).items():
        if value is not None:
            config[option] = value
    for side in ("source_lang", "target_lang"):
        language = value_of(saved, side)
        config[side] = None if language is None else language_of_data(language, subject)
    return config
