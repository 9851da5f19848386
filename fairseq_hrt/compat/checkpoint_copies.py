"""Checkpoints under their second name, whole or not at all.

fairseq 0.12.2 writes a checkpoint beside its name and renames it (checkpoint_utils.py:558), but its
copies (``checkpoint_last.pt``, ``checkpoint_best.pt``) over the old ones (file_io.py:76): a run
that is killed meanwhile, or whose disk is full, has no ``checkpoint_last.pt`` to continue from.
Copies are written beside their name, too. A copy that would be of the same file is left to fairseq,
and so is what iopath copies.
"""

import contextlib
import functools
import os
import shutil
import types

from .importing import Repair


def _repair_copying(module: types.ModuleType) -> None:
    manager = module.PathManager
    copy = manager.copy

    @functools.wraps(copy)
    def whole(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        if getattr(module, "IOPathManager", None) is not None:
            return copy(src_path, dst_path, overwrite)
        target = os.path.realpath(dst_path)
        if not os.path.isfile(src_path) or (os.path.exists(target) and not os.path.isfile(target)):
            # a device or a folder, or nothing to copy: fairseq reports what is wrong
            return copy(src_path, dst_path, overwrite)
        if os.path.exists(target) and os.path.samefile(src_path, target):
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

    manager.copy = staticmethod(whole)


REPAIR = Repair(
    name="checkpoint-copies",
    modules=("fairseq.file_io",),
    reason="fairseq overwrites checkpoint_last.pt: a run killed meanwhile could not continue",
    apply=_repair_copying,
)
