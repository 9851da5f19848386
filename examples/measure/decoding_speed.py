"""Times decoding with models of any size, untrained: what a method gains at the size and length
that you have in mind.

    OMP_NUM_THREADS=1 python examples/measure/decoding_speed.py --arch e12d1 --vocabulary 32000
    --lengths 13,27,54
    OMP_NUM_THREADS=1 python examples/measure/decoding_speed.py --arch e6d1,e12d1 --lengths 27 \
        --batch-sizes 1,32 --shortlist 0,50 --systems native --ratio-to 'native AT' --out folder
    OMP_NUM_THREADS=1 python examples/measure/decoding_speed.py --arch student --lengths 27 \
        --marian pymarian=/env/bin/python --marian bergamot=/env310/bin/python \
        --ratio-to 'Marian int8'

Every sentence has as many source as target tokens, which the decoders are told to write; their
weights are random. The choice among the words of such a model is flatter than a trained one's;
--cosine makes it as clear, which matters to the native runtime alone: it reads half of a large
output layer where the choice is clear. The models have the sizes of the quickstart, of the Multi30k
recipes, of Firefox's students (student), or of a preset of hrt_transformer. Compared are fairseq's
greedy search, our engine's, hybrid-regressive decoding, CTranslate2 (where it is installed) and the
native runtime (where it is built), which decodes the teacher and every family: HRT with k = 2 and
3, IBDecoder, IB+SA(2) to (4) (words at each end), and a directed acyclic graph (--graph-scale),
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
import itertools
import json
import logging
import statistics
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from decoding_systems import Setting, Systems
from fairseq.models import ARCH_CONFIG_REGISTRY
from marian_row import MODES as MARIAN
from other_engines import Clock, Watched, named_interpreter
from untrained_models import RECIPES, build_models, random_sentences

from fairseq_hrt.evaluation.comparison import processor
from fairseq_hrt.evaluation.speed import Timing, measure


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
        "--cosine",
        type=float,
        default=0,
        metavar="X",
        help=(
            "of features and the word that is written; a trained student of Firefox's has 0.34"
            " (median), untrained models 0.2 (default: as it comes)"
        ),
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
    if not 0 <= given.cosine <= 0.99:
        raise ValueError(f"--cosine {given.cosine} must lie between 0 and 0.99")
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
            built = build_models(
                size, given.vocabulary, given.seed, given.graph_scale, given.cosine
            )
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
