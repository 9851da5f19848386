"""Checkpoints of unknown origin, read for decoding: every command of this package and
``from_pretrained`` come in here.

The contents of a file are data, never a choice of code. :mod:`..compat.checkpoint_contents` has
copied it as plain values and refused what fairseq would evaluate; here the architecture must be one
whose construction is known to be harmless, and no file is opened because a checkpoint names it.
"""

import logging
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf

from ..compat.checkpoint_loading import TRUST_VARIABLE, is_trusted
from ..native.io.escaping import escaped, shown

logger = logging.getLogger(__name__)

# fairseq's models that translate and whose construction neither imports nor evaluates anything that
# a checkpoint names.
MODELS = frozenset(
    """
    bart cmlm_transformer fconv insertion_transformer iterative_nonautoregressive_transformer
    levenshtein_transformer lightconv lstm nacrf_transformer nonautoregressive_transformer
    transformer transformer_align
    """.split()
)
# fairseq's tasks that a checkpoint or a bundle may name by itself.
TASKS = frozenset(("translation", "translation_lev"))
# Files that fairseq would open while it builds a model; the weights they hold are in the
# checkpoint.
_WEIGHT_FILES = ("encoder_embed_path", "decoder_embed_path", "embed_path")
_PACKAGE = __name__.split(".")[0]


def one_line(error: BaseException) -> str:
    """An error of some library on one line, with its kind; the beginning of a long one."""
    text = " ".join(str(error).split())
    text = escaped(text[:300]) + ("…" if len(text) > 300 else "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class reading:
    """Turns whatever a damaged or malicious file makes a library raise into one line.

    ::

        with reading(path, "is not a checkpoint of fairseq"):
            ...

    Args:
        path: the file or folder.
        claim: what an error means.
        keep: errors that stay as they are if they are one line: they say enough by themselves.

    Raises:
        ValueError: of any other error within.
    """

    def __init__(
        self, path: Union[str, Path], claim: str, keep: Tuple[type, ...] = (ValueError, OSError)
    ) -> None:
        self.path, self.claim, self.keep = path, claim, keep

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Optional[type], error: Optional[BaseException], trace: object) -> None:
        if isinstance(error, self.keep) and "\n" not in str(error):
            return
        if isinstance(error, (Exception, SystemExit)):
            raise ValueError(f"{self.path} {self.claim} ({one_line(error)})") from error


def read_checkpoint(
    path: Union[str, Path],
    overrides: Optional[Mapping[str, Any]] = None,
    *,
    for_decoding: bool = True,
) -> Dict[str, Any]:
    """A checkpoint on the CPU.

    Args:
        path: of the file.
        overrides: what the user has changed in its configuration (``--model-overrides``).
        for_decoding: a model will be built from it: its architecture must be a known one, and files
            that it names are left out.

    Raises:
        OSError: the file is missing or unreadable.
        ValueError: no checkpoint, a damaged one, or one that names what must not come from data.
    """
    with reading(path, "is not a checkpoint of fairseq"):
        state = checkpoint_utils.load_checkpoint_to_cpu(
            str(path), dict(overrides) if overrides else None
        )
        if not isinstance(state["model"], dict):
            raise ValueError(f"{path} is not a checkpoint of fairseq: it holds no parameters")
        config = state.get("cfg")
        if not for_decoding:
            return state
        if not isinstance(config, DictConfig) or any(
            value_of(config, part) is None for part in ("task", "model")
        ):
            raise ValueError(
                f"{path} is not a checkpoint of fairseq: it does not name its task and model"
            )
        if not is_trusted(str(path)):
            require_known_architecture(config.model, str(path))
            _leave_files_away(config.model, overrides or {})
            # fairseq would make the configuration from them once more, with the files.
            state["args"] = None
    return state


def value_of(config: Any, name: str) -> Any:
    """The value in a part of a checkpoint's configuration; None where there is none, or it names it
    as missing (``???``)."""
    if isinstance(config, DictConfig):
        return None if name not in config or OmegaConf.is_missing(config, name) else config[name]
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def task_name(config: Any) -> object:
    """The task that fairseq's ``setup_task`` would take from ``cfg.task``."""
    legacy = value_of(config, "task")
    return legacy if isinstance(legacy, str) else value_of(config, "_name")


def architecture_name(config: Any) -> object:
    """The architecture that fairseq's ``build_model`` would take from ``cfg.model``."""
    return value_of(config, "_name") or value_of(config, "arch")


def require_known_architecture(config: Any, subject: str) -> None:
    """Refuses a model that is not known to be harmless to build.

    Known are those of this package, those of :data:`MODELS`, and those that code which the user has
    imported registers.

    Args:
        config: the checkpoint's ``cfg.model``.
        subject: the file, for the message.

    Raises:
        ValueError: another one, or none.
    """
    name = architecture_name(config)
    model = (
        ARCH_MODEL_REGISTRY.get(name, MODEL_REGISTRY.get(name)) if isinstance(name, str) else None
    )
    if model is None:
        raise ValueError(
            f"{subject} names the architecture {shown(name)}, which is not registered: if it"
            " belongs to a plugin of yours, give user_dir"
        )
    if not _foreign(model) and ARCH_MODEL_NAME_REGISTRY.get(name, name) not in MODELS:
        raise ValueError(
            f"{subject} names the architecture {shown(name)}, which is not built from a"
            f" file of unknown origin: if you trust its source, name its path in {TRUST_VARIABLE}"
        )


def require_known_task(name: object, subject: str) -> str:
    """Refuses the name of a task that data must not choose; the user may, by an option.

    Args:
        name: as the checkpoint or bundle gives it.
        subject: the file, for the message.

    Returns:
        the name.

    Raises:
        ValueError: another one, or none.
    """
    task = TASK_REGISTRY.get(name) if isinstance(name, str) else None
    if task is None or not (name in TASKS or _foreign(task)):
        known = sorted(
            {
                *TASKS,
                *(
                    own
                    for own, cls in TASK_REGISTRY.items()
                    if cls.__module__.startswith(_PACKAGE + ".")
                ),
            }
        )
        raise ValueError(
            f"{subject} names the task {shown(name)}, which a file may not choose"
            f" ({', '.join(known)}): give the task yourself, as task=NAME"
        )
    return str(name)


def _foreign(registered: type) -> bool:
    """Whether something registered is not fairseq's own but this package's, or imported by the
    user."""
    return registered.__module__.split(".")[0] != "fairseq"


def _leave_files_away(config: Any, overrides: Mapping[str, Any]) -> None:
    """Takes the names of files out of ``cfg.model``, at any depth; what the user has set stays."""
    held = vars(config) if isinstance(config, Namespace) else config
    for name in list(held):
        value = (
            None
            if isinstance(held, DictConfig) and OmegaConf.is_missing(held, name)
            else held[name]
        )
        if name in _WEIGHT_FILES and name not in overrides and value is not None:
            logger.info(
                "%s=%s of the checkpoint is not read: its weights are in the checkpoint",
                name,
                shown(value),
            )
            held[name] = None
        elif isinstance(value, (Namespace, DictConfig, dict)):
            _leave_files_away(value, overrides)


def task_of_checkpoint(path: str) -> str:
    """Name of the task that a checkpoint was trained with."""
    return require_known_task(task_name(read_checkpoint(path)["cfg"].task), path)
