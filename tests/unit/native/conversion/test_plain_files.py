"""Descriptions are data: JSON and YAML without tags, anchors, depth or endless size."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.native.conversion.plain_files import (
    Settings,
    beside,
    parse_yaml,
    read_bytes,
    read_json,
    read_text,
    refuse_links_outside,
)

PATH = Path("x.yml")


def test_yaml_values_are_the_texts_that_stand_there():
    text = 'a: 1\nb: [true, ~, 1e3]\n"</s>": 0\nc:\n  - d: no\ne: ""\n'
    assert parse_yaml(text, PATH) == {
        "a": "1",
        "b": ["true", "~", "1e3"],
        "</s>": "0",
        "c": [{"d": "no"}],
        "e": "",
    }


@pytest.mark.parametrize(
    "text, reason",
    [
        ("a: &x 1\nb: *x", "anchors"),
        ("b: *x", "anchors"),
        ("a: !!python/object/apply:os.system ['true']", "the tag"),
        ("!!set {a}", "the tag"),
        ("[" * 500, "nested"),
        ("[" * 100_000, "cannot be read"),
        ("a: 1\na: 2", "twice"),
        ("? [a]\n: 1", "a key is a list or dictionary"),
        ("a: 1\n---\nb: 2", "2 documents"),
        ("", "0 documents"),
        ("a: [", "cannot be read"),
        ("\x00", "cannot be read"),
    ],
)
def test_other_yaml_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        parse_yaml(text, PATH)
    assert "x.yml" in str(caught.value) and "\n" not in str(caught.value)


@given(st.text())
def test_any_yaml_is_read_or_refused(text):
    try:
        parse_yaml(text, PATH)
    except ValueError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "sign", ["\x01", "\x0b", "\x1f", "\x85", "\u2028", "\ufeff", "\ufffe", "\uffff"]
)
def test_signs_that_yaml_lacks_are_words_of_marians_vocabularies(sign):
    text = f"a{sign}b: 1\n{sign}: 2\n"
    assert parse_yaml(text, PATH) == {f"a{sign}b": "1", sign: "2"}


@pytest.mark.parametrize(
    "content", [b"[1]", b'{"a": 1, "a": 2}', b"{", b"[" * 100_000, b"\xff", b"", b"\xef\xbb\xbf3"]
)
def test_other_json_is_refused(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="config.json") as caught:
        read_json(path)
    assert "\n" not in str(caught.value)


def test_files_are_bounded(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bytes(path, 5) == b"12345" and read_text(path) == "12345"
    with pytest.raises(ValueError, match="more than 4 bytes"):
        read_bytes(path, 4)
    with pytest.raises(ValueError, match="not a plain file"):
        read_bytes(tmp_path)
    with pytest.raises(ValueError, match="missing"):
        read_bytes(tmp_path / "none")


def test_links_stay_in_their_folder(tmp_path):
    model, cache = tmp_path / "model", tmp_path / "cache" / "snapshots" / "123"
    (cache.parent.parent / "blobs").mkdir(parents=True)
    (cache.parent.parent / "blobs" / "abc").write_text("")
    for folder in (model, cache):
        folder.mkdir(parents=True)
        (folder / "file").write_text("")
        (folder / "same").symlink_to("file")
        (folder / "folder").symlink_to("/")
        (folder / "nothing").symlink_to("nowhere")
    (cache / "config.json").symlink_to("../../blobs/abc")
    for folder in (model, cache):
        refuse_links_outside(folder, folder)
        (folder / "secret").symlink_to("/etc/passwd")
        with pytest.raises(ValueError, match="secret is a link to /etc/passwd, outside its folder"):
            refuse_links_outside(folder, folder)
        # Given by the user.
        refuse_links_outside(folder, folder / "secret")


@pytest.mark.parametrize(
    "name", ["../file", "/etc/passwd", "", ".", "..", "a/b", 3, None, "none", "a\0"]
)
def test_named_files_lie_beside(tmp_path, name):
    (tmp_path / "file").write_text("")
    assert beside(tmp_path, "file", "config") == tmp_path / "file"
    with pytest.raises(ValueError, match="config names the file"):
        beside(tmp_path, name, "config")


def test_settings():
    settings = Settings(
        {"n": "12", "m": 3, "f": "2.5", "s": "true", "t": "x", "u": True, "v": [1]}, "the file"
    )
    assert (
        settings.number("n") == 12 and settings.number("m") == 3 and settings.number("none", 4) == 4
    )
    assert settings.fraction("f", 1.0) == 2.5 and settings.fraction("none", 1.5) == 1.5
    assert (
        settings.switch("s")
        and settings.switch("u")
        and not settings.switch("none")
        and settings.text("t") == "x"
    )
    assert settings.require("t", ("x",), None) == "x" and settings.require("none", (1,), 1) == 1
    for call in (
        lambda: settings.number("t"), lambda: settings.number("u"), lambda: settings.number("none"),
        lambda: settings.number("n", most=11), lambda: settings.fraction("t", 1.0),
        lambda: settings.fraction("u", 1.0), lambda: settings.switch("n"),
        lambda: settings.text("v"), lambda: settings.require("m", (True, 4), 1),
        lambda: settings.fraction("huge", 1e300), lambda: settings.require("u", (1,), 1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="^the file has"):
            call()


def test_without_pyyaml(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ValueError, match="need the package PyYAML: pip install PyYAML"):
        parse_yaml("a: b", Path("x"))
