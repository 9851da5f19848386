"""examples/common/sentencepiece_text.py: raw text in pieces, and a model of them."""

import contextlib
import io
import sys

import pytest

TEXT = "".join(
    f"der Mann läuft {number} mal um das Haus, die Frau wartet .\n\n" for number in range(30)
)


@pytest.fixture(scope="module")
def program(load_example):
    pytest.importorskip("sentencepiece")
    return load_example("common/sentencepiece_text.py")


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    return tmp_path / "text"


@pytest.fixture
def written(program):
    """A function that runs the program and returns what it writes."""

    def run(*arguments):
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as output:
            program.main([str(argument) for argument in arguments])
            output.flush()
            return output.buffer.getvalue()

    return run


@pytest.fixture
def model(written, text, tmp_path):
    (tmp_path / "model").write_bytes(written("learn", "--pieces", 34, text, text))
    return tmp_path / "model"


def test_lines_stay_and_can_be_put_together(written, model, text):
    lines = written("encode", "--model", model, text).decode().split("\n")
    assert [line.replace(" ", "").replace("▁", " ").strip() for line in lines] == TEXT.split("\n")
    assert len(set(" ".join(lines).split())) > 10, "these are not pieces"


def test_the_same_model_every_time(written, model, text):
    assert written("learn", "--pieces", 34, text, text) == model.read_bytes()


@pytest.mark.parametrize("arguments, message", [
    (["encode", "--model", "text", "text"], "text is not a SentencePiece model"),
    (["encode", "--model", "missing", "text"], "missing is not a SentencePiece model"),
    (["encode", "--model", "model", "missing"], "No such file"),
    (["encode", "--model", "model", "latin"], "not UTF-8"),
    (["learn", "--pieces", "3000", "text"], "3000 pieces cannot be learnt of text"),
    (["learn", "--pieces", "25", "missing"], "No such file"),
])  # fmt: skip
def test_what_does_not_fit_is_named(program, model, text, monkeypatch, arguments, message):
    monkeypatch.chdir(text.parent)
    (text.parent / "latin").write_bytes(b"l\xe4uft\n")
    with pytest.raises(SystemExit, match=message):
        program.main(arguments)


def test_the_package_may_be_missing(program, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(SystemExit, match="pip install sentencepiece"):
        program.main(["encode", "--model", "model", "text"])
