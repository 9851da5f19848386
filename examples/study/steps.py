"""The commands of an entry, and how they are run: killed at any moment, an entry continues when it
is run again."""

import calendar
import fcntl
import json
import os
import platform
import re
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

import torch
from entries import FOLDER, TEXT, Entry, replaced

from fairseq_hrt.evaluation.comparison import environment

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = {
    "prepare": "data-bin",
    "train": "model.pt",
    "distill": "data-bin",
    "tune": "best",
    "benchmark": "results.json",
}
# What does not change the result of a training: how often it logs something, and what it keeps to
# continue from.
HABITS = {
    "log-format": "simple", "log-interval": 50,
    "required-batch-size-multiple": 1, "no-epoch-checkpoints": True,
}  # fmt: skip
# As in examples/common/recipe.sh: freed memory is kept, which saves a quarter of a small model's
# time.
MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "MALLOC_TOP_PAD_": "134217728",
}
BEGIN_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def flags(options: Mapping[str, Any]) -> List[str]:
    """Options as arguments; lists are repeated. With = a value may begin with a dash."""
    arguments: List[str] = []
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not False:
                arguments.append(f"--{name}" if item is True else f"--{name}={item}")
    return arguments


def habits_here() -> Dict[str, Any]:
    """Precision and data loading of this machine: on a GPU --fp16, as in the papers, on a CPU
    bfloat16 where that is the faster one; ``PRECISION`` decides otherwise. Figures differ a little
    with it, identities do not."""
    gpu = torch.cuda.is_available()
    if gpu and os.environ.get("PRECISION", "") in ("", "float16"):
        return {"fp16": True, "num-workers": 2}
    chosen = runpy.run_path(str(REPOSITORY / "examples/common/precision.py"))["chosen_precision"]()
    return {"bf16": chosen == "bfloat16", "num-workers": 2 * gpu}


def filled(value: Any, folders: Mapping[str, Path], out: Path) -> Any:
    """The value with paths and texts for references to other entries."""

    def change(text: str) -> str:
        text = FOLDER.sub(lambda match: str(out if match[1] == "out" else folders[match[1]]), text)
        return TEXT.sub(
            lambda match: (folders[match[1]] / match[2]).read_text(encoding="utf-8").strip(), text
        )

    return replaced(value, change)


def commands(entry: Entry, folders: Mapping[str, Path], out: Path) -> List[List[str]]:
    """The command lines of an entry whose parents are finished.

    Args:
        entry: what is to be run.
        folders: of its parents, by name.
        out: its own.
    """
    fields = filled(entry.fields, folders, out)
    console = [sys.executable, "-m", "fairseq_hrt"]
    options = flags(fields.get("options", {}))
    if entry.kind == "prepare":
        return [["bash", fields["script"]]]
    if entry.kind == "command":
        first, *rest = fields["command"]
        return [[sys.executable if first == "python" else first, *rest]]
    if entry.kind == "train":
        count, folder = fields["average"], out / "checkpoints"
        keeping = {"save-dir": folder, "keep-interval-updates": count}
        habits = flags({**HABITS, **habits_here(), **keeping})
        program = str(Path(sys.executable).with_name("fairseq-train"))
        average = ["average", "--folder", folder, "--last", count, "--output", out / "model.pt"]
        return [
            [program, fields["data"], *habits, *options],
            [*console, *map(str, average)],
        ]
    own = [
        part for one in fields.get("systems", [fields.get("system")]) for part in ("--system", one)
    ]
    own += [part for one in fields.get("grid", []) for part in ("--grid", one)]
    own += ["--print-best"] if entry.kind == "tune" else []
    return [[*console, entry.kind, fields["data"], *own, *options, "--out", str(out)]]


def processor() -> str:
    """The CPU's own name, with the numbers of its family and model, which tell generations of one
    name apart."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    known = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.M))
    name = known.get("model name") or platform.processor() or "unknown"
    generation = " (family {cpu family}, model {model})" if len(known) == 3 else ""
    return name + generation.format_map(known)


def read_record(folder: Path) -> Dict[str, Any]:
    """What is known of an entry in its folder."""
    path = folder / "record.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    partial = folder / "record.json.partial"
    partial.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(folder / "record.json")


class Store:
    """The folder of a study: an entry has ``entries/IDENTITY``, and ``names/NAME`` points there.

    Args:
        folder: where everything is written.
        entries: of the matrix, by name.
        threads: of each training; a seed has the same figures with the same number.
    """

    def __init__(self, folder: Path, entries: Mapping[str, Entry], threads: int = 1) -> None:
        self.folder, self.entries, self.threads = folder, entries, threads

    def path(self, name: str) -> Path:
        return self.folder / "entries" / self.entries[name].identity

    def finished(self, name: str) -> bool:
        return read_record(self.path(name)).get("state") == "finished"

    def run(self, name: str) -> None:
        """Runs an entry, or continues with it.

        Raises:
            ValueError: another process works on it, or a command fails.
        """
        entry, out = self.entries[name], self.path(name)
        out.mkdir(parents=True, exist_ok=True)
        self._link(name)
        with (out / "lock").open("a", encoding="utf-8") as lock:
            try:
                # Commands inherit the lock: what outlives a killed driver is not started a second
                # time beside itself.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"{name}: another process works in {out}; wait for it, or end it"
                ) from None
            if not self.finished(name):
                self._run(entry, out, lock.fileno())

    def _link(self, name: str) -> None:
        link = self.folder / "names" / name
        link.parent.mkdir(exist_ok=True)
        partial = link.with_name(f".{name}.{os.getpid()}")
        partial.symlink_to(Path("..", "entries", self.entries[name].identity))
        partial.replace(link)

    def _run(self, entry: Entry, out: Path, lock: int) -> None:
        threads = self.threads if entry.kind == "train" else 1
        earlier = read_record(out)
        for last in earlier.get("attempts", [])[-1:]:
            if not last["seconds"] and (out / "log").exists():
                # Its driver was killed: what the commands said last is when they ended.
                begun = calendar.timegm(time.strptime(last["begin"], BEGIN_FORMAT))
                last["seconds"] = round((out / "log").stat().st_mtime - begun, 1)
        record = {**earlier, "name": entry.name, "fields": entry.fields, "state": "running"}
        machine = environment(threads)
        attempt = {
            "begin": time.strftime(BEGIN_FORMAT, time.gmtime()), "seconds": 0.0,
            "processor": processor(), "cores": os.cpu_count(), "threads": threads,
            "commit": machine["commit"], "versions": machine,
        }  # fmt: skip
        record["attempts"] = [*record.get("attempts", []), attempt]
        begin = time.monotonic()
        write_record(out, record)
        try:
            for arguments in commands(
                entry, {parent: self.path(parent) for parent in entry.parents}, out
            ):
                self._call(entry, arguments, out, threads, lock)
            result = out / entry.fields.get("result", RESULTS.get(entry.kind, ""))
            if not result.exists():
                raise ValueError(
                    f"{entry.name}: its commands ended well, but {result} is not there"
                )
            record["state"] = "finished"
        except BaseException:
            record["state"] = "failed"
            raise
        finally:
            attempt["seconds"] = round(time.monotonic() - begin, 1)
            write_record(out, record)

    def _call(
        self, entry: Entry, arguments: Sequence[str], out: Path, threads: int, lock: int
    ) -> None:
        variables = {**MEMORY, **os.environ, **entry.fields.get("environment", {})}
        variables.update(OUT=str(out), OMP_NUM_THREADS=str(threads), PYTHONUNBUFFERED="1")
        best = out / "best.partial" if entry.kind == "tune" else None
        with (out / "log").open("ab") as log:
            log.write(("+ " + " ".join(arguments) + "\n").encode())
            log.flush()
            with best.open("wb") if best else log as output:
                code = subprocess.call(
                    arguments, cwd=REPOSITORY, env=variables, stdin=subprocess.DEVNULL,
                    stdout=output, stderr=log, pass_fds=(lock,)
                )  # fmt: skip
        if code:
            raise ValueError(f"{entry.name}: a command ended with status {code}; see {out / 'log'}")
        if best:
            best.replace(out / "best")
