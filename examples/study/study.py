"""Trains and measures a matrix of configurations, unattended, and makes tables of what is finished.

python examples/study/study.py run                 works through the matrix, two entries at a time;
killed, it goes on when started again python examples/study/study.py run --only NAME     one entry
and what it needs python examples/study/study.py status              what is finished, running,
missing; an estimate of the time left python examples/study/study.py tables              all tables
of what is finished python examples/study/study.py tables --published  the same, with the published
outcomes of what is not python examples/study/study.py publish             adds what is finished to
the published outcomes, and fills the pages
"""

import argparse
import dataclasses
import logging
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from figures import Figures
from matrix import Entry, read_matrix, read_toml
from outcomes import lines_of, read_outcomes
from publish import all_outcomes, filled_pages, locked, new_pictures, replace_all
from runner import Runner, minutes_left, share_done
from store import Store, by_name
from tables import reference_system, write_tables

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
logger = logging.getLogger("study")


def chosen(entries: List[Entry], names: Optional[Sequence[str]], alone: bool) -> List[Entry]:
    """The named entries with all that they need; all entries without names. Without ``alone`` those
    that must run alone, and what needs them, are left out.

    Raises:
        ValueError: for an unknown name.
    """
    every = by_name(entries)
    if names:
        wanted: List[str] = list(names)
        needed = set()
        while wanted:
            name = wanted.pop()
            if name not in every:
                raise ValueError(f"the matrix has no entry {name!r}; give one that 'status' lists")
            if name not in needed:
                needed.add(name)
                wanted += every[name].parents
        entries = [entry for entry in entries if entry.name in needed]
    kept: Dict[str, Entry] = {}
    for entry in entries:
        # Parents come first.
        if alone or (not entry.alone and all(parent in kept for parent in entry.parents)):
            kept[entry.name] = entry
    return list(kept.values())


class MatrixFile:
    """The chosen entries of a matrix, read again when the file changes.

    Args:
        path: the TOML file.
        names, alone: see :func:`chosen`.
        threads: of trainings, instead of what the matrix says. Others keep theirs: speed is
            measured with them, and tests take a minute.
    """

    def __init__(
        self, path: Path, names: Optional[Sequence[str]], alone: bool, threads: Optional[int] = None
    ) -> None:
        self.path, self.names, self.alone, self.threads = path, names, alone, threads
        self.modified = path.stat().st_mtime_ns
        self.read()

    def read(self) -> None:
        every = read_matrix(self.path)
        entries = chosen(every, self.names, self.alone)
        if self.threads is not None:
            entries = [
                dataclasses.replace(entry, threads=self.threads) if entry.kind == "train" else entry
                for entry in entries
            ]
        self.every, self.entries = every, entries

    def reread(self) -> List[Entry]:
        """The entries as they are now; a file that is wrong (or half written) changes nothing."""
        try:
            modified = self.path.stat().st_mtime_ns
            if modified != self.modified:
                self.modified = modified
                self.read()
                logger.info("%s was read again: %d entries", self.path, len(self.entries))
        except (OSError, ValueError) as error:
            logger.error(
                "%s changed and cannot be used, going on with what it was: %s", self.path, error
            )
        return self.entries


def status(entries: Sequence[Entry], store: Store, at_once: int) -> str:
    """One line an entry, and the time left."""
    lines = []
    for entry in entries:
        record = store.record(entry)
        state = record.get("state", "missing")
        if state == "running" and not store.busy(entry):
            state = "interrupted"
        share = (
            f"{100 * share_done(entry, store):3.0f} %"
            if state in ("running", "interrupted", "stopped")
            else "     "
        )
        lines.append(
            f"{state:11} {share} {store.seconds(entry) / 60:7.1f} min  {entry.identity} "
            f" {entry.name}"
        )
    finished = sum(store.finished(entry) for entry in entries)
    left = minutes_left(entries, store, at_once)
    lines.append(
        f"{finished} of {len(entries)} finished; about {left:.0f} minutes left, {at_once} at a time"
    )
    return "\n".join(lines)


def tables(options: argparse.Namespace, entries: Sequence[Entry], store: Store) -> None:
    """Writes the tables and says where."""
    raw, claims = read_toml(options.matrix), read_toml(options.claims)
    published = read_outcomes(options.outcomes) if options.published else {}
    figures = Figures(entries, store, published, reference_system(raw), options.outcomes.parent)
    for path in write_tables(raw, claims, figures, store.folder / "tables"):
        print(path)


def publish(options: argparse.Namespace, entries: Sequence[Entry], store: Store) -> None:
    """Adds what is finished to the published outcomes, fills the pages and says what is new. All of
    it is written, or nothing."""
    raw, claims = read_toml(options.matrix), read_toml(options.claims)
    folder, reference = options.outcomes.parent, reference_system(raw)
    if not options.outcomes.exists():
        raise ValueError(
            f"there is no {options.outcomes}; to begin a new one, make it empty first: touch"
            f" {options.outcomes}"
        )
    with locked(folder):
        published = read_outcomes(options.outcomes)
        figures = Figures(entries, store, published, reference, folder)
        outcomes = all_outcomes(raw, claims, figures)
        contents = {options.outcomes: lines_of(outcomes).encode()}
        with tempfile.TemporaryDirectory() as staged:
            for picture in [*folder.glob("*.svg"), *folder.glob("*.png")]:
                shutil.copyfile(picture, Path(staged) / picture.name)
            for picture in new_pictures(raw, figures):
                contents[folder / picture.name] = picture.made.read_bytes()
                shutil.copyfile(picture.made, Path(staged) / picture.name)
            # Pages show what is published, not what happens to lie on this machine: there is
            # nothing in this store.
            every = {outcome.identity: outcome for outcome in outcomes}
            all_published = Figures(
                entries, Store(Path(os.devnull)), every, reference, Path(staged)
            )
            contents.update(filled_pages(options.pages, raw, claims, all_published))
        replace_all(contents)
    new = [outcome.name for outcome in outcomes if outcome.identity not in published]
    print(f"published: {len(outcomes)} entries, of which new: {', '.join(new) or 'none'}")


def count(text: str) -> int:
    """A number of 1 or more, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a number of 1 or more")
    return int(text)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("run", "status", "tables", "publish"))
    parser.add_argument(
        "--matrix",
        type=Path,
        default=HERE / "matrix.toml",
        help="(default: matrix.toml beside the driver)",
    )
    parser.add_argument(
        "--claims",
        type=Path,
        default=HERE / "claims.toml",
        help="(default: claims.toml beside the driver)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=REPOSITORY / "runs" / "study",
        help="folder of everything (default: runs/study)",
    )
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="these entries and what they need"
    )
    parser.add_argument(
        "--no-alone",
        action="store_true",
        help="leave out what must run alone (measurements of speed)",
    )
    parser.add_argument(
        "--at-once",
        type=count,
        default=2,
        metavar="N",
        help="entries at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=count,
        metavar="N",
        help=(
            "of each training (default: what the matrix says, one where it says nothing); a seed"
            " has the same figures with the same number"
        ),
    )
    parser.add_argument(
        "--nice",
        type=int,
        default=5,
        metavar="N",
        help="how far all stands back behind other work (default: %(default)s)",
    )
    parser.add_argument(
        "--published",
        action="store_true",
        help="tables: published outcomes stand for their entries",
    )
    parser.add_argument(
        "--outcomes",
        type=Path,
        default=HERE / "outcomes.jsonl",
        help="published outcomes (default: beside the driver)",
    )
    parser.add_argument(
        "--pages",
        type=Path,
        nargs="+",
        default=[HERE / "RESULTS.md", REPOSITORY / "RESULTS.md"],
        help="publish: pages to fill (default: RESULTS.md here and of the repository)",
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr
    )
    try:
        matrix = MatrixFile(options.matrix, options.only, not options.no_alone, options.threads)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    store = Store(options.out.resolve())
    options.outcomes = options.outcomes.resolve()
    if options.verb == "status":
        try:
            print(status(matrix.entries, store, options.at_once), flush=True)
        except BrokenPipeError:
            # Whoever reads has seen enough.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if options.verb in ("tables", "publish"):
        try:
            (tables if options.verb == "tables" else publish)(options, matrix.every, store)
        except (OSError, ValueError) as error:
            print(f"study.py: error: {error}", file=sys.stderr)
            return 2
        return 0
    lock = store.lock(store.folder / "lock")
    if lock is None:
        parser.error(f"another driver works in {store.folder}; wait for it, or give another --out")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    runner = Runner(matrix.entries, store, REPOSITORY, options.at_once, options.nice, matrix.reread)
    try:
        runner.run()
    except KeyboardInterrupt:
        return 130
    finally:
        os.close(lock)
    for name, error in runner.failed.items():
        print(f"failed: {name}: {error}", file=sys.stderr)
    return 1 if runner.failed else 0


if __name__ == "__main__":
    sys.exit(main())
