"""Applies repairs while fairseq is imported.

A meta-path finder handles the few modules of fairseq that need a repair: it lets the ordinary
finders find the module, and runs the repair just before or after the module's code. Nothing is
written to disk, and nothing but fairseq is changed (except for a switch of PyTorch in
:mod:`.attention_kernels`). Processes that do not import fairseq are not affected.
"""

import functools
import importlib.abc
import importlib.machinery
import logging
import os
import sys
import types
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

logger = logging.getLogger(__name__)

DISABLE_VARIABLE = "FAIRSEQ_HRT_DISABLE_REPAIRS"


@dataclass(frozen=True)
class Repair:
    """A fault of fairseq and its repair.

    Args:
        name: the repair's name in reports and in ``FAIRSEQ_HRT_DISABLE_REPAIRS``.
        modules: full names of the modules of fairseq that are repaired.
        reason: why the repair is needed; or a function that returns this, or None if the repair is
            not needed in this process.
        apply: makes the repair; called once with each module.
        before_execution: True: `apply` is called with the still empty module, before its code runs;
            False: after it has run.
    """

    name: str
    modules: Tuple[str, ...]
    reason: Union[str, Callable[[], Optional[str]]]
    apply: Callable[[types.ModuleType], None]
    before_execution: bool = False

    @property
    def needed(self) -> Optional[str]:
        """Why the repair is needed in this process; None if it is not."""
        return self.reason if isinstance(self.reason, str) else self.reason()


def around(name: str, reason: str, functions: Mapping[str, Callable[..., Any]]) -> Repair:
    """A repair that replaces functions of fairseq by wrappers.

    Args:
        name, reason: see :class:`Repair`.
        functions: {``module:function`` or ``module:Class.method``: wrapper}; a wrapper is called in
            place of the original function, with that function and then the call's arguments.
    """
    places = [place.partition(":")[::2] for place in functions]

    def apply(module: types.ModuleType) -> None:
        for (owner, path), function in zip(places, functions.values()):
            if owner == module.__name__:
                outer, _, last = path.rpartition(".")
                holder = getattr(module, outer) if outer else module
                repaired = _called_with(getattr(holder, last), function)
                static = isinstance(vars(holder).get(last), staticmethod)
                setattr(holder, last, staticmethod(repaired) if static else repaired)

    return Repair(name, tuple(dict.fromkeys(owner for owner, _ in places)), reason, apply)


def _called_with(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original, updated=())
    def repaired(*args: Any, **kwargs: Any) -> Any:
        return function(original, *args, **kwargs)

    return repaired


@dataclass
class RepairStatus:
    """The outcome of one repair in this process.

    Attributes:
        repair: the repair.
        reason: why the repair is needed; None if it is not, or none of its modules has been
            imported yet.
        applied: names of the modules that it has been applied to.
        failed: {name of a module on which it failed: the error}.
        disabled: whether ``FAIRSEQ_HRT_DISABLE_REPAIRS`` switches it off.
    """

    repair: Repair
    reason: Optional[str] = None
    applied: List[str] = field(default_factory=list)
    failed: Dict[str, str] = field(default_factory=dict)
    disabled: bool = False

    def __str__(self) -> str:
        name = self.repair.name
        if self.failed:
            causes = "; ".join(f"{module}: {cause}" for module, cause in self.failed.items())
            return f"{name}: FAILED ({causes})"
        if self.disabled:
            return f"{name}: switched off by {DISABLE_VARIABLE}"
        if self.applied:
            return f"{name}: active ({self.reason})"
        if any(module in sys.modules for module in self.repair.modules):
            return f"{name}: not needed here"
        return f"{name}: waiting for the import of {', '.join(self.repair.modules)}"


def disabled_repairs() -> List[str]:
    """The names in ``FAIRSEQ_HRT_DISABLE_REPAIRS``, unchecked: those of repairs to switch off, or
    ``all``. Empty if it is not set."""
    return [
        name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",") if name.strip()
    ]


class RepairingLoader(importlib.abc.Loader):
    """Loads a module by its ordinary loader, and lets the finder apply the module's repairs before
    and after its code runs."""

    def __init__(self, loader: importlib.abc.Loader, finder: "RepairingFinder") -> None:
        self.loader = loader
        self.finder = finder

    def __getattr__(self, name: str) -> Any:
        # "python -m" asks the loader for the module's code.
        return getattr(self.loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[types.ModuleType]:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        # inspect, pkgutil and importlib.resources use the module's loader: give it the ordinary one
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        self.finder.repair(module, before_execution=True)
        self.finder.running.add(module.__name__)
        try:
            self.loader.exec_module(module)
        finally:
            self.finder.running.discard(module.__name__)
        self.finder.repair(module, before_execution=False)
        self.finder.announce(module.__name__)


class RepairingFinder(importlib.abc.MetaPathFinder):
    """Meta-path finder for the modules that need a repair: finds them through the other finders and
    wraps their loaders in :class:`RepairingLoader`."""

    def __init__(self, repairs: Tuple[Repair, ...]) -> None:
        disabled = disabled_repairs()
        unknown = set(disabled) - {repair.name for repair in repairs} - {"all"}
        if unknown:
            logger.warning(
                "%s names %s, which is not a repair; the repairs are: %s",
                DISABLE_VARIABLE,
                ", ".join(sorted(unknown)),
                ", ".join(repair.name for repair in repairs),
            )
        self.statuses = [
            RepairStatus(repair, disabled=bool({repair.name, "all"} & set(disabled)))
            for repair in repairs
        ]
        self.modules = {module for repair in repairs for module in repair.modules}
        self.callbacks: Dict[str, List[Callable[[], None]]] = {}
        # Modules whose code is being executed by a RepairingLoader.
        self.running: Set[str] = set()

    def after(self, module: str, callback: Callable[[], None]) -> None:
        """Calls `callback` once, as soon as the code of the module named `module` has run; at once
        if it has run already."""
        if module in sys.modules and module not in self.running:
            callback()
            return
        self.callbacks.setdefault(module, []).append(callback)
        self.modules.add(module)

    def announce(self, module: str) -> None:
        """Calls the callbacks that wait for `module` (:meth:`after`), in order. If one raises an
        error, the error is passed on; that callback and the remaining ones are called when the
        module is imported again."""
        waiting = self.callbacks.get(module, [])
        while waiting:
            waiting[0]()
            del waiting[0]

    def find_spec(
        self,
        fullname: str,
        path: Optional[Sequence[str]] = None,
        target: Optional[types.ModuleType] = None,
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in self.modules:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = RepairingLoader(spec.loader, self)
                return spec
        return None

    def repair(self, module: types.ModuleType, *, before_execution: bool) -> None:
        """Applies the repairs of `module` whose ``before_execution`` has this value, unless they
        are disabled, applied already or not needed. An error is logged and stored, not raised."""
        for status in self.statuses:
            repair = status.repair
            if (
                status.disabled
                or repair.before_execution != before_execution
                or module.__name__ not in repair.modules
                or module.__name__ in status.applied
            ):
                continue
            try:
                status.reason = repair.needed
                if status.reason is not None:
                    repair.apply(module)
                    status.applied.append(module.__name__)
            except Exception as error:
                # with an unforeseen version, fairseq must be no harder to import than without
                # repairs
                status.failed[module.__name__] = f"{type(error).__name__}: {error}"
                logger.warning(
                    "the repair %s of %s failed: %s; fairseq-hrt doctor names the fix",
                    repair.name,
                    module.__name__,
                    error,
                )


class ModuleView(types.ModuleType):
    """A module with some of its names replaced, for the use of one other module.

    For example, ``checkpoint_utils.torch = ModuleView(torch, load=...)`` changes the ``torch.load``
    that `checkpoint_utils` calls, and leaves `torch` unchanged for all other modules.
    """

    def __init__(self, module: types.ModuleType, **replaced: object) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(replaced)
        self.__dict__["_viewed"] = module

    def __getattr__(self, name: str) -> object:
        return getattr(self.__dict__["_viewed"], name)

    def __dir__(self) -> List[str]:
        return sorted({*dir(self.__dict__["_viewed"]), *self.__dict__})
