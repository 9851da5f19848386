"""Makes dataclass instances acceptable as dataclass defaults, which Python >= 3.11 refuses.

fairseq 0.12.2 uses them, e.g. ``common: CommonConfig = CommonConfig()`` in
dataclass/configs.py:1105. Since Python 3.11 `dataclasses` refuses every default whose class has
``__hash__ = None``, which ``@dataclass`` sets, so that ``import fairseq`` ends with "mutable
default ... is not allowed".

That check looks only at the class: every subclass of `FairseqDataclass` gets a ``__hash__`` that
raises the usual TypeError, and instances stay as unhashable as on Python 3.10. `FairseqDataclass`
needs it before the next statement of its module runs; therefore ``__build_class__``, which executes
class statements, is replaced in the builtins of that module.
"""

import builtins
import sys
import types
from typing import Any, Callable, Optional

from .importing import Repair


def _unhashable(self: object) -> int:
    raise TypeError(f"unhashable type: '{type(self).__name__}'")


def _reason() -> Optional[str]:
    if sys.version_info < (3, 11):
        return None
    version = ".".join(map(str, sys.version_info[:2]))
    return f"Python {version} refuses dataclass instances as defaults"


def _watch_class_statements(module: types.ModuleType) -> None:
    def build_class(body: Callable[[], Any], name: str, *bases: Any, **kwargs: Any) -> Any:
        cls = builtins.__build_class__(body, name, *bases, **kwargs)
        if name == "FairseqDataclass":
            allow_as_default(cls)
        return cls

    module.__dict__["__builtins__"] = {**vars(builtins), "__build_class__": build_class}


def allow_as_default(base: Any) -> None:
    """Makes instances of `base`, and of all subclasses defined later, acceptable as dataclass
    defaults."""

    def init_subclass(cls: Any, **kwargs: object) -> None:
        super(base, cls).__init_subclass__(**kwargs)
        if "__hash__" not in vars(cls):
            cls.__hash__ = _unhashable

    base.__init_subclass__ = classmethod(init_subclass)  # type: ignore[arg-type]  # cls is a type, which Any hides
    base.__hash__ = _unhashable


REPAIR = Repair(
    name="dataclass-defaults",
    modules=("fairseq.dataclass.configs",),
    reason=_reason,
    apply=_watch_class_statements,
    before_execution=True,
)
