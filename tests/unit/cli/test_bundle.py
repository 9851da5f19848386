"""``fairseq-hrt bundle``: everything that was said reaches the bundle that is made."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_hrt.cli import bundle as verb
from fairseq_hrt.export import checkpoint_bundle, examples

ARGUMENTS = ["a.pt", "b.pt", "--data", "bin", "--output", "out"]


@pytest.fixture
def made(monkeypatch):
    """What :func:`make_bundle` is called with, and what it calls itself: ``loaded`` to check,
    ``added`` for the native engine."""
    found = SimpleNamespace(positional=None, named=None, loaded=[], added=[])
    bundle = found.bundle = SimpleNamespace(
        folder="out", examples=[], source_lang="de", target_lang="en", task="translation_hrt",
        tokenizer="moses", card={},
    )  # fmt: skip

    def make(*positional, check, complete, **named):
        found.positional, found.named = positional, named
        if complete is not None:
            complete(bundle)
        check(Path("out"))
        return bundle

    monkeypatch.setattr(checkpoint_bundle, "make_bundle", make)
    monkeypatch.setattr(examples, "example_sentences", lambda bundle, data: [f"from {data}"])
    monkeypatch.setattr(
        checkpoint_bundle,
        "from_pretrained",
        lambda folder, **named: found.loaded.append((folder, named)),
    )
    monkeypatch.setattr(
        checkpoint_bundle, "warn_if_unlike_references", lambda translator, data: None
    )
    monkeypatch.setattr(
        checkpoint_bundle, "add_runtime", lambda *given, **named: found.added.append((given, named))
    )
    return found


def test_defaults(made, capsys):
    verb.main(ARGUMENTS)
    assert made.positional == (Path("out"), [Path("a.pt"), Path("b.pt")], Path("bin"))
    assert made.named == dict(
        tokenizer=None,
        subwords=None,
        codes=None,
        target_codes=None,
        sources=None,
        task=None,
        options={},
        card={},
    )
    assert made.loaded == [(Path("out"), {"device": "cpu", "engine": "torch"})] and made.added == []
    assert made.bundle.examples == ["from bin"]
    assert capsys.readouterr().out.splitlines() == [
        "out: de -> en, task translation_hrt",
        "text preparation: moses",
        "1 sentences of bin were added as examples (--examples)",
    ]  # fmt: skip


def test_examples_of_ones_own(made, tmp_path, capsys):
    for content, expected in ((b"\xef\xbb\xbf One. \n\nTwo!\n", ["One.", "Two!"]), (b"", [])):
        (tmp_path / "x").write_bytes(content)
        verb.main([*ARGUMENTS, "--examples", str(tmp_path / "x")])
        assert made.bundle.examples == expected
    assert "were added" not in capsys.readouterr().out
    (tmp_path / "x").write_text("a\n" * 11)
    with pytest.raises(SystemExit):
        verb.main([*ARGUMENTS, "--examples", str(tmp_path / "x")])
    assert "x has the examples" in capsys.readouterr().err


def test_what_is_said_of_text_decoding_and_quality(made):
    verb.main([
        *ARGUMENTS, "--tokenizer", "space", "--subwords", "sentencepiece", "--codes", "m.model",
        "--target-codes", "n.model", "--task", "t", "--set", "beam=1", "--set=--max-len-b=20", "--card", "BLEU=38.0", "--card",
        "formula=a=b", "--card", "note",
    ])  # fmt: skip
    assert made.named == dict(
        tokenizer="space", subwords="sentencepiece", codes=Path("m.model"),
        target_codes=Path("n.model"), sources=None, task="t",
        options={"beam": "1", "max_len_b": "20"},
        card={"BLEU": "38.0", "formula": "a=b", "note": ""},
    )  # fmt: skip


def test_the_native_engine_gets_its_lines_and_shortlist(made, tmp_path):
    lines = tmp_path / "lines"
    lines.write_bytes(b"\xef\xbb\xbfa b\r\n\nc\xc3\xa9\xe2\x80\xa8d\n")
    verb.main(
        [*ARGUMENTS, "--runtime", "int8", "--runtime-lines", str(lines), "--shortlist", "lex"]
    )
    (((bundle, weights), named),) = made.added
    assert bundle.folder == "out" and weights == "int8"
    assert named == dict(
        data=Path("bin"),
        lines=["a b", "", "c\u00e9\u2028d"],
        shortlist=Path("lex"),
    )
    assert made.loaded == [(Path("out"), {"device": "cpu", "engine": "native"})]
    verb.main([*ARGUMENTS, "--runtime", "float32"])
    assert made.added[1][1] == dict(data=Path("bin"), lines=None, shortlist=None)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--shortlist", "lex"], "belong to the native engine: give --runtime"),
        (["--runtime-lines", "x"], "belong to the native engine: give --runtime"),
        (["--runtime", "int4"], "'int4'"),
        (["--tokenizer", "none"], "tokenizer 'none' is unknown"),
        (["--set", "beam"], "--set beam: give OPTION=VALUE"),
        (["--runtime", "int8", "--runtime-lines", "missing.txt"], "missing.txt: No such file"),
    ],
)
def test_what_is_refused(made, capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        verb.main([*ARGUMENTS, *arguments])
    assert (
        end.value.code == 2
        and message in capsys.readouterr().err.splitlines()[-1]
        and made.loaded == []
    )
