"""Repairs of fairseq 0.12.2 for today's Python, NumPy and PyTorch; one small file per repair.

The repairs change fairseq in memory while it is imported (`importing`), in every Python process of
an environment with this package (`startup`), so that they also reach the stock commands and
fairseq's own tasks. A repair that is not needed does nothing.
``FAIRSEQ_HRT_DISABLE_REPAIRS=<name>,...`` (or ``all``) switches repairs off.

This package imports neither torch nor fairseq by itself, and nothing from its parent.
"""

import contextlib
import sys
from typing import Callable, Iterator, List, Optional

# Not "from . import checkpoint_loading", which would import the top-level package, too: the startup
# line loads this one alone.
from .attention_kernels import REPAIR as ATTENTION_KERNELS
from .checkpoint_copies import REPAIR as CHECKPOINT_COPIES
from .checkpoint_loading import REPAIR as CHECKPOINT_LOADING
from .checkpoint_loading import CorruptCheckpointError, UnsafeCheckpointError
from .cpu_distributed import REPAIR as CPU_DISTRIBUTED
from .cpu_precision import REPAIR as CPU_PRECISION
from .dataclass_defaults import REPAIR as DATACLASS_DEFAULTS
from .deprecation_warnings import REPAIR as DEPRECATION_WARNINGS
from .ema_of_integers import REPAIR as EMA_OF_INTEGERS
from .encoder_layer import REPAIR as ENCODER_LAYER
from .generated_shards import REPAIR as GENERATED_SHARDS
from .hydra_user_dir import REPAIR as HYDRA_USER_DIR
from .importing import Repair, RepairingFinder, RepairStatus
from .late_help import REPAIR as LATE_HELP
from .mismatched_weights import REPAIR as MISMATCHED_WEIGHTS
from .multi_tensor import REPAIR as MULTI_TENSOR
from .numpy_aliases import REPAIR as NUMPY_ALIASES
from .one_line_errors import REPAIR as ONE_LINE_ERRORS
from .scored_files import REPAIR as SCORED_FILES
from .sentence_bleu import REPAIR as SENTENCE_BLEU
from .swapped_languages import REPAIR as SWAPPED_LANGUAGES

__all__ = [
    "REPAIRS",
    "CorruptCheckpointError",
    "Repair",
    "RepairStatus",
    "UnsafeCheckpointError",
    "checkpoint_loading",
    "display",
    "import_error",
    "install",
    "left_to_the_doctor",
    "statuses",
    "when_fairseq_is_imported",
]

REPAIRS = (
    DATACLASS_DEFAULTS,
    NUMPY_ALIASES,
    CHECKPOINT_LOADING,
    CHECKPOINT_COPIES,
    ENCODER_LAYER,
    ATTENTION_KERNELS,
    CPU_DISTRIBUTED,
    CPU_PRECISION,
    GENERATED_SHARDS,
    SCORED_FILES,
    SENTENCE_BLEU,
    EMA_OF_INTEGERS,
    MULTI_TENSOR,
    HYDRA_USER_DIR,
    DEPRECATION_WARNINGS,
    LATE_HELP,
    MISMATCHED_WEIGHTS,
    SWAPPED_LANGUAGES,
    ONE_LINE_ERRORS,
)

_finder = RepairingFinder(REPAIRS)
_import_error: Optional[Exception] = None
_left_to_the_doctor = False


def install() -> None:
    """Repairs fairseq's modules: at once where they are imported already, the others as soon as
    they are imported. Further calls do nothing."""
    if _finder in sys.meta_path:
        return
    sys.meta_path.insert(0, _finder)
    for name in sorted(_finder.modules & sys.modules.keys()):
        _finder.repair(sys.modules[name], before_execution=False)


def statuses() -> List[RepairStatus]:
    """The outcome of each repair in this process so far."""
    return list(_finder.statuses)


def when_fairseq_is_imported(register: Callable[[], None]) -> None:
    """Calls `register` at once if fairseq is imported, else right after fairseq's own code has run.

    The import of fairseq then raises the errors of `register`, so that a broken family is noticed
    at once; within :func:`left_to_the_doctor` they are stored instead, see :func:`import_error`.
    """

    def guarded() -> None:
        global _import_error
        try:
            register()
        except Exception as error:
            _import_error = error
            if not _left_to_the_doctor:
                raise

    _finder.after("fairseq", guarded)


@contextlib.contextmanager
def left_to_the_doctor() -> Iterator[None]:
    """A context in which the import of fairseq stores an error from registering the families' tasks
    and models (:func:`import_error`), for the report of ``fairseq-hrt doctor``, instead of raising
    it."""
    global _left_to_the_doctor
    _left_to_the_doctor = True
    try:
        yield
    finally:
        _left_to_the_doctor = False


def import_error() -> Optional[Exception]:
    """The error that registering the families' tasks and models raised in this process; None if it
    succeeded or has not been tried."""
    return _import_error
