"""Which options data of unknown origin may set for a task of fairseq's, and what of a checkpoint's
own options decoding takes over."""

from argparse import Namespace
from dataclasses import fields
from enum import Enum
from typing import Any, Mapping, Optional

from ..native.bundles.data_options import JOINED, MODEL, NEVER, SEARCH, language_of_data, wanted

_PACKAGE = __name__.split(".")[0]


def allowed_options(task: str) -> Mapping[str, Optional[type]]:
    """The options that data may set for a task, with their types; None for the names of how
    subwords are joined."""
    # Languages are checked without fairseq, too.
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
    # Options that this package's families declare themselves; fairseq's own tasks have options that
    # open files.
    owner = next(
        base for base in reversed(config.__mro__) if name in getattr(base, "__annotations__", {})
    )
    return owner.__module__.startswith(_PACKAGE + ".") and not NEVER.fullmatch(name)


def _type(config: type, name: str) -> Any:
    from fairseq.dataclass.utils import interpret_dc_type

    return interpret_dc_type(next(own.type for own in fields(config) if own.name == name))


def options_of_training(saved: Any, task: str) -> Mapping[str, Any]:
    """Those options of a checkpoint's ``cfg.task`` that decoding with the same task may take over.

    Values of another kind than the option's are left out: they are of no use to decoding.
    """
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    from .checkpoints import value_of

    config, allowed = TASK_DATACLASS_REGISTRY.get(task), allowed_options(task)
    own = {field.name for field in fields(config)} if config is not None else set()
    held = vars(saved) if isinstance(saved, Namespace) else saved
    found = {}
    for name in sorted(own & allowed.keys() & set(held)):
        value = value_of(saved, name)
        value = value.value if isinstance(value, Enum) else value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if value is None or (
            isinstance(value, (str, int, float)) and wanted(allowed[name], text) is None
        ):
            found[name] = value
    return found


def task_of_training(saved: Any, name: str, subject: str) -> Any:
    """The configuration of a task, made anew: its defaults, and what a checkpoint may say of
    decoding and of its languages.

    Nothing else of the checkpoint's own ``cfg.task`` is handed on: fairseq and others may go by
    different ones of its names (``task``, ``_name``), and keys that are no option of one task open
    files in another.

    Args:
        saved: the checkpoint's ``cfg.task``.
        name: of the task, a known one (:func:`.checkpoints.require_known_task`).
        subject: the file, for messages.

    Raises:
        ValueError: languages that are none.
    """
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.tasks import TASK_DATACLASS_REGISTRY
    from omegaconf import OmegaConf

    from .checkpoints import value_of

    made = TASK_DATACLASS_REGISTRY.get(name)
    # Options that stand for others (a seed, the name of the training subset) find these one level
    # up.
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
