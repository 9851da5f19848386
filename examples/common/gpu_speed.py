"""Measures this package on your GPU within a few minutes: what the card can do, whether recorded
graphs translate as the eager way does, decoding beside fairseq and Hugging Face, dag's losses,
training at full size.

    python examples/common/gpu_speed.py --out gpu.json

Models are untrained, of 6 + 6 layers of width 512 with 32,768 words; sentences have 26 words and so
have their translations. The file is written after every row. A row that fails tells why, and one
for which no time was left is marked: ``not_run``. After a crash of the device a new process
continues.
"""

import argparse
import datetime
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

HERE = Path(__file__).resolve().parent
# The folder of the parts' modules, as when the script is run.
sys.path.insert(0, str(HERE))

# Share of the time that is left at the beginning of each part: what a part leaves is for those
# behind it.
PARTS = {
    "ceilings": 0.1, "correctness": 0.2, "decoding": 0.6, "losses": 0.4, "training": 1.0,
}  # fmt: skip
# Exit status of a process whose device is lost; how often another one is started.
LOST, PROCESSES = 75, 8
# Seconds between two looks at the process that measures; before it is ended at the end.
LOOK, GRACE = 0.2, 5.0


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("gpu_speed.json"), help="the results")
    parser.add_argument("--device", default="cuda", help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=6.0, help="for all of it (default: 6)")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, joined by commas")
    parser.add_argument("--bf16", action="store_true", help="bfloat16 in place of fp16")
    parser.add_argument("--layers", default="6+6,12+1", help="decoding: encoder+decoder, by commas")
    parser.add_argument("--seed", type=int, default=1, help="of weights and sentences")
    parser.add_argument(
        "--tiny", action="store_true", help="tiny sizes, for trying the script out on a CPU"
    )
    parser.add_argument(
        "--reference-operations", type=Path, metavar="FOLDER",
        help="Python package with dag_loss, dag_best_alignment and dag_logsoftmax_gather_inplace of"
        " DA-Transformer, to be measured beside ours",
    )  # fmt: skip
    parser.add_argument("--picture", type=Path, metavar="FILE", help="decoding as .svg or .png")
    # Given by the command itself to the process that measures: the time at which it has to end.
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    return parser


def check(given: argparse.Namespace) -> None:
    """Refuses wrong options.

    Raises:
        ValueError: names the option and what to give.
    """
    parts = given.only.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise ValueError(f"--only {unknown[0]!r} is not a part: give some of {', '.join(PARTS)}")
    if not 0 < given.minutes < 10**4:
        raise ValueError(f"--minutes {given.minutes} must be greater than 0")
    for layers in given.layers.split(","):
        counts = layers.split("+")
        if len(counts) != 2 or not all(count.isdigit() and int(count) for count in counts):
            raise ValueError(f"--layers {layers!r}: give encoder+decoder layers such as 6+6")
    for option, path in (("--out", given.out), ("--picture", given.picture)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise ValueError(f"{option} {path}: give a file in a folder that exists")
    if given.picture is not None and "decoding" not in parts:
        raise ValueError(f"--picture {given.picture} shows decoding: add decoding to --only")
    folder = given.reference_operations
    if folder is not None and not folder.is_dir():
        raise ValueError(f"--reference-operations {folder}: there is no such folder")


def supervise(given: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Starts the process that measures, and another one where the device is lost or a row takes far
    too long; returns the exit status."""
    given.out.unlink(missing_ok=True)
    end = time.time() + 60 * given.minutes
    status = LOST
    for _ in range(PROCESSES):
        command = [sys.executable, str(Path(__file__).resolve()), *arguments, "--until", str(end)]
        with subprocess.Popen(command) as process:
            status = watched(process, given.out, end)
        if status != LOST or time.time() > end:
            break
    list_what_is_missing(given)
    return 0 if status == LOST else status


def list_what_is_missing(given: argparse.Namespace) -> None:
    """Marks the rows that were planned, and the parts, for which no time was left."""
    document = reading(given.out)
    if not document:
        return
    document.pop("doing", None)
    rows = document["rows"]
    for labels in document.pop("planned", []):
        if not any(labels.items() <= row.items() for row in rows):
            rows.append({**labels, "not_run": "no time left"})
    begun = {row["part"] for row in rows}
    rows += [
        {"part": part, "not_run": "no time left"}
        for part in given.only.split(",")
        if part not in begun
    ]
    write(given.out, document)


def watched(process: "subprocess.Popen[Any]", path: Path, end: float) -> int:
    """Waits for a process; LOST if it ended without having measured everything."""
    while process.poll() is None:
        time.sleep(LOOK)
        doing = reading(path).get("doing")
        late = doing is not None and time.time() > doing["until"]
        if late or time.time() > end + GRACE:
            process.kill()
            process.wait()
            give_up(path, "no answer" if late else "the time was over")
            return LOST
    if process.returncode < 0 or reading(path).get("doing"):
        # A signal: the driver ends a process after some errors.
        give_up(path, f"the process ended with status {process.returncode}")
        return LOST
    return int(process.returncode)


def reading(path: Path) -> Dict[str, Any]:
    """The results so far."""
    try:
        document: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return {}
    return document


def table(document: Dict[str, Any]) -> List[str]:
    """Milliseconds a sentence: a line for each system and way, a column for each batch size."""
    rows = [row for row in document.get("rows", []) if "ms_a_sentence" in row]
    batches = sorted({row["batch"] for row in rows})
    lines: Dict[Any, Dict[int, float]] = {}
    for row in rows:
        name = row["layers"], row["system"], row["way"]
        lines.setdefault(name, {})[row["batch"]] = row["ms_a_sentence"]
    if not lines:
        return []
    header = "ms a sentence".ljust(43) + "".join(f"batch {size}".rjust(11) for size in batches)
    found = [header]
    for (layers, system, way), times in lines.items():
        cells = (f"{times[size]:.3f}" if size in times else "–" for size in batches)
        label = f"{layers:5} {system:26} {way:9}".ljust(43)
        found.append(label + "".join(cell.rjust(11) for cell in cells))
    return found


def give_up(path: Path, why: str) -> None:
    """Writes the row that was being measured as failed."""
    document = reading(path)
    doing = document.pop("doing", None)
    if doing is None:
        return
    doing.pop("until")
    document["rows"].append({**doing, "failed": why})
    write(path, document)
    print(f"{doing}: {why}", flush=True)


def write(path: Path, document: Dict[str, Any]) -> None:
    """Writes the results, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)


def measure(given: argparse.Namespace) -> int:
    """Measures all parts in this process; returns the exit status."""
    import gpu_ceilings
    import gpu_decoding
    import gpu_losses
    import gpu_training
    import torch
    from gpu_rows import DeviceLost, Journal

    for name in ("fairseq", "torch", "fairseq_hrt"):
        logging.getLogger(name).setLevel(logging.ERROR)
    device, half = chosen_device(given.device), torch.bfloat16 if given.bf16 else torch.float16
    tiny, layers = given.tiny, tuple(given.layers.split(","))
    journal = Journal(given.out, device, given.until, head(given))
    common: Dict[str, Any] = {"tiny": tiny, "half": half}
    seeded = {**common, "seed": given.seed}
    parts = {
        "ceilings": lambda: gpu_ceilings.measure(journal, tiny=tiny),
        "correctness": lambda: gpu_decoding.compare(journal, **seeded),
        "decoding": lambda: gpu_decoding.measure(journal, **seeded, layers=layers),
        "losses": lambda: gpu_losses.measure(
            journal, **common, reference=given.reference_operations
        ),
        "training": lambda: gpu_training.measure(journal, **seeded, layers=layers[0]),
    }
    chosen = [part for part in PARTS if part in given.only.split(",")]
    try:
        for part in chosen:
            journal.begin(part, 1.0 if part == chosen[-1] else PARTS[part])
            whole_part(journal, parts[part])
    except DeviceLost as error:
        print(f"the device is lost ({error}); a new process continues", flush=True)
        return LOST
    return 0


def whole_part(journal: Any, run: Any) -> None:
    """Measures a part. An error outside its rows is a row, so that the next part follows."""
    from gpu_rows import DeviceLost

    try:
        run()
    except DeviceLost:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        journal.add({"part": journal.part, "system": "the rest"}, failed=text)
        lost = journal.answers()
        if lost:
            raise DeviceLost(lost) from error


def head(given: argparse.Namespace) -> Dict[str, Any]:
    """What was measured where: it stands before the rows."""
    import torch

    from fairseq_hrt.evaluation.comparison import environment

    known = environment(torch.get_num_threads())
    precision = "bf16" if given.bf16 else "fp16"
    if given.device == "cpu":
        precision = "float32"
    if given.device.startswith("cuda"):
        known.update(card(given.device))
    try:
        import triton

        known["triton"] = triton.__version__
    except ImportError:
        known["triton"] = "not installed"
    return {
        "about": "fairseq_hrt on a GPU; untrained models, random sentences",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "environment": known,
        "settings": {
            "device": given.device,
            "precision": precision,
            "layers": given.layers,
            "seed": given.seed,
            "tiny": given.tiny,
            "minutes": given.minutes,
        },
    }


def chosen_device(name: str) -> Any:
    """The device; a CUDA device has a number, and is the current one.

    Raises:
        ValueError: there is no such device.
    """
    import torch

    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"--device {name}: {str(error).splitlines()[0]}") from None
    if device.type != "cuda":
        return device
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = device.index or 0
    if number >= count:
        raise ValueError(
            f"--device {name}: PyTorch finds {count} CUDA devices; give --device cpu for a"
            " rehearsal with --tiny"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def card(device: str) -> Dict[str, str]:
    """Name, memory, driver and CUDA version of a CUDA device."""
    import torch

    found = torch.cuda.get_device_properties(torch.device(device))
    entries = {
        "gpu": found.name,
        "gpu_memory_mib": str(found.total_memory >> 20),
        "multiprocessors": str(found.multi_processor_count),
        "capability": f"{found.major}.{found.minor}",
        "cuda": str(torch.version.cuda),
    }
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        shown = subprocess.run(query, capture_output=True, text=True, check=True, timeout=10)
        entries["driver"] = shown.stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError):
        entries["driver"] = "unknown"
    return entries


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = build_parser()
    words: List[str] = list(sys.argv[1:] if arguments is None else arguments)
    given = parser.parse_args(words)
    try:
        check(given)
        if given.until is not None:
            sys.exit(measure(given))
        status = supervise(given, words)
        print("\n".join(table(reading(given.out))))
        if given.picture is not None and given.out.exists():
            from gpu_picture import draw

            draw(reading(given.out), given.picture)
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(status)


if __name__ == "__main__":
    main()
