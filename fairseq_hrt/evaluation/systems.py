"""A system: a checkpoint and the way it is decoded, described by the options of ``fairseq-generate``.

Every system of fairseq's is built the way ``fairseq-generate`` builds it (``setup_task``, ``load_model_ensemble``,
``build_generator``, ``inference_step``), so that one decoder is never measured by kinder rules than another.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from fairseq import tasks, utils
from fairseq.data import FairseqDataset
from omegaconf import DictConfig
from torch import nn

from ..common.checkpoints import read_checkpoint, reading, require_known_task, task_name
from ..common.loading import (
    build_generator,
    choose_device,
    generation_config,
    load_models,
    option_arguments,
    option_text,
    to_device,
)
from ..common.trace import GenerationCounters

_NAMED_IN_SYSTEM = ("name", "path", "task", "engine")
ENGINES = ("fairseq", "ctranslate2", "runtime")
_NAMED_IN_DATA = ("gen_subset", "source_lang", "target_lang", "data")


@dataclass(frozen=True)
class SystemSpec:
    """What is compared.

    Attributes:
        name: shown in the table.
        path: checkpoint file; several joined by ``:`` are an ensemble.
        task: a registered task; None: the task that the checkpoint was trained with.
        options: further options of ``fairseq-generate`` without dashes, e.g. ``{"beam": "1"}``. The value ``"true"``
            stands for a switch without a value, ``"false"`` leaves it away.
        engine: ``fairseq`` (whatever decodes the task, this package's engine included), ``ctranslate2`` or ``runtime``, the native one.
    """

    name: str
    path: str
    task: Optional[str]
    options: Mapping[str, str]
    engine: str = "fairseq"


def parse_system(text: str) -> SystemSpec:
    """Reads ``name=HRT k=2 (1,1),path=checkpoint_best.pt,task=translation_hrt,beam=1``.

    A comma separates two entries only where ``option=`` follows it, so values may hold commas themselves.

    Raises:
        ValueError: an entry without ``=``, or neither name nor path.
    """
    entries: Dict[str, str] = {}
    for entry in re.split(r",(?=[A-Za-z][A-Za-z0-9_-]*=)", text):
        key, equals, value = entry.partition("=")
        if not equals:
            raise ValueError(f"system {text!r}: {entry!r} is not of the form option=value")
        entries[key.strip()] = value.strip()
    return system_from_mapping(entries)


def read_systems(path: Path) -> List[SystemSpec]:
    """Reads a JSON file: a list of objects like ``{"name": "AT", "path": "checkpoint_best.pt", "beam": 5}``.

    Raises:
        ValueError: the file is not such a list.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path} must hold a JSON list of objects, one for each system")
    return [system_from_mapping(row) for row in rows]


def system_from_mapping(entries: Mapping[str, Any]) -> SystemSpec:
    """A :class:`SystemSpec` from its entries by name; see there.

    Raises:
        ValueError: name or path is missing, or an option is one that holds for all systems.
    """
    values = {key.lstrip("-").replace("-", "_"): option_text(value) for key, value in entries.items()}
    for key in ("name", "path"):
        if not values.get(key):
            raise ValueError(f"system {dict(entries)!r} needs {key}=...")
    for key in _NAMED_IN_DATA:
        if key in values:
            raise ValueError(f"system {values['name']!r}: {key} is the same for all systems, give it once outside")
    engine = values.get("engine", "fairseq")
    if engine not in ENGINES:
        raise ValueError(f"system {values['name']!r}: engine={engine} is unknown, choose one of {', '.join(ENGINES)}")
    rest = {key: value for key, value in values.items() if key not in _NAMED_IN_SYSTEM}
    return SystemSpec(values["name"], values["path"], values.get("task"), rest, engine)


def generate_arguments(spec: SystemSpec, data: Sequence[str], task: str) -> List[str]:
    """The arguments with which ``fairseq-generate`` decodes like ``spec``.

    Args:
        spec: the system.
        data: the data folder and what selects the sentences in it (``--gen-subset``, ``--source-lang``, …).
        task: name of the task.
    """
    return [*data, "--path", spec.path, "--task", task, *option_arguments(spec.options)]


def load_system(spec: SystemSpec, data: Sequence[str]) -> "System":
    """A loaded system with the engine that its description names; see :class:`System`."""
    if spec.engine == "ctranslate2":
        # Not for everybody: the package is an optional one.
        from .ctranslate2_system import CTranslate2System

        return CTranslate2System(spec, data)
    if spec.engine == "runtime":
        from .runtime_system import RuntimeSystem

        return RuntimeSystem(spec, data)
    return System(spec, data)


def load_watched(spec: SystemSpec, data: Sequence[str]) -> "System":
    """A loaded system that says in which pass each word was written: CTranslate2 does not; see :class:`System`."""
    return load_system(spec, data) if spec.engine == "runtime" else System(spec, data)


class System:
    """A loaded system.

    Args:
        spec: what to load.
        data: see :func:`generate_arguments`.

    Raises:
        ValueError: ``fairseq-generate`` would not accept an option (named in the message).
        OSError: a checkpoint is missing or unreadable.

    Attributes:
        counters: encoder and decoder calls since the last reset, the generator's own if it counts.
    """

    def __init__(self, spec: SystemSpec, data: Sequence[str]) -> None:
        self.spec = spec
        self.name = spec.name
        config, self._saved = self._prepare(spec, data)
        self.subset: str = config.dataset.gen_subset
        self.post_process: Optional[str] = config.common_eval.post_process

    def _prepare(self, spec: SystemSpec, data: Sequence[str]) -> Tuple[DictConfig, DictConfig]:
        """Sets up the task and what decodes it; returns the command's configuration and the task's of the training."""
        if spec.engine != "fairseq":
            raise ValueError(f"system {self.name!r}: engine={spec.engine} translates, but its steps cannot be watched: leave it away")
        paths = utils.split_paths(spec.path)
        self.task_name = spec.task or task_of_checkpoint(paths[0])
        config = generation_config(generate_arguments(spec, data, self.task_name), f"system {self.name!r}")
        with reading(f"system {self.name!r}", "cannot be set up"):
            self.task = tasks.setup_task(config.task)
        self.device = choose_device(config)
        self.models, saved = load_models(paths, config, self.task, self.device)
        self.dtype = str(next(self.models[0].parameters()).dtype).replace("torch.", "")
        self.generator = build_generator(self.task, self.models, config)
        counters = getattr(self.generator, "counters", None)
        self.counters: GenerationCounters = counters if counters is not None else count_calls(self.models)
        return config, saved.task

    @property
    def reloadable(self) -> SystemSpec:
        """What another process loads this very system from, as long as this object lives."""
        return self.spec

    @property
    def model_bytes(self) -> int:
        """Size of the weights as they are decoded with; what several modules share counts once."""
        weights = {weight.data_ptr(): weight for model in self.models for weight in model.parameters()}
        return sum(weight.numel() * weight.element_size() for weight in weights.values())

    @property
    def dataset(self) -> FairseqDataset:
        """The sentences, loaded when they are first asked for: whoever translates text of his own needs none."""
        if self.subset not in self.task.datasets:
            self.task.load_dataset(self.subset, task_cfg=self._saved)
        return self.task.dataset(self.subset)

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """The batch of the sentences ``ids``, on the system's device."""
        return to_device(self.dataset.collater([self.dataset[i] for i in ids]), self.device)

    def collate_text(self, lines: Sequence[str]) -> Dict[str, Any]:
        """The batch of sentences given as words of the source dictionary (tokenised, in subwords)."""
        dictionary = self.task.source_dictionary
        tokens = [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
        dataset = self.task.build_dataset_for_inference(tokens, [len(row) for row in tokens])
        return to_device(dataset.collater([dataset[i] for i in range(len(tokens))]), self.device)

    def decode(self, sample: Dict[str, Any]) -> List[List[Dict[str, Any]]]:
        """Hypotheses of each sentence in ``sample``, best first."""
        hypotheses = self.task.inference_step(self.generator, self.models, sample)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return hypotheses

    def text(self, tokens: torch.Tensor) -> str:
        """The words of target ``tokens`` ``[T]``, subwords joined, special symbols left out."""
        dictionary = self.task.target_dictionary
        ignored = getattr(self.generator, "symbols_to_strip_from_output", {dictionary.eos()})
        return dictionary.string(tokens.int().cpu(), self.post_process or "@@ ", extra_symbols_to_ignore=ignored)

    def signature(self) -> Dict[str, str]:
        """How the system decodes: task, checkpoint, every given option, number type, device."""
        names = "+".join(Path(path).name for path in utils.split_paths(self.spec.path))
        entries = {"task": self.task_name, "checkpoint": names, **self.spec.options}
        entries.setdefault("beam", "5")
        return {**entries, "dtype": self.dtype, "device": self.device.type}


def task_of_checkpoint(path: str) -> str:
    """Name of the task that a checkpoint was trained with."""
    return require_known_task(task_name(read_checkpoint(path)["cfg"].task), path)


def count_calls(models: Sequence[nn.Module]) -> GenerationCounters:
    """Counts the calls of the encoders and decoders of stock fairseq ``models``.

    fairseq's ``EnsembleModel`` calls ``decoder.forward`` directly, which forward hooks do not see; therefore the
    method of each instance is wrapped. ``sentences`` stays 0: a decoder does not know how many it serves.
    """
    counters = GenerationCounters()

    def counted(forward: Callable[..., Any], field: str) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            setattr(counters, field, getattr(counters, field) + 1)
            return forward(*args, **kwargs)

        return wrapper

    for model in models:
        model.encoder.forward = counted(model.encoder.forward, "encoder_calls")
        model.decoder.forward = counted(model.decoder.forward, "decoder_calls")
    return counters
