"""What passes of different widths cost on this machine: learnt while decoding, and kept in a file for the next run."""

import hashlib
import json
import logging
import os
import platform
import statistics
from collections import Counter, deque
from pathlib import Path
from typing import Deque, Dict, Optional

import torch

from ..engine import EngineEnsemble
from ..files import write_text
from .accounting import DecoderSize

logger = logging.getLogger(__name__)
# The last so many batches tell what a pass costs.
MEASUREMENTS = 5
# Entries of the file, each for a model, a machine and a batch size; the oldest are dropped.
ENTRIES = 256


def default_cost_file() -> Path:
    """In the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairseq_hrt" / "jacobi_costs.json"


class CostTable:
    """Seconds of a decoder pass, by rows and tokens of each row.

    Args:
        ensemble: whose passes are measured.
        path: JSON file of earlier measurements; what cannot be read or written is measured anew in each run.
    """

    def __init__(self, ensemble: EngineEnsemble, path: Optional[Path]) -> None:
        self.ensemble = ensemble
        self.path = default_cost_file() if path is None else path
        self._measured: Dict[int, Dict[int, Deque[float]]] = {}
        self._learnt: Counter = Counter()

    @staticmethod
    def size(rows: int) -> int:
        """Batches up to the same power of two cost about the same."""
        return 1 << (rows - 1).bit_length()

    def known(self, rows: int) -> Dict[int, float]:
        """t(w) by w for a batch of so many rows, of the widths that were ever measured."""
        return {width: statistics.median(seconds) for width, seconds in self._table(rows).items()}

    def learn(self, rows: int, width: int, seconds: float, passes: int) -> None:
        """A batch was decoded with ``width`` in ``seconds``."""
        times = self._table(rows).setdefault(width, deque(maxlen=MEASUREMENTS))
        times.append(seconds / max(passes, 1))
        key = (self.size(rows), width)
        self._learnt[key] += 1
        if self._learnt[key] == 2:
            # The first batch of a kind pays for what is done once.
            del times[-2]
        # However long the text, the file is written twice for each width.
        if self._learnt[key] in (2, MEASUREMENTS):
            self._write(self._key(self.size(rows)), self.known(rows))

    def _table(self, rows: int) -> Dict[int, Deque[float]]:
        rows = self.size(rows)
        if rows not in self._measured:
            stored = self._read().get(self._key(rows))
            table = stored.items() if isinstance(stored, dict) else ()
            self._measured[rows] = {
                int(width): deque([seconds], maxlen=MEASUREMENTS)
                for width, seconds in table
                if width.isdecimal() and isinstance(seconds, float) and seconds > 0
            }
        return self._measured[rows]

    def _key(self, rows: int) -> str:
        """What the costs depend on."""
        models = [engine.model for engine in self.ensemble.engines]
        parts = [rows, torch.get_num_threads(), torch.__version__, platform.processor(), os.cpu_count(), platform.node()]
        parts += [(DecoderSize.of(model), str(next(model.parameters()).dtype)) for model in models]
        device = next(models[0].parameters()).device
        parts.append(torch.cuda.get_device_name(device) if device.type == "cuda" else device.type)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16] + f" rows {rows}"

    def _read(self) -> Dict[str, Dict[str, float]]:
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            return stored if isinstance(stored, dict) else {}
        except (OSError, ValueError, RecursionError):
            return {}

    def _write(self, key: str, table: Dict[int, float]) -> None:
        try:
            others = {name: values for name, values in self._read().items() if name != key}
            newest = dict([*others.items(), (key, table)][-ENTRIES:])
            write_text(self.path, json.dumps(newest, indent=1) + "\n")
        except OSError as error:
            logger.warning("the costs of decoder passes are not kept: %s", error)
