"""Writes the files of a bundle that the native engine reads; without PyTorch."""

import shutil
from pathlib import Path
from typing import Dict

import numpy as np

from ..runtime.engine import Shortlist
from ..runtime.format import Header, write_model
from .bundle import Bundle
from .shortlist import load_shortlist, write_shortlist

MODEL, SHORTLIST = "runtime.safetensors", "shortlist.safetensors"


def write_native_model(bundle: Bundle, header: Header, tensors: Dict[str, np.ndarray]) -> None:
    """Adds the model to a bundle that is being made."""
    write_model(bundle.folder / MODEL, header, tensors)
    bundle.runtime = MODEL
    _like_the_dictionaries(bundle, MODEL)


def read_candidates(bundle: Bundle, path: Path) -> Shortlist:
    """Reads a shortlist for the dictionaries of a bundle that is being made.

    Raises:
        ValueError: the file is not a shortlist, or belongs to another model.
    """
    return load_shortlist(path, *bundle.dictionaries())


def write_native_shortlist(bundle: Bundle, shortlist: Shortlist) -> None:
    """Adds the shortlist to a bundle that is being made."""
    write_shortlist(bundle.folder / SHORTLIST, shortlist)
    bundle.shortlist = SHORTLIST
    _like_the_dictionaries(bundle, SHORTLIST)


def _like_the_dictionaries(bundle: Bundle, name: str) -> None:
    """Gives a file the permissions of the dictionaries; safetensors files are private to their
    owner."""
    shutil.copymode(bundle.folder / f"dict.{bundle.source_lang}.txt", bundle.folder / name)
