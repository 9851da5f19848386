"""The rows of decoding_speed.py: each decodes an untrained model, all of them the same batches."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

from fairseq.sequence_generator import SequenceGenerator
from marian_row import Marian
from timed_rows import Clock, Row
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
# it be: graphs have the length of their path, and CTC writes as many words as it likes.
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
    "native CTC": ("CTC", {"min_len": 0}),
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


def torch_row(
    name: str, generator: Any, model: Any, batches: Sequence[Dict[str, Any]], clock: Clock
) -> Row:
    """A generator of fairseq's contract."""
    ours = hasattr(generator, "counters")
    counters = generator.counters if ours else count_calls([model])
    return Row(
        name, batches, lambda batch: generator.generate([model], batch), clock, counters=counters
    )


def native_row(
    name: str,
    engine: Engine,
    own: Dict[str, Any],
    length: int,
    batches: Sequence[Dict[str, Any]],
    clock: Clock,
) -> Row:
    """The native runtime with options of its own."""
    rows = [batch["net_input"]["src_tokens"].tolist() for batch in batches]
    counters = GenerationCounters()
    # A graph's path has the length that it has.
    limits = {} if "dag_decode_strategy" in own else {"min_len": length}
    options = DecodingOptions(
        max_len_b=length, scores=False, batch_size=len(rows[0]), **{"beam": 1, **limits, **own}
    )

    def translate(tokens: List[List[int]]) -> Any:
        found = engine.decode(tokens, options)
        counters.decoder_calls += max(best[0].steps for best in found)
        return found

    return Row(name, rows, translate, clock, counters=counters)


def native_engines(
    built: Dict[str, Any], names: Sequence[str], weights: str = "int8", threads: int = 1
) -> Dict[str, Engine]:
    """Models of :func:`build_models` converted for the native runtime.

    Raises:
        LibraryUnavailable: it is not built.
    """
    words = built["dictionary"]
    return {
        name: Engine(*convert(built[name], words, words, weights=weights), threads=threads)
        for name in dict.fromkeys(names)
    }


class Systems:
    """What is compared; converted and loaded once for all lengths and batch sizes.

    Args:
        built: of :func:`build_models`.
        given: the command's options.
        folder: for converted models.
    """

    def __init__(self, built: Dict[str, Any], given: argparse.Namespace, folder: Path) -> None:
        self.built, self.given, self.folder = built, given, folder / "ctranslate2"
        self.shortlist: Optional[Shortlist] = None
        self.engines: Dict[str, Engine] = {}
        self.marian: Optional[Marian] = None
        self.clock = Clock()
        words = built["dictionary"]
        if given.marian:
            model = built.get("SSRU", built["AT"])
            self.marian = Marian(given.marian, model, words, folder / "marian")
        if any(map(self.wanted, CTRANSLATE2)):
            try:
                export(built["AT"], words, words, self.folder)
            except ValueError as error:
                print(f"without CTranslate2: {error}\n")
        wanted = [
            model for row, (model, _) in NATIVE.items() if model in built and self.wanted(row)
        ]
        try:
            self.engines = native_engines(built, wanted, given.weights, given.threads)
        except LibraryUnavailable as error:
            print(f"without the native runtime: {error}\n")

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

    def rows(self, setting: Setting, batches: Sequence[Dict[str, Any]]) -> Iterator[Row]:
        """All that are wanted, for these batches."""
        length, clock = setting.length, self.clock
        at, hrt, words = (self.built[name] for name in ("AT", "HRT", "dictionary"))
        if self.wanted("fairseq greedy"):
            stock = SequenceGenerator([at], words, beam_size=1, max_len_b=length, min_len=length)
            yield torch_row("fairseq greedy", stock, at, batches, clock)
        options = DecodingOptions(beam=1, min_len=length, max_len_b=length)
        if self.wanted("AT greedy"):
            ours = AutoregressiveGenerator([at], words, options)
            yield torch_row("AT greedy", ours, at, batches, clock)
        for name, (kind, beam) in CTRANSLATE2.items():
            if self.folder.is_dir() and self.wanted(name):
                yield self.ctranslate2_row(name, kind, beam, length, batches)
        for size in (2, 3):
            if self.wanted(f"HRT k={size} (1,1)"):
                chosen = dataclasses.replace(options, hrt_decode_chunk=str(size))
                generator = HRTGenerator([hrt], words, chosen)
                yield torch_row(f"HRT k={size} (1,1)", generator, hrt, batches, clock)
        for name, (model, own) in NATIVE.items():
            if model in self.engines and self.wanted(name):
                yield native_row(name, self.engines[model], own, length, batches, clock)
        if self.marian is not None:
            yield self.marian.fastest(batches, clock)

    def ctranslate2_row(
        self, name: str, kind: str, beam: int, length: int, batches: Sequence[Dict[str, Any]]
    ) -> Row:
        """CTranslate2 with weights of a kind."""
        import ctranslate2

        translator = ctranslate2.Translator(
            str(self.folder), compute_type=kind, intra_threads=self.given.threads
        )
        words = self.built["dictionary"]
        lines = [
            [[words[token] for token in row[:-1]] for row in batch["net_input"]["src_tokens"]]
            for batch in batches
        ]
        options = dict(
            beam_size=beam, min_decoding_length=length, max_decoding_length=length,
            suppress_sequences=[[PADDING]], use_vmap=self.shortlist is not None,
        )  # fmt: skip
        return Row(
            name, lines, lambda batch: translator.translate_batch(batch, **options), self.clock
        )

    def end(self) -> None:
        """Ends Marian's process."""
        if self.marian is not None:
            self.marian.end()
