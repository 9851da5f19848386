"""Groups of plugins in ``fairseq-hydra-train``.

``fairseq-train`` imports ``--user-dir`` before it reads its other options. ``fairseq-hydra-train``
0.12.2 imports ``common.user_dir`` after the configuration is composed (fairseq_cli/train.py:48), so
that ``task=translation_hrt`` ends with "Could not find 'task/translation_hrt'". It is imported
first here too, from the command line or from the file that ``--config-dir`` and ``--config-name``
name.
"""

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Optional

from .importing import around


def user_dir(arguments: Any) -> Optional[str]:
    """The plugin that the arguments of hydra name, on the command line first; None: none, or
    nothing readable."""
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
    # Without a name fairseq calls this while it is imported, in every program; other programs have
    # other arguments.
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
