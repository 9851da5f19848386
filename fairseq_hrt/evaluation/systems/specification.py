"""Reads the description of a system: its name, a checkpoint, and the options of
``fairseq-generate`` that it decodes with."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence

from fairseq import utils

from ...engine.models import option_arguments
from ...native.options.conditions import option_text
from ...native.options.schema import ENGINES as OURS

_NAMED_IN_SYSTEM = ("name", "path", "task", "engine")
ENGINES = (*OURS, "ctranslate2")
# Earlier names of engines.
_FORMERLY = {"fairseq": "torch", "runtime": "native"}
_NAMED_IN_DATA = ("gen_subset", "source_lang", "target_lang", "data")
# Options that would hand the references to a system, with the values that do not.
_GIVEN_WORDS = {"prefix_size": "0", "score_reference": "false"}


@dataclass(frozen=True)
class SystemSpec:
    """The description of a system to compare.

    Attributes:
        name: the name in tables.
        path: the checkpoint file; several, joined by ``:``, are an ensemble. With ``native`` also a
            bundle or a model file of the engine, with ``ctranslate2`` also an exported folder.
        task: the name of a registered task; None: the task that the checkpoint was trained with.
        options: further options of ``fairseq-generate`` without dashes, e.g. ``{"beam": "1"}``. The
            value ``"true"`` stands for a switch without a value, ``"false"`` leaves the option out.
        engine: ``torch`` (PyTorch: this package's engine, or whatever decodes the task),
            ``native``, ``ctranslate2``, or ``auto`` (native on a CPU if that supports the model and
            the options, else PyTorch, as in the stock commands).
        defaults: names of those options that are ignored if other options leave them without
            effect, such as the options of a bundle or of a tuning grid; any other option without
            effect is refused.
    """

    name: str
    path: str
    task: Optional[str]
    options: Mapping[str, str]
    engine: str = "auto"
    defaults: FrozenSet[str] = frozenset()

    @property
    def subject(self) -> str:
        """The words with which an error message about the system begins."""
        return f"system {self.name!r}"

    @property
    def given(self) -> FrozenSet[str]:
        """Names of the options that are refused if they have no effect."""
        return frozenset(self.options) - self.defaults

    def shown(self) -> Dict[str, str]:
        """Checkpoint and options for a report. Files are shown without their folders, which differ
        from machine to machine."""
        return {"checkpoint": _file_names(self.path)} | {
            key: _file_names(value) if "/" in value else value
            for key, value in self.options.items()
        }


def _file_names(paths: str) -> str:
    return "+".join(Path(path).name for path in utils.split_paths(paths))


def parse_system(text: str) -> SystemSpec:
    """Reads a system's description in the form of the command line:
    ``name=HRT k=2 (1,1),path=checkpoint_best.pt,task=translation_hrt,beam=1``.

    A comma separates two entries only where ``option=`` follows it, so values may hold commas
    themselves.

    Raises:
        ValueError: an entry has no ``=``; or for the reasons in :func:`system_from_mapping`.
    """
    entries: Dict[str, str] = {}
    for entry in re.split(r",(?=[A-Za-z][A-Za-z0-9_-]*=)", text):
        key, equals, value = entry.partition("=")
        if not equals:
            raise ValueError(f"system {text!r}: {entry!r} is not of the form option=value")
        entries[key.strip()] = value.strip()
    return system_from_mapping(entries)


def read_systems(path: Path) -> List[SystemSpec]:
    """Reads the descriptions of systems from a JSON file, a list of objects like
    ``{"name": "AT", "path": "checkpoint_best.pt", "beam": 5}``.

    Raises:
        ValueError: the file is not such a list; or for the reasons in :func:`system_from_mapping`.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path} must hold a JSON list of objects, one for each system")
    return [system_from_mapping(row) for row in rows]


def system_from_mapping(entries: Mapping[str, Any]) -> SystemSpec:
    """Makes a :class:`SystemSpec` from its entries by name: ``name``, ``path``, ``task``,
    ``engine`` and options of ``fairseq-generate``.

    Raises:
        ValueError: name or path is missing, the engine is unknown, or an option belongs to the
            data, which all systems share, names a device, or would give the system words of the
            references.
    """
    values = {
        key.lstrip("-").replace("-", "_"): option_text(value) for key, value in entries.items()
    }
    for key in ("name", "path"):
        if not values.get(key):
            raise ValueError(f"system {dict(entries)!r} needs {key}=...")
    subject = f"system {values['name']!r}"
    for key in _NAMED_IN_DATA:
        if key in values:
            raise ValueError(
                f"{subject}: {key} is the same for all systems; give it once, outside of --system"
            )
    if "device" in values:
        raise ValueError(
            f"{subject}: device={values['device']} is not an option of a system: it computes on a"
            " GPU if there is one; give cpu=true, or choose a GPU by CUDA_VISIBLE_DEVICES"
        )
    for key, harmless in _GIVEN_WORDS.items():
        if values.get(key, harmless) != harmless:
            raise ValueError(
                f"{subject}: {key}={values[key]} gives the system words of the references, so that"
                " its quality cannot be compared; leave it out; fairseq-generate itself supports it"
            )
    engine = values.get("engine", "auto")
    engine = _FORMERLY.get(engine, engine)
    if engine not in ENGINES:
        raise ValueError(
            f"{subject}: engine={engine} is unknown, choose one of {', '.join(ENGINES)}"
        )
    rest = {key: value for key, value in values.items() if key not in _NAMED_IN_SYSTEM}
    return SystemSpec(values["name"], values["path"], values.get("task"), rest, engine)


def generate_arguments(spec: SystemSpec, data: Sequence[str], task: str) -> List[str]:
    """The arguments with which ``fairseq-generate`` decodes as ``spec`` describes.

    Args:
        spec: the description of the system.
        data: the arguments that choose the data: the folder and, e.g., ``--gen-subset`` and
            ``--source-lang``.
        task: the name of the task.
    """
    return [*data, "--path", spec.path, "--task", task, *option_arguments(spec.options)]
