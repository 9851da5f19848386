"""What passes of different widths cost on this machine, measured once and kept in a file."""

import hashlib
import json
import logging
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence

import torch

from ..common.ensemble import EngineEnsemble
from ..common.state import Memory
from .accounting import DecoderSize

logger = logging.getLogger(__name__)
# Tokens in the cache while the passes are measured, and repeats of each.
CACHED, REPEATS = 10, 9


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
        self.known: Dict[str, Dict[int, float]] = {}

    def __call__(self, memories: List[Memory]) -> Dict[int, float]:
        """t(q) for as many rows as the batch has, rounded up to a power of two."""
        rows = 1 << (len(memories[0].lengths) - 1).bit_length()
        key = self._key(rows)
        if key not in self.known:
            stored = self._read().get(key, {})
            table = {int(width): seconds for width, seconds in stored.items()}
            if set(table) != set(self.widths):
                table = self._measure(memories)
                self._write(key, table)
            self.known[key] = table
        return self.known[key]

    def _key(self, rows: int) -> str:
        """What the costs depend on."""
        models = [engine.model for engine in self.ensemble.engines]
        parts = [rows, torch.get_num_threads(), torch.__version__, platform.processor(), os.cpu_count(), platform.node()]
        parts += [(DecoderSize.of(model), str(next(model.parameters()).dtype)) for model in models]
        device = next(models[0].parameters()).device
        parts.append(torch.cuda.get_device_name(device) if device.type == "cuda" else device.type)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16] + f" rows {rows}"

    def _measure(self, memories: List[Memory]) -> Dict[int, float]:
        counters = self.ensemble.counters
        before = dict(vars(counters))
        seconds = {width: [self._pass(memories, width) for _ in range(3)][-1:] for width in self.widths}
        # Interleaved, so that a slow moment of the machine slows all widths.
        for _ in range(REPEATS):
            for width in self.widths:
                seconds[width].append(self._pass(memories, width))
        vars(counters).update(before)
        return {width: statistics.median(times) for width, times in seconds.items()}

    def _pass(self, memories: List[Memory], width: int) -> float:
        """Seconds of one pass behind CACHED tokens."""
        rows, device = len(memories[0].lengths), memories[0].lengths.device
        positions = torch.arange(CACHED + width, device=device)
        states = self.ensemble.start(memories, positions=positions)
        tokens = torch.full((rows, CACHED + width), 4, device=device)
        self.ensemble.log_probabilities(states, tokens[:, :CACHED], positions[:CACHED])
        _wait(device)
        start = time.perf_counter()
        log_probs = self.ensemble.log_probabilities(states, tokens[:, CACHED:], positions[CACHED:], every=True)
        log_probs.max(-1).indices.tolist()
        _wait(device)
        return time.perf_counter() - start

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


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
