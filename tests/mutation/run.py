"""Mutation testing: small faults are put into the package one at a time; tests that still pass have
not looked there.

    python tests/mutation/run.py --out runs/mutation                    300 mutants of seed 1
    python tests/mutation/run.py --out runs/mutation --only dag/beam    only those of a module
    python tests/mutation/run.py --out runs/mutation --report           only the report

Two mutants run at a time. The faults are cosmic-ray's operators (``pip install -e ".[mutation]"``).
First a place in the source is drawn, every package in proportion to its places, then one of the
operators that apply there: drawing operators alone would mean comparisons, for which there are the
most. The draw goes by hashes of the lines, so that an edit only changes what is drawn of the lines
it touches. Each mutant lives in a copy of the repository and meets the tests that name its module,
then all others of its package. Results are kept in OUT/mutants.jsonl; started again, it continues
where it stopped. OUT/report.md is the share killed and the survivors, with the reasons of
``harmless.json`` where somebody has looked at one.
"""

import argparse
import collections
import concurrent.futures
import difflib
import hashlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence

ROOT = Path(__file__).resolve().parents[2]
HARMLESS = Path(__file__).with_name("harmless.json")

# The tests that each package or single module has to rely on. The code that all families share is
# also theirs to notice.
TESTS = {
    "engine": ["engine", "native/decoding", "hrt", "bidirectional"],
    "native/decoding": ["native/decoding", "hrt", "bidirectional"],
    "training": ["training", "hrt", "bidirectional"],
    "loading": ["loading", "native/bundles", "evaluation/systems"],
    "task.py": ["test_task.py", "native/decoding", "hrt", "bidirectional"],
    "native/io": ["native/io"],
    "hrt": ["hrt"],
    "bidirectional": ["bidirectional"],
    "dag": ["dag"],
    "jacobi": ["jacobi"],
    "ops": ["ops", "dag"],
    "autoregressive": ["autoregressive", "native/decoding"],
    "native/text": ["native/text", "native/bundles"],
    "native/bundles": ["native/bundles", "cli/test_translate.py"],
}
# Processor time of one test, in multiples of what the slowest of its package takes without a
# mutant: a loop that never ends is noticed, too. The time of the clock counts only where a mutant
# waits for ever, and in larger multiples: machines are busy.
PATIENCE, WAITING = 3, 10
# Processes that begin with the libraries loaded, which takes longer than many a package's tests.
# Nothing of fairseq: with it comes this package, from a copy that is not chosen yet.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["torch", "numpy", "hypothesis", "pytest", "omegaconf", "hydra", "sacrebleu"]
)


class Mutant(NamedTuple):
    """One fault.

    Attributes:
        name: identifies it as long as its line stays the same.
        package, module: where, ``module`` relative to the repository.
        operator, arguments, occurrence: cosmic-ray's description.
        line: in the source.
        source: of the whole module, as a hash.
    """

    name: str
    package: str
    module: str
    operator: str
    arguments: Dict[str, Any]
    occurrence: int
    line: int
    source: str


def hash_of(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def draw(count: int, seed: int, kept: Path) -> List[Mutant]:
    """``count`` mutants: places of the source without replacement, then an operator for each; kept
    in a file, for it takes a while."""
    state = hash_of(count, seed, TESTS, source_texts())
    if kept.exists() and (known := json.loads(kept.read_text(encoding="utf-8")))["state"] == state:
        return [Mutant(**mutant) for mutant in known["mutants"]]
    places: Dict[str, List[Mutant]] = collections.defaultdict(list)
    for package in TESTS:
        place = ROOT / "fairseq_hrt" / package
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            for where, mutant in mutants_of(path, package):
                places[hash_of(seed, where)].append(mutant)
    drawn = [
        min(places[place], key=lambda mutant: hash_of(seed, mutant.name))
        for place in sorted(places)[:count]
    ]
    kept.write_text(
        json.dumps({"state": state, "mutants": [mutant._asdict() for mutant in drawn]}),
        encoding="utf-8",
    )
    return drawn


def source_texts() -> List[str]:
    """The package's modules."""
    return [
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "fairseq_hrt").rglob("*.py"))
    ]


def mutants_of(path: Path, package: str) -> Iterator[tuple]:
    """Every fault that cosmic-ray has for a module, each with its place: operators of one kind at
    one line are one place."""
    from cosmic_ray.commands.init import _all_work_items

    module, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines()]
    counts: Dict[str, int] = collections.Counter()
    for item in _all_work_items([path], {}):
        (mutation,) = item.mutations
        operator, number = mutation.operator_name, mutation.start_pos[0]
        line = lines[number - 1]
        # The same line may be there several times, and in it the same fault.
        where = [module, line, lines[:number].count(line), operator.split("_")[0]]
        fault = hash_of(where, operator, mutation.operator_args)
        counts[fault] += 1
        name = hash_of(fault, counts[fault])
        yield (
            where,
            Mutant(
                name,
                package,
                module,
                operator,
                mutation.operator_args,
                mutation.occurrence,
                number,
                hash_of(text),
            ),
        )


class Copies:
    """Copies of the repository, one a worker, in which mutants live. What was compiled there is
    kept."""

    def __init__(self, folder: Path, count: int) -> None:
        self._lock = threading.Lock()
        self._free = [folder / f"copy{number}" for number in range(count)]
        for copy in self._free:
            for name in ("fairseq_hrt", "tests", "examples"):
                shutil.copytree(
                    ROOT / name,
                    copy / name,
                    ignore=shutil.ignore_patterns("__pycache__"),
                    dirs_exist_ok=True,
                )
            for name in ("pyproject.toml", "setup.py", "README.md"):
                shutil.copy(ROOT / name, copy / name)
            for path in copy.rglob("*.py"):
                if not (ROOT / path.relative_to(copy)).exists():
                    path.unlink()

    def take(self) -> Path:
        with self._lock:
            return self._free.pop()

    def give(self, copy: Path) -> None:
        with self._lock:
            self._free.append(copy)


def stages(copy: Path, package: str, module: str) -> List[List[str]]:
    """The files of a package's tests in a copy: first those that are named after the module or
    import it, then the others."""
    roots = [copy / "tests" / "unit" / name for name in TESTS[package]]
    files = [
        path
        for root in roots
        for path in (sorted(root.rglob("test_*.py")) if root.is_dir() else [root])
        if path.exists()
    ]
    path = Path(module)
    own = copy / "tests" / "unit" / path.relative_to("fairseq_hrt").with_name(f"test_{path.name}")
    dotted = ".".join(path.with_suffix("").parts)
    near = [file for file in files if file == own or dotted in file.read_text(encoding="utf-8")]
    near.sort(key=lambda file: file != own)
    parts = [near, [file for file in files if file not in near]]
    return [[str(file.relative_to(copy)) for file in part] for part in parts if part]


def run_tests(
    copy: Path, files: List[List[str]], limit: int, *, keep: bool = False
) -> Dict[str, Any]:
    """The ``outcome`` of tests in a copy (``passed``, ``failed`` or ``timeout``), and the
    ``seconds`` of processor time of the slowest.

    Args:
        files: one list after the other, until a test fails.
        limit: in seconds of processor time, for each test.
        keep: whether compiled modules and tests are kept for the runs that follow; never those of a
            mutant.
    """
    receiver, sender = _FORKS.Pipe(duplex=False)
    child = _FORKS.Process(target=_tests, args=(str(copy), files, limit, keep, sender))
    child.start()
    sender.close()
    seconds, end = 0.0, time.monotonic() + WAITING * limit
    while child.is_alive() or receiver.poll():
        try:
            if receiver.poll(max(0.0, end - time.monotonic())):
                seconds, end = max(seconds, receiver.recv()), time.monotonic() + WAITING * limit
            else:
                child.kill()
        except EOFError:
            break
    child.join()
    if child.exitcode == 255:
        raise RuntimeError(
            "the process that starts the tests is gone: this shows nothing about a mutant"
        )
    ends = {0: "passed", -signal.SIGXCPU: "timeout", -signal.SIGKILL: "timeout"}
    return {"outcome": ends.get(child.exitcode, "failed"), "seconds": seconds}


class _Clock:
    """A plugin of pytest that limits the processor time of each test and sends what it took."""

    def __init__(self, limit: int, sender: Any) -> None:
        self._limit, self._sender = limit, sender
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._begin()

    def _begin(self) -> None:
        self._start = time.process_time()
        resource.setrlimit(
            resource.RLIMIT_CPU, (int(self._start) + self._limit, resource.RLIM_INFINITY)
        )

    def pytest_collection_finish(self) -> None:
        self._begin()

    def pytest_runtest_logfinish(self) -> None:
        self._sender.send(time.process_time() - self._start)
        self._begin()


def _tests(copy: str, files: List[List[str]], limit: int, keep: bool, sender: Any) -> None:
    """Runs in a process of its own."""
    os.chdir(copy)
    sys.path.insert(0, copy)
    os.environ.update(PYTHONPATH=copy, OMP_NUM_THREADS="1")
    sys.dont_write_bytecode = not keep
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    import pytest

    # A mutant is judged by examples that are the same for all of them.
    options = [
        "-x",
        "-q",
        "-m",
        "not slow or mutants",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--hypothesis-seed=0",
    ]
    codes = (int(pytest.main([*options, *part], plugins=[_Clock(limit, sender)])) for part in files)
    # Files whose tests are all slow have none. At once: libraries that take their time to clean up
    # have nothing to clean up here.
    os._exit(
        next(
            (code for code in codes if code not in (0, int(pytest.ExitCode.NO_TESTS_COLLECTED))), 0
        )
    )


def judge(mutant: Mutant, copies: Copies, limits: Dict[str, int]) -> Dict[str, Any]:
    """Runs the tests of one mutant; a record for the results."""
    import cosmic_ray.plugins
    from cosmic_ray.mutating import mutate_code

    copy, start = copies.take(), time.monotonic()
    path = copy / mutant.module
    original, before = path.read_text(encoding="utf-8"), path.stat()
    try:
        operator = cosmic_ray.plugins.get_operator(mutant.operator)(**mutant.arguments)
        mutated = mutate_code(original, operator, mutant.occurrence)
        path.write_text(mutated, encoding="utf-8")
        outcome = run_tests(
            copy, stages(copy, mutant.package, mutant.module), limits[mutant.package]
        )["outcome"]
    finally:
        path.write_text(original, encoding="utf-8")
        # Its compiled form is still that of the file.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        copies.give(copy)
    outcome = {"passed": "survived", "failed": "killed"}.get(outcome, outcome)
    return {
        **mutant._asdict(),
        "outcome": outcome,
        "seconds": round(time.monotonic() - start),
        "change": change(original, mutated),
    }


def change(original: str, mutated: str) -> List[str]:
    """The lines that a mutant takes away and puts in their place, without their indentation."""
    lines = difflib.unified_diff(original.splitlines(), mutated.splitlines(), lineterm="", n=0)
    return [
        f"{line[0]} {line[1:].strip()}"
        for line in lines
        if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]


def report(records: Sequence[Dict[str, Any]], seed: int) -> str:
    """The share killed of each package, and every survivor with the reason why it may live."""
    entries = json.loads(HARMLESS.read_text(encoding="utf-8"))
    reasons = {hash_of(entry["module"], entry["change"]): entry["reason"] for entry in entries}
    lines = [
        f"# Mutation report: {len(records)} mutants, seed {seed}",
        "",
        "| package | mutants | killed | % |",
        "| --- | --: | --: | --: |",
    ]
    for package in [*TESTS, "all"]:
        own = [record for record in records if package in ("all", record["package"])]
        killed = sum(record["outcome"] != "survived" for record in own)
        if own:
            lines.append(f"| {package} | {len(own)} | {killed} | {100 * killed / len(own):.1f} |")
    lines += ["", "## Survivors", ""]
    for record in sorted(
        (r for r in records if r["outcome"] == "survived"), key=lambda r: (r["module"], r["line"])
    ):
        reason = reasons.get(hash_of(record["module"], record["change"]), "not looked at yet")
        lines.append(f"- `{record['module']}:{record['line']}` ({record['name']}): {reason}")
        lines += ["  ```diff", *(f"  {line}" for line in record["change"]), "  ```"]
    for entry in entries:
        path, before = ROOT / entry["module"], entry["change"][0][2:]
        if not path.exists() or before not in map(
            str.strip, path.read_text(encoding="utf-8").splitlines()
        ):
            lines.append(
                f"- the reason for `{entry['module']}`, `{before}`, can go: there is no such line"
                " any more"
            )
    return "\n".join(lines) + "\n"


def measure_limits(path: Path, copies: Copies, packages: Sequence[str]) -> Dict[str, int]:
    """Seconds that one test of each package may take, kept in a file; also makes sure that the
    tests pass without a mutant."""
    tests = [
        test.read_text(encoding="utf-8") for test in sorted((ROOT / "tests" / "unit").rglob("*.py"))
    ]
    state = hash_of(source_texts(), tests)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    limits = kept.get(state, {})
    for package in packages:
        if package not in limits:
            copy = copies.take()
            result = run_tests(
                copy, stages(copy, package, "fairseq_hrt//__init__.py"), 600, keep=True
            )
            copies.give(copy)
            if result["outcome"] != "passed":
                raise SystemExit(f"the tests of {package} fail without any mutant: fix them first")
            # Whatever a test's first call has to import is measured once, but may be needed by any
            # test.
            limits[package] = 10 + PATIENCE * int(result["seconds"])
            print(f"slowest test of {package}: {result['seconds']:.1f} s", flush=True)
            path.write_text(json.dumps({state: limits}), encoding="utf-8")
    return limits


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument(
        "--count", type=int, default=300, help="mutants to draw (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: %(default)s)")
    parser.add_argument(
        "--workers", type=int, default=2, help="mutants at a time (default: %(default)s)"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="only these of the drawn: parts of modules' paths, and names, which are run again",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="run those that survived once more, after tests were added",
    )
    parser.add_argument(
        "--report", action="store_true", help="only write the report of what has been run"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results = options.out / "mutants.jsonl"
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    drawn = draw(options.count, options.seed, options.out / "drawn.json")
    # Of a module that was edited since, nothing is known.
    current = {mutant.name: mutant.source for mutant in drawn}
    done = {
        record["name"]: record
        for record in map(json.loads, lines)
        if record["source"] == current.get(record["name"])
    }
    if not options.report:
        finished = {
            name
            for name, record in done.items()
            if not (options.again and record["outcome"] == "survived")
        }
        only = options.only or [""]
        new = [
            mutant
            for mutant in drawn
            if mutant.name not in finished and any(part in mutant.module for part in only)
        ]
        todo = [*new, *(mutant for mutant in drawn if mutant.name in only)]
        copies = Copies(options.out, options.workers)
        limits = measure_limits(
            options.out / "limits.json", copies, sorted({mutant.package for mutant in todo})
        )
        with (
            concurrent.futures.ThreadPoolExecutor(options.workers) as pool,
            results.open("a", encoding="utf-8") as file,
        ):
            running = [pool.submit(judge, mutant, copies, limits) for mutant in todo]
            for number, finished_one in enumerate(
                concurrent.futures.as_completed(running), start=1
            ):
                record = finished_one.result()
                done[record["name"]] = record
                print(json.dumps(record), file=file, flush=True)
                print(
                    f"{number}/{len(todo)} {record['outcome']:8} {record['seconds']} s"
                    f" {record['module']}:{record['line']}",
                    flush=True,
                )
    (options.out / "report.md").write_text(
        report([done[m.name] for m in drawn if m.name in done], options.seed), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
