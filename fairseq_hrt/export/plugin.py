"""The functions of the PyTorch side that ``native``, which imports no PyTorch, calls through
``native/plugin.py``."""

from pathlib import Path
from typing import Any, Dict, Optional

import torch

from ..loading.checkpoints import require_known_task
from ..loading.data_options import allowed_options
from ..native.bundles.bundle import load_bundle
from .imported import checkpoint_of
from .imported_checkpoints import import_checkpoints
from .runtime_bundle import add_runtime
from .torch_decoder import TorchDecoder

__all__ = [
    "add_runtime",
    "allowed_options",
    "checkpoint_of",
    "import_checkpoints",
    "require_known_task",
    "save_checkpoint",
    "torch_decoder",
]


def torch_decoder(folder: Path, device: Optional[str], threads: Optional[int]) -> TorchDecoder:
    """Makes a decoder that runs a bundle's checkpoints with PyTorch.

    Args:
        folder: the folder of the bundle.
        device: ``cpu``, ``cuda`` or ``cuda:N``; None: a GPU if there is one.
        threads: the number of PyTorch's threads in this process; None: it is left as it is.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    return TorchDecoder(load_bundle(folder), device=device)


def save_checkpoint(state: Dict[str, Any], path: Path) -> None:
    """Writes those parts of a checkpoint (``state``) to ``path`` that decoding needs: about a third
    of its size, since the optimiser's moments are left out.

    Raises:
        OSError: the file cannot be written.
    """
    kept = {
        key: value
        for key, value in state.items()
        if key not in ("last_optimizer_state", "extra_state")
    }
    try:
        torch.save({**kept, "last_optimizer_state": None, "extra_state": {}}, path)
    except RuntimeError as error:
        # PyTorch's writer raises this when the disk is full.
        raise OSError(
            f"{path} cannot be written ({error}): make room on the disk, if it is full"
        ) from error
