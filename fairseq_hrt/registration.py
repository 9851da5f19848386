"""The families register themselves when fairseq is imported; until then none of them is loaded.

Two things make that hold in any order. A callback runs right after fairseq's own code
(:func:`.compat.when_fairseq_is_imported`). And whoever begins with a module that needs fairseq
(``import fairseq_hrt.engine``) gets fairseq, and so all families, first: otherwise they would meet
that module half-way through its own import.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional, Sequence

from . import compat
from .native.families import NAMES

_PACKAGE = __name__.rpartition(".")[0]
# Besides the families. Everything else starts with the standard library: bundles, files and
# command lines.
NEEDING_FAIRSEQ = ("engine", "task", "task_options", "training")
# Of the package that loads, the modules that read checkpoints.
LOADING = ("averaging", "checkpoints")


def register_families() -> None:
    """Imports every family, whose modules register its task, models and criterions."""
    for name in NAMES:
        importlib.import_module(f".{name}", _PACKAGE)


def needs_fairseq(name: str) -> bool:
    """Whether a module of this package imports fairseq, by its full name."""
    package, _, rest = name.partition(".")
    part, _, module = rest.partition(".")
    if package != _PACKAGE:
        return False
    return part in NAMES or part in NEEDING_FAIRSEQ or (part == "loading" and module in LOADING)


class FairseqFirst(MetaPathFinder):
    """Finds nothing itself; imports fairseq before modules that need it."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """None, or the module that the families have imported meanwhile, which must not be run
        again."""
        if "fairseq" in sys.modules or not needs_fairseq(fullname):
            return None
        importlib.import_module("fairseq")
        known = sys.modules.get(fullname)
        return None if known is None else ModuleSpec(fullname, _Loaded(known))


class _Loaded(Loader):
    """Loads a module that is there already."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: Any) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


def install() -> None:
    """Makes the families register themselves, now if fairseq is there already."""
    sys.meta_path.insert(0, FairseqFirst())
    compat.when_fairseq_is_imported(register_families)
