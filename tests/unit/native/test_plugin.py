"""What PyTorch's side does for the folder that translates without it."""

import inspect

import pytest

from fairseq_hrt.export import plugin as provided
from fairseq_hrt.native import plugin


def test_the_plugin_has_every_function():
    wanted = {name for name in vars(plugin.Plugin) if not name.startswith("_")}
    assert set(provided.__all__) == wanted and all(hasattr(provided, name) for name in wanted)
    for name in wanted - {"add_runtime"}:
        own = list(inspect.signature(getattr(plugin.Plugin, name)).parameters)[1:]
        assert list(inspect.signature(getattr(provided, name)).parameters) == own
    assert plugin.plugin() is provided


def test_an_installation_that_only_translates(monkeypatch):
    monkeypatch.setattr(plugin, "_MODULE", "fairseq_hrt.not_there.plugin")
    with pytest.raises(ModuleNotFoundError, match="only translates") as refused:
        plugin.plugin()
    # The command line names what is missing by it.
    assert refused.value.name == "torch"
