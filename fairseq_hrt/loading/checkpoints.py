"""Reads checkpoints of unknown origin for all commands of this package and for ``from_pretrained``.

The contents of a file must not choose which code runs. :mod:`..compat.checkpoint_contents` copies a
checkpoint's configuration as plain values and refuses strings that fairseq would evaluate. This
module checks that the checkpoint's architecture is known to be harmless to build, and keeps fairseq
from opening files that the checkpoint names.
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

# fairseq's translation models that neither import nor evaluate anything that a checkpoint names.
MODELS = frozenset(
    """
    bart cmlm_transformer fconv insertion_transformer iterative_nonautoregressive_transformer
    levenshtein_transformer lightconv lstm nacrf_transformer nonautoregressive_transformer
    transformer transformer_align
    """.split()
)
# fairseq's tasks that a checkpoint or bundle may choose.
TASKS = frozenset(("translation", "translation_lev"))
# Architectures of DA-Transformer and FA-DAT begin so; their models are imported.
IMPORTED = ("glat_decomposed_link", "ls_glat_decomposed_link")
# Options that name files of embeddings, which fairseq would open; checkpoints hold these weights.
_WEIGHT_FILES = ("encoder_embed_path", "decoder_embed_path", "embed_path")
_PACKAGE = __name__.split(".")[0]


def one_line(error: BaseException) -> str:
    """An error's type and the first 300 characters of its message, as one line of printable
    text."""
    text = " ".join(str(error).split())
    text = escaped(text[:300]) + ("…" if len(text) > 300 else "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class reading:
    """A context that turns any error that a damaged or malicious file causes into a ValueError of
    one line.

    ::

        with reading(path, "is not a checkpoint of fairseq"):
            ...

    Args:
        path: the file or folder.
        claim: what is wrong with the file, a clause that follows the path in the message.
        keep: types of errors that are raised unchanged if their message is one line.

    Raises:
        ValueError: for every other error in the block.
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
    """Reads the contents of a checkpoint, with tensors on the CPU.

    Args:
        path: the file.
        overrides: values of the checkpoint's configuration that the user has set instead, by name
            (``--model-overrides``).
        for_decoding: True if a model will be built from the contents: refuses unknown
            architectures, and removes names of files from the configuration.

    Raises:
        OSError: the file is missing or unreadable.
        ValueError: the file is damaged, not a checkpoint, or its architecture is refused.
    """
    with reading(path, "is not a checkpoint of fairseq"):
        state = checkpoint_utils.load_checkpoint_to_cpu(
            str(path), dict(overrides) if overrides else None
        )
        if not isinstance(state["model"], dict):
            raise ValueError(
                f"{path} is not a checkpoint of fairseq: it holds no parameters; give"
                " one that fairseq-train has saved"
            )
        if for_decoding:
            make_decodable(state, path, overrides)
    return state


def make_decodable(
    state: Dict[str, Any],
    path: Union[str, Path],
    overrides: Optional[Mapping[str, Any]] = None,
) -> None:
    """Prepares the contents of a checkpoint, in place, for building a model from them: checks the
    architecture, and removes names of files from the configuration. Of a checkpoint that the user
    trusts (``FAIRSEQ_HRT_TRUSTED_CHECKPOINTS``), neither is done.

    Args:
        state: the contents of the checkpoint.
        path: its file.
        overrides: values of the configuration that the user has set, see :func:`read_checkpoint`;
            names of files among them are kept.

    Raises:
        ValueError: the checkpoint names no task or model, or its architecture is refused.
    """
    config = state.get("cfg")
    if not isinstance(config, DictConfig) or any(
        value_of(config, part) is None for part in ("task", "model")
    ):
        raise ValueError(
            f"{path} is not a checkpoint of fairseq: it does not name its task and model;"
            " give one that fairseq-train has saved"
        )
    if not is_trusted(str(path)):
        require_known_architecture(config.model, str(path))
        _clear_embedding_files(config.model, overrides or {})
        # From args fairseq would build the configuration again, with the names of files.
        state["args"] = None


def value_of(config: Any, name: str) -> Any:
    """The value of the option ``name`` in a part of a checkpoint's configuration; None if the
    option is absent, or missing in OmegaConf's sense (``???``)."""
    if isinstance(config, DictConfig):
        return None if name not in config or OmegaConf.is_missing(config, name) else config[name]
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def task_name(config: Any) -> object:
    """The name of the task that fairseq's ``setup_task`` would choose for ``config``, the
    ``cfg.task`` of a checkpoint; not a str if the checkpoint is invalid."""
    legacy = value_of(config, "task")
    return legacy if isinstance(legacy, str) else value_of(config, "_name")


def architecture_name(config: Any) -> object:
    """The name of the architecture that fairseq's ``build_model`` would choose for ``config``, the
    ``cfg.model`` of a checkpoint; not a str if the checkpoint is invalid."""
    return value_of(config, "_name") or value_of(config, "arch")


def require_known_architecture(config: Any, subject: str) -> None:
    """Checks that a checkpoint's architecture is known to be harmless to build.

    Accepted are models of this package, those in :data:`MODELS`, and those of plugins that the user
    has imported.

    Args:
        config: the checkpoint's ``cfg.model``.
        subject: the file, for the error message.

    Raises:
        ValueError: the checkpoint names another architecture, or none.
    """
    name = architecture_name(config)
    model = (
        ARCH_MODEL_REGISTRY.get(name, MODEL_REGISTRY.get(name)) if isinstance(name, str) else None
    )
    if model is None:
        advice = "if a plugin of yours defines it, give that plugin's folder as user_dir"
        if isinstance(name, str) and name.startswith(IMPORTED):
            advice = "fairseq-hrt import makes a bundle of such a model"
        raise ValueError(
            f"{subject} names the architecture {shown(name)}, which is not registered: {advice}"
        )
    if not _foreign(model) and ARCH_MODEL_NAME_REGISTRY.get(name, name) not in MODELS:
        raise ValueError(
            f"{subject} names the architecture {shown(name)}, which is not built from a"
            " file of unknown origin: if you trust the file, put its path into the environment"
            f" variable {TRUST_VARIABLE}"
        )


def require_known_task(name: object, subject: str) -> str:
    """Returns the name of a task if a checkpoint or bundle of unknown origin may choose that task;
    other tasks can be chosen by the user only.

    Args:
        name: the name in the checkpoint or bundle.
        subject: the file, for the error message.

    Raises:
        ValueError: the file names another task, or none.
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
            f"{subject} names the task {shown(name)}, which a file may not choose (it may choose"
            f" {', '.join(known)}): give the task yourself, as task=NAME"
        )
    return str(name)


def _foreign(registered: type) -> bool:
    """Whether a registered class is not fairseq's own, but comes from this package or from a plugin
    that the user has imported."""
    return registered.__module__.split(".")[0] != "fairseq"


def _clear_embedding_files(config: Any, overrides: Mapping[str, Any]) -> None:
    """Clears the names of embedding files in a checkpoint's configuration.

    Args:
        config: the checkpoint's ``cfg.model``, changed in place: the options get the value None,
            also those in nested configurations.
        overrides: {option: value} that the user has set; these options are kept.
    """
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
            _clear_embedding_files(value, overrides)


def task_of_checkpoint(path: str) -> str:
    """The name of the task that a checkpoint was trained with; ValueError if a file of unknown
    origin may not choose it."""
    return require_known_task(task_name(read_checkpoint(path)["cfg"].task), path)
