"""Checkpoints under PyTorch's safe loading.

Since PyTorch 2.6 `torch.load` builds tensors and plain containers only (``weights_only=True``).
Checkpoints of fairseq 0.12.2 hold an `argparse.Namespace` (the model's configuration, in every
translation model) and NumPy values (BLEU counts in the meters), older ones `omegaconf` nodes;
`load_checkpoint_to_cpu` (checkpoint_utils.py:315) and `load_ema_from_checkpoint` (:878) stop
with a WeightsUnpickler error. So does resuming on two devices, where the optimizer's state
travels through `torch.load` (distributed/utils.py:770).

Loading stays safe. The types that fairseq itself puts into checkpoints are allowed, by name and
for fairseq's own loads only; none of them runs code when it is built. Anything else is refused
with an error that names the type. The configuration is copied as plain values, and texts in it
that fairseq would run as Python or look up outside the file are refused (`checkpoint_contents`).
A file from a source that you trust is loaded in full, with a warning, when its path or its SHA-256
stands in ``FAIRSEQ_HRT_TRUSTED_CHECKPOINTS`` (several are joined by `os.pathsep`)::

    FAIRSEQ_HRT_TRUSTED_CHECKPOINTS=/models/old.pt fairseq-generate --path /models/old.pt ...

A file that is cut short or is not a checkpoint is refused by name as well, and so is a
configuration that asks for a model of quite another size than the file holds (`checkpoint_sizes`).
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
    """The checkpoint holds a type that is not on the allow-list, or a text that fairseq would
    run."""


class CorruptCheckpointError(RuntimeError, ValueError):
    """The file is cut short, damaged, or not a checkpoint at all."""


def allowed_types() -> List[Allowed]:
    """What fairseq puts into checkpoints besides tensors and plain containers.

    Returns:
        classes, and (object, pickled name) pairs for what was pickled under another name
    """
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
    # an untyped node names Any and the built-in type of its value
    return [*found, (typing.Any, "typing.Any"), dict, list, tuple, str, int, float, bool]


def _fairseq_types() -> List[Allowed]:
    from fairseq.data.dictionary import Dictionary
    from fairseq.distributed import utils
    from fairseq.logging import meters

    # part of the task's state in speech models (hubert_pretraining, audio_finetuning)
    found: List[Allowed] = [Dictionary]
    # until 0.9 the meters stood in fairseq/meters.py and were pickled whole
    for value in vars(meters).values():
        if isinstance(value, type) and value.__module__ == meters.__name__:
            found.append(value)
            found.append((value, f"fairseq.meters.{value.__name__}"))
    # stands for a tensor in what one worker sends to the others when training is resumed
    found.append(utils._TensorPlaceholder)
    return found


def is_trusted(path: str) -> bool:
    """Whether the user has named this file, or its SHA-256, in the environment."""
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
    """`torch.load` with fairseq's types allowed, explicit trust, and errors that name the file.

    Raises:
        UnsafeCheckpointError: the file holds a type that is not on the allow-list, or a text that
            fairseq would run
        CorruptCheckpointError: the file is damaged or not a checkpoint
    """
    import torch

    from .checkpoint_arrays import ForgedArrayError, with_arrays

    path = os.fspath(file) if isinstance(file, (str, os.PathLike)) else getattr(file, "name", "")
    path = path if isinstance(path, str) else ""
    shown = path or "the object received from another worker"
    trusted = bool(path) and is_trusted(path)
    if trusted:
        logger.warning("%s is loaded in full: %s names it", path, TRUST_VARIABLE)
        kwargs["weights_only"] = False
    else:
        kwargs["weights_only"] = True
    try:
        with (
            torch.serialization.safe_globals(allowed_types()),
            _resolvers(allowed=trusted),
            warnings.catch_warnings(),
        ):
            # of what is strange in the file; it is refused or harmless
            warnings.simplefilter("ignore", UserWarning)
            state = torch.load(file, **kwargs)
        if not trusted:
            state = with_arrays(state)
            make_plain(state)
    except (UnsafeValueError, ForgedArrayError) as unsafe:
        raise UnsafeCheckpointError(f"{shown} holds {unsafe}. {_how_to_trust(shown)}") from None
    except Exception as error:
        # A missing or unreadable file has a name; PyTorch's reader of archives, given half of one,
        # supports none.
        if (isinstance(error, OSError) and error.filename is not None) or (
            trusted and isinstance(error, ImportError)
        ):
            raise
        # Whatever a file makes PyTorch raise. Its own text advises weights_only=False, which the
        # user cannot and should not give.
        raise _explained(error, shown) from None
    return state


def load_checkpoint(file: Union[str, os.PathLike, IO[bytes]], **kwargs: Any) -> object:
    """:func:`load`, of a file in which fairseq looks up a checkpoint's parts by their names.

    Raises:
        CorruptCheckpointError: it holds something else than a dictionary, which may answer to names
            all the same.
    """
    state = load(file, **kwargs)
    if not isinstance(state, dict):
        path = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", "the file")
        raise CorruptCheckpointError(
            f"{path} is not a checkpoint: it holds a {type(state).__name__} instead of a dictionary"
        )
    return state


@contextmanager
def _resolvers(*, allowed: bool) -> Iterator[None]:
    """Whether OmegaConf may look outside of a file for its references while it is built: a file of
    allowed types alone can ask for that (``list(ListConfig(["${oc.env:HOME}"]))``), and would hold
    what was found."""
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


# A RuntimeError as well.
_NO_MEMORY = re.compile(
    r"alloc_cpu|can't allocate memory|not enough memory|out of memory|Cannot allocate memory"
)

_REFUSED = re.compile(
    r"GLOBAL ([\w.]+) (?:was not|whose module)|unrecognized function (.+)|but got (<class .+>)"
)


def _explained(error: Exception, shown: str) -> Exception:
    """The error that tells the user what is wrong with the file and what to do."""
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
    """Of PyTorch's message, which may quote the file."""
    return escaped(message.splitlines()[0].split(". ")[0])[:300]


def _load_safely(module: Any) -> None:
    # Other workers may send any type.
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
