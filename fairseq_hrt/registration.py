"""Registers the families' tasks, models and criterions right after fairseq has been imported, and
lets modules that have moved be imported by their earlier names.

The order of imports does not matter. If fairseq is not loaded yet,
:func:`.compat.when_fairseq_is_imported` calls :func:`register_families` right after fairseq's own
code. Before a module of this package that needs fairseq (``import fairseq_hrt.engine``), fairseq
and with it all families are imported: otherwise the families would import that module while it is
still half executed.
"""

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Optional, Sequence

from . import compat
from .compat import mismatched_weights
from .native.families import NAMES

_PACKAGE = __name__.rpartition(".")[0]
# Modules that need fairseq, beside the families. Bundles, files and command lines do not.
NEEDING_FAIRSEQ = ("engine", "task", "decoding_task", "training")
# Modules of ``loading`` that need fairseq.
LOADING = ("averaging", "checkpoints", "computation", "language_tokens")
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
    """Imports every family, whose modules register its task, models and criterions, and enables
    the check that a resumed training has its checkpoint's model options."""
    for name in NAMES:
        importlib.import_module(f".{name}", _PACKAGE)
    own = importlib.import_module(".loading.computation", _PACKAGE)
    mismatched_weights.computation = own.computation


def needs_fairseq(name: str) -> bool:
    """Whether ``name``, e.g. ``fairseq_hrt.engine``, is a module of this package that imports
    fairseq."""
    package, _, rest = name.partition(".")
    part, _, module = rest.partition(".")
    if package != _PACKAGE:
        return False
    return part in NAMES or part in NEEDING_FAIRSEQ or (part == "loading" and module in LOADING)


class FairseqFirst(MetaPathFinder):
    """Meta-path finder that imports fairseq before the modules of this package that need it."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Imports fairseq first if the module ``fullname`` needs it. If this import has loaded
        ``fullname`` as well, returns a spec for the loaded module, whose code is not run again;
        otherwise returns None, which leaves the search to the other finders."""
        if "fairseq" in sys.modules or not needs_fairseq(fullname):
            return None
        importlib.import_module("fairseq")
        known = sys.modules.get(fullname)
        if known is None:
            return None
        spec = ModuleSpec(fullname, _Loaded(known))
        # For a module that is loaded by now, Python prefers the module's own ``__spec__``, whose
        # loader would run the code again.
        known.__spec__ = spec
        return spec


class Moved(MetaPathFinder):
    """Meta-path finder that finds a moved module by its earlier name, with a warning."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """A spec for the module at its present place, if ``fullname`` is an earlier name; None for
        all other names."""
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
    """Loader that returns ``module``, which is already loaded, instead of running the module's code
    again."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: Any) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


def install() -> None:
    """Installs both import finders of this module, and arranges that the families are registered
    when fairseq is imported, or at once if it has been."""
    sys.meta_path[:0] = [FairseqFirst(), Moved()]
    compat.when_fairseq_is_imported(register_families)
