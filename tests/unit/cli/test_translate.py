"""What becomes of inputs and outputs around a model; the model is a stand-in that writes its lines
backwards."""

import errno
import gzip
import io
import json
import os
import random
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from time import sleep

import pytest
import torch

from fairseq_hrt.cli import jobs, translate
from fairseq_hrt.cli.jobs import read_line
from fairseq_hrt.native.bundles import pretrained
from fairseq_hrt.native.bundles.bundle import Bundle
from fairseq_hrt.native.bundles.translator import Translation
from fairseq_hrt.native.io import progress, resuming
from fairseq_hrt.native.text.glossary import Glossary
from fairseq_hrt.native.text.pipeline import TextPipeline
from fairseq_hrt.native.text.sentences import split

ENGINE = "decoded with the mirror: no weights\n"


class Killed(BaseException):
    """As sudden as a signal."""


class Taken(str):
    """A line that was taken apart."""


class Backwards:
    """Translates by turning lines round; its scores depend on what is translated together, as those
    of real models may."""

    def __init__(self, folder, **decoding):
        self.bundle = Bundle(folder, "translation_hrt", "de", "en", "space", "none")
        self.defaults, self.device, self.calls_left = dict(decoding), torch.device("cpu"), 10**9
        self.raw, self.glossary, self.terms_found = 0, None, 0
        self.pipeline = TextPipeline(self.bundle.recipe)

    def translate(self, lines, *, details, batch_size):
        self.raw += sum(not isinstance(line, Taken) for line in lines)
        self.calls_left -= 1
        if self.calls_left < 0:
            raise Killed
        found = [Translation(line[::-1], line, score=float(len("".join(lines)))) for line in lines]
        return found if details else [one.text for one in found]

    def identity(self):
        return {"device": self.device.type}

    def describe(self):
        return "the mirror: no weights"

    def in_words(self, line):
        return Taken(line)

    def in_sentences(self, line):
        return [Taken(sentence) for sentence in split(line, self.bundle.source_lang).sentences]

    def mostly_unknown(self, line):
        self.raw += not isinstance(line, Taken)
        return [word for word in line.split() if word.startswith("q")]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """The stand-in, loaded by whatever asks for a bundle."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name in ("bundle.json", "model.pt", "dict.de.txt", "dict.en.txt"):
        (folder / name).write_text(name)
    loaded = Backwards(folder)

    def load(
        path,
        *,
        device=None,
        engine="auto",
        threads=None,
        use_shortlist=False,
        glossary=None,
        **decoding,
    ):
        loaded.defaults, loaded.glossary = decoding, Glossary.of(glossary)
        return loaded

    monkeypatch.setattr(pretrained, "from_pretrained", load)
    return loaded


@pytest.fixture
def run(model, tmp_path, capfdbinary):
    """Runs the verb in the test's folder; returns (exit status, standard output, standard
    error)."""

    def call(*arguments):
        status = 0
        try:
            translate.main([str(model.bundle.folder), "--batch-size", "1", *map(str, arguments)])
        except SystemExit as end:
            status = end.code
        out, error = capfdbinary.readouterr()
        return status, out, error.decode()

    here = os.getcwd()
    os.chdir(tmp_path)
    yield call
    os.chdir(here)


def files(folder):
    found = (
        path
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "bundle" and path.name != "stdout"
    )
    return {str(path.relative_to(folder)) for path in found}


def make_lines(count, seed=1):
    generator = random.Random(seed)
    return [
        " ".join(generator.choices("abc\u00e9", k=generator.randint(0, 6))) for _ in range(count)
    ]


def backwards(lines):
    return "".join(line[::-1] + "\n" for line in lines).encode()


def test_bytes_become_lines(run, tmp_path):
    Path("x").write_bytes(b"\xef\xbb\xbfab\r\n\r\nc\xc3\xa9\n\xef\xbb\xbfd\nlast")
    assert run("x")[:2] == (0, "ba\n\n\u00e9c\nd\ufeff\ntsal\n".encode())
    assert (
        read_line(b"\xef\xbb\xbf\n") == "\ufeff" and read_line(b"\xef\xbb\xbf\n", first=True) == ""
    )


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_another_encoding_is_refused_before_anything_is_translated(run, model, tmp_path, resume):
    data = "".join(f"{line}\n" for line in make_lines(200)).encode() + b"Gr\xfc\xdfe\n"
    model.calls_left = 0
    for name, content in (("x", data), ("x.gz", gzip.compress(data))):
        Path(name).write_bytes(content)
        status, out, error = run(name, "--output", "y", *resume)
        assert (status, out, error.count("\n")) == (2, b"", 1)
        assert error.startswith(f"error: {name}, line 201 is not UTF-8 (byte 0xfc): convert")
        assert "iconv -f WINDOWS-1252 -t UTF-8" in error
    assert files(tmp_path) == {"x", "x.gz"}


def test_another_encoding_in_a_pipe_or_an_argument(run, monkeypatch):
    """What came before its block is translated."""
    given = b"ab\n" * 40 + b"\xe9\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    status, out, error = run()
    assert (status, out) == (2, b"ba\n" * 32)
    assert error.startswith("error: the standard input, line 41 is not UTF-8")
    assert run("--text", "\u00e9a\nb")[:2] == (0, "a\u00e9\nb\n".encode())
    # As Python gives bytes that the command line's encoding does not have.
    assert run("--text", "a\nb\udce9")[2].startswith("error: --text, line 2 is not UTF-8")


def test_files_need_not_be_given(capsys):
    with pytest.raises(SystemExit) as end:
        translate.main([])
    assert end.value.code == 2 and "are required: bundle (see" in capsys.readouterr().err
    options = translate.build_parser().parse_intermixed_args(["bundle", "--quiet"])
    assert options.files == []


@pytest.mark.parametrize("option", ["--quiet", "--json", "--resume", "--line-buffered"])
def test_each_line_is_taken_apart_once(run, model, option):
    Path("x").write_text("ab\nq\n")
    assert run("x", "-o", "y", option)[0] == model.raw == 0


def test_gzip_in_and_out(run, tmp_path):
    lines = make_lines(80)
    Path("x.txt").write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))
    Path("empty").write_bytes(b"")
    assert (
        run("x.txt", "--output", "y.gz")[0] == 0
        and run("x.txt", "--output", "z.gz", "--resume")[0] == 0
    )
    assert run("--output", "e.gz", "empty", "--resume")[0] == 0
    assert gzip.decompress(Path("y.gz").read_bytes()) == backwards(lines)
    # No time in any member's header.
    assert all(
        member[1:5] == bytes(4) for member in Path("y.gz").read_bytes().split(b"\x1f\x8b\x08")[1:]
    )
    assert (
        Path("y.gz").read_bytes() == Path("z.gz").read_bytes()
        and gzip.decompress(Path("e.gz").read_bytes()) == b""
    )
    assert files(tmp_path) == {"x.txt", "y.gz", "z.gz", "empty", "e.gz"}


def test_several_inputs(run, tmp_path):
    os.makedirs("in")
    for name in ("a:1.txt", "-b.txt", "c d.txt"):
        (tmp_path / "in" / name).write_text(f"{name}\n")
    given = ["in/a:1.txt", "in/-b.txt", "in/c d.txt"]
    assert run(*given)[1] == b"txt.1:a\ntxt.b-\ntxt.d c\n"
    assert run(*given, "--output", "out")[0] == 0
    assert {name: (tmp_path / "out" / name).read_text() for name in os.listdir("out")} == {
        "a:1.txt": "txt.1:a\n", "-b.txt": "txt.b-\n", "c d.txt": "txt.d c\n",
    }  # fmt: skip
    os.chdir("in")
    assert run("--output=-x", "--", "-b.txt")[0] == 0 and Path("-x").read_text() == "txt.b-\n"
    os.chdir(tmp_path)
    assert run("in/a:1.txt", "--output", "out")[0] == 0, "a single file into a folder"


def test_through_links_and_pipes(run, tmp_path):
    Path("x").write_text("ab\n")
    Path("link").symlink_to("real")
    os.mkfifo("pipe")
    assert run("x", "--output", "link")[0] == 0
    assert Path("link").is_symlink() and Path("real").read_text() == "ba\n"
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run("x", "x", "--output", "pipe")[0] == 0
    assert os.read(reader, 100) == b"ba\nba\n" and Path("pipe").is_fifo()
    os.close(reader)
    # Not /dev/stdout itself, which a mistake might replace.
    Path("stdout").symlink_to("/proc/self/fd/1")
    assert (
        run("x", "--output", "-")[1] == run("x", "--output", "stdout")[1] == b"ba\n"
        and Path("stdout").is_symlink()
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("A/x B/x --output out", "A/x and B/x would both be written to out/x"),
        ("A/x B/y --output linked", "would both be written to"),
        ("A/x --output A/x", "A/x is an input"),
        ("A/x B/y --output A", "A/x is an input"),
        ("A/x B/y --output B/y", "B/y is a file"),
        ("A/x - --output out", "out is a folder, and the standard input has no file name"),
        ("- -", "- is given twice"),
        ("A/no", "A/no is not a file"),
        ("A", "A is a folder"),
        ("A/x --resume", "--resume needs a file"),
        ("A/x --resume --output stdout", "--resume needs a file"),
        ("A/x B/y --resume --output -", "--resume with several inputs needs a folder"),
        ("A/x --batch-size 0", "--batch-size 0"),
        ("A/x --threads 0", "--threads 0"),
        ("A/x --line-buffered --batch-size 2", "--batch-size 2: with --line-buffered each line is"),
        (
            "A/x --set print_alignment=hard",
            "print_alignment=hard: alignments are written only with",
        ),
        ("A/cut.gz --output z", "A/cut.gz: damaged gzip data"),
        ("A/x --output nowhere/../A", None),
    ],
)
def test_what_is_refused_changes_nothing(run, tmp_path, arguments, message):
    for name in ("A/x", "B/x", "B/y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "A/cut.gz").write_bytes(gzip.compress(os.urandom(500).hex().encode())[:-9])
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/x").symlink_to("y")
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    status, out, error = run(*arguments.split())
    assert status == 2 and out == b"" and error.count("\n") == 1 and (message or "") in error
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before
    assert not (tmp_path / "out").exists()


def test_interrupted_without_resume_nothing_stays(run, model, tmp_path):
    Path("x").write_text("".join(line + "\n" for line in make_lines(100)))
    Path("y").write_text("old")
    model.calls_left = 2
    with pytest.raises(Killed):
        run("x", "--output", "y")
    assert Path("y").read_text() == "old" and files(tmp_path) == {"x", "y"}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_interrupted_anywhere_and_gone_on_with(run, model, tmp_path, seed, suffix):
    generator = random.Random(seed)
    names = [f"{number}.txt{suffix}" for number in range(generator.randint(1, 3))]
    for number, name in enumerate(names):
        data = "".join(
            line + "\n" for line in make_lines(generator.randint(0, 300), number)
        ).encode()
        Path(name).write_bytes(gzip.compress(data) if suffix and number % 2 else data)
    arguments = [*names, "--json"]
    os.mkdir("whole"), os.mkdir("parts")
    assert run(*arguments, "--output", "whole")[0] == 0
    for _ in range(20):
        model.calls_left = generator.randint(0, 4)
        try:
            assert run(*arguments, "--output", "parts", "--resume")[0] == 0
            break
        except Killed:
            left = [path for path in Path("parts").glob("*.partial") if generator.random() < 0.5]
            for path in left:
                # A sudden end leaves this behind the last whole block.
                path.write_bytes(path.read_bytes() + b"half a li")
    else:
        model.calls_left = 10**9
        assert run(*arguments, "--output", "parts", "--resume")[0] == 0
    found = {
        place: {name: (tmp_path / place / name).read_bytes() for name in os.listdir(place)}
        for place in ("whole", "parts")
    }
    assert found["whole"] == found["parts"]


def begun(run, model):
    Path("x").write_text("".join(line + "\n" for line in make_lines(200)))
    model.calls_left = 3
    with pytest.raises(Killed):
        run("x", "--output", "y", "--resume")
    model.calls_left = 10**9
    notes = json.loads(Path("y.partial.json").read_text())
    assert (
        notes["lines"] == 96
        and notes["bytes"] == Path("y.partial").stat().st_size
        and not Path("y").exists()
    )


@pytest.mark.parametrize("change, message", [
    (lambda folder: (folder / "model.pt").write_text("retrained"), "bundle: '"),
    (lambda folder: (folder / "dict.en.txt").write_text("longer"), "bundle: '"),
    (lambda folder: Path("x").write_text("other\n" * 200), "the input is not the one"),
    (lambda folder: Path("x").write_text("short\n"), "the input is not the one"),
    (lambda folder: Path("y.partial.json").write_text("{"), "is damaged"),
    (lambda folder: Path("y.partial.json").unlink(), "--resume did not write it"),
    (None, "beam"),
])  # fmt: skip
def test_another_run_is_not_mixed_in(run, model, change, message):
    begun(run, model)
    before = Path("y.partial").read_bytes()
    more = ["--set", "beam=2"] if change is None else []
    if change is not None:
        change(model.bundle.folder)
    status, _, error = run("x", "--output", "y", "--resume", *more)
    assert status == 2 and message in error and error.count("\n") == 1
    assert Path("y.partial").read_bytes() == before and not Path("y").exists()


def test_another_glossary_is_not_mixed_in(run, model):
    Path("terms.tsv").write_text("b\tx\na\ty\n")
    Path("same.tsv").write_text("a\ty\nb\tx\n")
    Path("x").write_text("".join(line + "\n" for line in make_lines(200)))
    model.calls_left = 3
    with pytest.raises(Killed):
        run("x", "--output", "y", "--resume", "--glossary", "terms.tsv")
    model.calls_left = 10**9
    status, _, error = run("x", "--output", "y", "--resume")
    assert status == 2 and "glossary" in error and error.count("\n") == 1
    status, _, error = run("x", "--output", "y", "--resume", "--glossary", "same.tsv")
    # Its terms may stand in the lines that were finished before.
    assert status == 0 and "none of its terms" not in error
    status, _, error = run("x", "--output", "z", "--glossary", "same.tsv")
    assert status == 0 and "same.tsv: none of its terms was found in the input" in error
    # Refused before a model is loaded, by the number of its line.
    Path("terms.tsv").write_text("b\tx\nb\ty\n")
    status, out, error = run("x", "--glossary", "terms.tsv")
    assert (status, out) == (2, b"") and error.count("\n") == 1
    assert "glossary terms.tsv, line 2: 'b' has the translation 'x' in line 1" in error


def test_a_damaged_part_is_translated_again(run, model):
    begun(run, model)
    data = bytearray(Path("y.partial").read_bytes())
    data[40] ^= 1
    Path("y.partial").write_bytes(data)
    status, _, error = run("x", "--output", "y", "--resume")
    assert (
        status == 0
        and "damaged: starting anew" in error
        and Path("y").read_bytes() == backwards(make_lines(200))
    )


def test_two_processes_do_not_share_a_partial_file(run, model, tmp_path):
    begun(run, model)
    with open("y.partial") as other:
        assert resuming.lock(other.fileno())
        status, _, error = run("x", "--output", "y", "--resume")
    assert status == 2 and "another process is writing it" in error
    assert run("x", "--output", "y", "--resume")[0] == 0 and files(tmp_path) == {"x", "y"}


@pytest.mark.parametrize("moment", ["_write_notes", "publish"])
def test_killed_while_finishing(run, model, tmp_path, monkeypatch, moment):
    Path("x").write_text("".join(line + "\n" for line in make_lines(70)))

    def killed(*arguments, **named):
        raise Killed

    place = resuming.ResumableOutput if moment == "_write_notes" else resuming
    original, count = getattr(place, moment), [4]

    def counted(*arguments, **named):
        count[0] -= 1
        return killed() if count[0] < 0 or moment == "publish" else original(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(place, moment, counted)
        with pytest.raises(Killed):
            run("x", "--output", "y", "--resume")
    assert run("x", "--output", "y", "--resume")[0] == 0
    assert Path("y").read_bytes() == backwards(make_lines(70)) and files(tmp_path) == {"x", "y"}


@pytest.mark.parametrize("arguments", [[], ["--resume"]])
def test_a_full_disk(run, model, tmp_path, monkeypatch, arguments):
    Path("x").write_text("".join(line + "\n" for line in make_lines(70)))

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        status, _, error = run("x", "--output", "y", *arguments)
    assert status == 2 and re.fullmatch(
        r"error: .*/y(\.partial\.json)?: No space left on device\n", error
    )
    assert not Path("y").exists() and (arguments or files(tmp_path) == {"x"})
    assert run("x", "--output", "y", *arguments)[0] == 0
    assert Path("y").read_bytes() == backwards(make_lines(70)) and files(tmp_path) == {"x", "y"}


@pytest.mark.parametrize(
    "setting, flag",
    [("engine=native", "--engine"), ("use-shortlist=true", "--shortlist"),
     ("--threads=2", "--threads"), ("device=cpu", "--device")],
)  # fmt: skip
def test_what_is_no_option_of_decoding(run, setting, flag):
    status, out, error = run("--set=" + setting)
    assert (status, out) == (2, b"") and error.endswith(
        f"is not an option of decoding: give {flag}\n"
    )


# ---------------------------------------------------------------------- what a newcomer types


def test_a_text_in_the_place_of_files(run):
    assert run("--text", "ab", "--text", "cd\nef", "--quiet")[:2] == (0, b"ba\ndc\nfe\n")
    assert run("--text", "ab", "-o", "y")[0] == 0 and Path("y").read_bytes() == b"ba\n"
    status, _, error = run("Hello you.")
    assert (
        status == 2
        and error
        == "error: Hello you. is not a file; to translate a text itself give --text 'Hello you.'\n"
    )
    Path("x").write_text("a\n")
    for more in (["x"], ["--resume", "-o", "y"]):
        assert (
            run("--text", "ab", *more)[2]
            == "error: --text is translated instead of files: leave out the files and --resume\n"
        )
    Path("folder").mkdir()
    status, _, error = run("--text", "ab", "-o", "folder")
    assert (
        status == 2
        and error
        == "error: folder is a folder, and --text has no file name to use in it; give a file as --output\n"
    )


@pytest.mark.parametrize("through", ["file", "gzip", "input"])
@pytest.mark.parametrize("content, kind", [
    (b"PK\x03\x04..word/document.xml", "a Word document (docx)"),
    (b"PK\x03\x04....", "a ZIP archive"), (b"%PDF-1.7\n\xe2\xe3", "a PDF file"),
    ("Grüße und so weiter\n".encode("utf-16"), "UTF-16 text"),
    ("Grüße und so weiter\n".encode("utf-16-le"), "UTF-16 text"),
    (b"x\x00\x00\x00y\nab\ncd\n", "binary data"), (b"{\\rtf1", "an RTF file"),
    (b"\x89PNG\r\n", "a PNG picture"),
    (b"PK\x03\x04mimetypeapplication/vnd.oasis.opendocument.text", "an OpenDocument file (odt)"),
])  # fmt: skip
def test_what_is_not_text_is_refused(run, monkeypatch, model, through, content, kind):
    Path("letter").write_bytes(gzip.compress(content) if through == "gzip" else content)
    if through == "input":
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        status, _, error = run("-o", "y")
    else:
        # Told before a model is loaded.
        monkeypatch.setattr(pretrained, "from_pretrained", None)
        status, _, error = run("letter", "-o", "y")
    name = "the standard input" if through == "input" else "letter"
    assert (
        status == 2
        and error.startswith(f"error: {name} is not text: it looks like {kind}")
        and error.count("\n") == 1
    )
    assert not Path("y").exists()


def test_reading_from_a_terminal_is_said(run, monkeypatch, model):
    class Terminal:
        buffer, closed = io.BytesIO(b"ab\ncd\n"), False

        def isatty(self):
            return True

    sizes = []
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(jobs, "reading", lambda source: nullcontext(Terminal.buffer))
    original = model.translate
    model.translate = lambda lines, **named: sizes.append(len(lines)) or original(lines, **named)
    status, out, error = run()
    assert (status, out) == (
        0,
        b"ba\ndc\n",
    ) and error == "reading from the terminal: one sentence per line, Ctrl-D to end\n" + ENGINE
    assert sizes == [1, 1]
    Path("x").write_text("ab\n")
    assert run("x")[2] == ENGINE and run("--text", "a")[2] == ENGINE


def test_engine_and_weights_are_told_in_one_line(run):
    Path("x").write_text("ab\n")
    assert run("x")[1:] == (b"ba\n", ENGINE) and run("x", "--quiet")[1:] == (b"ba\n", "")


@pytest.mark.parametrize("source", ["x", "-"])
def test_what_takes_long_shows_its_share(run, model, monkeypatch, source):
    """Of the lines of a file, or of a standard input that is one."""
    Path("x").write_text("ab\n" * 70)
    monkeypatch.setattr(progress, "FIRST", 0.01)
    monkeypatch.setattr(progress, "_ON_A_TERMINAL", 0.01)
    original = model.translate
    model.translate = lambda *given, **named: sleep(0.05) or original(*given, **named)

    def ended(*arguments):
        with open("x") as file:
            monkeypatch.setattr("sys.stdin", file)
            return run(source, *arguments)

    assert "of 70 lines" not in ended()[2]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    status, out, error = ended()
    assert (status, out.count(b"\n")) == (0, 70)
    assert error.endswith(f"\n{ENGINE}")
    shown = error.removesuffix(ENGINE).split("\r")
    assert any(line.startswith("0 of 70 lines, ") for line in shown)
    assert any(line.startswith("32 of 70 lines, ") for line in shown)
    assert shown[-1].startswith("70 of 70 lines, ") and shown[-1].endswith("\n")
    assert ended("--quiet")[2] == ""


def test_options_as_flags(run, model):
    Path("x").write_text("a\n")
    assert (
        run(
            "x",
            "--json",
            "--beam",
            "4",
            "--nbest=2",
            "--lenpen",
            "0.6",
            "--unnormalized",
            "--set",
            "min-len=2",
        )[0]
        == 0
    )
    assert model.defaults == {
        "beam": "4",
        "nbest": "2",
        "lenpen": "0.6",
        "unnormalized": "true",
        "min_len": "2",
    }
    assert run("x", "--set", "nbest=false")[0] == 0
    status, _, error = run("x", "--nbest", "2")
    assert (
        status == 2
        and error
        == "error: --nbest 2: further translations are written only with --json; add --json\n"
    )


def test_words_that_the_model_does_not_know(run, model):
    Path("x").write_text("a\nqa q\x1bb\n" + "q\n" * 4)
    assert run("x", "-o", "y", "--quiet")[2].splitlines() == [
        "x, line 2: the model does not know most of these words: qa, q\\x1bb",
        "x, line 3: the model does not know most of these words: q",
        "x, line 4: the model does not know most of these words: q",
        "x: the model does not know most words of 5 lines; it translates de to en",
    ]
    assert (
        run("--text", "q" * 2, "--quiet")[2]
        == "--text, line 1: the model does not know most of these words: qq\n"
    )
    assert run("--text", " ".join(f"q{n}" for n in range(9)), "--quiet")[2].endswith(
        ": q0, q1, q2, q3, q4, …\n"
    )


def test_lines_of_several_sentences(run, model):
    pytest.importorskip("sentencex")
    model.bundle.source_lang = "en"
    Path("x").write_text("This is one. And another!\n\n  \nAlone\n")
    assert run("x", "--split-sentences")[1].decode() == ".eno si sihT !rehtona dnA\n\n\nenolA\n"
    rows = [
        json.loads(line)
        for line in run("x", "--split-sentences", "--json")[1].decode().splitlines()
    ]
    assert [(row["source"], row["text"]) for row in rows] == [
        ("This is one. And another!", ".eno si sihT !rehtona dnA"), ("", ""), ("  ", ""),
        ("Alone", "enolA"),
    ]  # fmt: skip
    assert "leave out --split-sentences" in run("x", "--split-sentences", "--alignments")[2]


def test_alignments_as_fairseq_prints_them(run, model):
    Path("x").write_text("ab\n\n")

    def translated(lines, *, details, batch_size):
        assert details and model.defaults["print_alignment"] == "hard"
        return [
            Translation(
                line, line, tokens=["p", "q", "</s>"][3 - 3 * bool(line) :], alignment=[1, 0, 2]
            )
            for line in lines
        ]

    model.translate = translated
    assert run("x", "--alignments")[:2] == (0, b"ab\t1-0 0-1\n\t\n")
