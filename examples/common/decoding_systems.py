"""The rows of decoding_speed.py: each decodes an untrained model, all of them the same batches."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from marian_row import Marian
from untrained_models import FREQUENT, random_shortlist, write_vmap

from fairseq_hrt.engine.counters import GenerationCounters
from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.evaluation.systems import count_calls
from fairseq_hrt.export.ctranslate2_model import PADDING, export
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.native.runtime.engine import Engine, Shortlist
from fairseq_hrt.native.runtime.library import LibraryUnavailable

# Kind of the weights, and hypotheses that are kept.
CTRANSLATE2 = {
    "CTranslate2 greedy": ("float32", 1),
    "CTranslate2 int8 greedy": ("int8", 1),
    "CTranslate2 int8 beam 5": ("int8", 5),
}
# Native rows: the model, and how it is decoded. The target's length is forced where the family lets
# it be: graphs have the length of their path.
NATIVE: Dict[str, Any] = {
    "native AT": ("AT", {}),
    "native SSRU": ("SSRU", {}),
    "native HRT k=2": ("HRT", {"hrt_decode_chunk": "2", "hrt_nat_beam": 1}),
    "native HRT k=3": ("HRT", {"hrt_decode_chunk": "3", "hrt_nat_beam": 1}),
    "native AT beam 5": ("AT", {"beam": 5}),
    "native HRT k=2 beam 5": ("HRT", {"hrt_decode_chunk": "2", "beam": 5, "hrt_nat_beam": 1}),
    "native IBDecoder": ("IB", {}),
    "native IB+SA(2)": ("IB+SA(2)", {}),
    "native IB+SA(3)": ("IB+SA(3)", {}),
    "native IB+SA(4)": ("IB+SA(4)", {}),
    "native DAG": ("DAG", {"dag_decode_strategy": "greedy"}),
}
# Names of systems that --systems may give whole.
SINGLE = {"fairseq greedy", "AT greedy", *CTRANSLATE2, *NATIVE}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is measured together: sentences of ``length`` tokens in batches, by models of one size,
    which choose among the words of a shortlist where ``shortlist`` is not 0."""

    arch: str
    length: int
    batch_size: int
    shortlist: int

    def __str__(self) -> str:
        short = f", shortlist {self.shortlist}" if self.shortlist else ""
        return f"{self.arch}, {self.length} tokens, batch size {self.batch_size}{short}"


class Decoder:
    """A generator of fairseq's contract over given batches."""

    def __init__(
        self, name: str, generator: Any, models: List[Any], batches: Sequence[Dict[str, Any]]
    ) -> None:
        self.name, self.generator, self.models, self.batches = name, generator, models, batches
        own = getattr(generator, "counters", None)
        self.counters: GenerationCounters = count_calls(models) if own is None else own

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """The batch ``ids[0]``."""
        return self.batches[ids[0]]

    def decode(self, sample: Dict[str, Any]) -> Any:
        """Translates it."""
        return self.generator.generate(self.models, sample)


class CTranslate2Decoder:
    """The same, by CTranslate2."""

    def __init__(
        self,
        name: str,
        folder: Path,
        kind: str,
        dictionary: Dictionary,
        length: int,
        batches: Sequence[Any],
        *,
        beam: int,
        shortlist: bool,
    ) -> None:
        import ctranslate2

        self.name, self.generator, self.counters = name, None, GenerationCounters(known=False)
        threads = torch.get_num_threads()
        self.translator = ctranslate2.Translator(
            str(folder), compute_type=kind, intra_threads=threads
        )
        self.length, self.beam, self.shortlist = length, beam, shortlist
        self.words = [
            [[dictionary[token] for token in row[:-1]] for row in batch["net_input"]["src_tokens"]]
            for batch in batches
        ]

    def collate(self, ids: Sequence[int]) -> List[List[str]]:
        """The words of batch ``ids[0]``."""
        return self.words[ids[0]]

    def decode(self, sample: List[List[str]]) -> Any:
        """Translates it."""
        return self.translator.translate_batch(
            sample, beam_size=self.beam, min_decoding_length=self.length,
            max_decoding_length=self.length, suppress_sequences=[[PADDING]],
            use_vmap=self.shortlist,
        )  # fmt: skip


class NativeDecoder:
    """The same, by the native runtime."""

    def __init__(
        self, name: str, engine: Engine, options: DecodingOptions, batches: Sequence[Any]
    ) -> None:
        self.name, self.generator, self.counters = name, None, GenerationCounters()
        self.engine, self.options = engine, options
        self.rows = [batch["net_input"]["src_tokens"].tolist() for batch in batches]

    def collate(self, ids: Sequence[int]) -> List[List[int]]:
        """The tokens of batch ``ids[0]``."""
        return self.rows[ids[0]]

    def decode(self, sample: List[List[int]]) -> Any:
        """Translates it."""
        found = self.engine.decode(sample, self.options)
        self.counters.decoder_calls += max(best[0].steps for best in found)
        return found


class Systems:
    """What is compared; converted and loaded once for all lengths and batch sizes.

    Args:
        built: of :func:`build_models`.
        given: the command's options.
        folder: for converted models.
    """

    def __init__(self, built: Dict[str, Any], given: argparse.Namespace, folder: Path) -> None:
        self.built, self.given, self.folder = built, given, folder / "ctranslate2"
        dictionary = built["dictionary"]
        self.shortlist: Optional[Shortlist] = None
        self.engines: Dict[str, Engine] = {}
        self.marian: Optional[Marian] = None
        if given.marian:
            model = built.get("SSRU", built["AT"])
            self.marian = Marian(given.marian, model, dictionary, folder / "marian")
        if any(map(self.wanted, CTRANSLATE2)):
            try:
                export(built["AT"], dictionary, dictionary, self.folder)
            except ValueError as error:
                print(f"without CTranslate2: {error}\n")
        for name in dict.fromkeys(model for model, _ in NATIVE.values()):
            if name in built and any(
                model == name and self.wanted(row) for row, (model, _) in NATIVE.items()
            ):
                try:
                    self.engines[name] = Engine(
                        *convert(built[name], dictionary, dictionary, weights=given.weights),
                        threads=given.threads,
                    )
                except LibraryUnavailable as error:
                    print(f"without the native runtime: {error}\n")
                    break

    def choose_among(self, candidates: int) -> None:
        """From now on the runtimes choose among that many random words a source word, with 0 among
        all."""
        dictionary, vmap = self.built["dictionary"], self.folder / "vmap.txt"
        self.shortlist = (
            random_shortlist(len(dictionary), candidates, self.given.seed) if candidates else None
        )
        for engine in self.engines.values():
            engine.set_shortlist(self.shortlist)
        if self.marian is not None:
            self.marian.choose_among(self.shortlist, min(FREQUENT, len(dictionary) - 4))
        if self.shortlist is None:
            vmap.unlink(missing_ok=True)
        elif self.folder.is_dir():
            write_vmap(vmap, self.shortlist, dictionary)

    def wanted(self, name: str) -> bool:
        """Whether --systems names a system, by its whole name or by part of it; what is the whole
        name of one names no other."""
        return any(
            part == name or (part in name and part not in SINGLE)
            for part in self.given.systems.split(",")
        )

    def load(self, setting: Setting, batches: Sequence[Any]) -> List[Any]:
        """All systems for these batches."""
        length = setting.length
        at, hrt, dictionary = (self.built[name] for name in ("AT", "HRT", "dictionary"))
        options = DecodingOptions(beam=1, min_len=length, max_len_b=length)
        systems: List[Any] = []
        if self.wanted("fairseq greedy"):
            stock = SequenceGenerator(
                [at], dictionary, beam_size=1, max_len_b=length, min_len=length
            )
            systems.append(Decoder("fairseq greedy", stock, [at], batches))
        if self.wanted("AT greedy"):
            systems.append(
                Decoder(
                    "AT greedy", AutoregressiveGenerator([at], dictionary, options), [at], batches
                )
            )
        for name, (kind, beam) in CTRANSLATE2.items():
            if self.folder.is_dir() and self.wanted(name):
                short = self.shortlist is not None
                systems.append(
                    CTranslate2Decoder(
                        name,
                        self.folder,
                        kind,
                        dictionary,
                        length,
                        batches,
                        beam=beam,
                        shortlist=short,
                    )
                )
        for size in (2, 3):
            if self.wanted(f"HRT k={size} (1,1)"):
                chosen = dataclasses.replace(options, hrt_decode_chunk=str(size))
                generator = HRTGenerator([hrt], dictionary, chosen)
                systems.append(Decoder(f"HRT k={size} (1,1)", generator, [hrt], batches))
        for name, (model, own) in NATIVE.items():
            if model in self.engines and self.wanted(name):
                # A graph's path has the length that it has.
                limits = {} if model == "DAG" else {"min_len": length}
                chosen = DecodingOptions(
                    max_len_b=length,
                    scores=False,
                    batch_size=setting.batch_size,
                    **{"beam": 1, **limits, **own},
                )
                systems.append(NativeDecoder(name, self.engines[model], chosen, batches))
        if self.marian is not None:
            systems.append(self.marian.fastest(batches))
        return systems

    def end(self) -> None:
        """Ends Marian's process."""
        if self.marian is not None:
            self.marian.end()
