"""Systems that CTranslate2, a C++ runtime, decodes: an autoregressive checkpoint, which is
converted when it is loaded, or a converted model."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Sequence

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ...engine import GenerationCounters
from ...engine.models import choose_device, load_models
from ...export.ctranslate2_model import PADDING, export, import_ctranslate2, stored_types
from ...native.decoding import Hypothesis
from .specification import SystemSpec
from .system import System

# Of fairseq-generate's options those with an equivalent; compute_type is CTranslate2's own.
OPTIONS = (
    "beam",
    "compute_type",
    "cpu",
    "lenpen",
    "max_len_a",
    "max_len_b",
    "min_len",
    "no_repeat_ngram_size",
    "post_process",
)


class CTranslate2System(System):
    """A system that CTranslate2 decodes.

    Args:
        spec: the description of the system. ``path`` is a checkpoint, which is converted, or a
            folder written by ``fairseq-hrt export``. Of the options of ``fairseq-generate``, those
            with an equivalent in CTranslate2 are supported; ``compute_type`` (float32, int8, …) is
            CTranslate2's own.
        data: the data folder and the options that choose its sentences and languages, see
            :func:`.specification.generate_arguments`.

    Raises:
        ValueError: CTranslate2 is not installed, the model cannot be converted, an option has no
            equivalent, or a converted model has other dictionaries than the data.
    """

    engine = "ctranslate2"

    def __init__(self, spec: SystemSpec, data: Sequence[str]) -> None:
        ctranslate2 = import_ctranslate2()
        unknown = sorted(set(spec.options) - set(OPTIONS))
        if unknown:
            raise ValueError(
                f"{spec.subject}: CTranslate2 does not support {', '.join(unknown)}; it takes"
                f" {', '.join(OPTIONS)}"
            )
        if spec.task is not None:
            raise ValueError(
                f"{spec.subject}: engine=ctranslate2 always writes word by word and takes no task;"
                " leave task= out"
            )
        ours = {name: value for name, value in spec.options.items() if name != "compute_type"}
        super().__init__(spec, data, "translation", ours)
        self.task_name, self.options = "ctranslate2", self.config.generation
        source, target = self.task.source_dictionary, self.task.target_dictionary
        kind, self.folder = spec.options.get("compute_type", "float32"), Path(spec.path)
        # The decoder's number of positions, which a converted model does not store.
        self.positions = self.config.task.max_target_positions
        if not self.folder.is_dir():
            self._temporary = tempfile.TemporaryDirectory(prefix="fairseq_hrt_")
            self.folder = Path(self._temporary.name) / "model"
            (model, *_), saved = load_models([spec.path], self.config, self.task, self.device)
            self.read_as = saved.task
            self.positions = int(model.max_decoder_positions())  # type: ignore[operator]
            # Stored in the type that it is computed with, so that the size on disk is that of the
            # weights that are measured.
            stored = kind if kind in stored_types() else None
            export(model, source, target, self.folder, quantization=stored)
        check_dictionaries(self.folder, source, target)
        self.device = choose_device(self.config)
        try:
            self.translator = ctranslate2.Translator(
                str(self.folder),
                device=self.device.type,
                device_index=torch.cuda.current_device() if self.device.type == "cuda" else 0,
                compute_type=kind,
                intra_threads=torch.get_num_threads(),
            )
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{spec.subject}: {error}") from error
        self.version, self.dtype = ctranslate2.__version__, self.translator.compute_type
        self.beam = self.options.beam
        # CTranslate2 does not tell how often its decoder ran.
        self.counters = GenerationCounters(known=False)

    @property
    def reloadable(self) -> SystemSpec:
        """A specification that names the converted model instead of the checkpoint."""
        return replace(self.spec, path=str(self.folder))

    @property
    def model_bytes(self) -> int:
        """The size in bytes of the converted weights on disk."""
        return (self.folder / "model.bin").stat().st_size

    def batch(self, ids: Sequence[int], rows: Sequence[Tensor]) -> Dict[str, Any]:
        """A batch of sources as lists of words without ``</s>``, which CTranslate2 adds; see
        :meth:`.system.System.batch`."""
        dictionary = self.task.source_dictionary
        # Without </s>, which CTranslate2 adds.
        words = [[dictionary[token] for token in row.tolist()[:-1]] for row in rows]
        return {"id": torch.tensor(list(ids)), "words": words}

    def decode(self, sample: Dict[str, Any]) -> List[List[Hypothesis]]:
        options, rows = self.options, sample["words"]
        # As fairseq's: the longest source of the batch decides, </s> counts.
        longest = int(options.max_len_a * (1 + max(map(len, rows))) + options.max_len_b)
        longest = min(longest, self.positions - 1)
        try:
            results = self.translator.translate_batch(
                rows,
                beam_size=options.beam,
                length_penalty=options.lenpen,
                no_repeat_ngram_size=options.no_repeat_ngram_size,
                max_input_length=0,
                max_decoding_length=longest,
                min_decoding_length=options.min_len,
                # fairseq never writes padding.
                suppress_sequences=[[PADDING]],
                return_scores=True,
            )
        except RuntimeError as error:
            # A sentence that is longer than the model has positions, for one.
            raise ValueError(
                f"{self.spec.subject} cannot decode a sentence of {max(map(len, rows))} tokens:"
                f" {error}"
            ) from error
        dictionary = self.task.target_dictionary
        return [
            [
                Hypothesis([*map(dictionary.index, words), dictionary.eos()], score, [])
                for words, score in zip(result.hypotheses, result.scores)
            ]
            for result in results
        ]

    def shown(self) -> Dict[str, str]:
        engine = f"ctranslate2 {self.version}"
        return {"task": self.task_name, "engine": engine, **self.spec.shown()}


def check_dictionaries(folder: Path, source: Dictionary, target: Dictionary) -> None:
    """Checks that the converted model in ``folder`` has the words of the data's dictionaries
    ``source`` and ``target``; a model with other words cannot decode the data.

    Raises:
        ValueError: the words differ, or the folder holds no converted model or a damaged one.
    """
    for side, dictionary in (("source", source), ("target", target)):
        files = [folder / f"{side}_vocabulary.json", folder / "shared_vocabulary.json"]
        path = next((path for path in files if path.is_file()), None)
        if path is None:
            raise ValueError(
                f"{folder} holds no model of fairseq-hrt export (no {files[0].name}); give a"
                " checkpoint or a folder that fairseq-hrt export has written"
            )
        try:
            words = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({error}): export the model again") from error
        if (
            not isinstance(words, list)
            or len(words) != len(dictionary)
            or words[dictionary.nspecial :] != dictionary.symbols[dictionary.nspecial :]
        ):
            raise ValueError(
                f"{path} differs from the data's {side} dictionary: give data that were binarised"
                " with the model's dictionaries"
            )
