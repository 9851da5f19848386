"""Loading time and memory of the native runtime and of CTranslate2 with models of any size,
untrained, each in a process of its own.

    python examples/common/decoding_memory.py --arch e12d1 --vocabulary 32000 --length 27
    --batch-sizes 1,32

The models are those of decoding_speed.py. A fresh process imports what it needs, loads the model,
and translates sentences of one length, the smallest batches first. Shown are medians of several
starts: the model's file or files; seconds to load it (its pages are in memory already); memory
(resident set) of the process once it has translated batches of each size; and its largest memory,
which has what only loading needs, too.
The interpreter with its libraries is in all of them; what it takes before anything is loaded stands
below. Needs Linux (/proc).
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

STATUS = Path("/proc/self/status")
# Rows: the model of untrained_models.py, or CTranslate2's kind of weights.
NATIVE = {"native AT": "AT", "native HRT": "HRT", "native IBDecoder": "IB", "native DAG": "DAG"}
CTRANSLATE2 = {"CTranslate2 int8": "int8", "CTranslate2 float32": "float32"}


def memory(name: str) -> float:
    """``VmRSS`` (resident now) or ``VmHWM`` (the most so far) of this process in MB."""
    return next(
        int(line.split()[1]) / 1e3
        for line in STATUS.read_text(encoding="utf-8").splitlines()
        if line.startswith(name + ":")
    )


def native_decoder(path: str, length: int, threads: int) -> Callable[[List[List[int]]], Any]:
    """Loads a model of the runtime; neither PyTorch nor fairseq is imported."""
    from fairseq_hrt.native.runtime.engine import DecodingOptions, Engine

    engine = Engine.open(path, threads=threads)
    options = DecodingOptions(
        beam=1,
        max_len_b=length,
        min_len=1 if engine.header.family == "dag" else length,
        scores=False,
    )
    return lambda batch: engine.decode(batch, options)


def ctranslate2_decoder(
    path: str, kind: str, length: int, threads: int
) -> Callable[[List[List[int]]], Any]:
    """Loads a model of CTranslate2, whose words are w0, w1, … behind four special symbols."""
    import ctranslate2

    translator = ctranslate2.Translator(path, compute_type=kind, intra_threads=threads)

    def decode(batch: List[List[int]]) -> Any:
        words = [[f"w{token - 4}" for token in row[:-1]] for row in batch]
        return translator.translate_batch(
            words, beam_size=1, min_decoding_length=length, max_decoding_length=length
        )

    return decode


def measure(settings: Dict[str, Any]) -> Dict[str, Any]:
    """What one process needs; run in a fresh one."""
    path, length, threads = settings["path"], settings["length"], settings["threads"]
    if settings["kind"]:
        import ctranslate2  # noqa: F401
    else:
        import fairseq_hrt.native.runtime.engine  # noqa: F401
    found: Dict[str, Any] = {"before": memory("VmRSS")}
    start = time.perf_counter()
    decode = (
        ctranslate2_decoder(path, settings["kind"], length, threads)
        if settings["kind"]
        else native_decoder(path, length, threads)
    )
    found["seconds"] = time.perf_counter() - start
    generator = random.Random(settings["seed"])
    for size in settings["sizes"]:
        for _ in range(settings["batches"]):
            decode(
                [
                    [*generator.choices(range(4, settings["words"]), k=length), 2]
                    for _ in range(size)
                ]
            )
        found[str(size)] = memory("VmRSS")
    return {**found, "peak": memory("VmHWM")}


def convert_models(given: argparse.Namespace, folder: Path) -> Dict[str, Dict[str, Any]]:
    """Writes the models of every row: {row: {path, kind, bytes}}. Rows whose engine is missing are
    left out, with a line about it."""
    from untrained_models import build_models

    from fairseq_hrt.engine.torch_to_native import write_runtime_model
    from fairseq_hrt.export.ctranslate2_model import export
    from fairseq_hrt.native.runtime.library import LibraryUnavailable, load_library

    built = build_models(given.arch, given.vocabulary, given.seed)
    dictionary, rows = built["dictionary"], {}
    given.vocabulary = len(dictionary)
    try:
        load_library()
        for row, name in NATIVE.items():
            path = folder / f"{name}.safetensors"
            write_runtime_model(built[name], dictionary, dictionary, path)
            rows[row] = {"path": str(path), "kind": "", "bytes": path.stat().st_size}
    except LibraryUnavailable as error:
        print(f"without the native runtime: {error}\n")
    try:
        for row, kind in CTRANSLATE2.items():
            path = folder / kind
            export(built["AT"], dictionary, dictionary, path, quantization=kind)
            rows[row] = {
                "path": str(path),
                "kind": kind,
                "bytes": sum(one.stat().st_size for one in path.iterdir()),
            }
    except ValueError as error:
        print(f"without CTranslate2: {error}\n")
    return rows


def start(row: Dict[str, Any], given: argparse.Namespace) -> Dict[str, Any]:
    """Measures a row in a new process."""
    settings = {
        "path": row["path"], "kind": row["kind"], "length": given.length, "threads": given.threads,
        "seed": given.seed, "sizes": given.sizes, "batches": given.batches,
        "words": given.vocabulary,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, __file__, "--measure", json.dumps(settings)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(
            f"{row['path']}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
        )
    return dict(json.loads(done.stdout))


def table(
    rows: Dict[str, Dict[str, Any]],
    starts: Dict[str, List[Dict[str, Any]]],
    given: argparse.Namespace,
) -> List[str]:
    """The table's lines, and what is taken before anything is loaded."""
    names = [
        "System",
        "file MB",
        "loading s",
        *(f"settled MB, batches of {size}" for size in given.sizes),
        "peak MB",
    ]
    lines = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    for name, row in rows.items():

        def middle(what: str, own: Sequence[Dict[str, Any]] = tuple(starts[name])) -> float:
            return statistics.median(one[what] for one in own)

        figures = [f"{row['bytes'] / 1e6:.0f}", f"{middle('seconds'):.2f}"]
        figures += [f"{middle(what):.0f}" for what in (*map(str, given.sizes), "peak")]
        lines.append(f"| {name} | {' | '.join(figures)} |")
    before = ", ".join(
        f"{name} {statistics.median(one['before'] for one in own):.0f} MB"
        for name, own in starts.items()
    )
    return [*lines, "", f"Before anything is loaded: {before}."]


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--arch", default="e12d1", help="as decoding_speed.py takes it (default: %(default)s)"
    )
    parser.add_argument(
        "--vocabulary",
        type=int,
        metavar="N",
        help="words (default: those of the recipe, else 32000)",
    )
    parser.add_argument(
        "--batch-sizes", default="1,32", metavar="N,...", help="ascending (default: %(default)s)"
    )
    for name, default, text in (
        ("length", 27, "tokens a sentence"), ("batches", 10, "of each size"),
        ("starts", 3, "of each system"), ("threads", 1, "of both"),
        ("seed", 1, "of weights and words"),
    ):  # fmt: skip
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{text} (default: {default})"
        )
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = build_parser()
    given = parser.parse_args(arguments)
    if given.measure is not None:
        print(json.dumps(measure(json.loads(given.measure))))
        return
    if not STATUS.exists():
        parser.error(f"there is no {STATUS} on this system, where memory is read")
    try:
        given.sizes = sorted(int(size) for size in given.batch_sizes.split(","))
    except ValueError:
        parser.error(f"--batch-sizes {given.batch_sizes!r}: give numbers separated by commas")
    if min(*given.sizes, given.length, given.batches, given.starts, given.threads) < 1:
        parser.error(
            "--batch-sizes, --length, --batches, --starts and --threads must be at least 1"
        )
    if given.vocabulary is not None and given.vocabulary < 5:
        parser.error(f"--vocabulary {given.vocabulary}: give at least 5")
    import logging

    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        rows = convert_models(given, Path(folder))
        starts = {
            name: [start(row, given) for _ in range(given.starts)] for name, row in rows.items()
        }
    print(
        f"{given.arch}, {given.vocabulary} words, {given.length} tokens, {given.threads} threads,"
        f" {given.starts} starts\n"
    )
    print("\n".join(table(rows, starts, given)))


if __name__ == "__main__":
    main()
