"""Times decoding with models of any size, untrained: what a method gains at the size and length
that you have in mind.

    OMP_NUM_THREADS=1 python examples/common/decoding_speed.py --arch e12d1 --vocabulary 32000
    --lengths 13,27,54
    OMP_NUM_THREADS=1 python examples/common/decoding_speed.py --arch e6d1,e12d1 --lengths 27 \
        --batch-sizes 1,32 --shortlist 0,50 --systems native --ratio-to 'native AT' --out folder
    OMP_NUM_THREADS=1 python examples/common/decoding_speed.py --arch student --lengths 27 \
        --marian pymarian=/env/bin/python --marian bergamot=/env310/bin/python \
        --ratio-to 'Marian int8'

Every sentence has as many source as target tokens, which the decoders are told to write; their
weights are random. The models have the sizes of the quickstart, of the Multi30k recipes, of
Firefox's students (student), or of a preset of hrt_transformer. Compared are fairseq's greedy
search, our engine's, hybrid-regressive decoding, CTranslate2 (where it is installed) and the native
runtime (where it is built), which decodes the teacher and every family: HRT with k = 2 and 3,
IBDecoder, IB+SA(2) to (4) (words at each end), and a directed acyclic graph (--graph-scale),
greedily; the teacher, and HRT's first stage, with a beam of 5, too.
--systems native,CTranslate2 leaves the slow ones out. With --shortlist the runtimes choose among
that many random words a source word.
--marian names a package of Marian's, pymarian or bergamot, and the interpreter of an environment
that has it (bergamot: Python 3.10 at most). For each setting all of their 8-bit modes are tried,
and the fastest is a row, «Marian int8». It translates the Transformer; with --arch student a
Transformer with recurrent cells in the decoder (SSRU), as Firefox's students have them, which is
also the row «native SSRU». Time between processes is not counted.
Each size is measured with each length, batch size and shortlist. Prints a table for each of these
settings: decoder calls, milliseconds a sentence, words (tokens) a second, the ratio to the chosen
system, medians of interleaved repeats with minimum and maximum, and CPU milliseconds a sentence.
--out writes one table of all settings' ratios,
speed.md, and all figures, speed.json: {setting: {system: {"milliseconds", "ratio", "low", "high",
"cpu_milliseconds"}}}, of Marian also its "mode" and what was "tried".
"""

import argparse
import dataclasses
import itertools
import json
import logging
import statistics
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.sequence_generator import SequenceGenerator
from marian_row import MODES as MARIAN
from marian_row import Marian
from other_engines import Clock, Watched, named_interpreter

from fairseq_hrt.autoregressive.model import MarianTransformerModel
from fairseq_hrt.bidirectional.model import BidirectionalTransformerModel
from fairseq_hrt.bundles.ctranslate2_model import PADDING, export
from fairseq_hrt.bundles.shortlist import pack
from fairseq_hrt.dag.model import DagTransformerModel
from fairseq_hrt.engine.counters import GenerationCounters
from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.engine.native_model import convert
from fairseq_hrt.evaluation.comparison import processor
from fairseq_hrt.evaluation.speed import Timing, measure
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.hrt.model import HRTTransformerModel
from fairseq_hrt.options import DecodingOptions
from fairseq_hrt.runtime.engine import Engine, Shortlist
from fairseq_hrt.runtime.library import LibraryUnavailable
from fairseq_hrt.systems import count_calls

# Sizes of the recipes: (width, inner size, layers of encoder and decoder, heads, words).
RECIPES = {
    "quickstart": (128, 512, (2, 2), 4, 2800),
    "multi30k": (256, 1024, (3, 3), 4, 8000),
    "student": (256, 1536, (6, 2), 8, 32000),
}
# The words that every shortlist has.
FREQUENT = 100
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


def build_models(
    preset: str, vocabulary: Optional[int], seed: int, graph_scale: float = 3
) -> Dict[str, Any]:
    """Untrained models of one size: ``AT``, ``HRT``, ``IB``, ``IB+SA(2)`` to ``(4)``, ``DAG``, for
    ``student`` ``SSRU``, and their ``dictionary``."""
    size = RECIPES.get(preset)
    dictionary = Dictionary()
    for number in range((vocabulary or (size[4] if size else 32000)) - dictionary.nspecial):
        dictionary.add_symbol(f"w{number}")
    settings: Dict[str, Any] = dict(share_all_embeddings=True)
    if size is not None:
        for side, layers in zip(("encoder", "decoder"), size[2]):
            values = dict(embed_dim=size[0], ffn_embed_dim=size[1], attention_heads=size[3])
            values["layers"] = layers
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

    recurrent = {}
    if preset == "student":
        cell = dict(marian_cell="ssru", activation_fn="relu")
        recurrent["SSRU"] = build(MarianTransformerModel, "marian_transformer", **cell)
    return {
        "dictionary": dictionary,
        **recurrent,
        "AT": build(TransformerModel, "transformer"),
        "HRT": build(HRTTransformerModel, "hrt_transformer", hrt_chunk_sizes=[2, 3]),
        "IB": build(BidirectionalTransformerModel, "bidirectional_transformer"),
        **{
            f"IB+SA({words})": build(
                BidirectionalTransformerModel,
                "bidirectional_transformer",
                bidirectional_tokens_per_step=words,
            )
            for words in (2, 3, 4)
        },
        "DAG": build(DagTransformerModel, "dag_transformer", dag_upsample_scale=str(graph_scale)),
    }


def random_sentences(
    count: int, length: int, vocabulary: int, seed: int, batch_size: int = 1
) -> List[Dict[str, Any]]:
    """``count`` batches of sentences with ``length`` words and ``</s>``."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(count):
        tokens = torch.randint(4, vocabulary, (batch_size, length + 1), generator=generator)
        tokens[:, -1] = 2
        batches.append(
            {
                "net_input": {
                    "src_tokens": tokens,
                    "src_lengths": torch.full((batch_size,), length + 1),
                }
            }
        )
    return batches


def random_shortlist(words: int, candidates: int, seed: int) -> Shortlist:
    """That many random candidates of every word, and a hundred frequent words."""
    generator = np.random.default_rng(seed)
    found = {
        word: np.unique(generator.integers(4, words, candidates)).tolist()
        for word in range(4, words)
    }
    return pack(found, set(range(4, min(words, 4 + FREQUENT))), words)


def write_vmap(path: Path, shortlist: Shortlist, dictionary: Dictionary) -> None:
    """The same for CTranslate2."""
    lines = ["\t" + " ".join(dictionary[int(word)] for word in shortlist.always if word >= 4)]
    for word in range(4, len(dictionary)):
        own = shortlist.candidates[shortlist.offsets[word] : shortlist.offsets[word + 1]]
        lines.append(f"{dictionary[word]}\t" + " ".join(dictionary[int(other)] for other in own))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


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


def figures(
    systems: Sequence[Watched], timings: Dict[str, Timing], setting: Setting, ratio_to: str
) -> Dict[str, Dict[str, Any]]:
    """Of each system its milliseconds a sentence (the median batch at its median over the repeats),
    and how many times as fast as ``ratio_to``, or as the first system where that was not measured,
    it is."""
    reference = ratio_to if ratio_to in timings else systems[0].name
    found = {}
    for system in systems:
        timing = timings[system.name]
        ratio = timing.ratio_to(timings[reference])
        # The first pass warms up.
        cpu = statistics.median(system.cpu[len(timing.batches) :])
        found[system.name] = {
            "milliseconds": timing.batch_milliseconds(50) / setting.batch_size,
            "cpu_milliseconds": 1000 * cpu / setting.batch_size,
            "ratio": ratio.median,
            "low": ratio.low,
            "high": ratio.high,
        }
        for name in ("mode", "tried"):
            if hasattr(system.decoder, name):
                found[system.name][name] = getattr(system.decoder, name)
    return found


def ratio_cell(found: Dict[str, Any]) -> str:
    """Median and range."""
    return f"{found['ratio']:.2f} ({found['low']:.2f}–{found['high']:.2f})"


def table(
    systems: Sequence[Watched], timings: Dict[str, Timing], setting: Setting, ratio_to: str
) -> List[str]:
    """The table's lines for one setting."""
    reference = ratio_to if ratio_to in timings else systems[0].name
    found = figures(systems, timings, setting, ratio_to)
    lines = [
        f"| System | decoder calls | ms a sentence | words/s | × {reference} | CPU ms |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, own in found.items():
        calls, milliseconds = timings[name].decoder_calls_per_batch(), own["milliseconds"]
        shown = f"{name} ({own['mode']})" if "mode" in own else name
        lines.append(
            f"| {shown} | {'–' if calls is None else f'{calls:.1f}'} | {milliseconds:.3g} "
            f"| {1000 * setting.length / milliseconds:.0f} | {ratio_cell(own)} "
            f"| {own['cpu_milliseconds']:.3g} |"
        )
    return [*lines, *(line for own in found.values() for line in tried_modes(own))]


def tried_modes(found: Dict[str, Any]) -> List[str]:
    """What else a system could have been."""
    modes = [
        f"- {mode}: {f'{result:.3g} ms' if isinstance(result, float) else result}"
        for mode, result in found.get("tried", {}).items()
    ]
    return ["", "Marian's modes, tried before:", "", *modes] if modes else []


def all_ratios(found: Dict[Setting, Dict[str, Dict[str, Any]]], ratio_to: str) -> str:
    """One Markdown table: a line a setting, a column a system; that whose speed counts as 1 with
    its milliseconds a sentence."""
    names = list(dict.fromkeys(name for systems in found.values() for name in systems))
    base = ratio_to if ratio_to in names else names[0]
    others = [name for name in names if name != base]
    lines = [
        "| "
        + " | ".join(
            ["Setting", f"{base}, ms a sentence", *(f"{name}, × as fast" for name in others)]
        )
        + " |",
        "|---" + "|---:" * len(names) + "|",
    ]
    for setting, systems in found.items():
        cells = [ratio_cell(systems[name]) if name in systems else "–" for name in others]
        lines.append(
            "| " + " | ".join([str(setting), f"{systems[base]['milliseconds']:.3g}", *cells]) + " |"
        )
    return "\n".join(lines) + "\n"


def numbers(text: str, option: str, low: int, parser: argparse.ArgumentParser) -> List[int]:
    """Numbers separated by commas, each once."""
    try:
        found = list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        parser.error(f"{option} {text!r}: give numbers separated by commas")
    if min(found) < low:
        parser.error(f"{option} {text!r}: each must be at least {low}")
    return found


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--arch",
        default="e12d1",
        metavar="NAME,...",
        help=(
            f"a recipe's sizes ({', '.join(RECIPES)}) or a preset of hrt_transformer, e.g. e12d1,"
            " wmt_en_de (default: %(default)s)"
        ),
    )
    parser.add_argument(
        "--lengths", default="13,27,54", help="tokens a sentence (default: %(default)s)"
    )
    parser.add_argument(
        "--vocabulary",
        type=int,
        metavar="N",
        help="words (default: those of the recipe, else 32000)",
    )
    for name, default in (("sentences", 5), ("repeats", 5), ("threads", 1), ("seed", 1)):
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"(default: {default})"
        )
    parser.add_argument(
        "--batch-sizes",
        default="1",
        metavar="N,...",
        help="sentences decoded together (default: %(default)s)",
    )
    parser.add_argument(
        "--weights",
        choices=("int8", "float32"),
        default="int8",
        help="of the native runtime (default: int8)",
    )
    parser.add_argument(
        "--graph-scale",
        type=float,
        default=3,
        metavar="N",
        help="vertices of a graph for each source token (default: 3)",
    )
    parser.add_argument(
        "--shortlist",
        default="0",
        metavar="N,...",
        help=(
            "random candidates of a source word, for the runtimes; 0: none (default: %(default)s)"
        ),
    )
    parser.add_argument(
        "--marian",
        action="append",
        default=[],
        metavar="NAME=PYTHON",
        help=f"{' or '.join(MARIAN)}, and the interpreter that has it; repeatable",
    )
    parser.add_argument(
        "--systems",
        default="",
        metavar="NAME,...",
        help="only those whose names hold one of these (default: all)",
    )
    parser.add_argument(
        "--ratio-to",
        default="CTranslate2 int8 greedy",
        metavar="NAME",
        help="whose speed counts as 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write speed.md and speed.json there"
    )
    return parser


def settings_of(given: argparse.Namespace, parser: argparse.ArgumentParser) -> List[Setting]:
    """All combinations that the options name."""
    sizes = list(dict.fromkeys(given.arch.split(",")))
    presets = sorted(
        name[len("hrt_transformer_") :]
        for name in ARCH_CONFIG_REGISTRY
        if name.startswith("hrt_transformer_")
    )
    for size in sizes:
        if size not in [*RECIPES, *presets]:
            parser.error(
                f"--arch {size!r}: there is none of that name; give some of"
                f" {', '.join([*RECIPES, *presets])}"
            )
    return [
        Setting(size, length, batch_size, shortlist)
        for size in sizes
        for shortlist in numbers(given.shortlist, "--shortlist", 0, parser)
        for batch_size in numbers(given.batch_sizes, "--batch-sizes", 1, parser)
        for length in numbers(given.lengths, "--lengths", 1, parser)
    ]


def measured(
    systems: Systems, setting: Setting, given: argparse.Namespace
) -> Tuple[List[Watched], Dict[str, Timing]]:
    """The systems and what they took.

    Raises:
        ValueError: there are none, or Marian does not translate.
    """
    systems.choose_among(setting.shortlist)
    words, clock = len(systems.built["dictionary"]), Clock()
    batches = random_sentences(
        given.sentences, setting.length, words, given.seed, setting.batch_size
    )
    loaded = [Watched(one, clock) for one in systems.load(setting, batches)]
    if not loaded:
        raise ValueError(
            f"--systems {given.systems}: there is none of that name, or it is not installed"
        )
    ids = [[number] for number in range(len(batches))]
    return loaded, measure(loaded, ids, repeats=given.repeats, clock=clock)


def check(given: argparse.Namespace) -> None:
    """Refuses what cannot be; ``marian`` becomes interpreters by their packages.

    Raises:
        ValueError: the message names the option.
        OSError: --out cannot be made.
    """
    if given.vocabulary is not None and given.vocabulary < 5:
        raise ValueError("--vocabulary must be at least 5")
    if min(given.sentences, given.repeats, given.threads) < 1:
        raise ValueError("--sentences, --repeats and --threads must be at least 1")
    if not 1 <= given.graph_scale <= 64:
        raise ValueError("--graph-scale must lie between 1 and 64")
    given.marian = dict(named_interpreter(text, "--marian", [*MARIAN]) for text in given.marian)
    if given.marian and given.threads > 1:
        raise ValueError(f"--threads {given.threads}: Marian translates a batch with one")
    if given.out is not None:
        try:
            given.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"--out {given.out}: {error.strerror}; give another folder") from None


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = build_parser()
    given = parser.parse_args(arguments)
    settings = settings_of(given, parser)
    try:
        check(given)
        run(settings, given)
    except (OSError, ValueError) as error:
        parser.error(str(error))


def run(settings: Sequence[Setting], given: argparse.Namespace) -> None:
    """Measures, prints and writes."""
    logging.disable(logging.INFO)
    torch.set_num_threads(given.threads)
    threads = f"{given.threads} thread{'s' if given.threads > 1 else ''}"
    print(f"{processor()}, {threads}, {given.weights} weights of the native runtime\n")
    found: Dict[Setting, Dict[str, Dict[str, Any]]] = {}
    for size, own in itertools.groupby(settings, key=lambda setting: setting.arch):
        with tempfile.TemporaryDirectory() as temporary:
            built = build_models(size, given.vocabulary, given.seed, given.graph_scale)
            systems = Systems(built, given, Path(temporary))
            words = len(built["dictionary"])
            shown = "".join(
                f", native runtime on {engine.isa}" for engine in list(systems.engines.values())[:1]
            )
            try:
                for setting in own:
                    loaded, timings = measured(systems, setting, given)
                    print(f"{setting}, {words} words{shown}:\n")
                    rows = table(loaded, timings, setting, given.ratio_to)
                    print("\n".join(rows) + "\n", flush=True)
                    found[setting] = figures(loaded, timings, setting, given.ratio_to)
            finally:
                systems.end()
    if given.out is not None:
        (given.out / "speed.md").write_text(all_ratios(found, given.ratio_to), encoding="utf-8")
        # Last: who finds it finds everything.
        contents = {str(setting): systems for setting, systems in found.items()}
        (given.out / "speed.json").write_text(
            json.dumps(contents, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
