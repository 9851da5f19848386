"""``fairseq-hrt doctor`` and ``python -m fairseq_hrt``: the report, for people and programs, and
its exit status."""

import json
import os
import re
import runpy
import sys
from importlib import metadata
from pathlib import Path

import pytest

import fairseq_hrt
from fairseq_hrt import compat
from fairseq_hrt.cli import doctor
from fairseq_hrt.cli.doctor import main
from fairseq_hrt.native.runtime.library import LibraryUnavailable

ROOT = Path(__file__).resolve().parents[3]


def problems(report: doctor.Report) -> str:
    return "\n".join(f"{problem.what} -> {problem.fix}" for problem in report.problems)


def fake_versions(monkeypatch, **versions):
    real = metadata.version

    def version(name):
        found = versions.get(name.replace("-", "_"), real)
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return real(name) if found is real else found

    monkeypatch.setattr(metadata, "version", version)


def test_user_dir_is_the_package():
    assert os.path.samefile(doctor.user_dir(), os.path.dirname(fairseq_hrt.__file__))


def test_sound_installation_has_no_problem():
    report = doctor.examine()
    assert report.problems == [], problems(report)
    assert str(report).endswith("No problem found.")
    assert any("translation_hrt" in line for line in report.sections["Registered"])
    repairs = report.sections["Repairs of fairseq"]
    assert len(repairs) == len(compat.REPAIRS)
    assert not any("waiting" in line for line in repairs)


def test_missing_requirement(monkeypatch):
    fake_versions(monkeypatch, sacrebleu=None, bitarray=None)
    report = doctor.examine()
    assert "sacrebleu is not installed -> pip install 'sacrebleu>=2.0'" in problems(report)
    assert "bitarray is not installed -> pip install bitarray" in problems(report)


def test_old_requirement(monkeypatch):
    fake_versions(monkeypatch, omegaconf="2.0.6", torch="2.10.0+cpu")
    report = doctor.examine()
    assert "omegaconf 2.0.6 is too old" in problems(report)
    assert "torch" not in problems(report)
    # Another series does not work either.
    assert "pip install 'omegaconf==2.3.*'" in problems(report)


def test_an_installation_that_only_translates(monkeypatch):
    fake_versions(
        monkeypatch, fairseq=None, torch=None, fairseq_hrt=None, fairseq_hrt_translate="1.0"
    )
    report = doctor.examine()
    assert report.problems == [], problems(report)
    assert [line.partition(" ")[0] for line in report.sections["Versions"]] == [
        "Python",
        "numpy",
        "safetensors",
    ]
    assert "translates with bundles, does not train" in report.sections["Installation"][0]
    assert "Registered" not in report.sections
    optional = {line.partition(":")[0] for line in report.sections["Optional"]}
    assert optional == {"sentencepiece", "yaml", "starlette", "shtab"}

    def missing():
        raise LibraryUnavailable("there is no compiled kernel")

    monkeypatch.setattr(doctor.runtime, "load_library", missing)
    assert "the native engine is missing -> there is no compiled kernel" in problems(
        doctor.examine()
    )


def test_both_installations_at_once(monkeypatch):
    fake_versions(monkeypatch, fairseq_hrt_translate="1.0")
    assert "pip uninstall fairseq_hrt_translate fairseq_hrt" in problems(doctor.examine())


def test_what_each_optional_part_is_for(monkeypatch):
    monkeypatch.setattr(
        doctor.importlib.util, "find_spec", lambda name: None if name == "shtab" else object()
    )
    lines = doctor.examine().sections["Optional"]
    assert any(
        line.startswith("shtab: missing, for fairseq-hrt completion; pip install 'shtab")
        for line in lines
    )
    assert sum("installed" in line for line in lines) == len(lines) - 1


def test_other_fairseq(monkeypatch):
    fake_versions(monkeypatch, fairseq="0.10.2")
    assert "fairseq 0.10.2" in problems(doctor.examine())
    fake_versions(monkeypatch, fairseq=None)
    assert "pip install --no-deps fairseq==0.12.2" in problems(doctor.examine())


def test_import_error_of_the_package(monkeypatch):
    monkeypatch.setattr(doctor, "import_error", lambda: ImportError("no such family\nat all"))
    assert "ImportError: no such family ->" in problems(doctor.examine())


def test_no_startup_line(monkeypatch):
    others = [
        finder for finder in sys.meta_path if getattr(finder, "__name__", "") != "RepairFairseq"
    ]
    monkeypatch.setattr(sys, "meta_path", others)
    assert "does not repair fairseq at start" in problems(doctor.examine())


def test_failed_repair(monkeypatch):
    status = compat.RepairStatus(compat.REPAIRS[0], failed={"fairseq.x": "KeyError: 'y'"})
    monkeypatch.setattr(doctor, "statuses", lambda: [status])
    assert "dataclass-defaults failed: KeyError: 'y'" in problems(doctor.examine())


def test_every_problem_has_a_fix():
    report = doctor.Report(problems=[doctor.Problem("one thing", "do this")])
    assert "1. one thing\n     Fix: do this" in str(report)


def test_requirements_are_those_of_setup_py(monkeypatch):
    setup: dict = {}
    monkeypatch.setattr("setuptools.setup", setup.update)
    runpy.run_path(str(ROOT / "setup.py"), run_name="__main__")
    expected = {name + (f">={lowest}" if lowest else "") for name, lowest in doctor.NEEDED.items()}
    given = {
        line.replace("==", ">=").replace(".*", "").split(",")[0]
        for line in setup["install_requires"]
    }
    assert given == expected
    assert set(doctor.SERIES) == {
        line.split("==")[0] for line in setup["install_requires"] if "==" in line and ".*" in line
    }
    runpy.run_path(str(ROOT / "examples" / "translate_only" / "setup.py"), run_name="__main__")
    assert sorted(re.split("[>=]", line)[0] for line in setup["install_requires"]) == sorted(
        doctor.NEEDED_TO_TRANSLATE
    )


def test_the_report_for_programs():
    report = doctor.Report(
        sections={"Versions": ["a 1"]}, problems=[doctor.Problem("one thing", "do this")]
    )
    assert json.loads(report.to_json()) == {
        "sections": {"Versions": ["a 1"]}, "problems": [{"what": "one thing", "fix": "do this"}],
    }  # fmt: skip


@pytest.fixture
def report(monkeypatch):
    """What is found; at first nothing is wrong."""
    found = doctor.Report(sections={"Versions": ["a 1"]}, problems=[])
    monkeypatch.setattr(doctor, "examine", lambda: found)
    return found


def test_the_exit_status_says_whether_something_is_wrong(report, capsys):
    assert main([]) == 0 and capsys.readouterr().out == f"{report}\n"
    report.problems.append(doctor.Problem("one thing", "do this"))
    assert main([]) == 1 and "Fix: do this" in capsys.readouterr().out


def test_for_programs(report, capsys):
    report.problems.append(doctor.Problem("one thing", "do this"))
    assert main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"] == [
        {"what": "one thing", "fix": "do this"}
    ]


def test_a_reader_that_has_seen_enough(report, monkeypatch, tmp_path):
    with open(tmp_path / "output", "w") as stream:

        class Closed:
            fileno = stream.fileno

            def write(self, text):
                raise BrokenPipeError

            def flush(self):
                raise BrokenPipeError

        monkeypatch.setattr(sys, "stdout", Closed())
        assert main([]) == 0
        # Python flushes again at its end: into nothing.
        stream.write("what was left")
    assert (tmp_path / "output").read_text() == ""
