"""What each kind of entry runs: its commands in order, and the file that shows that all of them are
done.

prepare    ``script`` with OUT set to the entry's folder and ``environment``; leaves data-bin
train      fairseq-train on ``data`` with ``options`` in the faster precision, then the average of
the last ``average`` checkpoints: model.pt distill    fairseq-hrt distill of ``data`` by ``system``;
leaves data-bin tune       fairseq-hrt tune on ``data``: ``system`` over ``grid``; leaves tuned.json
and best, which can be appended to a system benchmark  fairseq-hrt benchmark of ``systems`` on
``data`` with ``options``; leaves results.json command    ``command``, a list; must leave ``result``

Every command may be killed and started again: it goes on or does its work anew.
"""

import runpy
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from matrix import FOLDER, TEXT, Entry, replaced

PRECISION = Path(__file__).resolve().parents[1] / "common" / "precision.py"
# What does not change the result of a training: how often it says something, and how often it keeps
# what can be gone on from.
TRAIN_HABITS = {
    "log-format": "simple",
    "log-interval": 50,
    "num-workers": 0,
    "required-batch-size-multiple": 1,
    "no-epoch-checkpoints": True,
}


class Step(NamedTuple):
    """One command.

    Attributes:
        arguments: the command line.
        output: file that gets the standard output, whole or not at all; None: the log.
    """

    arguments: List[str]
    output: Optional[Path] = None


def flags(options: Mapping[str, Any]) -> List[str]:
    """Options as arguments: ``{"lr": 0.1, "share-all-embeddings": true}`` becomes
    ``--lr 0.1 --share-all-embeddings``; lists are repeated."""
    arguments: List[str] = []
    for name, value in options.items():
        if value is True:
            arguments.append(f"--{name}")
        elif isinstance(value, list):
            for item in value:
                arguments += [f"--{name}", str(item)]
        elif value is not False:
            # With = a value may begin with a dash.
            arguments.append(f"--{name}={value}")
    return arguments


def console(verb: str) -> List[str]:
    """A verb of fairseq-hrt in the interpreter that runs the driver."""
    return [sys.executable, "-m", "fairseq_hrt", verb]


def _prepare(fields: Mapping[str, Any], out: Path) -> List[Step]:
    return [Step(["bash", fields["script"]])]


def _train(fields: Mapping[str, Any], out: Path) -> List[Step]:
    precision = runpy.run_path(str(PRECISION))["chosen_precision"]()
    options = {
        **TRAIN_HABITS,
        "bf16": precision == "bfloat16",
        **fields["options"],
        "save-dir": out / "checkpoints",
    }
    count = int(fields.get("average", 1))
    options.setdefault("keep-interval-updates", max(count, 1))
    average = [
        *console("average"),
        "--folder",
        str(out / "checkpoints"),
        "--last",
        str(count),
        "--output",
        str(out / "model.pt"),
    ]
    program = str(Path(sys.executable).with_name("fairseq-train"))
    return [Step([program, fields["data"], *flags(options)]), Step(average)]


def _distill(fields: Mapping[str, Any], out: Path) -> List[Step]:
    arguments = [
        fields["data"],
        "--system",
        fields["system"],
        "--out",
        str(out),
        *flags(fields.get("options", {})),
    ]
    return [Step([*console("distill"), *arguments])]


def _tune(fields: Mapping[str, Any], out: Path) -> List[Step]:
    grids = [argument for grid in fields["grid"] for argument in ("--grid", grid)]
    arguments = [
        fields["data"],
        "--system",
        fields["system"],
        *grids,
        "--out",
        str(out),
        "--print-best",
        *flags(fields.get("options", {})),
    ]
    return [Step([*console("tune"), *arguments], output=out / "best")]


def _benchmark(fields: Mapping[str, Any], out: Path) -> List[Step]:
    systems = [argument for system in fields["systems"] for argument in ("--system", system)]
    return [
        Step(
            [
                *console("benchmark"),
                fields["data"],
                *systems,
                *flags(fields.get("options", {})),
                "--out",
                str(out),
            ]
        )
    ]


def _command(fields: Mapping[str, Any], out: Path) -> List[Step]:
    command = list(fields["command"])
    if command[0] == "python":
        command[0] = sys.executable
    return [Step(command)]


BUILDERS: Dict[str, Callable[[Mapping[str, Any], Path], List[Step]]] = {
    "prepare": _prepare, "train": _train, "distill": _distill, "tune": _tune,
    "benchmark": _benchmark, "command": _command,
}  # fmt: skip
RESULTS = {
    "prepare": "data-bin",
    "train": "model.pt",
    "distill": "data-bin",
    "tune": "best",
    "benchmark": "results.json",
}


def result_of(entry: Entry) -> str:
    """Name of the file or folder that the last step of an entry leaves in the entry's folder."""
    return str(entry.fields["result"]) if entry.kind == "command" else RESULTS[entry.kind]


def filled(value: Any, folders: Mapping[str, Path], out: Path) -> Any:
    """The value with paths and texts for references to other entries.

    Raises:
        ValueError: if a file that is referred to is not there.
    """

    def text_of(name: str, file: str) -> str:
        path = folders[name] / file
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ValueError(f"cannot read {path}: {error.strerror}") from None

    def change(text: str) -> str:
        text = FOLDER.sub(lambda match: str(out if match[1] == "out" else folders[match[1]]), text)
        return TEXT.sub(lambda match: text_of(match[1], match[2]), text)

    return replaced(value, change)


def steps_of(entry: Entry, folders: Mapping[str, Path]) -> List[Step]:
    """The commands of an entry whose parents are finished.

    Args:
        entry: what is to be run.
        folders: of the entry itself and of its parents, by name.
    """
    out = folders[entry.name]
    return BUILDERS[entry.kind](filled(entry.fields, folders, out), out)


def shown(arguments: Sequence[str]) -> str:
    """A command line for a log."""
    return "+ " + " ".join(
        argument if argument.isascii() and " " not in argument else repr(argument)
        for argument in arguments
    )
