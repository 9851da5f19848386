"""fairseq 0.12.2 on today's Python, NumPy and PyTorch: one small file a repair.

The repairs are applied while fairseq is imported (`importing`), in every process of an
environment in which this package is installed (`startup`), also to the stock commands and to
fairseq's own tasks. They write into no file of another package; each is a no-op where it is not
needed, and ``FAIRSEQ_HRT_DISABLE_REPAIRS=<name>,...`` (or ``all``) switches them off.

This package imports neither torch nor fairseq by itself, and nothing from its parent.
"""

import contextlib
import sys
from typing import Callable, Iterator, List, Optional

# Not "from . import checkpoint_loading": that form imports the top-level package as well, which
# must not happen when the startup line loads this one alone.
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
from .numpy_aliases import REPAIR as NUMPY_ALIASES
from .scored_files import REPAIR as SCORED_FILES
from .sentence_bleu import REPAIR as SENTENCE_BLEU

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
    HYDRA_USER_DIR,
    DEPRECATION_WARNINGS,
)

_finder = RepairingFinder(REPAIRS)
_import_error: Optional[Exception] = None
_left_to_the_doctor = False


def install() -> None:
    """Repair fairseq: what has been imported now, the rest when it is imported. Idempotent."""
    if _finder in sys.meta_path:
        return
    sys.meta_path.insert(0, _finder)
    for name in sorted(_finder.modules & sys.modules.keys()):
        _finder.repair(sys.modules[name], before_execution=False)


def statuses() -> List[RepairStatus]:
    """The outcome of each repair in this process."""
    return list(_finder.statuses)


def when_fairseq_is_imported(register: Callable[[], None]) -> None:
    """Calls `register` as soon as fairseq is imported: now if it is already, else right after its
    own code has run.

    What it raises is raised by the import, so that a broken family is seen at once; the doctor
    reports it instead.
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
    """Keep an error of registering the families for the doctor to report, who would else die of the
    first thing he is there to explain."""
    global _left_to_the_doctor
    _left_to_the_doctor = True
    try:
        yield
    finally:
        _left_to_the_doctor = False


def import_error() -> Optional[Exception]:
    """The error of registering the families, if there was one."""
    return _import_error
