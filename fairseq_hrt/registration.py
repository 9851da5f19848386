"""The families register themselves when fairseq is imported; until then none of them is loaded.
Packages that have moved are found by their earlier names.

Two things make that hold in any order. A callback runs right after fairseq's own code
(:func:`.compat.when_fairseq_is_imported`). And whoever begins with a module that needs fairseq
(``import fairseq_hrt.engine``) gets fairseq, and so all families, first: otherwise they would meet
that module half-way through its own import.
"""

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional, Sequence

from . import compat
from .native.families import NAMES

_PACKAGE = __name__.rpartition(".")[0]
# Besides the families. Everything else starts with the standard library: bundles, files and
# command lines.
NEEDING_FAIRSEQ = ("engine", "task", "decoding_task", "training")
# Of the package that loads, the modules that read checkpoints.
LOADING = ("averaging", "checkpoints")
# Public names of version 0.2, which version 0.4 will not have.
MOVED = {
    "bundles": "native.bundles",
    "decoding": "native.decoding",
    "options": "native.options.values",
    "runtime": "native.runtime",
    "server": "native.server",
    "text": "native.text",
}


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


class Moved(MetaPathFinder):
    """Finds a package by its earlier name, with a warning."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """The module of today; None for names that did not change."""
        package, _, rest = fullname.partition(".")
        part, _, module = rest.partition(".")
        if package != _PACKAGE or part not in MOVED:
            return None
        name = ".".join(filter(None, (package, MOVED[part], module)))
        if not module:
            warnings.warn(
                f"{fullname} is now {name}; the next version no longer has the earlier name",
                FutureWarning,
                stacklevel=2,
            )
        return ModuleSpec(fullname, _Loaded(importlib.import_module(name)))


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
    sys.meta_path[:0] = [FairseqFirst(), Moved()]
    compat.when_fairseq_is_imported(register_families)
