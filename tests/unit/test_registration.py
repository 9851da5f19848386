"""Families are registered when fairseq is there, whatever was imported first."""

import importlib.machinery
import importlib.util
import sys

from fairseq_hrt import registration


def test_what_needs_fairseq():
    for name in (
        "fairseq_hrt.engine",
        "fairseq_hrt.engine.transformer",
        "fairseq_hrt.hrt",
        "fairseq_hrt.dag.graph",
        "fairseq_hrt.loading.models",
    ):
        assert registration.needs_fairseq(name)
    for name in (
        "fairseq_hrt.loading",
        "fairseq_hrt.loading.data_options",
        "fairseq_hrt.files",
        "fairseq_hrt.hub.bundle",
        "fairseq_hrt.cli.translate",
        "fairseq",
        "hrt",
    ):
        assert not registration.needs_fairseq(name)


def test_a_module_that_is_loaded_meanwhile_is_not_run_again(finder, tmp_path):
    import awaited_module

    (tmp_path / "other_module.py").write_text("raise RuntimeError('run')\n")
    spec = awaited_module.__spec__
    found = importlib.util.module_from_spec(
        importlib.machinery.ModuleSpec("other_module", registration._Loaded(awaited_module))
    )
    found.__spec__.loader.exec_module(found)
    assert found is awaited_module and found.__spec__ is spec and sys.awaited == ["module"]
