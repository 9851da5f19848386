"""Restores names that NumPy has removed, for the modules of fairseq that use them.

``np.int`` and ``np.float`` were removed in NumPy 1.24, ``np.compat`` in 2.0, the argument
``interpolation`` of ``np.percentile``, now ``method``, in 2.4. fairseq 0.12.2 uses them in
data/data_utils.py:488 (block-wise masks) and :560 (``--num-batch-buckets``),
data/token_block_dataset.py:125, data/language_pair_dataset.py:292 (filtering by size) and
modules/dynamic_crf_layer.py:108. `numpy` itself does not change: other packages detect its version
by these names.
"""

import inspect
import types
import warnings
from typing import Any, Dict, Optional

from .importing import ModuleView, Repair

_MODULES = (
    "fairseq.data.data_utils",
    "fairseq.data.language_pair_dataset",
    "fairseq.data.token_block_dataset",
    "fairseq.modules.dynamic_crf_layer",
)


def _aliases() -> Dict[str, object]:
    """The names in ``numpy`` that fairseq uses and this NumPy lacks or has changed, as {name:
    replacement}."""
    import numpy

    aliases = {"int": int, "float": float, "compat": types.SimpleNamespace(long=int)}
    with warnings.catch_warnings():
        # NumPy 1.20 to 1.23 has them still and warns when asked
        warnings.simplefilter("ignore")
        missing = {name: value for name, value in aliases.items() if not hasattr(numpy, name)}
    if "interpolation" not in inspect.signature(numpy.percentile).parameters:
        missing["percentile"] = _percentile
    return missing


def _percentile(*args: Any, interpolation: str = "linear", **kwargs: Any) -> Any:
    """``numpy.percentile``, whose argument ``method`` may also be given by its former name,
    ``interpolation``."""
    import numpy

    return numpy.percentile(*args, **{"method": interpolation, **kwargs})


def _reason() -> Optional[str]:
    import numpy

    missing = _aliases()
    if not missing:
        return None
    return f"NumPy {numpy.__version__} has dropped or changed " + ", ".join(
        f"np.{name}" for name in missing
    )


def _restore_aliases(module: Any) -> None:
    module.np = ModuleView(module.np, **_aliases())


REPAIR = Repair(name="numpy-aliases", modules=_MODULES, reason=_reason, apply=_restore_aliases)
