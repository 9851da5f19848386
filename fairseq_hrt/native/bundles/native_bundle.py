"""Writes the files of a bundle that the native engine reads; without PyTorch."""

import shutil
from typing import Dict

import numpy as np

from ..runtime.engine import Shortlist
from ..runtime.format import Header, write_model
from .bundle import Bundle

MODEL, SHORTLIST = "runtime.safetensors", "shortlist.safetensors"


def write_native_model(bundle: Bundle, header: Header, tensors: Dict[str, np.ndarray]) -> None:
    """Writes a model of the native engine into the folder of a bundle that is being made, and sets
    ``bundle.runtime`` to the file's name. ``tensors``, {name: array}, are those that ``header``
    requires, see :func:`..runtime.format.expected_tensors`, and the scales of int8 matrices."""
    write_model(bundle.folder / MODEL, header, tensors)
    bundle.runtime = MODEL
    _like_the_dictionaries(bundle, MODEL)


def write_native_shortlist(bundle: Bundle, shortlist: Shortlist) -> None:
    """Writes a shortlist into the folder of a bundle that is being made, for
    :func:`.shortlist.read_shortlist`, and sets ``bundle.shortlist`` to its file name."""
    from safetensors.numpy import save_file

    parts = {name: np.ascontiguousarray(part) for name, part in shortlist._asdict().items()}
    save_file(parts, str(bundle.folder / SHORTLIST))
    bundle.shortlist = SHORTLIST
    _like_the_dictionaries(bundle, SHORTLIST)


def _like_the_dictionaries(bundle: Bundle, name: str) -> None:
    """Gives the file ``name`` of a bundle the permissions of the bundle's dictionaries, since
    safetensors makes files that only their owner may read."""
    shutil.copymode(bundle.folder / f"dict.{bundle.source_lang}.txt", bundle.folder / name)
