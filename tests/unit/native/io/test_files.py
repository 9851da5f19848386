"""Files that appear whole or not at all."""

import errno
import os
import stat
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from private_devices import private_device

from fairseq_hrt.native.io import files
from fairseq_hrt.native.io.files import (
    content_hash,
    new_folder,
    remove_leftovers,
    replacing,
    write_new,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def put(path, data):
    with replacing(path) as file:
        file.write(data)


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "a:b c.txt"
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert not path.exists() and len(names(tmp_path)) == 1
    assert path.read_bytes() == b"new" and names(tmp_path) == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(
    "error", [ValueError, KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")]
)
def test_an_error_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(error if isinstance(error, type) else OSError), replacing(path) as file:
        file.write(b"new" * 100_000)
        raise error
    assert path.read_bytes() == b"old" and names(tmp_path) == ["x"]


def test_mode_and_links_stay(tmp_path):
    real, link, dangling = tmp_path / "real", tmp_path / "link", tmp_path / "dangling"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to("real")
    dangling.symlink_to(tmp_path / "later")
    put(link, b"new")
    put(dangling, b"later")
    assert (
        link.is_symlink()
        and real.read_bytes() == b"new"
        and stat.S_IMODE(real.stat().st_mode) == 0o640
    )
    assert dangling.is_symlink() and (tmp_path / "later").read_bytes() == b"later"
    assert names(tmp_path) == ["dangling", "later", "link", "real"]


def test_a_file_takes_the_place_of_files_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with (
            pytest.raises(OSError, match="a device or pipe") as error,
            replacing(tmp_path / name) as file,
        ):
            file.write(b"x")
        assert error.value.filename == str(tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and names(tmp_path) == ["link", "pipe"]


def test_long_names_and_folders(tmp_path):
    put(tmp_path / ("ü" * 127), b"x")
    assert names(tmp_path) == ["ü" * 127]
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        put(tmp_path, b"x")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        put(tmp_path / "nowhere" / "x", b"x")


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    dead = tmp_path / "x.hrt-0123abcd.partial"
    dead.write_text("half")
    dead_folder = tmp_path / "y.hrt-0123abcd.partial"
    dead_folder.mkdir()
    (dead_folder / "z").write_text("half")
    (tmp_path / "mine.partial").write_text("mine")
    with replacing(tmp_path / "x") as file, new_folder(tmp_path / "y") as folder:
        file.write(b"x")
        remove_leftovers(tmp_path, "x.")
        assert not dead.exists() and dead_folder.exists()
        remove_leftovers(tmp_path)
        assert folder.is_dir() and len(names(tmp_path)) == 3
        folder.rename(tmp_path / "y")
    assert names(tmp_path) == ["mine.partial", "x", "y"]


def test_folders_that_fail_leave_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "a" / "b" / "c") as folder:
        (folder / "x").write_text("x")
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_what_does_not_fit_into_a_folder_is_named(tmp_path):
    """Python names no file when a write fails, whoever makes it."""
    full = private_device(tmp_path, 7)
    with (
        pytest.raises(OSError, match=r"No space left.*model"),
        new_folder(tmp_path / "model"),
        open(full, "wb", buffering=0) as file,
    ):
        file.write(b"x")
    with pytest.raises(FileNotFoundError, match="nowhere"), new_folder(tmp_path / "model"):
        open(tmp_path / "nowhere", "rb")  # noqa: SIM115 - it does not open


@settings(max_examples=5, deadline=None)
@given(st.integers(2, 6))
def test_of_several_writers_one_makes_the_file(tmp_path_factory, count):
    folder = tmp_path_factory.mktemp("new")
    made, barrier = [], threading.Barrier(count)

    def make(number):
        barrier.wait()
        made.append((write_new(folder / "x", str(number)), number))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [number for won, number in made if won]
    assert len(made) == count and len(winners) == 1
    assert (folder / "x").read_text() == str(winners[0]) and names(folder) == ["x"]


@pytest.mark.parametrize("links", [True, False])
def test_a_process_that_begins_just_then_leaves_a_new_file_alone(tmp_path, monkeypatch, links):
    def just_before(path, name):
        remove_leftovers(tmp_path)
        if not links:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        linked(path, name)

    linked = os.link
    monkeypatch.setattr(files.os, "link", just_before)
    assert (
        write_new(tmp_path / "x", "text")
        and (tmp_path / "x").read_text() == "text"
        and names(tmp_path) == ["x"]
    )
    assert (
        not write_new(tmp_path / "x", "other")
        and (tmp_path / "x").read_text() == "text"
        and names(tmp_path) == ["x"]
    )


def test_a_full_disk_is_named_when_a_new_file_is_written(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device: .*/x'"):
        write_new(tmp_path / "x", "text")
    assert names(tmp_path) == []


def test_writers_of_one_file_do_not_mix(tmp_path):
    with replacing(tmp_path / "x") as first, replacing(tmp_path / "x") as second:
        first.write(b"a" * 100_000)
        second.write(b"b" * 100_000)
        first.write(b"a")
    assert (tmp_path / "x").read_bytes() == b"a" * 100_001 and names(tmp_path) == ["x"]


def test_content_counts_and_not_the_name(tmp_path):
    for name, text in (("a", "1"), ("b", "2"), ("c", "1")):
        (tmp_path / name).write_text(text)
    hashed = lambda *given: content_hash(tmp_path / name for name in given)  # noqa: E731
    assert hashed("a", "b") == hashed("c", "b") != hashed("b", "a") and hashed("a") != hashed("b")


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    real = os.fsync

    def fsync(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left on device: '.*x'"):
        put(tmp_path / "x", b"x")
    monkeypatch.setattr(os, "fsync", real)
    assert names(tmp_path) == []
