"""The native engine: int8 or float32 models decoded in C, with a small Python face; without PyTorch
and fairseq. NumPy only."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine import Engine as Engine
    from .library import LibraryUnavailable as LibraryUnavailable
    from .options import check_dictionaries as check_dictionaries
    from .options import longest_written as longest_written
    from .options import options_for as options_for
    from .options import settled as settled
    from .options import takes_first_words as takes_first_words
    from .options import writes_in_order as writes_in_order

__all__ = [
    "Engine",
    "LibraryUnavailable",
    "check_dictionaries",
    "engine",
    "format",
    "library",
    "longest_written",
    "options",
    "options_for",
    "packing",
    "settled",
    "takes_first_words",
    "writes_in_order",
]
_HOMES = {
    "Engine": "engine",
    "LibraryUnavailable": "library",
    "check_dictionaries": "options",
    "longest_written": "options",
    "options_for": "options",
    "settled": "options",
    "takes_first_words": "options",
    "writes_in_order": "options",
}


def __getattr__(name: str) -> Any:
    # At first use: setup.py builds the kernel with a module of this package, where NumPy need not
    # be installed yet.
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
