"""Mutation testing: small faults are put into the package one at a time; tests that still pass have not looked there.

    python tests/mutation/run.py --out runs/mutation                    300 mutants of seed 1, two at a time
    python tests/mutation/run.py --out runs/mutation --report           only the report of what has been run

The faults are cosmic-ray's operators (``pip install -e ".[mutation]"``). First a place in the source is drawn, every package in
proportion to its places, then one of the operators that apply there: drawing operators alone would mean comparisons, for which
there are the most. Each mutant lives in a copy of the repository and meets the tests of its package, the quick ones first.
Results are kept in OUT/mutants.jsonl; started again, it goes on where it stopped. OUT/report.md is the share killed and
the survivors, with the reasons of ``harmless.json`` where somebody has looked at one.
"""

import argparse
import collections
import concurrent.futures
import difflib
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence

ROOT = Path(__file__).resolve().parents[2]
HARMLESS = Path(__file__).with_name("harmless.json")

# The tests that each package or single module has to rely on. What all families share is also theirs to notice.
TESTS = {
    "engine": ["engine", "decoding", "hrt", "bidirectional"],
    "decoding": ["decoding", "hrt", "bidirectional"],
    "training": ["training", "hrt", "bidirectional"],
    "loading": ["hub", "systems"],
    "task.py": ["test_task.py", "decoding", "hrt", "bidirectional"],
    "files.py": ["test_files.py"],
    "hrt": ["hrt"],
    "bidirectional": ["bidirectional"],
    "dag": ["dag"],
    "jacobi": ["jacobi"],
    "ops": ["ops", "dag"],
    "autoregressive": ["autoregressive", "decoding"],
    "hub": ["hub"],
}
# What a mutant may take, in multiples of what the unchanged tests take: a loop that never ends is noticed, too.
PATIENCE = 3
# Processes that begin with the libraries loaded, which takes longer than many a package's tests. Nothing of fairseq: with it comes this
# package, from a copy that is not chosen yet.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["torch", "numpy", "hypothesis", "pytest", "omegaconf", "hydra", "sacrebleu"])


class Mutant(NamedTuple):
    """One fault.

    Attributes:
        name: identifies it for this source.
        package, module: where, ``module`` relative to the repository.
        operator, arguments, occurrence: cosmic-ray's description.
        line: in the source.
    """

    name: str
    package: str
    module: str
    operator: str
    arguments: Dict[str, Any]
    occurrence: int
    line: int


def all_mutants(package: str) -> Iterator[Mutant]:
    """Every fault that cosmic-ray knows for the modules of a package."""
    from cosmic_ray.commands.init import _all_work_items

    place = ROOT / "fairseq_hrt" / package
    modules = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    for item in _all_work_items(modules, {}):
        (mutation,) = item.mutations
        module = str(Path(mutation.module_path).relative_to(ROOT))
        text = f"{module} {mutation.operator_name} {mutation.occurrence} {Path(mutation.module_path).read_bytes()!r}"
        name = hashlib.sha256(text.encode()).hexdigest()[:12]
        yield Mutant(name, package, module, mutation.operator_name, mutation.operator_args, mutation.occurrence, mutation.start_pos[0])


def draw(count: int, seed: int) -> List[Mutant]:
    """``count`` mutants: places of the source without replacement, then an operator for each."""
    places: Dict[tuple, List[Mutant]] = collections.defaultdict(list)
    for package in TESTS:
        for mutant in all_mutants(package):
            # Operators of one kind at one line are one place.
            places[mutant.module, mutant.line, mutant.operator.split("_")[0]].append(mutant)
    generator = random.Random(seed)
    chosen = generator.sample(sorted(places), min(count, len(places)))
    return [generator.choice(places[place]) for place in chosen]


class Copies:
    """Copies of the repository, one a worker, in which mutants live."""

    def __init__(self, folder: Path, count: int) -> None:
        self._lock = threading.Lock()
        self._free = [folder / f"copy{number}" for number in range(count)]
        for copy in self._free:
            shutil.rmtree(copy, ignore_errors=True)
            for name in ("fairseq_hrt", "tests", "examples"):
                shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            for name in ("pyproject.toml", "setup.py", "README.md"):
                shutil.copy(ROOT / name, copy / name)

    def take(self) -> Path:
        with self._lock:
            return self._free.pop()

    def give(self, copy: Path) -> None:
        with self._lock:
            self._free.append(copy)


def run_tests(copy: Path, package: str, limit: float, *, keep: bool = False) -> str:
    """``passed``, ``failed`` or ``timeout`` of the package's tests in a copy.

    Args:
        limit: in seconds.
        keep: whether compiled modules and tests are kept for the runs that follow; never those of a mutant.
    """
    child = _FORKS.Process(target=_tests, args=(str(copy), [f"tests/unit/{name}" for name in TESTS[package]], keep))
    child.start()
    child.join(limit)
    if child.is_alive():
        child.kill()
        child.join()
        return "timeout"
    if child.exitcode == 255:
        raise RuntimeError("the process that starts the tests is gone: this says nothing about a mutant")
    return "passed" if child.exitcode == 0 else "failed"


def _tests(copy: str, folders: List[str], keep: bool) -> None:
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
    options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
    # At once: libraries that take their time to clean up have nothing to clean up here.
    os._exit(int(pytest.main([*options, *folders])))


def judge(mutant: Mutant, copies: Copies, limits: Dict[str, float]) -> Dict[str, Any]:
    """Runs the tests of one mutant; a record for the results."""
    import cosmic_ray.plugins
    from cosmic_ray.mutating import mutate_code

    copy = copies.take()
    path = copy / mutant.module
    original, before = path.read_text(encoding="utf-8"), path.stat()
    try:
        operator = cosmic_ray.plugins.get_operator(mutant.operator)(**mutant.arguments)
        mutated = mutate_code(original, operator, mutant.occurrence)
        path.write_text(mutated, encoding="utf-8")
        outcome = run_tests(copy, mutant.package, limits[mutant.package])
    finally:
        path.write_text(original, encoding="utf-8")
        # Its compiled form is still that of the file.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        copies.give(copy)
    lines = difflib.unified_diff(original.splitlines(), mutated.splitlines(), lineterm="", n=0)
    change = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return {**mutant._asdict(), "outcome": {"passed": "survived", "failed": "killed"}.get(outcome, outcome), "change": change}


def report(records: Sequence[Dict[str, Any]], seed: int) -> str:
    """The share killed of each package, and every survivor with the reason why it may live."""
    reasons = json.loads(HARMLESS.read_text(encoding="utf-8")) if HARMLESS.exists() else {}
    lines = [f"# Mutation report: {len(records)} mutants, seed {seed}", "", "| package | mutants | killed | % |", "| --- | --: | --: | --: |"]
    for package in [*TESTS, "all"]:
        own = [record for record in records if package in ("all", record["package"])]
        killed = sum(record["outcome"] != "survived" for record in own)
        if own:
            lines.append(f"| {package} | {len(own)} | {killed} | {100 * killed / len(own):.1f} |")
    lines += ["", "## Survivors", ""]
    for record in sorted((r for r in records if r["outcome"] == "survived"), key=lambda r: (r["module"], r["line"])):
        lines.append(f"- `{record['module']}:{record['line']}` ({record['name']}): {reasons.get(record['name'], 'not looked at yet')}")
        lines += ["  ```diff", *(f"  {line}" for line in record["change"]), "  ```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--count", type=int, default=300, help="mutants to draw (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time (default: %(default)s)")
    parser.add_argument("--package", choices=list(TESTS), help="only the drawn ones of this package")
    parser.add_argument("--again", action="store_true", help="run those that survived once more, after tests were added")
    parser.add_argument("--report", action="store_true", help="only write the report of what has been run")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results = options.out / "mutants.jsonl"
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    done = {record["name"]: record for record in map(json.loads, lines)}
    drawn = draw(options.count, options.seed)
    if not options.report:
        finished = {name for name, record in done.items() if not (options.again and record["outcome"] == "survived")}
        todo = [m for m in drawn if m.name not in finished and options.package in (None, m.package)]
        copies = Copies(options.out, options.workers)
        limits = measure_limits(copies, sorted({mutant.package for mutant in todo}))
        with concurrent.futures.ThreadPoolExecutor(options.workers) as pool, results.open("a", encoding="utf-8") as file:
            running = [pool.submit(judge, mutant, copies, limits) for mutant in todo]
            for number, finished_one in enumerate(concurrent.futures.as_completed(running), start=1):
                record = finished_one.result()
                done[record["name"]] = record
                print(json.dumps(record), file=file, flush=True)
                print(f"{number}/{len(todo)} {record['outcome']:8} {record['module']}:{record['line']}", flush=True)
    (options.out / "report.md").write_text(report([done[m.name] for m in drawn if m.name in done], options.seed), encoding="utf-8")


def measure_limits(copies: Copies, packages: Sequence[str]) -> Dict[str, float]:
    """Seconds that a mutant's tests may take; also makes sure that the tests pass without a mutant."""
    limits = {}
    for package in packages:
        copy, start = copies.take(), time.monotonic()
        outcome = run_tests(copy, package, 3600, keep=True)
        copies.give(copy)
        if outcome != "passed":
            raise SystemExit(f"the tests of {package} fail without any mutant: fix them first")
        limits[package] = 30 + PATIENCE * (time.monotonic() - start)
        print(f"tests of {package}: {time.monotonic() - start:.0f} s", flush=True)
    return limits


if __name__ == "__main__":
    main()
