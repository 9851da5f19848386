"""The command line as a whole: which verb is run with what, and what is said without one."""

import importlib
import os
import re
from types import SimpleNamespace

import pytest

import fairseq_hrt
from fairseq_hrt.cli import main as command_line
from fairseq_hrt.cli.main import TRANSLATING, VERBS, main, module_of, no_such_verb


@pytest.fixture
def verbs(monkeypatch):
    """What is imported and called instead of a verb: (module, arguments) of each call; ``result``
    is what it returns or raises."""
    found = SimpleNamespace(calls=[], result=None)

    def load(name, package):
        def run(arguments):
            found.calls.append((name, arguments))
            if isinstance(found.result, BaseException):
                raise found.result
            return found.result

        assert package == "fairseq_hrt.cli"
        return SimpleNamespace(main=run)

    monkeypatch.setattr(command_line.importlib, "import_module", load)
    return found


def test_every_verb_has_its_module():
    for verb in VERBS:
        module = importlib.import_module(f"fairseq_hrt.cli.{module_of(verb)}")
        assert callable(module.main) and module.build_parser().prog == f"fairseq-hrt {verb}"


def test_what_follows_a_verb_is_its_own(verbs):
    assert main(["benchmark", "data", "--version", "-h", "--", "translate"]) == 0
    assert main(["translate"]) == 0 and main([]) == 0
    assert verbs.calls == [
        (".benchmark", ["data", "--version", "-h", "--", "translate"]), (".translate", []),
        (".doctor", []),
    ]  # fmt: skip


def test_the_exit_status_is_the_verbs(verbs, capsys):
    verbs.result = 1
    assert main(["doctor"]) == 1


def test_interrupted_while_a_verb_is_imported(verbs, capsys):
    in_its_place = RuntimeError("cannot release un-acquired lock")
    in_its_place.__context__ = KeyboardInterrupt()
    for verbs.result in (KeyboardInterrupt(), in_its_place):
        with pytest.raises(SystemExit) as end:
            main(["translate"])
        assert end.value.code == 130 and capsys.readouterr().err == "interrupted\n"


def test_what_is_said_without_a_verb(verbs, capsys):
    assert main(["--user-dir"]) == 0
    assert os.path.samefile(
        capsys.readouterr().out.rstrip("\n"), os.path.dirname(fairseq_hrt.__file__)
    )
    assert main(["--options"]) == 0 and "--hrt-chunk-sizes" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    shown = capsys.readouterr().out
    assert (
        end.value.code == 0
        and all(re.search(rf"^    {verb}\s", shown, re.M) for verb in VERBS)
        and verbs.calls == []
    )


def test_an_installation_that_only_translates_lists_what_it_has(verbs, capsys, monkeypatch):
    monkeypatch.setattr(command_line, "distribution", lambda: SimpleNamespace(
        only_translates=lambda: True,
        not_installed=lambda module, command: f"{command} needs {module}"
    ))  # fmt: skip
    with pytest.raises(SystemExit):
        main(["--help"])
    shown, others = capsys.readouterr().out, set(VERBS) - set(TRANSLATING)
    assert {verb for verb in VERBS if re.search(rf"^    {verb}\s", shown, re.M)} == set(
        TRANSLATING
    ) and "--options" not in shown
    assert " ".join(shown.split()).endswith(
        f"also has: {', '.join(verb for verb in VERBS if verb in others)}."
    )
    # Whoever gives one of the others all the same is told so, and asked nothing before.
    for arguments in (["tune"], ["tune", "x"], ["tune", "--help"], ["help", "tune"], ["bundle"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        verb = "bundle" if arguments == ["bundle"] else "tune"
        assert end.value.code == 2 and verbs.calls == []
        assert capsys.readouterr().err == f"error: fairseq-hrt {verb} needs None\n"
    # A part of its own verbs that is missing.
    verbs.result = ModuleNotFoundError("no", name="torch")
    with pytest.raises(SystemExit) as end:
        main(["translate", "x"])
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: fairseq-hrt translate needs torch\n"


def test_options_that_only_fairseq_explains(capsys, monkeypatch):
    monkeypatch.setattr(
        command_line, "explain", lambda parser, options: importlib.import_module("no_such_fairseq")
    )
    with pytest.raises(SystemExit) as end:
        main(["--options"])
    assert (
        end.value.code == 2
        and "fairseq-hrt --options needs no_such_fairseq" in capsys.readouterr().err
    )


@pytest.mark.parametrize("given", ["--version", "-V", "version", "version translate"])
def test_the_version(given, capsys):
    with pytest.raises(SystemExit) as end:
        main(given.split())
    assert (
        end.value.code == 0
        and capsys.readouterr().out == f"fairseq_hrt {fairseq_hrt.__version__}\n"
    )


def test_help_as_a_verb(verbs, capsys):
    assert main(["help", "translate"]) == 0 and verbs.calls == [(".translate", ["--help"])]
    for arguments in (["help"], ["--help"], ["help", "help"], ["help", "version"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
    shown = capsys.readouterr().out
    assert shown[: len(shown) // 4] * 4 == shown
    with pytest.raises(SystemExit) as end:
        main(["help", "transalte"])
    assert end.value.code == 2 and "did you mean translate?" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_help_fits_the_terminal_and_is_not_too_wide(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    texts = [
        importlib.import_module(f"fairseq_hrt.cli.{module_of(verb)}").build_parser().format_help()
        for verb in VERBS
    ]
    main(["--options"])
    lines = [
        line
        for text in (*texts, command_line.build_parser().format_help(), capsys.readouterr().out)
        for line in text.splitlines()
    ]
    assert max(map(len, lines)) > min(columns, 100) - 10
    for line in lines:
        # Commands stay whole, and so do names.
        command = line.startswith(("    ", "usage: ")) and (
            "fairseq-" in line or "--" in line or "=" in line
        )
        assert len(line) <= min(columns, 100) or (
            columns < 100 and (command or " " not in line.strip())
        ), line


def test_misspelt_verbs(capsys):
    assert "did you mean help? there are: doctor, translate" in no_such_verb("hlep", tuple(VERBS))
    assert "did you mean translate?" in no_such_verb("transalte", tuple(VERBS))
    assert "did you mean benchmark?" in no_such_verb("BENCHMARKS", tuple(VERBS))
    assert "benchmark" not in no_such_verb("BENCHMARKS", TRANSLATING)
    assert "did you mean" not in no_such_verb("xyz", tuple(VERBS)) and "translate" in no_such_verb(
        "xyz", tuple(VERBS)
    )
    with pytest.raises(SystemExit) as end:
        main(["--no-such", "Bundel"])
    assert (
        end.value.code == 2 and "no verb 'Bundel'; did you mean bundle?" in capsys.readouterr().err
    )


def test_misspelt_options_of_the_whole(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--hlep"])
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        "error: unrecognized arguments: --hlep; did you mean --help? (see fairseq-hrt --help)\n"
    )
