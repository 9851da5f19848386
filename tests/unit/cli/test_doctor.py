"""``fairseq-hrt doctor``: the report, for people and programs, and its exit status."""

import json
import sys

import pytest

from fairseq_hrt.cli.doctor import main
from fairseq_hrt.compat import doctor


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
    assert json.loads(capsys.readouterr().out)["problems"] == [{"what": "one thing", "fix": "do this"}]


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
