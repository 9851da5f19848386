"""Writes ``checkpoint_last.pt`` and ``checkpoint_best.pt`` atomically.

fairseq 0.12.2 writes a new checkpoint under a temporary name and renames it
(checkpoint_utils.py:558), but copies it over the old ``checkpoint_last.pt`` (file_io.py:76): a run
that is killed meanwhile, or whose disk is full, has no ``checkpoint_last.pt`` to continue from.
Copies are now renamed, too. A file copied onto itself, and copies by iopath, are left to fairseq.
"""

import contextlib
import os
import shutil
from typing import Any

from .importing import around


def _whole(copy: Any, src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    from fairseq import file_io

    target = os.path.realpath(dst_path)
    there = os.path.exists(target)
    # For a device, a folder or a missing source, fairseq raises its own error.
    if (
        getattr(file_io, "IOPathManager", None) is not None
        or not os.path.isfile(src_path)
        or (there and (not os.path.isfile(target) or os.path.samefile(src_path, target)))
    ):
        return copy(src_path, dst_path, overwrite)
    partial = f"{target}.tmp"
    try:
        shutil.copyfile(src_path, partial)
        os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    return True


REPAIR = around(
    "checkpoint-copies",
    "fairseq overwrites checkpoint_last.pt: a run killed meanwhile could not continue",
    {"fairseq.file_io:PathManager.copy": _whole},
)
