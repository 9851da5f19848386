"""The package as it is imported: light until fairseq is there, and everything under its name."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

import fairseq_hrt
from fairseq_hrt import compat
from fairseq_hrt.cli.main import VERBS
from fairseq_hrt.compat import importing

HEAVY = ("torch", "fairseq", "numpy", "tqdm", "sacremoses", "matplotlib", "sacrebleu", "omegaconf")
EVERY_HELP = """
import contextlib, io, json, sys
import fairseq_hrt
from fairseq_hrt.cli.main import VERBS, main
loaded = {}
def note(name):
    loaded[name] = [module for module in HEAVY if module in sys.modules]
note("import fairseq_hrt")
for arguments in (["--help"], ["--version"], ["--user-dir"], ["nonsense"], *([verb, "--help"] for verb in VERBS)):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        try:
            main(arguments)
        except SystemExit:
            pass
    assert shown.getvalue(), arguments
    note(" ".join(arguments))
print(json.dumps(loaded))
"""


def test_nothing_heavy_is_loaded_before_it_is_needed(tmp_path):
    script = EVERY_HELP.replace("HEAVY", repr(HEAVY))
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = json.loads(found.stdout)
    assert len(loaded) == len(VERBS) + 5
    assert {name: modules for name, modules in loaded.items() if modules} == {}


def test_families_are_attributes():
    assert fairseq_hrt.hrt.task.__name__ == "fairseq_hrt.hrt.task"
    assert set(fairseq_hrt.__all__) <= set(dir(fairseq_hrt))
    with pytest.raises(AttributeError, match="no_such"):
        fairseq_hrt.no_such  # noqa: B018


@pytest.fixture
def finder(tmp_path, monkeypatch):
    """A finder of repairs, and a module ``awaited_module`` that notes when its code has run."""
    (tmp_path / "awaited_module.py").write_text("import sys\nsys.awaited.append('module')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "awaited", [], raising=False)
    found = importing.RepairingFinder(())
    sys.meta_path.insert(0, found)
    yield found
    sys.modules.pop("awaited_module", None)


def test_callbacks_follow_the_module(finder):
    finder.after("awaited_module", lambda: sys.awaited.append("first"))
    assert sys.awaited == []
    import awaited_module  # noqa: F401

    assert sys.awaited == ["module", "first"]
    finder.after("awaited_module", lambda: sys.awaited.append("second"))
    assert sys.awaited == ["module", "first", "second"]


def test_a_callback_asked_for_within_the_module_waits_for_its_end(finder, tmp_path):
    sys.finder = finder
    (tmp_path / "awaited_module.py").write_text(
        "import sys\nsys.finder.after('awaited_module', lambda:"
        " sys.awaited.append('after'))\nsys.awaited.append('module')\n"
    )
    finder.modules.add("awaited_module")
    import awaited_module  # noqa: F401

    del sys.finder
    assert sys.awaited == ["module", "after"]


def test_a_failing_callback_fails_the_import_and_is_tried_again(finder):
    faults = [ImportError("broken family")]

    def register():
        if faults:
            raise faults.pop()
        sys.awaited.append("registered")

    finder.after("awaited_module", register)
    with pytest.raises(ImportError, match="broken family"):
        import awaited_module
    import awaited_module  # noqa: F401

    assert sys.awaited == ["module", "module", "registered"]


def test_the_doctor_reports_what_registering_raises(monkeypatch):
    def register():
        raise ImportError("broken")

    monkeypatch.setattr(compat, "_import_error", None)
    monkeypatch.setattr(compat, "_finder", SimpleNamespace(after=lambda name, callback: callback()))
    with pytest.raises(ImportError):
        compat.when_fairseq_is_imported(register)
    monkeypatch.setattr(compat, "_import_error", None)
    with compat.left_to_the_doctor():
        compat.when_fairseq_is_imported(register)
    assert str(compat.import_error()) == "broken"
