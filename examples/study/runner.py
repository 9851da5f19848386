"""Runs the entries of a matrix, some at a time, and survives being killed.

A command inherits the lock of its entry. When the driver is killed alone, its commands go on; the
next driver leaves their entries alone until they are through, then starts each unfinished entry
again, which goes on where it is: a training from its last checkpoint.
"""

import calendar
import logging
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from matrix import Entry
from steps import Step, result_of, shown, steps_of
from store import BEGIN_FORMAT, LOG, Store, by_name, new_attempt

logger = logging.getLogger("study")
# A killed driver loses no more than this of the recorded wall time.
HEARTBEAT_SECONDS = 10.0
# As in examples/common/recipe.sh: freed memory is kept, which saves a quarter of a small model's
# time.
MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "MALLOC_TOP_PAD_": "134217728",
}
UPDATES = re.compile(r"num_updates[=:]\s*\"?(\d+)")


def processor_seconds(process: int) -> float:
    """CPU time of a process and its finished children so far; 0 where the system does not tell."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        # The name may hold spaces and brackets.
        own = text.rpartition(")")[2].split()
        return sum(map(int, own[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


class Job:
    """An entry whose commands are running one after the other.

    Args:
        entry: what is run.
        store: of the study.
        folders: of the entry and its parents.
        repository: where the commands run.
        lock: open file that holds the entry's lock.
        nice: how far the commands stand back, besides what the entry says.
    """

    def __init__(
        self,
        entry: Entry,
        store: Store,
        folders: Mapping[str, Path],
        repository: Path,
        lock: int,
        nice: int,
    ) -> None:
        self.nice = nice + entry.nice
        self.entry, self.store, self.repository, self.lock = entry, store, repository, lock
        self.out = folders[entry.name]
        self.steps: List[Step] = steps_of(entry, folders)
        self.process: Optional[subprocess.Popen] = None
        self.partial: Optional[Path] = None
        self.begin = self.heartbeat = time.monotonic()
        self.cpu_before = self.cpu = 0.0
        record = store.record(entry)
        self.record: Dict[str, Any] = {
            "name": entry.name,
            "identity": entry.identity,
            "fields": entry.fields,
            "parents": {name: folders[name].name for name in entry.parents},
            "state": "running",
            "attempts": record.get("attempts", []) + [new_attempt(repository, entry.threads)],
        }
        self.save()
        self.next()

    def save(self) -> None:
        self.heartbeat = time.monotonic()
        self.record["attempts"][-1].update(
            seconds=round(self.heartbeat - self.begin, 1),
            cpu_seconds=round(self.cpu_before + self.cpu, 1),
        )
        self.store.write(self.entry, self.record)

    def next(self) -> None:
        """Starts the next command."""
        self.cpu_before, self.cpu = self.cpu_before + self.cpu, 0.0
        step = self.steps.pop(0)
        environment = {
            **MEMORY,
            **os.environ,
            **{key: str(value) for key, value in self.entry.fields.get("environment", {}).items()},
        }
        environment.update(
            OUT=str(self.out), OMP_NUM_THREADS=str(self.entry.threads), PYTHONUNBUFFERED="1"
        )
        # Tools of the same environment first (fairseq-preprocess, subword-nmt).
        environment["PATH"] = os.pathsep.join(
            [str(Path(sys.executable).parent), environment.get("PATH", "")]
        )
        self.partial = step.output.with_name(step.output.name + ".partial") if step.output else None
        self.output = step.output
        with (self.out / LOG).open("ab") as log:
            log.write((shown(step.arguments) + "\n").encode())
            log.flush()
            target = self.partial.open("wb") if self.partial else log
            try:
                self.process = subprocess.Popen(
                    step.arguments, cwd=self.repository, env=environment, stdin=subprocess.DEVNULL,
                    stdout=target, stderr=log, preexec_fn=self.before, pass_fds=(self.lock,),
                )  # fmt: skip
            finally:
                if self.partial:
                    target.close()

    def before(self) -> None:
        """In the new process, before its command: a session of its own, which can be stopped as a
        whole and stands back as one."""
        os.setsid()
        os.nice(self.nice)
        try:
            # Where the kernel shares the processors out between sessions, a process's own value
            # says nothing to others.
            with open("/proc/self/autogroup", "w", encoding="ascii") as file:
                file.write(str(min(self.nice, 19)))
        except OSError:
            pass

    def poll(self) -> bool:
        """Looks after the running command; whether the entry is through, well or not."""
        assert self.process is not None
        self.cpu = max(self.cpu, processor_seconds(self.process.pid))
        code = self.process.poll()
        if code is None:
            if time.monotonic() - self.heartbeat > HEARTBEAT_SECONDS:
                self.save()
            return False
        if code == 0:
            if self.partial and self.output:
                self.partial.replace(self.output)
            if self.steps:
                self.next()
                return False
            if not (self.out / result_of(self.entry)).exists():
                return self.end(
                    "failed",
                    f"its commands ended well, but {self.out / result_of(self.entry)} is not there",
                )
            if self.entry.kind == "train":
                self.trim()
            return self.end("finished")
        return self.end("failed", f"a command ended with status {code}; see {self.out / LOG}")

    def trim(self) -> None:
        """Removes the checkpoints of a finished training but for its last state: the average is
        made, and each holds the optimiser's state too."""
        for path in (self.out / "checkpoints").glob("checkpoint*.pt"):
            if path.name != "checkpoint_last.pt":
                path.unlink()

    def end(self, state: str, error: str = "") -> bool:
        """Writes the last record and lets the lock go."""
        self.record["state"] = state
        if error:
            self.record["attempts"][-1]["error"] = error
        self.save()
        os.close(self.lock)
        return True

    def stop(self) -> None:
        """Ends the command and everything it started."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.end("stopped")


class Runner:
    """Works through a matrix.

    Args:
        entries: of the matrix, parents before children.
        store: of the study.
        repository: where commands run.
        at_once: entries that run at the same time.
        nice: how far all commands stand back behind other work, 0 to 19.
        reread: gives the entries anew, so that a matrix may grow while it is worked through.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        store: Store,
        repository: Path,
        at_once: int,
        nice: int = 0,
        reread: Optional[Callable[[], List[Entry]]] = None,
    ) -> None:
        self.entries, self.store, self.repository, self.at_once = (
            list(entries),
            store,
            repository,
            at_once,
        )
        self.nice, self.reread = nice, reread
        self.jobs: List[Job] = []
        self.failed: Dict[str, str] = {}

    def ready(self) -> List[Entry]:
        """Unfinished entries whose parents are finished, in the order of the matrix; each content
        once."""
        names = by_name(self.entries)
        running = {job.entry.identity for job in self.jobs}
        found: Dict[str, Entry] = {}
        for entry in self.entries:
            if (
                entry.identity in running
                or entry.identity in found
                or entry.name in self.failed
                or self.store.finished(entry)
            ):
                continue
            if all(self.store.finished(names[parent]) for parent in entry.parents):
                found[entry.identity] = entry
        return list(found.values())

    def start(self, entry: Entry) -> None:
        """Starts an entry that no process works on."""
        names = by_name(self.entries)
        folders = {name: self.store.path(names[name]) for name in entry.parents}
        folders[entry.name] = self.store.prepare(entry)
        lock = self.store.lock(folders[entry.name] / "lock")
        if lock is None:
            return
        try:
            self.jobs.append(Job(entry, self.store, folders, self.repository, lock, self.nice))
            logger.info("%s: started (%s)", entry.name, folders[entry.name])
        except (OSError, ValueError) as error:
            os.close(lock)
            self.failed[entry.name] = str(error)
            logger.error("%s: cannot start: %s", entry.name, error)

    def orphans(self) -> List[Entry]:
        """Entries on which commands of an earlier driver still work; their wall time goes on in
        their records."""
        own = {job.entry.identity for job in self.jobs}
        found = [
            entry for entry in self.entries if entry.identity not in own and self.store.busy(entry)
        ]
        for entry in found:
            record = self.store.record(entry)
            if not record.get("attempts"):
                continue
            seconds = time.time() - calendar.timegm(
                time.strptime(record["attempts"][-1]["begin"], BEGIN_FORMAT)
            )
            if seconds - record["attempts"][-1]["seconds"] > HEARTBEAT_SECONDS:
                record["attempts"][-1]["seconds"] = round(seconds, 1)
                self.store.write(entry, record)
        return found

    def turn(self) -> bool:
        """Looks at the running jobs and fills free places; whether anything is left to do."""
        for job in list(self.jobs):
            if job.poll():
                self.jobs.remove(job)
                state = job.record["state"]
                logger.info(
                    "%s: %s after %.0f s", job.entry.name, state, self.store.seconds(job.entry)
                )
                if state == "failed":
                    self.failed[job.entry.name] = job.record["attempts"][-1]["error"]
                    logger.error("%s: %s", job.entry.name, self.failed[job.entry.name])
        self.entries = self.reread() if self.reread else self.entries
        for entry in self.entries:
            if self.store.finished(entry):
                self.store.name(entry)
        ready = self.ready()
        orphans = {entry.identity for entry in self.orphans()}
        for entry in ready:
            busy = len(self.jobs) + len(orphans)
            if busy >= self.at_once or any(job.entry.alone for job in self.jobs):
                break
            if entry.identity in orphans:
                continue
            if entry.alone and busy:
                # What is to be measured alone waits for the others, and they for it.
                break
            self.start(entry)
        return bool(self.jobs or orphans or self.ready())

    def run(self, pause: float = 1.0) -> None:
        """Runs until nothing is left that can be run."""
        try:
            while self.turn():
                time.sleep(pause)
        finally:
            for job in self.jobs:
                logger.info("%s: stopped", job.entry.name)
                job.stop()


def share_done(entry: Entry, store: Store) -> float:
    """How much of an entry is done, 0 to 1; of a training by its updates, of others by the guessed
    time, never quite 1."""
    if store.finished(entry):
        return 1.0
    updates = (
        int(entry.fields.get("options", {}).get("max-update", 0)) if entry.kind == "train" else 0
    )
    if updates:
        found = UPDATES.findall(store.log_tail(entry))
        return min(int(found[-1]) / updates, 0.99) if found else 0.0
    return min(store.seconds(entry) / (60 * entry.minutes), 0.9)


def minutes_left(entries: Sequence[Entry], store: Store, at_once: int) -> float:
    """Estimated wall time until all entries are finished.

    The guesses of the matrix are scaled by what the finished entries took; of a running training
    its own speed counts.
    """
    guessed = spent = 0.0
    distinct = {entry.identity: entry for entry in entries}.values()
    for entry in distinct:
        if store.finished(entry):
            guessed += entry.minutes
            spent += store.seconds(entry) / 60
    factor = spent / guessed if spent else 1.0
    left = 0.0
    for entry in distinct:
        share, seconds = share_done(entry, store), store.seconds(entry)
        if share >= 1:
            continue
        if entry.kind == "train" and share > 0.02:
            left += seconds / 60 * (1 - share) / share
        else:
            left += entry.minutes * factor * (1 - share)
    return left / at_once
