"""The repair `checkpoint-copies`: a copy is there whole, or the file before it is."""

import errno
import os
import shutil
import types
from pathlib import Path

import pytest

from fairseq_hrt.compat import checkpoint_copies


@pytest.fixture
def copy():
    class PathManager:
        @staticmethod
        def copy(src_path, dst_path, overwrite=False):
            return shutil.copyfile(src_path, dst_path)

    module = types.ModuleType("fairseq.file_io")
    module.PathManager = PathManager
    checkpoint_copies.REPAIR.apply(module)
    return module.PathManager.copy


@pytest.fixture
def files(tmp_path):
    (tmp_path / "checkpoint1.pt").write_bytes(b"new")
    (tmp_path / "checkpoint_last.pt").write_bytes(b"old state")
    return tmp_path / "checkpoint1.pt", tmp_path / "checkpoint_last.pt"


def test_the_copy_takes_the_place_of_the_file(copy, files):
    source, target = files
    before = target.stat().st_ino
    assert copy(str(source), str(target), overwrite=True)
    assert target.read_bytes() == b"new" and source.read_bytes() == b"new"
    # not written over: whoever is reading the old file can finish reading it
    assert target.stat().st_ino != before
    assert sorted(os.listdir(target.parent)) == ["checkpoint1.pt", "checkpoint_last.pt"]


@pytest.mark.parametrize("failing", ["shutil.copyfile", "os.replace"])
def test_a_full_disk_leaves_what_was_there(copy, files, failing, monkeypatch):
    def fail(source, target):
        if failing == "shutil.copyfile":
            Path(target).write_bytes(b"ne")
        raise OSError(errno.ENOSPC, "No space left on device", target)

    monkeypatch.setattr(failing, fail)
    with pytest.raises(OSError, match="No space"):
        copy(*map(str, files), overwrite=True)
    assert files[1].read_bytes() == b"old state"
    assert sorted(os.listdir(files[1].parent)) == ["checkpoint1.pt", "checkpoint_last.pt"]


def test_through_a_link(copy, files, tmp_path):
    (tmp_path / "link.pt").symlink_to(files[1])
    copy(str(files[0]), str(tmp_path / "link.pt"), overwrite=True)
    assert (tmp_path / "link.pt").is_symlink() and files[1].read_bytes() == b"new"


def test_what_fairseq_refuses_is_still_refused(copy, files, tmp_path):
    with pytest.raises(shutil.SameFileError):
        copy(str(files[0]), str(files[0]))
    with pytest.raises(FileNotFoundError):
        copy(str(tmp_path / "none.pt"), str(files[1]))
    with pytest.raises(OSError):
        copy(str(files[0]), str(tmp_path))


def test_what_iopath_copies_is_left_to_it(monkeypatch):
    class PathManager:
        @staticmethod
        def copy(src_path, dst_path, overwrite=False):
            return (src_path, dst_path, overwrite)

    monkeypatch.setattr("fairseq.file_io.IOPathManager", object())
    module = types.ModuleType("fairseq.file_io")
    module.PathManager = PathManager
    checkpoint_copies.REPAIR.apply(module)
    assert module.PathManager.copy("s3://a", "s3://b", True) == ("s3://a", "s3://b", True)


def test_fairseq_itself_is_repaired():
    from fairseq.file_io import PathManager

    assert PathManager.copy.__wrapped__
    # Callable through an object as well, as it was.
    assert isinstance(vars(PathManager)["copy"], staticmethod)
