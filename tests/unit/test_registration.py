"""Families are registered when fairseq is there, whatever was imported first."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_hrt import registration
from fairseq_hrt.native.families import NAMES
from fairseq_hrt.registration import FairseqFirst, needs_fairseq


@pytest.fixture
def without_fairseq(monkeypatch):
    """``sys.modules`` without fairseq; the import of it is noted in the list, and registers a
    module ``fairseq_hrt.hrt.late``."""
    imported, late = [], ModuleType("fairseq_hrt.hrt.late")

    def pretend(name, package=None):
        imported.append(name)
        sys.modules["fairseq_hrt.hrt.late"] = late

    monkeypatch.delitem(sys.modules, "fairseq")
    monkeypatch.setattr(registration.importlib, "import_module", pretend)
    yield imported
    sys.modules.pop("fairseq_hrt.hrt.late", None)


def test_every_family_is_registered():
    for name in NAMES:
        assert f"fairseq_hrt.{name}" in sys.modules and f"translation_{name}" in TASK_REGISTRY
    assert {"hrt_transformer", "bidirectional_transformer", "dag_transformer"} <= set(
        MODEL_REGISTRY
    )


def test_what_needs_fairseq():
    for name in (
        "fairseq_hrt.engine",
        "fairseq_hrt.engine.transformer",
        "fairseq_hrt.hrt",
        "fairseq_hrt.dag.graph",
        "fairseq_hrt.engine.models",
    ):
        assert needs_fairseq(name)
    for name in (
        "fairseq_hrt.loading",
        "fairseq_hrt.native.bundles.data_options",
        "fairseq_hrt.native.io.files",
        "fairseq_hrt.native.bundles.bundle",
        "fairseq_hrt.cli.translate",
        "fairseq",
        "hrt",
        "other.hrt",
    ):
        assert not needs_fairseq(name)


def test_fairseq_comes_before_a_module_that_needs_it(without_fairseq):
    finder = FairseqFirst()
    assert finder.find_spec("fairseq_hrt.native.io.files", None) is None and without_fairseq == []
    # Not among what fairseq's import has brought: left to the other finders.
    assert finder.find_spec("fairseq_hrt.dag.later", None) is None and without_fairseq == [
        "fairseq"
    ]
    spec = finder.find_spec("fairseq_hrt.hrt.late", None)
    assert importlib.util.module_from_spec(spec) is sys.modules["fairseq_hrt.hrt.late"]


def test_with_fairseq_there_is_nothing_to_do(monkeypatch):
    monkeypatch.setattr(
        registration.importlib, "import_module", lambda name: pytest.fail(f"{name} was imported")
    )
    assert FairseqFirst().find_spec("fairseq_hrt.engine", None) is None


def test_a_module_that_is_loaded_meanwhile_is_not_run_again(tmp_path):
    (tmp_path / "loaded.py").write_text("runs = globals().get('runs', 0) + 1\n")
    spec = importlib.util.spec_from_file_location("loaded", tmp_path / "loaded.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    found = importlib.util.module_from_spec(ModuleSpec("loaded", registration._Loaded(loaded)))
    found.__spec__.loader.exec_module(found)
    assert found is loaded and found.__spec__ is spec and loaded.runs == 1


@pytest.mark.parametrize("former", sorted(registration.MOVED))
def test_former_names_lead_to_the_modules_of_today(former):
    name = f"fairseq_hrt.{registration.MOVED[former]}"
    with pytest.warns(FutureWarning, match=f"fairseq_hrt.{former} is now {name}"):
        found = importlib.import_module(f"fairseq_hrt.{former}")
    del sys.modules[f"fairseq_hrt.{former}"]
    assert found is importlib.import_module(name) and found.__spec__.name == name


def test_modules_of_a_moved_package(recwarn):
    import fairseq_hrt.bundles.bundle as former

    from fairseq_hrt.native.bundles import bundle

    assert former is bundle and bundle.__name__ == "fairseq_hrt.native.bundles.bundle"
