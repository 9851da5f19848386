"""Loads fairseq's checkpoints under PyTorch's safe loading.

Since PyTorch 2.6 `torch.load` builds only tensors and plain containers (``weights_only=True``).
Checkpoints of fairseq 0.12.2 also hold an `argparse.Namespace` (the configuration of every
translation model) and NumPy values (BLEU counts), older ones `omegaconf` nodes:
`load_checkpoint_to_cpu` (checkpoint_utils.py:315) and `load_ema_from_checkpoint` (:878) stop with a
WeightsUnpickler error. So does resuming on two devices, where the optimizer's state is sent through
`torch.load` (distributed/utils.py:770).

Loading stays safe: only the types that fairseq itself puts into checkpoints are allowed, by name
and for fairseq's own loads; none of them runs code when it is built. The configuration is copied as
plain values, and strings in it that fairseq would run as Python or look up outside the file are
refused (`checkpoint_contents`). A file that you trust is loaded in full, with a warning, if
``FAIRSEQ_HRT_TRUSTED_CHECKPOINTS`` contains its path or SHA-256 (several are joined by
`os.pathsep`)::

    FAIRSEQ_HRT_TRUSTED_CHECKPOINTS=/models/old.pt fairseq-generate --path /models/old.pt ...

Also refused are truncated files, files that are not checkpoints, and configurations that ask for a
much larger model than the file holds (`checkpoint_sizes`).
"""

import argparse
import collections
import hashlib
import logging
import os
import pickle
import re
import typing
import warnings
from contextlib import contextmanager
from typing import IO, Any, Callable, Iterator, List, Tuple, Union

from .checkpoint_contents import UnsafeValueError, make_plain
from .checkpoint_sizes import bound_building
from .display import escaped
from .importing import ModuleView, Repair

logger = logging.getLogger(__name__)

TRUST_VARIABLE = "FAIRSEQ_HRT_TRUSTED_CHECKPOINTS"

Allowed = Union[Callable[..., Any], Tuple[Callable[..., Any], str]]


class UnsafeCheckpointError(pickle.UnpicklingError, ValueError):
    """The checkpoint has a type that is not allowed, or a string that fairseq would run as code."""


class CorruptCheckpointError(RuntimeError, ValueError):
    """The file is truncated, damaged, or not a checkpoint."""


def allowed_types() -> List[Allowed]:
    """The types that fairseq puts into checkpoints besides tensors and plain containers, in the
    form that ``torch.serialization.safe_globals`` takes: classes, or pairs (object, its name in the
    file) if that is not the object's own name."""
    from .checkpoint_arrays import stand_ins

    return [
        argparse.Namespace,
        collections.defaultdict,
        *stand_ins(),
        *_omegaconf_types(),
        *_fairseq_types(),
    ]


def _omegaconf_types() -> List[Allowed]:
    from omegaconf import DictConfig, ListConfig, base, nodes

    found: List[Allowed] = [DictConfig, ListConfig, base.ContainerMetadata, base.Metadata]
    found.extend(
        value
        for value in vars(nodes).values()
        if isinstance(value, type) and issubclass(value, base.Node)
    )
    # untyped nodes refer to Any and to the built-in type of their value
    return [*found, (typing.Any, "typing.Any"), dict, list, tuple, str, int, float, bool]


def _fairseq_types() -> List[Allowed]:
    from fairseq.data.dictionary import Dictionary
    from fairseq.distributed import utils
    from fairseq.logging import meters

    # part of the task's state in speech models (hubert_pretraining, audio_finetuning)
    found: List[Allowed] = [Dictionary]
    # up to fairseq 0.9 meters were in fairseq/meters.py and pickled as a whole
    for value in vars(meters).values():
        if isinstance(value, type) and value.__module__ == meters.__name__:
            found.append(value)
            found.append((value, f"fairseq.meters.{value.__name__}"))
    # stands for a tensor in the data that workers exchange when training is resumed
    found.append(utils._TensorPlaceholder)
    return found


def is_trusted(path: str) -> bool:
    """Whether ``FAIRSEQ_HRT_TRUSTED_CHECKPOINTS`` contains this path or the file's SHA-256."""
    trusted = [entry for entry in os.environ.get(TRUST_VARIABLE, "").split(os.pathsep) if entry]
    if not trusted or not os.path.isfile(path):
        return False
    digests = {entry.lower() for entry in trusted if re.fullmatch("[0-9a-fA-F]{64}", entry)}
    if any(os.path.realpath(entry) == os.path.realpath(path) for entry in trusted):
        return True
    return bool(digests) and _sha256(path) in digests


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def load(file: Union[str, os.PathLike, IO[bytes]], **kwargs: Any) -> object:
    """Loads a file as `torch.load` does, but allows only the types that fairseq writes, and checks
    the contents. Files that the user trusts (:func:`is_trusted`) are loaded without restriction.

    Args:
        file: a path or an open file; errors name it.
        kwargs: further arguments of `torch.load`; ``weights_only`` is replaced.

    Returns:
        The unpickled content of the file.

    Raises:
        UnsafeCheckpointError: a type is not allowed, or fairseq would run a string as code.
        CorruptCheckpointError: the file is damaged or not a checkpoint.
    """
    import torch

    from .checkpoint_arrays import ForgedArrayError, with_arrays

    path = os.fspath(file) if isinstance(file, (str, os.PathLike)) else getattr(file, "name", "")
    path = path if isinstance(path, str) else ""
    shown = path or "the object received from another worker"
    trusted = bool(path) and is_trusted(path)
    if trusted:
        logger.warning(
            "%s is loaded in full, unsafe types included: %s names it", path, TRUST_VARIABLE
        )
        kwargs["weights_only"] = False
    else:
        kwargs["weights_only"] = True
    try:
        with (
            torch.serialization.safe_globals(allowed_types()),
            _resolvers(allowed=trusted),
            warnings.catch_warnings(),
        ):
            # warnings about strange contents, which are refused or harmless
            warnings.simplefilter("ignore", UserWarning)
            state = torch.load(file, **kwargs)
        if not trusted:
            state = with_arrays(state)
            make_plain(state)
    except (UnsafeValueError, ForgedArrayError) as unsafe:
        raise UnsafeCheckpointError(f"{shown} holds {unsafe}. {_how_to_trust(shown)}") from None
    except Exception as error:
        # OSErrors of missing or unreadable files have a filename and are passed on; those of
        # PyTorch's archive reader on truncated files do not.
        if (isinstance(error, OSError) and error.filename is not None) or (
            trusted and isinstance(error, ImportError)
        ):
            raise
        # All other errors of PyTorch, which would advise weights_only=False; users cannot and
        # should not set that.
        raise _explained(error, shown) from None
    return state


def load_checkpoint(file: Union[str, os.PathLike, IO[bytes]], **kwargs: Any) -> object:
    """:func:`load` for checkpoints, each of which holds a dictionary.

    Raises:
        UnsafeCheckpointError: see :func:`load`.
        CorruptCheckpointError: see :func:`load`; or the file holds another object, which fairseq
            might use like a dictionary.
    """
    state = load(file, **kwargs)
    if not isinstance(state, dict):
        path = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", "the file")
        raise CorruptCheckpointError(
            f"{path} is not a checkpoint: it holds a {type(state).__name__} instead of a"
            " dictionary; give a file that fairseq-train has saved"
        )
    return state


@contextmanager
def _resolvers(*, allowed: bool) -> Iterator[None]:
    """A context in which OmegaConf cannot resolve ``${oc.env:…}`` and the like, unless ``allowed``.
    Otherwise a file that holds only allowed types could read environment variables while it is
    unpickled (``list(ListConfig(["${oc.env:HOME}"]))``)."""
    from omegaconf.basecontainer import BaseContainer

    known = BaseContainer._resolvers
    if not allowed:
        BaseContainer._resolvers = {}
    try:
        yield
    finally:
        BaseContainer._resolvers = known


def _how_to_trust(shown: str) -> str:
    return (
        "If you trust the source of the file, name its path or its SHA-256:"
        f" {TRUST_VARIABLE}={shown}"
    )


# Texts of RuntimeErrors that mean a lack of memory.
_NO_MEMORY = re.compile(
    r"alloc_cpu|can't allocate memory|not enough memory|out of memory|Cannot allocate memory"
)

_REFUSED = re.compile(
    r"GLOBAL ([\w.]+) (?:was not|whose module)|unrecognized function (.+)|but got (<class .+>)"
)


def _explained(error: Exception, shown: str) -> Exception:
    """The error to raise instead of ``error``, PyTorch's: its message tells the user what is wrong
    with the file, called ``shown``, and what to do."""
    message = str(error).strip() or type(error).__name__
    refused = _REFUSED.search(message) if isinstance(error, pickle.UnpicklingError) else None
    if refused is not None:
        kind = _first_sentence(next(group for group in refused.groups() if group))
        return UnsafeCheckpointError(
            f"{shown} holds {kind}, which is none of the types that are known to be harmless;"
            f" building it may run code that came with the file. {_how_to_trust(shown)}"
        )
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _NO_MEMORY.search(message)
    ):
        return CorruptCheckpointError(
            f"{shown}: not enough memory to read it ({_first_sentence(message)}); end other"
            " programs or take fewer threads. If the file is small, it is damaged: copy it again"
        )
    return CorruptCheckpointError(
        f"{shown} is cut short, damaged or not a checkpoint ({_first_sentence(message)}); "
        "copy it again, or take an earlier checkpoint"
    )


def _first_sentence(message: str) -> str:
    """The first sentence of a message of PyTorch, at most 300 characters. Unprintable characters
    are escaped, as the message may quote the file."""
    return escaped(message.splitlines()[0].split(". ")[0])[:300]


def _load_safely(module: Any) -> None:
    # fairseq.distributed.utils loads data of other workers, which need not be dictionaries.
    checkpoints = module.__name__ == "fairseq.checkpoint_utils"
    module.torch = ModuleView(module.torch, load=load_checkpoint if checkpoints else load)
    if checkpoints:
        bound_building(module, is_trusted, _how_to_trust)


REPAIR = Repair(
    name="checkpoint-loading",
    modules=("fairseq.checkpoint_utils", "fairseq.distributed.utils"),
    reason="torch.load refuses the configuration types that fairseq's checkpoints hold",
    apply=_load_safely,
)
