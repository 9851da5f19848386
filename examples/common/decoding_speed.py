"""Times decoding with models of any size, untrained: what a method gains at the size and length that you have in mind.

    OMP_NUM_THREADS=1 python examples/common/decoding_speed.py --arch e12d1 --vocabulary 32000 --lengths 13,27,54 --json speed.json

Every sentence has as many source as target tokens, which the decoders are told to write; their weights are random. The models have
the sizes of the quickstart, of the Multi30k recipes, or of a preset of hrt_transformer. Compared are fairseq's greedy search, our engine's,
hybrid-regressive decoding, CTranslate2 (where it is installed) and the native runtime (where it is built), which decodes the teacher and every
family: HRT with k = 2 and 3, IBDecoder, IB+SA(2) to (4) (words at each end), and a directed acyclic graph (--graph-scale), greedily; the
teacher, and HRT's first stage, with a beam of 5, too.
--systems native,CTranslate2 leaves the slow ones away. With --shortlist both runtimes choose among that many random words a source word.
Prints a table for each length: decoder calls, milliseconds a sentence, words (tokens) a second, and the ratio to the chosen system, medians of
interleaved repeats with minimum and maximum; --json writes {system: {length: milliseconds}}.
"""

import argparse
import json
import logging
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.sequence_generator import SequenceGenerator

from fairseq_hrt.bidirectional.model import BidirectionalTransformerModel
from fairseq_hrt.dag.model import DagTransformerModel
from fairseq_hrt.decoding.generator import AutoregressiveGenerator
from fairseq_hrt.decoding.options import DecodingOptions
from fairseq_hrt.engine.counters import GenerationCounters
from fairseq_hrt.evaluation.comparison import processor
from fairseq_hrt.evaluation.speed import Timing, measure
from fairseq_hrt.hrt.chunking import ChunkChooser
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.hrt.model import HRTTransformerModel
from fairseq_hrt.hub.ctranslate2_model import PADDING, export
from fairseq_hrt.hub.runtime_model import convert
from fairseq_hrt.hub.shortlist import pack
from fairseq_hrt.runtime.engine import DecodeOptions, Engine, Shortlist
from fairseq_hrt.runtime.library import LibraryUnavailable
from fairseq_hrt.systems import count_calls

# Sizes of the recipes: (width, inner size, layers, heads, words).
RECIPES = {"quickstart": (128, 512, 2, 4, 2800), "multi30k": (256, 1024, 3, 4, 8000)}
# Kind of the weights, and hypotheses that are kept.
CTRANSLATE2 = {
    "CTranslate2 greedy": ("float32", 1),
    "CTranslate2 int8 greedy": ("int8", 1),
    "CTranslate2 int8 beam 5": ("int8", 5),
}
# Native rows: the model, and how it is decoded. The target's length is forced where the family lets it be: graphs have the length of their path.
NATIVE: Dict[str, Any] = {
    "native AT": ("AT", {}),
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


class Decoder:
    """A generator of fairseq's contract over given batches."""

    def __init__(self, name: str, generator: Any, models: List[Any], batches: Sequence[Dict[str, Any]]) -> None:
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
        self.translator = ctranslate2.Translator(str(folder), compute_type=kind, intra_threads=threads)
        self.length, self.beam, self.shortlist = length, beam, shortlist
        self.words = [
            [[dictionary[token] for token in row[:-1]] for row in batch["net_input"]["src_tokens"]] for batch in batches
        ]

    def collate(self, ids: Sequence[int]) -> List[List[str]]:
        """The words of batch ``ids[0]``."""
        return self.words[ids[0]]

    def decode(self, sample: List[List[str]]) -> Any:
        """Translates it."""
        return self.translator.translate_batch(
            sample, beam_size=self.beam, min_decoding_length=self.length, max_decoding_length=self.length, suppress_sequences=[[PADDING]],
            use_vmap=self.shortlist,
        )  # fmt: skip


class NativeDecoder:
    """The same, by the native runtime."""

    def __init__(self, name: str, engine: Engine, options: DecodeOptions, batches: Sequence[Any]) -> None:
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


def build_models(preset: str, vocabulary: Optional[int], seed: int, graph_scale: float = 3) -> Dict[str, Any]:
    """Untrained models of one size: ``AT``, ``HRT``, ``IB``, ``IB+SA(2)`` to ``(4)``, ``DAG`` and their ``dictionary``."""
    size = RECIPES.get(preset)
    dictionary = Dictionary()
    for number in range((vocabulary or (size[4] if size else 32000)) - dictionary.nspecial):
        dictionary.add_symbol(f"w{number}")
    settings: Dict[str, Any] = dict(share_all_embeddings=True)
    if size is not None:
        for side in ("encoder", "decoder"):
            values = dict(zip(("embed_dim", "ffn_embed_dim", "layers", "attention_heads"), size))
            settings.update({f"{side}_{name}": value for name, value in values.items()})
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)

    def build(family: Any, architecture: str, **more: Any) -> Any:
        arguments = Namespace(**settings, **more)
        if size is None:
            # The sizes of HRT's presets hold for all.
            ARCH_CONFIG_REGISTRY[f"hrt_transformer_{preset}"](arguments)
        ARCH_CONFIG_REGISTRY[architecture](arguments)
        torch.manual_seed(seed)
        return family.build_model(arguments, task).eval()

    return {
        "dictionary": dictionary,
        "AT": build(TransformerModel, "transformer"),
        "HRT": build(HRTTransformerModel, "hrt_transformer", hrt_chunk_sizes=[2, 3]),
        "IB": build(BidirectionalTransformerModel, "bidirectional_transformer"),
        **{
            f"IB+SA({words})": build(
                BidirectionalTransformerModel, "bidirectional_transformer", bidirectional_tokens_per_step=words
            )
            for words in (2, 3, 4)
        },
        "DAG": build(DagTransformerModel, "dag_transformer", dag_upsample_scale=str(graph_scale)),
    }


def random_sentences(count: int, length: int, vocabulary: int, seed: int, batch_size: int = 1) -> List[Dict[str, Any]]:
    """``count`` batches of sentences with ``length`` words and ``</s>``."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(count):
        tokens = torch.randint(4, vocabulary, (batch_size, length + 1), generator=generator)
        tokens[:, -1] = 2
        batches.append({"net_input": {"src_tokens": tokens, "src_lengths": torch.full((batch_size,), length + 1)}})
    return batches


def random_shortlist(words: int, candidates: int, seed: int) -> Shortlist:
    """That many random candidates of every word, and a hundred frequent words."""
    generator = np.random.default_rng(seed)
    found = {word: np.unique(generator.integers(4, words, candidates)).tolist() for word in range(4, words)}
    return pack(found, set(range(4, min(words, 104))), words)


def write_vmap(path: Path, shortlist: Shortlist, dictionary: Dictionary) -> None:
    """The same for CTranslate2."""
    lines = ["\t" + " ".join(dictionary[int(word)] for word in shortlist.always if word >= 4)]
    for word in range(4, len(dictionary)):
        own = shortlist.candidates[shortlist.offsets[word] : shortlist.offsets[word + 1]]
        lines.append(f"{dictionary[word]}\t" + " ".join(dictionary[int(other)] for other in own))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class Systems:
    """What is compared; converted and loaded once for all lengths.

    Args:
        built: of :func:`build_models`.
        given: the command's options.
        folder: for converted models.
    """

    def __init__(self, built: Dict[str, Any], given: argparse.Namespace, folder: Path) -> None:
        self.built, self.given, self.folder = built, given, folder / "ctranslate2"
        dictionary = built["dictionary"]
        self.shortlist = random_shortlist(len(dictionary), given.shortlist, given.seed) if given.shortlist else None
        self.engines: Dict[str, Engine] = {}
        if any(map(self.wanted, CTRANSLATE2)):
            try:
                export(built["AT"], dictionary, dictionary, self.folder)
                if self.shortlist is not None:
                    write_vmap(self.folder / "vmap.txt", self.shortlist, dictionary)
            except ValueError as error:
                print(f"without CTranslate2: {error}\n")
        for name in dict.fromkeys(model for model, _ in NATIVE.values()):
            if any(model == name and self.wanted(row) for row, (model, _) in NATIVE.items()):
                try:
                    self.engines[name] = Engine(
                        *convert(built[name], dictionary, dictionary, weights=given.weights), threads=given.threads
                    )
                except LibraryUnavailable as error:
                    print(f"without the native runtime: {error}\n")
                    break
                self.engines[name].set_shortlist(self.shortlist)

    def wanted(self, name: str) -> bool:
        """Whether --systems names a system, by the beginning of its name or by part of it."""
        return any(part in name for part in self.given.systems.split(","))

    def load(self, length: int, batches: Sequence[Any]) -> List[Any]:
        """All systems for sentences of ``length`` tokens."""
        at, hrt, dictionary = (self.built[name] for name in ("AT", "HRT", "dictionary"))
        options = DecodingOptions(beam=1, min_len=length, max_len_b=length)
        systems: List[Any] = []
        if self.wanted("fairseq greedy"):
            stock = SequenceGenerator([at], dictionary, beam_size=1, max_len_b=length, min_len=length)
            systems.append(Decoder("fairseq greedy", stock, [at], batches))
        if self.wanted("AT greedy"):
            systems.append(Decoder("AT greedy", AutoregressiveGenerator([at], dictionary, options), [at], batches))
        for name, (kind, beam) in CTRANSLATE2.items():
            if self.folder.is_dir() and self.wanted(name):
                short = self.shortlist is not None
                systems.append(
                    CTranslate2Decoder(name, self.folder, kind, dictionary, length, batches, beam=beam, shortlist=short)
                )
        for size in (2, 3):
            if self.wanted(f"HRT k={size} (1,1)"):
                chooser = ChunkChooser.parse(str(size), "inf:1", [2, 3])
                generator = HRTGenerator([hrt], dictionary, options, chooser=chooser)
                systems.append(Decoder(f"HRT k={size} (1,1)", generator, [hrt], batches))
        for name, (model, own) in NATIVE.items():
            if model in self.engines and self.wanted(name):
                # A graph's path has the length that it has.
                limits = {} if model == "DAG" else {"min_len": length}
                chosen = DecodeOptions(
                    max_len_b=length, scores=False, batch_size=self.given.batch_size, **{"beam": 1, **limits, **own}
                )
                systems.append(NativeDecoder(name, self.engines[model], chosen, batches))
        return systems


def table(systems: Sequence[Any], timings: Dict[str, Timing], length: int, given: argparse.Namespace) -> List[str]:
    """The table's lines for sentences of ``length`` tokens."""
    reference = given.ratio_to if given.ratio_to in timings else systems[0].name
    lines = [
        f"{length} tokens:", "",
        f"| System | decoder calls | ms a sentence | words/s | × {reference} |", "|---|---:|---:|---:|---:|",
    ]  # fmt: skip
    for system in systems:
        timing = timings[system.name]
        ratio, calls = timing.ratio_to(timings[reference]), timing.decoder_calls_per_batch()
        lines.append(
            f"| {system.name} | {'–' if calls is None else f'{calls:.1f}'} | {milliseconds(timing, given):.3g} "
            f"| {1000 * length / milliseconds(timing, given):.0f} | {ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f}) |"
        )
    return lines


def milliseconds(timing: Timing, given: argparse.Namespace) -> float:
    """Of a sentence: the median batch at its median over the repeats."""
    return timing.batch_milliseconds(50) / given.batch_size


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    presets = sorted(name[len("hrt_transformer_") :] for name in ARCH_CONFIG_REGISTRY if name.startswith("hrt_transformer_"))
    parser.add_argument(
        "--arch",
        default="e12d1",
        choices=[*RECIPES, *presets],
        help="a recipe's sizes or a preset of hrt_transformer (default: %(default)s)",
    )
    parser.add_argument("--lengths", default="13,27,54", help="tokens a sentence (default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, metavar="N", help="words (default: those of the recipe, else 32000)")
    for name, default in (("sentences", 5), ("repeats", 5), ("threads", 1), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"(default: {default})")
    parser.add_argument("--batch-size", type=int, default=1, metavar="N", help="sentences decoded together (default: 1)")
    parser.add_argument(
        "--weights", choices=("int8", "float32"), default="int8", help="of the native runtime (default: int8)"
    )
    parser.add_argument(
        "--graph-scale", type=float, default=3, metavar="N", help="vertices of a graph for each source token (default: 3)"
    )
    parser.add_argument(
        "--shortlist",
        type=int,
        default=0,
        metavar="N",
        help="random candidates of a source word, for both runtimes (default: none)",
    )
    parser.add_argument(
        "--systems", default="", metavar="NAME,...", help="only those whose names hold one of these (default: all)"
    )
    parser.add_argument(
        "--ratio-to",
        default="CTranslate2 int8 greedy",
        metavar="NAME",
        help="whose speed counts as 1 (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write {system: {length: milliseconds}}")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = build_parser()
    given = parser.parse_args(arguments)
    try:
        lengths = [int(length) for length in given.lengths.split(",")]
    except ValueError:
        parser.error(f"--lengths {given.lengths!r}: give numbers separated by commas")
    if min(lengths) < 1 or (given.vocabulary is not None and given.vocabulary < 5):
        parser.error("--lengths must be at least 1, --vocabulary at least 5")
    if min(given.sentences, given.repeats, given.threads, given.batch_size) < 1 or given.shortlist < 0:
        parser.error("--sentences, --repeats, --threads and --batch-size must be at least 1, --shortlist at least 0")
    if not 1 <= given.graph_scale <= 64:
        parser.error("--graph-scale must lie between 1 and 64")
    logging.disable(logging.INFO)
    torch.set_num_threads(given.threads)
    built = build_models(given.arch, given.vocabulary, given.seed, given.graph_scale)
    found: Dict[str, Dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        systems = Systems(built, given, Path(temporary))
        native = "".join(f", native runtime on {engine.isa}" for engine in list(systems.engines.values())[:1])
        words = len(built["dictionary"])
        print(
            f"{processor()}: {given.arch}, {words} words, batch size {given.batch_size}, {given.threads} threads{native}\n"
        )
        for length in lengths:
            batches = random_sentences(given.sentences, length, len(built["dictionary"]), given.seed, given.batch_size)
            loaded = systems.load(length, batches)
            if not loaded:
                parser.error(f"--systems {given.systems}: there is none of that name, or it is not installed")
            timings = measure(loaded, [[number] for number in range(len(batches))], repeats=given.repeats)
            print("\n".join(table(loaded, timings, length, given)), flush=True)
            print()
            for name, timing in timings.items():
                found.setdefault(name, {})[str(length)] = round(milliseconds(timing, given), 4)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
