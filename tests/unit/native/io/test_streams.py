"""What may be given in the place of a file."""

import errno
import gzip
import io
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from private_devices import private_device

from fairseq_hrt.native.io.streams import descriptor_of, is_stream, raw_lines, reading, writing


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def put(path, data):
    with writing(path) as file:
        file.write(data)


def read(path):
    with reading(path) as source:
        return source.read()


@pytest.mark.skipif(sys.platform != "linux", reason="device numbers of Linux")
def test_devices_are_written_through(tmp_path):
    null, full = private_device(tmp_path, 3), private_device(tmp_path, 7)
    put(null, b"x")
    link = tmp_path / "link"
    link.symlink_to(null)
    put(link, b"x")
    with pytest.raises(OSError, match=full.name) as raised:
        put(full, b"x")
    assert raised.value.errno == errno.ENOSPC
    assert null.is_char_device() and full.is_char_device() and is_stream(null)


def test_pipes_are_written_through_and_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(read(pipe)))
    reader.start()
    put(pipe, b"through")
    reader.join()
    assert found == [b"through"] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_descriptors_keep_their_place(tmp_path):
    path = tmp_path / "log"
    with open(path, "ab") as log:
        log.write(b"before\n")
        log.flush()
        put(Path(f"/dev/fd/{log.fileno()}"), b"between\n")
        os.write(log.fileno(), b"after\n")
    assert path.read_bytes() == b"before\nbetween\nafter\n"
    with open(path, "rb") as source:
        os.lseek(source.fileno(), 7, os.SEEK_SET)
        assert read(Path(f"/proc/self/fd/{source.fileno()}")) == b"between\nafter\n"
    with pytest.raises(OSError):
        put(Path("/dev/fd/987"), b"x")
    assert descriptor_of("/dev/stdout") == 1 and descriptor_of(path) is None


def test_what_stands_in_place_of_the_standard_output_stays_open(monkeypatch):
    notebook = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(notebook, encoding="utf-8"))
    for line in (b"one\n", b"two\n"):
        put(None, line)
    sys.stdout.write("three\n")
    sys.stdout.flush()
    assert notebook.getvalue() == b"one\ntwo\nthree\n"


def test_standard_output_of_a_process(tmp_path):
    code = (
        "from fairseq_hrt.native.io.streams import reading, writing\nwith writing(None) as f:"
        " f.write(b'one\\n')\nprint('two')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = lambda text, **more: subprocess.run([sys.executable, "-c", text], env=environment, **more)  # noqa: E731
    assert run(code, capture_output=True).stdout == b"one\ntwo\n"
    closed = run(code, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    assert b"the standard output is closed" in closed.stderr
    closed = run(
        code.replace("writing(None)", "reading(None)"),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.close(0),
    )
    assert b"the standard input is closed" in closed.stderr


@given(st.binary(max_size=200), st.integers(1, 4))
def test_gzip_is_known_by_its_content(tmp_path_factory, data, members):
    folder = tmp_path_factory.mktemp("gzip")
    (folder / "plain.gz").write_bytes(b"\x1f" + data if data[:1] != b"\x8b" else data)
    assert read(folder / "plain.gz") == (folder / "plain.gz").read_bytes()
    (folder / "packed.txt").write_bytes(gzip.compress(data) * members)
    assert read(folder / "packed.txt") == data * members


def test_gzip_through_a_pipe_byte_by_byte():
    ours, theirs = os.pipe()
    packed = gzip.compress(b"a\nb\n")

    def write():
        for byte in packed:
            os.write(theirs, bytes([byte]))
        os.close(theirs)

    thread = threading.Thread(target=write)
    thread.start()
    with reading(Path(f"/dev/fd/{ours}")) as source:
        assert list(raw_lines(source, "x")) == [b"a\n", b"b\n"]
    thread.join()
    os.close(ours)


def test_lines_of_a_pipe_come_at_once():
    ours, theirs = os.pipe()
    os.write(theirs, b"a\n")
    with reading(Path(f"/dev/fd/{ours}")) as source:
        lines = raw_lines(source, "x")
        assert next(lines) == b"a\n"
        os.write(theirs, b"b")
        os.close(theirs)
        assert list(lines) == [b"b"]
    os.close(ours)


@pytest.mark.parametrize("cut", [5, 15, -4])
def test_damaged_gzip_is_named(tmp_path, cut):
    (tmp_path / "x.gz").write_bytes(gzip.compress(os.urandom(1000))[:cut])
    with (
        pytest.raises(ValueError, match="x.gz: damaged gzip"),
        reading(tmp_path / "x.gz") as source,
    ):
        list(raw_lines(source, "x.gz"))
