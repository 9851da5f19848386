"""Loading time and memory of the native runtime and of CTranslate2 with models of any size,
untrained, each in a process of its own.

    python examples/measure/decoding_memory.py --arch e12d1 --vocabulary 32000 --length 27
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
from typing import Any, Callable, Dict, Iterator, List, Tuple

STATUS = Path("/proc/self/status")
# Rows: the model of untrained_models.py, or CTranslate2's kind of weights.
NATIVE = {"native AT": "AT", "native HRT": "HRT", "native IBDecoder": "IB", "native DAG": "DAG"}
CTRANSLATE2 = {"CTranslate2 int8": "int8", "CTranslate2 float32": "float32"}

# ---------------------------------------------------------------------- in a fresh process, which
# imports no more than translating needs: neither PyTorch nor fairseq


def memory(name: str) -> float:
    """``VmRSS`` (resident now) or ``VmHWM`` (the most so far) of this process in MB."""
    return next(
        int(line.split()[1]) / 1e3
        for line in STATUS.read_text(encoding="utf-8").splitlines()
        if line.startswith(name + ":")
    )


def native_decoder(path: str, length: int, threads: int) -> Callable[[List[List[int]]], Any]:
    """Loads a model of the runtime."""
    from fairseq_hrt.native.runtime.engine import DecodingOptions, Engine

    engine = Engine.open(path, threads=threads)
    least = 1 if engine.header.family == "dag" else length
    options = DecodingOptions(beam=1, max_len_b=length, min_len=least, scores=False)
    return lambda batch: engine.decode(batch, options)


def ctranslate2_decoder(
    path: str, kind: str, length: int, threads: int
) -> Callable[[List[List[int]]], Any]:
    """Loads a model of CTranslate2, whose words are w0, w1, … behind four special symbols."""
    import ctranslate2

    translator = ctranslate2.Translator(path, compute_type=kind, intra_threads=threads)
    limits = {"min_decoding_length": length, "max_decoding_length": length}

    def decode(batch: List[List[int]]) -> Any:
        words = [[f"w{token - 4}" for token in row[:-1]] for row in batch]
        return translator.translate_batch(words, beam_size=1, **limits)

    return decode


def measure(
    path: str, kind: str, length: int, threads: int, seed: int, sizes: List[int], batches: int,
    vocabulary: int,
) -> Dict[str, Any]:  # fmt: skip
    """What one process needs; ``kind`` is empty for the native runtime."""
    if kind:
        import ctranslate2  # noqa: F401
    else:
        import fairseq_hrt.native.runtime.engine  # noqa: F401
    found: Dict[str, Any] = {"before": memory("VmRSS")}
    start = time.perf_counter()
    decode = (
        ctranslate2_decoder(path, kind, length, threads)
        if kind
        else native_decoder(path, length, threads)
    )
    found["seconds"] = time.perf_counter() - start
    words = random.Random(seed)
    for size in sizes:
        for _ in range(batches):
            decode([[*words.choices(range(4, vocabulary), k=length), 2] for _ in range(size)])
        found[str(size)] = memory("VmRSS")
    return {**found, "peak": memory("VmHWM")}


# ---------------------------------------------------------------------- in the command's process


def converted_models(
    given: argparse.Namespace, built: Dict[str, Any], folder: Path
) -> Iterator[Tuple[str, Path, str]]:
    """Writes the model of every row: its name, path and kind. Rows whose engine is missing are left
    out, with a line about it."""
    from fairseq_hrt.engine.torch_to_native import write_runtime_model
    from fairseq_hrt.export.ctranslate2_model import export
    from fairseq_hrt.native.runtime.library import LibraryUnavailable, load_library

    words = built["dictionary"]
    try:
        load_library()
        for row, name in NATIVE.items():
            path = folder / f"{name}.safetensors"
            write_runtime_model(built[name], words, words, path)
            yield row, path, ""
    except LibraryUnavailable as error:
        print(f"without the native runtime: {error}\n")
    try:
        for row, kind in CTRANSLATE2.items():
            export(built["AT"], words, words, folder / kind, quantization=kind)
            yield row, folder / kind, kind
    except ValueError as error:
        print(f"without CTranslate2: {error}\n")


def started(settings: Dict[str, Any]) -> Dict[str, Any]:
    """Measures in a new process.

    Raises:
        ValueError: it failed.
    """
    done = subprocess.run(
        [sys.executable, __file__, "--measure", json.dumps(settings)],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(f"{settings['path']}: {message}")
    return dict(json.loads(done.stdout))


def table(found: Dict[str, Dict[str, float]], sizes: List[int]) -> List[str]:
    """The table's lines, and what is taken before anything is loaded."""
    settled = [f"settled MB, batches of {size}" for size in sizes]
    names = ["System", "file MB", "loading s", *settled, "peak MB"]
    lines = [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]
    for name, own in found.items():
        figures = [f"{own['file']:.0f}", f"{own['seconds']:.2f}"]
        figures += [f"{own[what]:.0f}" for what in (*map(str, sizes), "peak")]
        lines.append(f"| {name} | {' | '.join(figures)} |")
    before = ", ".join(f"{name} {own['before']:.0f} MB" for name, own in found.items())
    return [*lines, "", f"Before anything is loaded: {before}."]


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    from number_options import numbers

    from fairseq_hrt.cli.command import add_numbers
    from fairseq_hrt.cli.parser import HelpFormatter

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument(
        "--arch", default="e12d1", help="as decoding_speed.py takes it (default: %(default)s)"
    )
    parser.add_argument(
        "--batch-sizes", type=numbers(1), default="1,32", metavar="N,...",
        help="(default: %(default)s)",
    )  # fmt: skip
    add_numbers(
        parser,
        ("--vocabulary", None, "words (default: those of the recipe, else 32000)"),
        ("--length", 27, "tokens a sentence"), ("--batches", 10, "of each size"),
        ("--starts", 3, "of each system"), ("--threads", 1, "of both"),
        ("--seed", 1, "of weights and words"),
    )  # fmt: skip
    return parser


def run(given: argparse.Namespace) -> None:
    """Measures and prints.

    Raises:
        ValueError: an option is too small, a process failed, or there is no /proc.
    """
    from number_options import require
    from untrained_models import build_models, check_size

    check_size(given.arch)
    if not STATUS.exists():
        raise ValueError(f"there is no {STATUS} on this system, where memory is read")
    require(given, 5, "vocabulary")
    require(given, 1, "length", "batches", "starts", "threads")
    built, sizes = build_models(given.arch, given.vocabulary, given.seed), sorted(given.batch_sizes)
    names = ("length", "threads", "seed", "batches")
    settings = {name: getattr(given, name) for name in names}
    settings |= {"sizes": sizes, "vocabulary": len(built["dictionary"])}
    found: Dict[str, Dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for row, path, kind in converted_models(given, built, Path(folder)):
            own = {**settings, "path": str(path), "kind": kind}
            starts = [started(own) for _ in range(given.starts)]
            files = path.iterdir() if path.is_dir() else [path]
            found[row] = {
                "file": sum(file.stat().st_size for file in files) / 1e6,
                **{what: statistics.median(one[what] for one in starts) for what in starts[0]},
            }
    print(
        f"{given.arch}, {settings['vocabulary']} words, {given.length} tokens, {given.threads}"
        f" threads, {given.starts} starts\n"
    )
    print("\n".join(table(found, sizes)))


if sys.argv[1:2] == ["--measure"]:
    print(json.dumps(measure(**json.loads(sys.argv[2]))))
else:
    from fairseq_hrt.cli.command import command

    main = command(build_parser, run, progress=False)
