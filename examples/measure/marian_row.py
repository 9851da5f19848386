"""The row of Marian in decoding_speed.py: the fastest of its 8-bit modes for the setting."""

import math
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from fairseq.data import Dictionary
from marian_files import write_model, write_shortlist, write_vocabulary
from other_engines import Worker
from timed_rows import Clock, Row

NAME = "Marian int8"
# Modes that each package is tried with; pymarian's intgemm8 takes the processor's best. With tied
# embeddings pymarian multiplies the output layer in float32. So that is a matrix of its own there,
# except where a shortlist takes words of it, which packed matrices do not allow.
MODES: Dict[str, Tuple[str, ...]] = {
    "pymarian": ("intgemm8", "intgemm8avx512", "packed8avx512", "packed8avx2"),
    "bergamot": ("int8shiftAlphaAll", "int8shiftAll", "int8"),
}
# <s>, <pad>, </s> and <unk>: the length is forced.
_NEVER = (0, 1, 2, 3)
# The least CPU time of so many passes over so many batches decides which mode is the fastest; one
# before warms up.
_PASSES, _BATCHES = 3, 2


class Marian:
    """A model in Marian's files, and its engines.

    Args:
        interpreters: of ``pymarian``, ``bergamot`` or both.
        model: of fairseq, see :func:`marian_files.write_model`.
        dictionary: its words.
        folder: for the files.

    Raises:
        ValueError: the model cannot be represented, or not be converted.
    """

    def __init__(
        self, interpreters: Dict[str, str], model: Any, dictionary: Dictionary, folder: Path
    ) -> None:
        self.interpreters, self.dictionary, self.folder = interpreters, dictionary, folder
        self.worker: Optional[Worker] = None
        self.shortlist = folder / "lex.bin"
        folder.mkdir()
        write_vocabulary(folder / "vocab.spm", dictionary)
        for name, kind in (("tied", {}), ("alphas", {"alphas": True}), ("untied", {"tied": False})):
            write_model(folder / f"{name}.npz", model, never=_NEVER, **kind)

    def choose_among(self, shortlist: Any, frequent: int) -> None:
        """From now on among these words, with None among all."""
        self.shortlist.unlink(missing_ok=True)
        if shortlist is not None:
            ends = shortlist.offsets.tolist()
            found = {
                word: shortlist.candidates[first:end].tolist()
                for word, (first, end) in enumerate(zip(ends, ends[1:]))
            }
            write_shortlist(self.shortlist, found, frequent, len(self.dictionary))

    def fastest(self, batches: Sequence[Dict[str, Any]], clock: Clock) -> Row:
        """The fastest mode for batches of one length; its row has the package and kind of products
        (``mode``), and of every mode CPU milliseconds per sentence, or why it has none (``tried``).

        Raises:
            ValueError: none translates them.
        """
        self.end()
        symbols = self.dictionary.symbols
        sources = [batch["net_input"]["src_tokens"][:, :-1] for batch in batches]
        lines = [[" ".join(symbols[word] for word in row) for row in rows] for rows in sources]
        least, chosen = math.inf, ""
        tried: Dict[str, Any] = {}
        for mode, engine, settings in self._modes(*sources[0].shape):
            worker = None
            try:
                worker = self._started(mode, engine, settings)
                seconds = _probe(worker, lines[:_BATCHES])
            except ValueError as error:
                tried[mode], seconds = str(error).removeprefix(f"{mode} "), math.inf
            else:
                tried[mode] = 1000 * seconds / sum(map(len, lines[:_BATCHES]))
            if seconds < least:
                least, chosen = seconds, mode
                worker, self.worker = self.worker, worker
            if worker is not None:
                worker.end()
        if self.worker is None:
            raise ValueError(f"--marian: no mode translates: {'; '.join(map(str, tried.values()))}")
        started, more = self.worker, {"mode": chosen, "tried": tried}
        return Row(
            NAME, lines, lambda batch: started.translate([batch]), clock, remote=True, more=more
        )

    def _modes(self, batch: int, length: int) -> Iterator[Tuple[str, str, Dict[str, Any]]]:
        """Name, engine and settings of each; ``length`` words become as many, and one in the place
        of ``</s>``."""
        short, vocabulary = self.shortlist.is_file(), str(self.folder / "vocab.spm")
        tied = "tied" if short else "untied"
        for kind in MODES["pymarian"] if "pymarian" in self.interpreters else ():
            if short and not kind.startswith("intgemm8"):
                continue
            words = ["-m", str(self.folder / f"{tied}.{kind}.bin"), "-v", vocabulary, vocabulary]
            words += "-b 1 --skip-cost --cpu-threads 1 --max-length-factor 1 -w 256".split()
            words += ["--mini-batch", str(batch), "--maxi-batch", "1", "--quiet"]
            words += ["--shortlist", str(self.shortlist), "false"] if short else []
            yield f"pymarian {kind}, {tied}", "pymarian", {"arguments": words}
        for kind in MODES["bergamot"] if "bergamot" in self.interpreters else ():
            config = {
                "models": [str(self.folder / "alphas.npz")], "vocabs": [vocabulary] * 2,
                "beam-size": 1, "skip-cost": True, "normalize": 0, "word-penalty": 0,
                "max-length-break": length + 1, "mini-batch-words": (length + 1) * batch,
                "workspace": 256, "max-length-factor": 1, "gemm-precision": kind,
                "ssplit-mode": "sentence", "quiet": True, "quiet-translation": True,
                "cpu-threads": 0,
            }  # fmt: skip
            if short:
                config["shortlist"] = [str(self.shortlist), False]
            yield f"bergamot {kind}", "bergamot", {"config": config}

    def _started(self, mode: str, engine: str, settings: Dict[str, Any]) -> Worker:
        interpreter, log = self.interpreters[engine], self.folder / "log"
        if engine == "pymarian":
            model = Path(settings["arguments"][1])
            if not model.is_file():
                tied, kind, _ = model.name.split(".")
                source = str(self.folder / f"{tied}.npz")
                command = [interpreter, "-m", "pymarian", "convert", "-f", source, "-t", str(model)]
                done = subprocess.run([*command, "-g", kind], capture_output=True, text=True)
                if done.returncode or not model.is_file():
                    said = (done.stderr or done.stdout).strip().rpartition("\n")[2]
                    raise ValueError(f"{mode} was not converted; {said[:200]}")
        return Worker(mode, engine, interpreter, log, **settings)

    def end(self) -> None:
        """Ends the process of the decoder that :meth:`fastest` gave last."""
        if self.worker is not None:
            self.worker.end()
            self.worker = None


def _probe(worker: Worker, batches: Sequence[List[str]]) -> float:
    """CPU seconds of the best pass.

    Raises:
        ValueError: it ends, or writes translations of another length.
    """
    found = [len(text.split()) for text in worker.translate(batches)[0]]
    wanted = [len(line.split()) + 1 for batch in batches for line in batch]
    if found != wanted:
        raise ValueError(
            f"{worker.name} writes {len(found)} translations of {_numbers(found)} words, not"
            f" {len(wanted)} of {_numbers(wanted)}"
        )
    return min(worker.translate(batches)[2] for _ in range(_PASSES))


def _numbers(found: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(set(found))))
