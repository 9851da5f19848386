"""The native engine as a system of the comparison: a checkpoint, converted now, a bundle that holds
a model for it, or a model file."""

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from fairseq import tasks, utils
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig

from ...engine import NativeGenerator
from ...engine.models import generation_config, load_models, option_arguments
from ...engine.native_model import write_runtime_model
from ...loading.checkpoints import task_of_checkpoint
from ...native.bundles.bundle import Bundle, load_bundle
from ...native.bundles.native_decoder import native_options
from ...native.bundles.shortlist import load_shortlist, read_shortlist
from ...native.decoding import NumericalError, Rescorer, require_candidates
from ...native.families import tasks_for
from ...native.options.effects import set_aside
from ...native.options.values import DecodingOptions, check_dictionaries
from ...native.runtime.engine import Engine, Header, Shortlist, read_header
from ...native.runtime.options import longest_written, plan_search, writes_in_order
from ...native.text.dictionary import Words
from .specification import SystemSpec
from .system import System, subwords

# Not options of fairseq-generate but of the native engine: a lex or vmap file (a bundle's own:
# true).
OWN = ("weights", "shortlist")
# Options of the model that chooses among the translations.
RESCORING = ("rescore_path", "rescore_lenpen")


class NativeSystem(System):
    """A system decoded by the native engine, on as many threads as PyTorch has.

    Args:
        spec: ``path`` is a checkpoint, a bundle, or a model file of the engine; ``weights`` is
            ``int8`` (default) or ``float32`` for a checkpoint, ``shortlist`` a file, or ``true``
            for a bundle's own, ``rescore_path`` one checkpoint or a model file of the engine; other
            options are those of ``fairseq-generate``.
        data: see :func:`.specification.generate_arguments`.

    Raises:
        ValueError: the model does not convert, there is no kernel on this machine, an option is not
            honoured by the engine, or a bundle has other dictionaries than the data.
    """

    generator: NativeGenerator

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
            task_name = spec.task or tasks_for(read_header(path).family)[0]
        else:
            task_name = spec.task or task_of_checkpoint(utils.split_paths(spec.path)[0])
        config = generation_config(
            [*data, "--path", spec.path, "--task", task_name, *option_arguments(options)], subject
        )
        task, saved = tasks.setup_task(config.task), config.task
        self._temporary = tempfile.TemporaryDirectory(prefix="fairseq_hrt_")
        folder = Path(self._temporary.name)
        if file is None:
            file = folder / "runtime.safetensors"
            saved = _convert(spec, config, task, own.get("weights", "int8"), file)
        self.file = file
        engine = Engine.open(file, threads=torch.get_num_threads())
        header = engine.header
        if (header.source_vocabulary, header.target_vocabulary) != (
            len(task.source_dictionary),
            len(task.target_dictionary),
        ):
            raise ValueError(
                f"{subject}: {spec.path} has different dictionaries from the data: give the model's"
                " own data"
            )
        if task_name not in tasks_for(header.family):
            raise ValueError(
                f"{subject}: the native engine decodes this model with"
                f" task={tasks_for(header.family)[0]}"
            )
        judging = {name: options.pop(name) for name in RESCORING if name in options}
        set_aside({name: getattr(task.cfg, name, None) for name in RESCORING}, spec.given)
        # What is given together is decoded together.
        plan = plan_search(header, native_options(task_name, options, batch_size=4096), spec.given)
        rescorer: Optional[Rescorer] = None
        judge = _judge_of(judging, subject)
        if judge is not None:
            require_candidates(plan.candidates, header.family)
            with naming(judge):
                self.judge_file = _judge_file(
                    judge, task, header.weights, folder / "judge.safetensors"
                )
                opened = Engine.open(self.judge_file, threads=engine.threads)
            require_judge(opened.header, header, plan.options)
            rescorer = Rescorer(opened, lenpen=float(task.cfg.rescore_lenpen))
        check_dictionaries(
            plan.options, task.source_dictionary.symbols, task.target_dictionary.symbols
        )
        engine.set_shortlist(_shortlist(bundle, task, data, own.get("shortlist", "false"), subject))
        generator = NativeGenerator(engine, task.target_dictionary, plan, rescorer=rescorer)
        super().__init__(
            spec,
            config,
            task,
            saved,
            task_name=task_name,
            device=torch.device("cpu"),
            dtype=header.weights,
            counters=generator.counters,
            generator=generator,
        )

    @property
    def _engines(self) -> Sequence[Engine]:
        rescorer = self.generator.rescorer
        judge = None if rescorer is None else rescorer.judge
        return [self.generator.engine, *([judge] if isinstance(judge, Engine) else [])]

    def without_scores(self) -> None:
        """Scores are not computed any more: greedy decoding is quicker without them."""
        self.generator.search_plan = plan_search(
            self.generator.header, replace(self.generator.options, scores=False)
        )

    def written(self, ids: Sequence[int]) -> List[List[str]]:
        """The translations of the sentences ``ids``, best first, as subwords with spaces between:
        what :meth:`collate`, :meth:`decode` and the dictionary make of them, without batches of
        PyTorch's in between."""
        pad, dictionary = self.generator.pad, self.task.target_dictionary
        rows = [
            [token for token in self.dataset[number]["source"].tolist() if token != pad]
            for number in ids
        ]
        found = self.generator.decode(rows)
        return [[subwords(dictionary, one.tokens) for one in best] for best in found]

    @property
    def reloadable(self) -> SystemSpec:
        """The converted model instead of the checkpoint."""
        options = {name: value for name, value in self.spec.options.items() if name != "weights"}
        if self.generator.rescorer is not None:
            options["rescore_path"] = str(self.judge_file)
        if Path(self.spec.path).is_dir():
            return replace(self.spec, options=options)
        return replace(self.spec, path=str(self.file), options=options, task=self.task_name)

    @property
    def longest_source(self) -> int:
        """See :class:`.system.System`."""
        return min(engine.longest_source for engine in self._engines)

    @property
    def model_bytes(self) -> int:
        """Size of the weights in memory."""
        return sum(engine.weight_bytes for engine in self._engines)

    def signature(self) -> Dict[str, str]:
        entries = {
            "engine": f"native {self.generator.engine.isa}",
            "task": self.task_name,
            **self.spec.shown(),
        }
        return {
            **entries,
            "beam": str(self.generator.options.beam),
            "dtype": self.dtype,
            "device": "cpu",
        }


def require_judge(judge: Header, header: Header, options: DecodingOptions) -> None:
    """Refuses a model that cannot read what another one writes.

    Args:
        judge: of the model that chooses.
        header: of the one that is decoded.

    Raises:
        ValueError: by name.
    """
    if not writes_in_order(judge):
        raise ValueError(
            f"--rescore-path: that model is of the family {judge.family} and does not write one"
            " word after the other; give an autoregressive one"
        )
    for name in ("source_vocabulary", "target_vocabulary", "eos", "pad", "unk"):
        words, known = getattr(header, name), getattr(judge, name)
        if words != known:
            raise ValueError(
                f"--rescore-path: the {name.replace('_', ' ')} of that model is {known}, of the one"
                f" that is decoded {words}: give one with the same dictionaries"
            )
    writes = longest_written(header, options)
    if judge.longest_target < writes:
        raise ValueError(
            f"--rescore-path: that model reads translations of {judge.longest_target} tokens, the"
            f" one that is decoded writes up to {writes}; lower --max-len-a and --max-len-b, or"
            " decode with PyTorch's engine, which cuts them"
        )


def _bundle_of(
    folder: Path, own: Dict[str, str], options: Dict[str, str], task: Optional[str], subject: str
) -> Tuple[Bundle, Path]:
    """The bundle in a folder, and its model for the runtime; ``options`` gains the bundle's own
    where none are given, and what the training left where the task is the bundle's.

    Raises:
        ValueError: it holds no such model, or the kind of its weights is asked for.
    """
    bundle = load_bundle(folder)
    if bundle.runtime is None:
        raise ValueError(
            f"{subject}: {folder} holds no model for the native engine: make it with fairseq-hrt"
            " bundle ... --runtime int8"
        )
    if "weights" in own:
        raise ValueError(f"{subject}: weights={own['weights']}: a bundle has its own, leave it out")
    left = bundle.runtime_options if task in (None, bundle.task) else {}
    for name, value in {**left, **bundle.options}.items():
        if name not in ("task", *OWN):
            options.setdefault(name, value)
    return bundle, folder / bundle.runtime


def _convert(
    spec: SystemSpec, config: DictConfig, task: FairseqTask, weights: str, file: Path
) -> DictConfig:
    """Writes the checkpoint as a model of the engine; returns the task's configuration of the
    training."""
    paths = utils.split_paths(spec.path)
    if len(paths) > 1:
        raise ValueError(
            f"system {spec.name!r}: the native engine decodes one model, path= names {len(paths)}"
        )
    models, trained = load_models(paths, config, task, torch.device("cpu"))
    try:
        write_runtime_model(
            models[0], task.source_dictionary, task.target_dictionary, file, weights=weights
        )
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
            f"{subject}: the native engine chooses by one model, rescore_path= names {len(paths)};"
            " give engine=torch"
        )
    return Path(paths[0])


def _judge_file(path: Path, task: FairseqTask, weights: str, file: Path) -> Path:
    """The model file of the engine for ``path``; a checkpoint is written to ``file``."""
    if path.suffix == ".safetensors":
        return path
    (model,) = task.choosing_models()
    write_runtime_model(
        model, task.source_dictionary, task.target_dictionary, file, weights=weights
    )
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


def _shortlist(
    bundle: Optional[Bundle], task: FairseqTask, data: Sequence[str], chosen: str, subject: str
) -> Optional[Shortlist]:
    """The shortlist of a bundle (``chosen`` is ``true``) or a file, or none (``false``)."""
    if chosen == "false":
        return None
    if chosen == "true":
        if bundle is None or bundle.shortlist is None:
            raise ValueError(
                f"{subject}: shortlist=true needs a bundle with a shortlist; give shortlist=FILE"
            )
        return read_shortlist(bundle.folder / bundle.shortlist)
    place = Path(data[0].split(":")[0])
    languages = (task.cfg.source_lang, task.cfg.target_lang)
    source, target = (Words(place / f"dict.{language}.txt") for language in languages)
    return load_shortlist(Path(chosen), source, target)
