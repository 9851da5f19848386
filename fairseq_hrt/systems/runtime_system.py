"""The native runtime as a system of the comparison: a checkpoint, converted now, or a bundle that holds a model for it."""

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from fairseq import tasks, utils
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig

from .. import option_effects
from ..engine import GenerationCounters
from ..hub.bundle import Bundle, load_bundle
from ..hub.dictionary import Words
from ..hub.runtime_model import write_runtime_model
from ..hub.runtime_translator import TASKS, WITHOUT_EFFECT, options_of_task, require_one_dictionary
from ..hub.shortlist import load_shortlist, read_shortlist
from ..loading.checkpoints import task_of_checkpoint
from ..loading.models import generation_config, load_models, option_arguments
from ..runtime.engine import DecodeOptions, Engine, NumericalError, Result, Shortlist, read_header
from ..runtime.options import options_for, settled
from ..runtime.rescoring import Rescorer, require_candidates
from .specification import SystemSpec
from .task_system import TaskSystem

# Not options of fairseq-generate but of the runtime: kind of the weights, a lex or vmap file (a bundle's own: true), lossless drafts.
OWN = ("weights", "shortlist", "hrt_draft_chunk", "hrt_draft_width", "dag_allow_unk")
# Options of the model that chooses among the translations.
RESCORING = ("rescore_path", "rescore_lenpen")


class RuntimeSystem(TaskSystem):
    """A system decoded by the native runtime, on as many threads as PyTorch has.

    Args:
        spec: ``path`` is a checkpoint, a bundle, or a model file of the runtime; ``weights`` is ``int8`` (default) or ``float32`` for a
            checkpoint, ``shortlist`` a file, or ``true`` for a bundle's own, ``rescore_path`` one checkpoint or a model file of the runtime;
            other options are those of ``fairseq-generate``.
        data: see :func:`.specification.generate_arguments`.

    Raises:
        ValueError: the model does not convert, there is no kernel on this machine, an option is not known to the runtime, or a bundle has
            other dictionaries than the data.
    """

    def __init__(self, spec: SystemSpec, data: Sequence[str]) -> None:
        subject = f"system {spec.name!r}"
        options = dict(spec.options)
        own = {name: options.pop(name) for name in OWN if name in options}
        path, bundle, file = Path(spec.path), None, None
        if path.is_dir():
            bundle, file = _bundle_of(path, own, options, spec.task, subject)
            task_name = spec.task or bundle.task
        elif path.suffix == ".safetensors":
            file = path
            task_name = spec.task or TASKS[read_header(path).family][0]
        else:
            task_name = spec.task or task_of_checkpoint(utils.split_paths(spec.path)[0])
        config = generation_config([*data, "--path", spec.path, "--task", task_name, *option_arguments(options)], subject)
        task, saved = tasks.setup_task(config.task), config.task
        self._temporary = tempfile.TemporaryDirectory(prefix="fairseq_hrt_")
        folder = Path(self._temporary.name)
        if file is None:
            file = folder / "runtime.safetensors"
            saved = _convert(spec, config, task, own.get("weights", "int8"), file)
        self.file, self.engine = file, Engine.open(file, threads=torch.get_num_threads())
        header = self.engine.header
        if (header.source_vocabulary, header.target_vocabulary) != (
            len(task.source_dictionary),
            len(task.target_dictionary),
        ):
            raise ValueError(f"{subject}: {spec.path} has other dictionaries than the data: give the model's own data")
        if task_name not in TASKS[header.family]:
            raise ValueError(f"{subject}: engine=runtime decodes this model with task={TASKS[header.family][0]}")
        judging = {name: options.pop(name) for name in RESCORING if name in options}
        option_effects.check({name: getattr(task.cfg, name, None) for name in RESCORING}, names=spec.given)
        asked = _decode_options(options_of_task(task_name, options), own)
        self.decode_options = settled(header, asked, spec.given)
        options_for(header, self.decode_options)
        judge = _judge_of(judging, subject)
        self.judge_file = judge
        self.rescorer: Optional[Rescorer] = None
        if judge is not None:
            require_candidates(header, self.decode_options)
            with naming(judge):
                self.judge_file = _judge_file(judge, task, header.weights, folder / "judge.safetensors")
                opened = Engine.open(self.judge_file, threads=self.engine.threads)
            self.rescorer = Rescorer(opened, lenpen=float(task.cfg.rescore_lenpen))
            self.rescorer.require(header, self.decode_options)
        require_one_dictionary(self.decode_options, task.source_dictionary.symbols, task.target_dictionary.symbols)
        self.engine.set_shortlist(_shortlist(bundle, task, data, own.get("shortlist", "false"), subject))
        super().__init__(
            spec,
            config,
            task,
            saved,
            task_name=task_name,
            device=torch.device("cpu"),
            dtype=header.weights,
            counters=GenerationCounters(),
        )

    def without_scores(self) -> None:
        """Scores are not computed any more: greedy decoding is quicker without them."""
        self.decode_options = replace(self.decode_options, scores=False)

    @property
    def reloadable(self) -> SystemSpec:
        """The converted model instead of the checkpoint."""
        options = {name: value for name, value in self.spec.options.items() if name != "weights"}
        if self.rescorer is not None:
            options["rescore_path"] = str(self.judge_file)
        if Path(self.spec.path).is_dir():
            return replace(self.spec, options=options)
        return replace(self.spec, path=str(self.file), options=options, task=self.task_name)

    @property
    def longest_source(self) -> int:
        """See :class:`.system.System`."""
        headers = [self.engine.header] if self.rescorer is None else [self.engine.header, self.rescorer.judge.header]
        return min(header.longest_source for header in headers)

    @property
    def model_bytes(self) -> int:
        """Size of the weights in memory."""
        judge = 0 if self.rescorer is None else self.rescorer.judge.weight_bytes
        return self.engine.weight_bytes + judge

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """The sentences ``ids`` as lists of token ids."""
        return {"id": torch.tensor(list(ids)), "tokens": [self.dataset[i]["source"].tolist() for i in ids]}

    def collate_text(self, lines: Sequence[str]) -> Dict[str, Any]:
        dictionary = self.task.source_dictionary
        rows = [dictionary.encode_line(line, add_if_not_exist=False).tolist() for line in lines]
        return {"id": torch.arange(len(lines)), "tokens": rows}

    def decode(self, sample: Dict[str, Any]) -> List[List[Dict[str, Any]]]:
        rows, options = sample["tokens"], self.decode_options
        if self.rescorer is None:
            found = self.engine.decode(rows, options)
        else:
            found = self.rescorer.decode(self.engine, rows, options)
        self.counters.sentences += len(found)
        self.counters.encoder_calls += 1 if self.rescorer is None else 2
        # The passes of a batch are those of its longest translation.
        self.counters.decoder_calls += max((best[0].steps for best in found), default=0)
        return [[_hypothesis(result) for result in best] for best in found]

    def signature(self) -> Dict[str, str]:
        entries = {
            "engine": f"runtime {self.engine.isa}",
            "task": self.task_name,
            "checkpoint": Path(self.spec.path).name,
            **self.spec.options,
        }
        return {**entries, "beam": str(self.decode_options.beam), "dtype": self.dtype, "device": "cpu"}


def _bundle_of(
    folder: Path, own: Dict[str, str], options: Dict[str, str], task: Optional[str], subject: str
) -> Tuple[Bundle, Path]:
    """The bundle in a folder, and its model for the runtime; ``options`` gains the bundle's own where none are given, and what the training
    left where the task is the bundle's.

    Raises:
        ValueError: it holds no such model, or the kind of its weights is asked for.
    """
    bundle = load_bundle(folder)
    if bundle.runtime is None:
        raise ValueError(
            f"{subject}: {folder} holds no model for the runtime: make it with fairseq-hrt bundle ... --runtime int8"
        )
    if "weights" in own:
        raise ValueError(f"{subject}: weights={own['weights']}: a bundle has its own, leave it away")
    left = bundle.runtime_options if task in (None, bundle.task) else {}
    for name, value in {**left, **bundle.options}.items():
        if name not in ("task", *OWN):
            options.setdefault(name, value)
    return bundle, folder / bundle.runtime


def _convert(spec: SystemSpec, config: DictConfig, task: FairseqTask, weights: str, file: Path) -> DictConfig:
    """Writes the checkpoint as a model of the runtime; returns the task's configuration of the training."""
    paths = utils.split_paths(spec.path)
    if len(paths) > 1:
        raise ValueError(f"system {spec.name!r}: engine=runtime decodes one model, path= names {len(paths)}")
    models, trained = load_models(paths, config, task, torch.device("cpu"))
    try:
        write_runtime_model(models[0], task.source_dictionary, task.target_dictionary, file, weights=weights)
    except NumericalError as error:
        raise NumericalError(f"{spec.path}: {error}") from None
    return trained.task


def _judge_of(given: Dict[str, str], subject: str) -> Optional[Path]:
    """What ``rescore_path`` names; None: nobody chooses.

    Raises:
        ValueError: several models.
    """
    if "rescore_path" not in given:
        return None
    paths = utils.split_paths(given["rescore_path"])
    if len(paths) != 1:
        raise ValueError(
            f"{subject}: engine=runtime chooses by one model, rescore_path= names {len(paths)}; leave engine away"
        )
    return Path(paths[0])


def _judge_file(path: Path, task: FairseqTask, weights: str, file: Path) -> Path:
    """The model file of the runtime for ``path``; a checkpoint is written to ``file``."""
    if path.suffix == ".safetensors":
        return path
    (model,) = task.choosing_models()
    write_runtime_model(model, task.source_dictionary, task.target_dictionary, file, weights=weights)
    return file


@contextmanager
def naming(judge: Path) -> Iterator[None]:
    """Errors of the model that chooses say that it is meant."""
    try:
        yield
    except (ValueError, OSError) as error:
        if "--rescore-path" in str(error):
            raise
        raise ValueError(f"--rescore-path {judge}: {error}") from None


def _decode_options(options: Dict[str, str], own: Dict[str, str]) -> DecodeOptions:
    given = {name: value for name, value in options.items() if value != "false" and name not in WITHOUT_EFFECT}
    drafts = {name: own[name] for name in OWN[2:] if name in own}
    # What is given together is decoded together.
    return DecodeOptions.parse({**given, **drafts}, batch_size=4096)


def _shortlist(
    bundle: Optional[Bundle], task: FairseqTask, data: Sequence[str], chosen: str, subject: str
) -> Optional[Shortlist]:
    """The shortlist of a bundle (``chosen`` is ``true``) or a file, or none (``false``)."""
    if chosen == "false":
        return None
    if chosen == "true":
        if bundle is None or bundle.shortlist is None:
            raise ValueError(f"{subject}: shortlist=true needs a bundle with a shortlist; give shortlist=FILE")
        return read_shortlist(bundle.folder / bundle.shortlist)
    place = Path(data[0].split(":")[0])
    languages = (task.cfg.source_lang, task.cfg.target_lang)
    source, target = (Words(place / f"dict.{language}.txt") for language in languages)
    return load_shortlist(Path(chosen), source, target)


def _hypothesis(result: Result) -> Dict[str, Any]:
    """As fairseq's generators give it."""
    return {
        "tokens": torch.tensor(result.tokens),
        "score": result.score,
        "positional_scores": torch.tensor(result.positional_scores),
        "steps": result.steps,
        "token_steps": torch.tensor(result.token_steps),
    }
