"""The finder that repairs modules while they are imported."""

import importlib
import runpy
import sys
import types

import pytest

from fairseq_hrt.compat.importing import DISABLE_VARIABLE, ModuleView, Repair, RepairingFinder


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """An importable module ``broken_module`` with one wrong value; import state is restored."""
    (tmp_path / "broken_module.py").write_text("present = 'value' in globals()\nanswer = 41\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield
    sys.modules.pop("broken_module", None)


def fix(module: types.ModuleType) -> None:
    module.answer = module.answer + 1


def install(**changes) -> RepairingFinder:
    fields = dict(name="answer", modules=("broken_module",), reason=lambda: "it is 41", apply=fix)
    finder = RepairingFinder((Repair(**{**fields, **changes}),))
    sys.meta_path.insert(0, finder)
    return finder


def test_repair_runs_after_the_module(broken):
    finder = install()
    module = importlib.import_module("broken_module")
    assert module.answer == 42
    assert finder.statuses[0].applied == ["broken_module"]
    assert "active (it is 41)" in str(finder.statuses[0])


def test_repair_runs_before_the_module(broken):
    install(apply=lambda module: setattr(module, "value", 1), before_execution=True)
    assert importlib.import_module("broken_module").present


def test_repair_is_not_applied_where_it_is_not_needed(broken):
    finder = install(reason=lambda: None)
    assert importlib.import_module("broken_module").answer == 41
    assert "not needed" in str(finder.statuses[0])


def test_failing_repair_leaves_the_module_importable(broken, caplog):
    finder = install(apply=lambda module: module.missing)
    assert importlib.import_module("broken_module").answer == 41
    assert "FAILED" in str(finder.statuses[0])
    assert "broken_module" in caplog.text


@pytest.mark.parametrize("value", ["answer", "all", "other, answer"])
def test_repair_can_be_switched_off(broken, monkeypatch, value):
    monkeypatch.setenv(DISABLE_VARIABLE, value)
    finder = install()
    assert importlib.import_module("broken_module").answer == 41
    assert DISABLE_VARIABLE in str(finder.statuses[0])


def test_unknown_name_to_switch_off_is_reported(monkeypatch, caplog):
    monkeypatch.setenv(DISABLE_VARIABLE, "anwser")
    install_names = RepairingFinder((Repair("answer", (), lambda: None, fix),))
    assert not install_names.statuses[0].disabled
    assert "anwser" in caplog.text


def test_module_keeps_its_own_loader(broken):
    install()
    module = importlib.import_module("broken_module")
    assert module.__loader__ is module.__spec__.loader
    assert "answer = 41" in module.__loader__.get_source("broken_module")


def test_module_runs_as_a_program(broken):
    install()
    assert runpy.run_module("broken_module", run_name="__main__")["answer"] == 41


def test_reloaded_module_is_not_repaired_twice_over(broken):
    finder = install()
    importlib.import_module("broken_module")
    finder.repair(sys.modules["broken_module"], before_execution=False)
    assert sys.modules["broken_module"].answer == 42


def test_other_modules_are_left_to_other_finders():
    assert RepairingFinder(()).find_spec("json") is None


def test_module_view_replaces_for_one_reader_only():
    import math

    view = ModuleView(math, pi=3)
    assert view.pi == 3
    assert math.pi != 3
    assert view.sqrt is math.sqrt
    assert {"pi", "sqrt"} <= set(dir(view))
    with pytest.raises(AttributeError):
        view.no_such_name  # noqa: B018
