"""What passes of different widths cost on this machine, measured once and kept in a file."""

import hashlib
import json
import logging
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

import torch

from ..common.ensemble import EngineEnsemble
from .accounting import DecoderSize

logger = logging.getLogger(__name__)
# Of each width; the first batch of a kind is decoded as often as that.
REPEATS = 5


def default_cost_file() -> Path:
    """In the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairseq_hrt" / "jacobi_costs.json"


class CostTable:
    """Seconds of a decoder pass, by rows and tokens of each row.

    Args:
        ensemble: whose passes are measured.
        widths: q.
        path: JSON file of earlier measurements; what cannot be read or written is measured again each time.
    """

    def __init__(self, ensemble: EngineEnsemble, widths: Sequence[int], path: Optional[Path]) -> None:
        self.ensemble, self.widths = ensemble, list(widths)
        self.path = default_cost_file() if path is None else path
        self.known: Dict[int, Dict[int, float]] = {}

    def __call__(self, rows: int, decode: Callable[[int], int]) -> Dict[int, float]:
        """t(q) for a batch of so many rows, rounded up to a power of two.

        Args:
            rows: sentences of the batch.
            decode: decodes the batch with a width and returns the passes that it took.
        """
        rows = 1 << (rows - 1).bit_length()
        if rows not in self.known:
            key = self._key(rows)
            table = {int(width): seconds for width, seconds in self._read().get(key, {}).items()}
            if set(table) != set(self.widths):
                table = self._measure(decode)
                self._write(key, table)
            self.known[rows] = table
        return self.known[rows]

    def _key(self, rows: int) -> str:
        """What the costs depend on."""
        models = [engine.model for engine in self.ensemble.engines]
        parts = [rows, torch.get_num_threads(), torch.__version__, platform.processor(), os.cpu_count(), platform.node()]
        parts += [(DecoderSize.of(model), str(next(model.parameters()).dtype)) for model in models]
        device = next(models[0].parameters()).device
        parts.append(torch.cuda.get_device_name(device) if device.type == "cuda" else device.type)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16] + f" rows {rows}"

    def _measure(self, decode: Callable[[int], int]) -> Dict[int, float]:
        seconds: Dict[int, List[float]] = {width: [] for width in self.widths}
        # Interleaved, so that a slow moment of the machine slows all widths; the first round warms up.
        for number in range(REPEATS + 1):
            for width in self.widths:
                self._wait()
                start = time.perf_counter()
                passes = decode(width)
                self._wait()
                if number:
                    seconds[width].append((time.perf_counter() - start) / passes)
        return {width: statistics.median(times) for width, times in seconds.items()}

    def _wait(self) -> None:
        device = next(self.ensemble.engines[0].model.parameters()).device
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def _read(self) -> Dict[str, Dict[str, float]]:
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            return stored if isinstance(stored, dict) else {}
        except (OSError, ValueError):
            return {}

    def _write(self, key: str, table: Dict[int, float]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_suffix(f".{os.getpid()}.partial")
            partial.write_text(json.dumps({**self._read(), key: table}, indent=1) + "\n", encoding="utf-8")
            partial.replace(self.path)
        except OSError as error:
            logger.warning("the costs of decoder passes are not kept: %s", error)
