"""CTranslate2 as a system of the comparison: an autoregressive checkpoint, converted and decoded by
a C++ runtime."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Sequence

import torch
from fairseq import tasks
from fairseq.data import Dictionary

from ...engine import GenerationCounters
from ...engine.models import choose_device, generation_config, load_models, option_arguments
from ...export.ctranslate2_model import PADDING, export, import_ctranslate2, stored_types
from ...loading.checkpoints import reading
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
    """A system decoded by CTranslate2.

    Args:
        spec: ``path`` is a checkpoint, converted now, or a folder of ``fairseq-hrt export``. Of the
            options of ``fairseq-generate`` those are understood that have their like in
            CTranslate2; ``compute_type`` is its own (float32, int8, …).
        data: see :func:`.specification.generate_arguments`.

    Raises:
        ValueError: CTranslate2 is not installed, the model does not convert, an option has no
            equivalent, or a converted model has other dictionaries than the data.
    """

    def __init__(self, spec: SystemSpec, data: Sequence[str]) -> None:
        ctranslate2 = import_ctranslate2()
        subject = f"system {spec.name!r}"
        unknown = sorted(set(spec.options) - set(OPTIONS))
        if unknown:
            raise ValueError(
                f"{subject}: CTranslate2 does not support {', '.join(unknown)}; it takes"
                f" {', '.join(OPTIONS)}"
            )
        if spec.task is not None:
            raise ValueError(
                f"{subject}: engine=ctranslate2 takes no task, it always writes word by word"
            )
        ours = {name: value for name, value in spec.options.items() if name != "compute_type"}
        config = generation_config(
            [*data, "--path", spec.path, "--task", "translation", *option_arguments(ours)], subject
        )
        with reading(subject, "cannot be set up"):
            task = tasks.setup_task(config.task)
        device, dtype = choose_device(config), spec.options.get("compute_type", "float32")
        saved, self.folder = config.task, Path(spec.path)
        if not self.folder.is_dir():
            self._temporary = tempfile.TemporaryDirectory(prefix="fairseq_hrt_")
            self.folder = Path(self._temporary.name) / "model"
            models, trained = load_models([spec.path], config, task, torch.device("cpu"))
            # Kept as it is computed with, so that the size on disk is the size of what is measured.
            kind = dtype if dtype in stored_types() else None
            export(
                models[0],
                task.source_dictionary,
                task.target_dictionary,
                self.folder,
                quantization=kind,
            )
            saved = trained.task
        check_dictionaries(self.folder, task.source_dictionary, task.target_dictionary)
        try:
            self.translator = ctranslate2.Translator(
                str(self.folder),
                device=device.type,
                device_index=torch.cuda.current_device() if device.type == "cuda" else 0,
                compute_type=dtype,
                intra_threads=torch.get_num_threads(),
            )
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{subject}: {error}") from error
        self.version, self.options = ctranslate2.__version__, config.generation
        # CTranslate2 does not tell how often its decoder ran.
        counters = GenerationCounters(known=False)
        super().__init__(
            spec,
            config,
            task,
            saved,
            task_name="ctranslate2",
            device=device,
            dtype=dtype,
            counters=counters,
        )

    @property
    def reloadable(self) -> SystemSpec:
        """The converted model instead of the checkpoint."""
        return replace(self.spec, path=str(self.folder))

    @property
    def model_bytes(self) -> int:
        """Size of the converted weights on disk."""
        return (self.folder / "model.bin").stat().st_size

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """The batch of the sentences ``ids``, in words."""
        dictionary = self.task.source_dictionary
        # Without </s>, which CTranslate2 adds.
        rows = [
            [dictionary[token] for token in self.dataset[i]["source"].tolist()[:-1]] for i in ids
        ]
        return {"id": torch.tensor(list(ids)), "words": rows}

    def collate_text(self, lines: Sequence[str]) -> Dict[str, Any]:
        return {"id": torch.arange(len(lines)), "words": [line.split() for line in lines]}

    def decode(self, sample: Dict[str, Any]) -> List[List[Dict[str, Any]]]:
        options, rows = self.options, sample["words"]
        # As fairseq's: the longest source of the batch decides, </s> counts.
        longest = int(options.max_len_a * (1 + max(map(len, rows))) + options.max_len_b)
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
                f"system {self.name!r}, a sentence of {max(map(len, rows))} tokens: {error}"
            ) from error
        dictionary = self.task.target_dictionary
        return [
            [
                {
                    "tokens": torch.tensor([*map(dictionary.index, words), dictionary.eos()]),
                    "score": score,
                }
                for words, score in zip(result.hypotheses, result.scores)
            ]
            for result in results
        ]

    def signature(self) -> Dict[str, str]:
        entries = {
            "engine": f"ctranslate2 {self.version}",
            **self.spec.shown(),
        }
        entries.setdefault("beam", "5")
        return {
            "task": self.task_name,
            **entries,
            "dtype": self.translator.compute_type,
            "device": self.device.type,
        }


def check_dictionaries(folder: Path, source: Dictionary, target: Dictionary) -> None:
    """Refuses a converted model that belongs to other data.

    Raises:
        ValueError: the words differ, or the folder holds no converted model, or a damaged one.
    """
    for side, dictionary in (("source", source), ("target", target)):
        files = [folder / f"{side}_vocabulary.json", folder / "shared_vocabulary.json"]
        path = next((path for path in files if path.is_file()), None)
        if path is None:
            raise ValueError(f"{folder} holds no model of fairseq-hrt export (no {files[0].name})")
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
                f"{path} differs from the data's {side} dictionary: give the model's own data"
            )
