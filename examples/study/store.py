"""Folders and records of entries: what was run, when, where, for how long, with what result.

Every entry has the folder ``entries/<identity>`` of the study, with the file record.json, the log
of all its commands and what they leave; ``names/<name>`` points to it. A record is only ever
replaced as a whole.
"""

import fcntl
import json
import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from matrix import Entry

RECORD = "record.json"
LOG = "log"
# Coordinated universal time.
BEGIN_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
PACKAGES = (
    "fairseq",
    "fairseq_hrt",
    "torch",
    "numpy",
    "sacrebleu",
    "ctranslate2",
    "subword-nmt",
    "sacremoses",
)


def write_json(path: Path, content: Any) -> None:
    """Writes a file that a reader sees whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)


def processor() -> str:
    """The CPU's own name, with the numbers of its family and model, which tell generations of one
    name apart."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        first = ""
    known = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in first.splitlines())
    }
    name = known.get("model name") or platform.processor() or "unknown"
    return (
        f"{name} (family {known['cpu family']}, model {known['model']})"
        if {"cpu family", "model"} <= set(known)
        else name
    )


def versions() -> Dict[str, str]:
    """Versions of Python and of the packages that matter."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit(repository: Path) -> str:
    """The commit of the code, with a plus sign if files were changed since; "unknown" outside a
    repository."""

    def git(*arguments: str) -> Optional[str]:
        try:
            done = subprocess.run(
                ["git", "-C", str(repository), *arguments],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "HEAD")
    if head is None:
        return "unknown"
    return head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


class Store:
    """The folder of a study.

    Args:
        folder: where everything is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, entry: Entry) -> Path:
        return self.folder / "entries" / entry.identity

    def prepare(self, entry: Entry) -> Path:
        """Makes the folder of an entry and lets its name point there."""
        path = self.path(entry)
        path.mkdir(parents=True, exist_ok=True)
        self.name(entry)
        return path

    def name(self, entry: Entry) -> None:
        """Lets the name of an entry point to its folder; what bore that name in an earlier matrix
        loses it."""
        names = self.folder / "names"
        names.mkdir(exist_ok=True)
        link = names / entry.name
        target = os.path.join("..", "entries", entry.identity)
        if not (link.is_symlink() and os.readlink(link) == target):
            partial = names / f".{entry.name}.{os.getpid()}"
            partial.unlink(missing_ok=True)
            partial.symlink_to(target)
            partial.replace(link)

    def record(self, entry: Entry) -> Dict[str, Any]:
        """What is known about an entry; an empty table if nothing is."""
        try:
            content = json.loads((self.path(entry) / RECORD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def write(self, entry: Entry, record: Mapping[str, Any]) -> None:
        write_json(self.path(entry) / RECORD, record)

    def finished(self, entry: Entry) -> bool:
        return self.record(entry).get("state") == "finished"

    def seconds(self, entry: Entry) -> float:
        """Wall time of all attempts together."""
        return float(sum(attempt["seconds"] for attempt in self.record(entry).get("attempts", [])))

    def log_tail(self, entry: Entry, size: int = 20_000) -> str:
        """The end of an entry's log."""
        try:
            with (self.path(entry) / LOG).open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(file.tell() - size, 0))
                return file.read().decode("utf-8", errors="replace")
        except OSError:
            return ""

    def lock(self, path: Path, kind: int = fcntl.LOCK_EX) -> Optional[int]:
        """An open file that holds the lock ``path``, or None if another process does; inherited, it
        holds as long as the last heir lives."""
        path.parent.mkdir(parents=True, exist_ok=True)
        number = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(number, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(number)
            return None
        return number

    def busy(self, entry: Entry) -> bool:
        """Whether a process works on the entry now, be it one that outlived its driver."""
        path = self.path(entry) / "lock"
        if not path.exists():
            return False
        # Shared, so that two who look do not take each other for workers.
        number = self.lock(path, fcntl.LOCK_SH)
        if number is None:
            return True
        os.close(number)
        return False


def new_attempt(repository: Path, threads: int) -> Dict[str, Any]:
    """The record of a start, now."""
    return {
        "begin": time.strftime(BEGIN_FORMAT, time.gmtime()),
        "seconds": 0.0,
        "cpu_seconds": 0.0,
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "commit": commit(repository),
        "versions": versions(),
    }


def by_name(entries: List[Entry]) -> Dict[str, Entry]:
    return {entry.name: entry for entry in entries}
