"""fairseq 0.12.2 on today's Python, NumPy and PyTorch: one small file a repair.

The repairs are applied while fairseq is imported (`importing`), in every process of an
environment in which this package is installed (`startup`), also to the stock commands and to
fairseq's own tasks. They write into no file of another package; each is a no-op where it is not
needed, and ``FAIRSEQ_HRT_DISABLE_REPAIRS=<name>,...`` (or ``all``) switches them off.

This package imports neither torch nor fairseq by itself, and nothing from its parent.
"""

import contextlib
import sys
from typing import Iterator, List, Optional

# Not "from . import checkpoint_loading": that form imports the top-level package as well, which must
# not happen when the startup line loads this one alone.
from .checkpoint_loading import REPAIR as CHECKPOINT_LOADING
from .checkpoint_loading import CorruptCheckpointError, UnsafeCheckpointError
from .cpu_distributed import REPAIR as CPU_DISTRIBUTED
from .dataclass_defaults import REPAIR as DATACLASS_DEFAULTS
from .deprecation_warnings import REPAIR as DEPRECATION_WARNINGS
from .encoder_layer import REPAIR as ENCODER_LAYER
from .importing import Repair, RepairingFinder, RepairStatus
from .numpy_aliases import REPAIR as NUMPY_ALIASES

__all__ = [
    "REPAIRS",
    "CorruptCheckpointError",
    "Repair",
    "RepairStatus",
    "UnsafeCheckpointError",
    "import_error",
    "install",
    "left_to_the_doctor",
    "statuses",
]

REPAIRS = (
    DATACLASS_DEFAULTS,
    NUMPY_ALIASES,
    CHECKPOINT_LOADING,
    ENCODER_LAYER,
    CPU_DISTRIBUTED,
    DEPRECATION_WARNINGS,
)

_finder = RepairingFinder(REPAIRS)
_import_error: Optional[Exception] = None


def install() -> None:
    """Repair fairseq: what has been imported now, the rest when it is imported. Idempotent."""
    if _finder in sys.meta_path:
        return
    sys.meta_path.insert(0, _finder)
    for name in sorted(_finder.modules & sys.modules.keys()):
        _finder.repair(sys.modules[name], before_execution=False)


def statuses() -> List[RepairStatus]:
    """What became of each repair in this process."""
    return list(_finder.statuses)


@contextlib.contextmanager
def left_to_the_doctor() -> Iterator[None]:
    """Keep an error of the enclosed imports for ``python -m fairseq_hrt`` to report.

    Python imports the package before it runs ``__main__``: without this the doctor would die
    of the first thing it is there to explain. Everywhere else the error is raised as usual.
    """
    global _import_error
    try:
        yield
    except Exception as error:
        if not _doctor_is_starting():
            raise
        _import_error = error


def import_error() -> Optional[Exception]:
    """The error that `left_to_the_doctor` kept."""
    return _import_error


def _doctor_is_starting() -> bool:
    # argv[0] is "-m" while runpy looks for the module (documented), and what follows it in
    # the original command line is the module's name
    arguments = sys.orig_argv
    return sys.argv[:1] == ["-m"] and arguments[arguments.index("-m") + 1] == "fairseq_hrt"
