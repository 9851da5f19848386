"""The repair `hydra-user-dir`; that groups are found is an integration test."""

import sys
import types
from argparse import Namespace

import pytest

from fairseq_hrt.compat import hydra_user_dir
from fairseq_hrt.compat.hydra_user_dir import user_dir


def arguments(*overrides, config_dir=None, config_path=None, config_name=None):
    return Namespace(
        overrides=list(overrides),
        config_dir=config_dir,
        config_path=config_path,
        config_name=config_name,
    )


@pytest.mark.parametrize(
    "overrides, expected",
    [
        ((), None),
        (("task=translation",), None),
        (("common.user_dir=/plugin", "task=translation"), "/plugin"),
        (("+common.user_dir='/my plugin'",), "/my plugin"),
        (("common.user_dir=/one", "common.user_dir=/two"), "/two"),
        (("common.user_dir=",), None),
    ],
)
def test_the_command_line(overrides, expected):
    assert user_dir(arguments(*overrides)) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("common:\n  user_dir: /plugin\n", "/plugin"),
        ("common:\n  seed: 1\n", None),
        ("task: {_name: translation}\n", None),
        ("- 1\n", None),
        ("common: {user_dir: [1]}\n", None),
        ("common: {\n", None),
        ("", None),
    ],
)
def test_the_file(tmp_path, text, expected):
    (tmp_path / "train.yaml").write_text(text)
    for name in ("train", "train.yaml"):
        assert user_dir(arguments(config_dir=str(tmp_path), config_name=name)) == expected
    assert user_dir(arguments(config_path=str(tmp_path), config_name="train")) == expected
    assert (
        user_dir(arguments("common.user_dir=/other", config_dir=str(tmp_path), config_name="train"))
        == "/other"
    )
    assert user_dir(arguments(config_dir=str(tmp_path), config_name="missing")) is None
    assert user_dir(arguments(config_dir=str(tmp_path))) is None


def test_only_the_program_of_hydra_imports_it(monkeypatch):
    prepared, imported = [], []
    module = types.ModuleType("fairseq.dataclass.initialize")
    module.hydra_init = lambda *name: prepared.append((name, len(imported)))
    hydra_user_dir.REPAIR.apply(module)
    monkeypatch.setattr(
        "fairseq.utils.import_user_module", lambda args: imported.append(args.user_dir)
    )
    monkeypatch.setattr(
        "hydra._internal.utils.get_args", lambda: arguments("common.user_dir=/plugin")
    )
    monkeypatch.delitem(sys.modules, "fairseq_cli.hydra_train", raising=False)
    module.hydra_init("config")
    monkeypatch.setitem(sys.modules, "fairseq_cli.hydra_train", types.ModuleType("stand_in"))
    # As fairseq does while it is imported.
    module.hydra_init()
    assert imported == []
    module.hydra_init("config")
    assert imported == ["/plugin"] and prepared == [(("config",), 0), ((), 0), (("config",), 1)]
    for others in (arguments, lambda: sys.exit(2)):
        monkeypatch.setattr("hydra._internal.utils.get_args", others)
        module.hydra_init("config")
    assert imported == ["/plugin"] and len(prepared) == 5
