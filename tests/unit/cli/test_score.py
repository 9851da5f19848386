"""``fairseq-hrt score``: two files in, one score per line out."""

import io
import json
from pathlib import Path

import pytest

import fairseq_hrt
from fairseq_hrt.cli import score as verb
from fairseq_hrt.native.bundles import pretrained
from fairseq_hrt.native.bundles.translation import Translation

ENGINE = "decoded with a ruler: no weights\n"


class Lengths:
    """Scores by the lengths of lines."""

    def __init__(self):
        self.calls = []

    def describe(self):
        return "a ruler: no weights"

    def score(self, sources, targets, *, batch_size):
        self.calls.append(len(sources))
        if "long" in targets:
            raise ValueError(f"the target of pair {targets.index('long')} has 9 subwords")
        return [
            Translation(
                target,
                source,
                score=-len(source) / 3 if source and target else None,
                tokens=[target, "</s>"],
            )
            for source, target in zip(sources, targets)
        ]


@pytest.fixture
def run(tmp_path, monkeypatch, capsysbinary):
    model = Lengths()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pretrained, "from_pretrained", lambda *given, **named: model)

    def call(*arguments):
        status = 0
        try:
            verb.main(["bundle", *arguments])
        except SystemExit as end:
            status = end.code
        out, error = capsysbinary.readouterr()
        return status, out.decode(), error.decode()

    call.model = model
    return call


def test_a_score_per_line(run, monkeypatch):
    Path("x").write_bytes(b"\xef\xbb\xbfab\n\nabcd\nabc")
    Path("y").write_text("A\nB\n\nC\n")
    assert run("x", "y", "--batch-size", "1") == (0, "-0.666667\n\n\n-1.000000\n", ENGINE)
    assert (
        run("x", "y", "-o", "z")[:2] == (0, "")
        and Path("z").read_text() == "-0.666667\n\n\n-1.000000\n"
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"ab\n" * 4)))
    rows = [json.loads(line) for line in run("-", "y", "--json")[1].splitlines()]
    assert rows[0] == {
        "source": "ab",
        "text": "A",
        "score": -2 / 3,
        "tokens": ["A", "</s>"],
        "positional_scores": [],
    }
    assert [row["score"] is None for row in rows] == [False, False, True, False]


@pytest.mark.parametrize("arguments, message", [
    ("x short", "the targets end after line 1, the sources do not"),
    ("short x", "the sources end after line 1, the targets do not"), ("- -", "- is given twice"),
    ("x pdf", "pdf is not text: it looks like a PDF file"), ("x no", "no: No such file"),
    ("x x --batch-size 0", "--batch-size 0 must be at least 1"),
    ("x x --set baem=1", "did you mean beam?"),
    ("x x --set forced_start=a", "--set forced_start=a: given translations have their own"),
    ("x x --set beam=5", "--beam 5 changes no score"),
    ("x x --set sampling=true", "--sampling true changes no score"),
    ("x x --set sampling_topk=5", "--sampling-topk 5 changes no score"),
    ("x x --set iter_decode_max_iter=5", "--iter-decode-max-iter 5 changes no score"),
    ("x x --set hrt_nat_beam=2", "--hrt-nat-beam 2 changes no score"),
    ("many long", "the target of line 35 has 9 subwords"),
])  # fmt: skip
def test_what_is_refused_leaves_nothing(run, arguments, message):
    for name, content in (
        ("x", "a\nb\n"),
        ("short", "a\n"),
        ("pdf", "%PDF-1.4"),
        ("many", "a\n" * 40),
        ("long", "a\n" * 34 + "long\n" + "a\n" * 5),
    ):
        Path(name).write_text(content)
    status, out, error = run(
        *arguments.split(), "-o", "z", *([] if "batch" in arguments else ["--batch-size", "1"])
    )
    assert (
        status == 2
        and out == ""
        and message in error
        and error.count("\n") == 1
        and not Path("z").exists()
    )


@pytest.mark.parametrize("output", ["x", "../here/y", "link"])
def test_an_input_is_not_replaced(run, monkeypatch, tmp_path, output):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in "xy":
        Path(name).write_text("a\n")
    Path("link").symlink_to("x")
    status, _, error = run("x", "y", "-o", output)
    assert (
        status == 2
        and error
        == f"error: {output} is an input: the scores would replace it; give another --output\n"
    )
    assert Path("x").read_text() == Path("y").read_text() == "a\n"
    assert run("x", "y", "-o", "/dev/null")[0] == 0


@pytest.mark.slow
def test_a_greedy_translation_has_its_own_score(tmp_path, capsys):
    from native_bundles import with_runtime

    folder = with_runtime(tmp_path / "bundle", "autoregressive").folder
    (tmp_path / "x").write_text("a b c\nd e\n")
    model = fairseq_hrt.from_pretrained(folder, engine="native")
    found = model.translate(["a b c", "d e"], details=True, beam=1)
    (tmp_path / "y").write_text("".join(one.text + "\n" for one in found))
    verb.main([str(folder), str(tmp_path / "x"), str(tmp_path / "y"), "--engine", "native"])
    assert [float(line) for line in capsys.readouterr().out.split()] == pytest.approx(
        [one.score for one in found], abs=1e-4
    )
