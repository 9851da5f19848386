"""Makes ``fairseq-hydra-train`` import ``common.user_dir`` before it composes the configuration.

fairseq 0.12.2 imports it afterwards (fairseq_cli/train.py:48), so that ``task=translation_hrt``
ends with "Could not find 'task/translation_hrt'". The value of ``common.user_dir`` is taken from
the command line or from the file that ``--config-dir`` and ``--config-name`` name.
"""

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Optional

from .importing import around


def user_dir(arguments: Any) -> Optional[str]:
    """The value of ``common.user_dir`` in hydra's parsed ``arguments``: from the command line, else
    from the configuration file that they name; None if neither has one."""
    for override in reversed(arguments.overrides):
        name, _, value = override.lstrip("+").partition("=")
        if name == "common.user_dir" and value:
            return str(value.strip("'\""))
    folder = arguments.config_dir or arguments.config_path
    if not folder or not arguments.config_name:
        return None
    from omegaconf import OmegaConf

    name = arguments.config_name.removesuffix(".yaml")
    try:
        found = OmegaConf.select(OmegaConf.load(Path(folder, f"{name}.yaml")), "common.user_dir")
    except Exception:
        # hydra reports what is wrong with the file.
        return None
    return found if isinstance(found, str) else None


def _named_plugin() -> Optional[str]:
    from hydra._internal.utils import get_args

    try:
        return user_dir(get_args())
    except SystemExit:
        # hydra reports the unknown argument.
        return None


def _with_plugin(prepare: Any, *name: str) -> None:
    # fairseq also calls this without a name while it is imported, in programs with other arguments.
    if name and "fairseq_cli.hydra_train" in sys.modules:
        from fairseq.utils import import_user_module

        plugin = _named_plugin()
        if plugin is not None:
            import_user_module(Namespace(user_dir=plugin))
    prepare(*name)


REPAIR = around(
    "hydra-user-dir",
    "groups of plugins are looked for before common.user_dir is imported",
    {"fairseq.dataclass.initialize:hydra_init": _with_plugin},
)
