"""What pip has installed, and the commands that install the rest."""

from importlib import metadata

import pytest

from fairseq_hrt.cli import distribution


@pytest.fixture
def installed(monkeypatch):
    """Distributions by name, with what they require; at first none."""
    found = {}

    def version(name):
        if name not in found:
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(metadata, "requires", lambda name: found[name])
    return found


def test_which_installation_this_is(installed):
    assert not distribution.only_translates()
    installed[distribution.TRANSLATION_ONLY] = []
    assert distribution.only_translates()
    installed[distribution.PLUGIN] = []
    assert not distribution.only_translates()


def test_what_an_extra_needs_is_named_itself(installed):
    assert distribution.install_command("serve") == "install the extra serve of fairseq_hrt"
    needs = [
        "numpy>=1.22",
        'b<2,>=1; extra == "serve"',
        'c==3; extra == "serve"',
        'd; extra == "other"',
    ]
    installed[distribution.TRANSLATION_ONLY] = needs
    assert distribution.install_command("serve") == "pip install 'b<2,>=1' c==3"
    installed[distribution.PLUGIN] = ['e; extra == "serve"']
    assert distribution.install_command("serve") == "pip install e"
    # An extra that neither has.
    assert distribution.install_command("unknown") == "install the extra unknown of fairseq_hrt"


def test_the_extras_of_this_installation():
    assert "starlette" in distribution.install_command(
        "serve"
    ) and "shtab" in distribution.install_command("completion")


def test_a_module_that_is_missing(installed):
    assert "needs torch, which is not installed: fairseq-hrt doctor" in distribution.not_installed(
        "torch.nn", "it"
    )
    installed[distribution.TRANSLATION_ONLY] = []
    for module, needed in (("torch.nn", "torch, which"), (None, "what")):
        said = distribution.not_installed(module, "it")
        assert said.startswith(f"it needs {needed} an installation that only translates does not")
        assert "bash examples/setup_env.sh" in said
