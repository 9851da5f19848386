"""Systems that the native engine decodes: a checkpoint, which is converted when it is loaded; a
bundle that holds a model for the engine; or a model file of the engine."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import torch
from fairseq import utils

from ...engine.models import load_models
from ...engine.torch_to_native import write_runtime_model
from ...loading.checkpoints import task_of_checkpoint
from ...native.bundles.bundle import Bundle, load_bundle
from ...native.bundles.decoder import Wanted, Watch
from ...native.bundles.native_decoder import NativeDecoder
from ...native.bundles.shortlist import load_shortlist, read_shortlist
from ...native.decoding import Hypothesis, NumericalError, Rescorer, require_candidates
from ...native.families import tasks_for
from ...native.options.effects import set_aside
from ...native.options.values import SCHEMA, DecodingOptions
from ...native.runtime.engine import Engine, Header, Shortlist, read_header
from ...native.runtime.options import longest_written
from ...native.text.dictionary import Words
from .specification import SystemSpec
from .system import System

# Options that are read here: the type of the weights, and the shortlist (a lex or vmap file, or
# true for the bundle's own).
OWN = ("weights", "shortlist")
# Options of the model that chooses among the translations.
RESCORING = ("rescore_path", "rescore_lenpen")


class NativeSystem(System):
    """A system that the native engine decodes, on as many threads as PyTorch has.

    Args:
        spec: the description of the system. ``path`` is a checkpoint, a bundle, or a model file of
            the engine. Of the options, ``weights`` is ``float32`` (default) or ``int8`` for a
            checkpoint; ``shortlist`` is a file, or ``true`` for that of the bundle;
            ``rescore_path`` is a checkpoint or a model file of the engine; all others are those of
            ``fairseq-generate``.
        data: the data folder and the options that choose its sentences and languages, see
            :func:`.specification.generate_arguments`.

    Attributes:
        file: the engine's model file.
        decoder: the decoder that holds the model.
        engines: the engine that translates and, if there is one, that of the rescoring model.
        plan: the decoding options, checked and converted for the engine.

    Raises:
        ValueError: the model cannot be converted, the engine's library cannot be loaded, the engine
            does not support an option, or the model has other dictionaries than the data.
    """

    engine = "native"

    def __init__(self, spec: SystemSpec, data: Sequence[str]) -> None:
        path, options = Path(spec.path), dict(spec.options)
        own = {name: options.pop(name) for name in OWN if name in options}
        if path.suffix == ".safetensors" and "weights" in own:
            raise ValueError(
                f"{spec.subject}: weights={own['weights']}: a model file's weights have their type"
                " already; leave weights= out"
            )
        bundle = _bundle_of(spec) if path.is_dir() else None
        self.target_prefix = None if bundle is None else bundle.target_prefix
        converted = bundle is None and path.suffix != ".safetensors"
        if bundle is not None:
            options = {**_without(bundle.options, ("task", *OWN)), **options}
            task_name = spec.task or bundle.task
        elif converted:
            task_name = spec.task or task_of_checkpoint(utils.split_paths(spec.path)[0])
        else:
            task_name = spec.task or tasks_for(read_header(path).family)[0]
        super().__init__(spec, data, task_name, options)
        self._temporary = tempfile.TemporaryDirectory(prefix="fairseq_hrt_")
        self.file = path if bundle is None else path / str(bundle.runtime)
        if converted:
            self.file = Path(self._temporary.name) / "runtime.safetensors"
            self._convert(own.get("weights", SCHEMA["weights"].default))
        self.decoder = self._decoder(data, bundle)
        self.engines = [self.decoder.engine]
        set_aside({name: getattr(self.task.cfg, name, None) for name in RESCORING}, spec.given)
        self._given_options = _without(options, RESCORING)
        # Larger than any batch: the sentences of one call are decoded together.
        self._prepare(Wanted(batch_size=4096))
        if "rescore_path" in options:
            self.decoder.rescorer = self._rescorer(options["rescore_path"])
        self.decoder.engine.set_shortlist(self._shortlist(bundle, own.get("shortlist", "false")))
        self.beam, self.dtype = self.plan.options.beam, self.decoder.engine.header.weights

    def _convert(self, weights: str) -> None:
        """Converts the checkpoint into :attr:`file`, a model file of the engine with these
        ``weights``."""
        paths = utils.split_paths(self.spec.path)
        if len(paths) > 1:
            raise ValueError(
                f"{self.spec.subject}: the native engine decodes one model, but path= names"
                f" {len(paths)}; give one, or engine=torch"
            )
        (model,), saved = load_models(paths, self.config, self.task, self.device)
        self.read_as = saved.task
        try:
            self._write(model, self.file, weights)
        except NumericalError as error:
            raise NumericalError(f"{self.spec.path}: {error}") from None

    def _write(self, model: Any, file: Path, weights: str) -> None:
        source, target = self.task.source_dictionary, self.task.target_dictionary
        write_runtime_model(model, source, target, file, weights=weights)

    def _decoder(self, data: Sequence[str], bundle: Optional[Bundle]) -> NativeDecoder:
        """A decoder with the model in :attr:`file` and the dictionaries of the data folder."""
        engine = Engine.open(self.file, threads=torch.get_num_threads())
        header, place = engine.header, Path(utils.split_paths(data[0])[0])
        source, target = (
            Words(place / f"dict.{language}.txt")
            for language in (self.task.cfg.source_lang, self.task.cfg.target_lang)
        )
        if (header.source_vocabulary, header.target_vocabulary) != (len(source), len(target)):
            raise ValueError(
                f"{self.spec.subject}: {self.spec.path} has different dictionaries from the data:"
                " give data that were binarised with the model's dictionaries"
            )
        if self.task_name not in tasks_for(header.family):
            raise ValueError(
                f"{self.spec.subject}: the native engine does not decode this model with"
                f" task={self.task_name}; give task={tasks_for(header.family)[0]}"
            )
        own = bundle is not None and bundle.task == self.task_name
        training = bundle.runtime_options if bundle is not None and own else {}
        return NativeDecoder(engine, source, target, task=self.task_name, training=training)

    def _prepare(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.plan = self.decoder.prepare(self._given_options, wanted, self.spec.given)

    def _rescorer(self, given: str) -> Rescorer:
        """The scorer that ranks translations by the rescoring model in ``given``, the value of
        ``rescore_path``; a checkpoint is converted first.

        Raises:
            ValueError: several models are named, the model cannot rescore the translations
                (:func:`require_judge`), or the search finds only one translation per sentence.
        """
        paths, engine = utils.split_paths(given), self.decoder.engine
        if len(paths) != 1:
            raise ValueError(
                f"{self.spec.subject}: the native engine rescores with one model, but rescore_path="
                f" names {len(paths)}; give one, or engine=torch"
            )
        header = engine.header
        require_candidates(self.plan.candidates, header.family)
        self.judge_file = Path(paths[0])
        try:
            if self.judge_file.suffix != ".safetensors":
                (model,) = self.task.rescoring_models()
                self.judge_file = Path(self._temporary.name) / "judge.safetensors"
                self._write(model, self.judge_file, header.weights)
            judge = Engine.open(self.judge_file, threads=engine.threads)
        except (ValueError, OSError) as error:
            if "--rescore-path" in str(error):
                raise
            raise ValueError(f"--rescore-path {given}: {error}") from None
        require_judge(judge.header, header, self.plan.options)
        self.engines.append(judge)
        return Rescorer(judge, lenpen=float(self.task.cfg.rescore_lenpen))

    def _shortlist(self, bundle: Optional[Bundle], chosen: str) -> Optional[Shortlist]:
        """The shortlist in the file ``chosen``; ``true``: that of the bundle, ``false``: None."""
        if chosen == "false":
            return None
        if chosen != "true":
            return load_shortlist(Path(chosen), self.decoder.source, self.decoder.target)
        if bundle is None or bundle.shortlist is None:
            raise ValueError(
                f"{self.spec.subject}: shortlist=true needs a bundle with a shortlist; give"
                " shortlist=FILE"
            )
        return read_shortlist(bundle.folder / bundle.shortlist)

    def without_scores(self) -> None:
        """Decodes without scores from now on, which is faster for greedy search."""
        self._prepare(self.wanted._replace(scores=False))

    def text(self, tokens: Sequence[int]) -> str:
        """The words of ``tokens``, as :meth:`.system.System.text` returns them, without the
        language token that a multilingual model writes first."""
        first = self.task.target_dictionary[int(tokens[0])] if len(tokens) else None
        return super().text(tokens[first is not None and first == self.target_prefix :])

    def decode(self, sample: Dict[str, Any]) -> List[List[Hypothesis]]:
        """Translates a batch, see :meth:`.system.System.decode`."""
        found = self.decoder.decode(self.plan, sample["rows"], self.wanted, Watch())
        self.counters.add(found, rescored=self.decoder.rescorer is not None)
        return found

    @property
    def reloadable(self) -> SystemSpec:
        """A specification that names the converted model files instead of checkpoints."""
        options = _without(self.spec.options, ("weights",))
        if self.decoder.rescorer is not None:
            options["rescore_path"] = str(self.judge_file)
        if Path(self.spec.path).is_dir():
            return replace(self.spec, options=options)
        return replace(self.spec, path=str(self.file), options=options, task=self.task_name)

    @property
    def longest_source(self) -> int:
        """The most source tokens that all engines can read, ``</s>`` included."""
        return min(engine.longest_source for engine in self.engines)

    @property
    def model_bytes(self) -> int:
        """The size in bytes of the weights in memory, a rescoring model included."""
        return sum(engine.weight_bytes for engine in self.engines)

    def shown(self) -> Dict[str, str]:
        """Engine with instruction set, task, checkpoint and every given option, for a report."""
        engine = f"native {self.decoder.engine.isa}"
        return {"engine": engine, "task": self.task_name, **self.spec.shown()}


def require_judge(judge: Header, header: Header, options: DecodingOptions) -> None:
    """Checks that a model can rescore the translations of another.

    Args:
        judge: the header of the rescoring model.
        header: the header of the model that translates.
        options: the decoding options, for the length of the translations.

    Raises:
        ValueError: the rescoring model does not write word by word, has other dictionaries, or
            cannot read translations as long as the other model writes.
    """
    if not judge.record.writes_in_order(judge):
        raise ValueError(
            f"--rescore-path: the model belongs to the family {judge.family}, which does not write"
            " one word after the other; give an autoregressive model"
        )
    for name in ("source_vocabulary", "target_vocabulary", "eos", "pad", "unk"):
        words, known = getattr(header, name), getattr(judge, name)
        if words != known:
            raise ValueError(
                f"--rescore-path: the model's {name.replace('_', ' ')} is {known}, but that of the"
                f" model that translates is {words}: give one with the same dictionaries"
            )
    writes = longest_written(header, options)
    if judge.longest_target < writes:
        raise ValueError(
            f"--rescore-path: the model reads translations of up to {judge.longest_target} tokens,"
            f" but up to {writes} may be written; lower --max-len-a and --max-len-b, or decode"
            " with engine=torch, which writes no longer translations than that"
        )


def _bundle_of(spec: SystemSpec) -> Bundle:
    """The bundle in the folder that a system's specification names.

    Raises:
        ValueError: the bundle holds no model for the native engine, or the specification asks for a
            type of weights, which a bundle determines itself.
    """
    bundle = load_bundle(Path(spec.path))
    if bundle.runtime is None:
        raise ValueError(
            f"{spec.subject}: {bundle.folder} holds no model for the native engine: make the bundle"
            " again with fairseq-hrt bundle ... --runtime int8"
        )
    if "weights" in spec.options:
        raise ValueError(
            f"{spec.subject}: weights={spec.options['weights']}: a bundle's weights have their"
            " type already; leave weights= out"
        )
    return bundle


def _without(options: Mapping[str, str], names: Sequence[str]) -> Dict[str, str]:
    return {name: value for name, value in options.items() if name not in names}
