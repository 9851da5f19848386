"""Times decoding with models of any size, untrained: what a method gains at the size and length
that you have in mind.

    OMP_NUM_THREADS=1 python examples/measure/decoding_speed.py --arch e12d1 \\
        --vocabulary 32000 --lengths 13,27,54
    OMP_NUM_THREADS=1 python examples/measure/decoding_speed.py --arch e6d1,e12d1 --lengths 27 \\
        --batch-sizes 1,32 --shortlist 0,50 --systems native --ratio-to 'native AT' --out folder
    OMP_NUM_THREADS=1 python examples/measure/decoding_speed.py --arch student --lengths 27 \\
        --marian pymarian=/env/bin/python --marian bergamot=/env310/bin/python \\
        --ratio-to 'Marian int8'

Every sentence has as many source as target tokens, which the decoders are told to write; their
weights are random. The choice among the words of such a model is flatter than a trained one's;
--cosine makes it as clear, which matters to the native runtime alone: it reads half of a large
output layer where the choice is clear. The models have the sizes of the quickstart, of the Multi30k
recipes, of Firefox's students (student), or of a preset of hrt_transformer. Compared are fairseq's
greedy search, our engine's, hybrid-regressive decoding, CTranslate2 (where it is installed) and the
native runtime (where it is built), which decodes the teacher and every family: HRT with k = 2 and
3, IBDecoder, IB+SA(2) to (4) (words at each end), a directed acyclic graph and CTC (--graph-scale),
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
"cpu_milliseconds", "decoder_calls"}}}, of Marian also its "mode" and what was "tried".
"""

import argparse
import itertools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Sequence

import torch
from decoding_systems import Setting, Systems
from marian_row import MODES as MARIAN
from number_options import numbers, require
from other_engines import named_interpreter
from untrained_models import RECIPES, build_models, check_size, random_sentences

from fairseq_hrt.cli.command import add_numbers, add_out_argument, command
from fairseq_hrt.cli.parser import HelpFormatter
from fairseq_hrt.evaluation.comparison import processor
from fairseq_hrt.evaluation.speed import measure

Figures = Dict[str, Dict[str, Any]]


def figures(systems: Systems, setting: Setting) -> Figures:
    """Of each system its milliseconds a sentence (the median batch at its median over the repeats),
    and how many times as fast as --ratio-to, or as the first system where that was not measured, it
    is.

    Raises:
        ValueError: there are none, or Marian does not translate.
    """
    given, words = systems.given, len(systems.built["dictionary"])
    systems.choose_among(setting.shortlist)
    batches = random_sentences(
        given.sentences, setting.length, words, given.seed, setting.batch_size
    )
    rows = list(systems.rows(setting, batches))
    if not rows:
        raise ValueError(
            f"--systems {given.systems}: there is none of that name, or it is not installed"
        )
    ids = [[number] for number in range(len(batches))]
    timings = measure(rows, ids, repeats=given.repeats, clock=systems.clock)
    found = {}
    for row in rows:
        timing = timings[row.name]
        ratio = timing.ratio_to(timings[base_of(timings, given.ratio_to)])
        # The first pass warms up.
        cpu = statistics.median(row.cpu[len(batches) :])
        found[row.name] = {
            "milliseconds": timing.batch_milliseconds(50) / setting.batch_size,
            "cpu_milliseconds": 1000 * cpu / setting.batch_size,
            "ratio": ratio.median,
            "low": ratio.low,
            "high": ratio.high,
            "decoder_calls": timing.decoder_calls_per_batch(),
            **row.more,
        }
    return found


def base_of(names: Sequence[str], ratio_to: str) -> str:
    """The system whose speed counts as 1."""
    return ratio_to if ratio_to in names else next(iter(names))


def ratio_cell(found: Dict[str, Any]) -> str:
    """Median and range."""
    return f"{found['ratio']:.2f} ({found['low']:.2f}–{found['high']:.2f})"


def table(found: Figures, setting: Setting, ratio_to: str) -> str:
    """One setting's; behind it what a system could have been as well."""
    base = base_of(found, ratio_to)
    lines = [
        f"| System | decoder calls | ms a sentence | words/s | × {base} | CPU ms |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, own in found.items():
        calls, milliseconds = own["decoder_calls"], own["milliseconds"]
        shown = f"{name} ({own['mode']})" if "mode" in own else name
        lines.append(
            f"| {shown} | {'–' if calls is None else f'{calls:.1f}'} | {milliseconds:.3g} "
            f"| {1000 * setting.length / milliseconds:.0f} | {ratio_cell(own)} "
            f"| {own['cpu_milliseconds']:.3g} |"
        )
    tried = [
        f"- {mode}: {f'{result:.3g} ms' if isinstance(result, float) else result}"
        for own in found.values()
        for mode, result in own.get("tried", {}).items()
    ]
    return "\n".join(
        [*lines, *(["", "Marian's modes, tried before:", "", *tried] if tried else [])]
    )


def all_ratios(found: Dict[str, Figures], ratio_to: str) -> str:
    """One Markdown table: a line a setting, a column a system; that whose speed counts as 1 with
    its milliseconds a sentence."""
    names = list(dict.fromkeys(name for systems in found.values() for name in systems))
    base = base_of(names, ratio_to)
    others = [name for name in names if name != base]
    columns = ["Setting", f"{base}, ms a sentence", *(f"{name}, × as fast" for name in others)]
    lines = [f"| {' | '.join(columns)} |", "|---" + "|---:" * len(names) + "|"]
    for setting, systems in found.items():
        cells = [ratio_cell(systems[name]) if name in systems else "–" for name in others]
        milliseconds = f"{systems[base]['milliseconds']:.3g}"
        lines.append(f"| {' | '.join([setting, milliseconds, *cells])} |")
    return "\n".join(lines) + "\n"


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument(
        "--arch",
        default="e12d1",
        metavar="NAME,...",
        help=(
            f"a recipe's sizes ({', '.join(RECIPES)}) or a preset of hrt_transformer, e.g. e12d1,"
            " wmt_en_de (default: %(default)s)"
        ),
    )
    for name, default, low, text in (
        ("lengths", "13,27,54", 1, "tokens a sentence"),
        ("batch-sizes", "1", 1, "sentences decoded together"),
        ("shortlist", "0", 0, "random candidates of a source word, for the runtimes; 0: none"),
    ):
        parser.add_argument(
            f"--{name}", type=numbers(low), default=default, metavar="N,...",
            help=f"{text} (default: %(default)s)",
        )  # fmt: skip
    add_numbers(
        parser,
        ("--vocabulary", None, "words (default: those of the recipe, else 32000)"),
        ("--sentences", 5, "batches"), ("--repeats", 5, "of the timing"),
        ("--threads", 1, "of each system"), ("--seed", 1, "of weights and words"),
        ("--graph-scale", 3.0, "vertices of a graph, and positions of CTC, for each source token"),
        ("--cosine", 0.0, "of features and the word that is written; a trained student of Firefox's"
         " has 0.34 (median), untrained models 0.2; 0: as it comes"),
    )  # fmt: skip
    parser.add_argument(
        "--weights", choices=("int8", "float32"), default="int8",
        help="of the native runtime (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--marian", action="append", default=[], metavar="NAME=PYTHON",
        help=f"{' or '.join(MARIAN)}, and the interpreter that has it; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--systems", default="", metavar="NAME,...",
        help="only those whose names hold one of these (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--ratio-to", default="CTranslate2 int8 greedy", metavar="NAME",
        help="whose speed counts as 1 (default: %(default)s)",
    )  # fmt: skip
    add_out_argument(parser, "speed.md and speed.json")
    return parser


def settings_of(given: argparse.Namespace) -> List[Setting]:
    """All combinations that the options name; ``marian`` becomes interpreters by their packages.

    Raises:
        ValueError: what cannot be; the message names the option.
    """
    sizes = list(dict.fromkeys(given.arch.split(",")))
    for size in sizes:
        check_size(size)
    require(given, 5, "vocabulary")
    require(given, 1, "sentences", "repeats", "threads")
    if not 1 <= given.graph_scale <= 64:
        raise ValueError(f"--graph-scale {given.graph_scale} must lie between 1 and 64")
    if not 0 <= given.cosine <= 0.99:
        raise ValueError(f"--cosine {given.cosine} must lie between 0 and 0.99")
    given.marian = dict(named_interpreter(text, "--marian", [*MARIAN]) for text in given.marian)
    if given.marian and given.threads > 1:
        raise ValueError(f"--threads {given.threads}: Marian translates a batch with one")
    return [
        Setting(size, length, batch_size, shortlist)
        for size in sizes
        for shortlist in given.shortlist
        for batch_size in given.batch_sizes
        for length in given.lengths
    ]


def run(given: argparse.Namespace) -> None:
    """Measures, prints and writes.

    Raises:
        ValueError: see :func:`settings_of` and :func:`figures`.
        OSError: --out cannot be made.
    """
    settings = settings_of(given)
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(given.threads)
    threads = f"{given.threads} thread{'s' if given.threads > 1 else ''}"
    print(f"{processor()}, {threads}, {given.weights} weights of the native runtime\n")
    found: Dict[str, Figures] = {}
    for size, own in itertools.groupby(settings, key=lambda setting: setting.arch):
        with tempfile.TemporaryDirectory() as temporary:
            built = build_models(
                size, given.vocabulary, given.seed, given.graph_scale, given.cosine
            )
            systems = Systems(built, given, Path(temporary))
            shown = f"{len(built['dictionary'])} words" + "".join(
                f", native runtime on {engine.isa}" for engine in list(systems.engines.values())[:1]
            )
            try:
                for setting in own:
                    found[str(setting)] = measured = figures(systems, setting)
                    print(f"{setting}, {shown}:\n")
                    print(f"{table(measured, setting, given.ratio_to)}\n", flush=True)
            finally:
                systems.end()
    if given.out is not None:
        (given.out / "speed.md").write_text(all_ratios(found, given.ratio_to), encoding="utf-8")
        # Last: who finds it finds everything.
        text = json.dumps(found, indent=1, ensure_ascii=False)
        (given.out / "speed.json").write_text(text + "\n", encoding="utf-8")


main = command(build_parser, run, progress=False)
