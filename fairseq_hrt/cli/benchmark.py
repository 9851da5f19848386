"""Compares translation systems on one machine in one run: quality, speed, decoder calls.

Example:

    fairseq-hrt benchmark data-bin --gen-subset test --references test.de --detokenize moses:de \\
        --system 'name=fairseq greedy,path=at/checkpoint_best.pt,task=translation,beam=1' \\
        --system 'name=AT,path=at/checkpoint_best.pt,task=translation_autoregressive,beam=1' \\
        --system 'name=HRT k=2 (1,1),path=hrt/checkpoint_best.pt,beam=1,hrt_decode_chunk=2' \\
        --ratio-to 'fairseq greedy' --ratio-to AT --examples 5 --out results

A system is a name, a checkpoint (path) and options of fairseq-generate (without dashes; =true for a
switch). Without task= it is decoded by the task it was trained with. It is decoded with the engine
that fairseq-generate takes: on a CPU the native one where it can, else PyTorch. engine=torch or
engine=native chooses; weights=int8 rounds the native engine's weights (default: float32):

    --system 'name=HRT k=3 int8,path=hrt/checkpoint_best.pt,weights=int8,beam=1,hrt_decode_chunk=3'

engine=native takes bundles as well, and shortlist=FILE. With engine=ctranslate2 an autoregressive
checkpoint is converted and decoded by CTranslate2 (compute_type=float32, int8, ...):

    --system 'name=CT2 int8,path=at/checkpoint_best.pt,engine=ctranslate2,compute_type=int8,beam=1'

With the raw source lines (--sources) and their preparation (--tokenizer, --subwords, --codes) also
the latency of one raw line after another is measured, tokenisation and detokenisation included;
--memory measures loading and memory of each system in a process of its own; --comet scores with a
COMET model on disk. The table goes to the standard output and, with everything that was measured,
into --out: table.md, results.json, quality_speed.png and .svg (with several batch sizes also
throughput.png and .svg), examples.txt and a file of translations for each system.
"""

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

from ..native.bundles.data_options import language_pair
from ..native.io.files import write_text
from ..native.options.conditions import flag
from ..native.text.dictionary import Words
from ..native.text.pipeline import TextPipeline
from ..native.text.recipe import TextRecipe
from .command import (
    PREPARATION,
    add_data_arguments,
    add_numbers,
    add_out_argument,
    add_reference_arguments,
    add_system_argument,
    add_text_arguments,
    command,
    data_arguments,
    recipe_of_bundle,
)
from .parser import require_positive, verb_parser

if TYPE_CHECKING:
    from ..evaluation.comparison import Comparison, RawText, Settings
    from ..evaluation.length import LengthBin
    from ..evaluation.systems import System, SystemSpec

logger = logging.getLogger(__name__)

# COMET's command without --comet-program.
COMET = "comet-score"


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("benchmark", __doc__)
    data = parser.add_argument_group("what is translated")
    add_data_arguments(data, "test")
    add_reference_arguments(data)
    data.add_argument(
        "--valid-translations",
        type=Path,
        metavar="FILE",
        help=(
            'all valid translations, one JSON object {"source": ..., "translations": [...]} a line;'
            " adds the share that is one of them"
        ),
    )
    raw = parser.add_argument_group("raw lines")
    raw.add_argument(
        "--sources",
        type=Path,
        metavar="FILE",
        help="raw source lines of the same sentences, plain or gzip: measures their latency",
    )
    add_text_arguments(raw, "that of a bundle among the systems, else found out from the data")
    systems = parser.add_argument_group("systems")
    add_system_argument(
        systems, "a model and how it decodes; repeat for each system", action="append", default=[]
    )
    systems.add_argument(
        "--systems", type=Path, metavar="FILE", help="the systems as a JSON list of objects"
    )
    systems.add_argument(
        "--ratio-to",
        action="append",
        default=[],
        metavar="NAME",
        help="a system whose speed counts as 1; repeatable",
    )
    systems.add_argument(
        "--identical-to",
        metavar="NAME",
        help="also in how many sentences each system has exactly the tokens of this one",
    )
    _add_protocol(parser.add_argument_group("protocol"))
    output = parser.add_argument_group("output")
    add_out_argument(output, "table, figures and translations")
    output.add_argument(
        "--examples",
        type=int,
        default=0,
        metavar="N",
        help=(
            "also show N translations with the decoding step of each token; in colour on a terminal"
            " or with FORCE_COLOR set, never with NO_COLOR"
        ),
    )
    return parser


def _add_protocol(protocol: "argparse._ArgumentGroup") -> None:
    """Adds the options that determine how quality and speed are measured."""
    add_numbers(
        protocol,
        ("--repeats", 5, "repeats of the speed test"),
        ("--speed-sentences", 100, "sentences of the speed test, drawn at random"),
        ("--quality-batch", 64, "batch size for translating the whole test set"),
        ("--threads", 1, "threads of PyTorch"),
        ("--seed", 1, "draws the sentences"),
    )
    protocol.add_argument(
        "--batch-sizes", default="1,32", help="batch sizes of the speed test (default: 1,32)"
    )
    protocol.add_argument(
        "--pin",
        action="store_true",
        help="keep this process on as many cores as it has threads (where the system can)",
    )
    protocol.add_argument(
        "--memory",
        action="store_true",
        help="also loading time and peak memory, in a process for each system",
    )
    protocol.add_argument(
        "--comet",
        type=Path,
        metavar="MODEL",
        help="also COMET, with this model on disk (a .ckpt file)",
    )
    protocol.add_argument(
        "--comet-program",
        default=COMET,
        metavar="PROGRAM",
        help="COMET's command, from an environment of its own (default: %(default)s)",
    )
    protocol.add_argument(
        "--rouge",
        action="store_true",
        help="also ROUGE-1, -2 and -L, for summaries (needs the package rouge-score)",
    )
    protocol.add_argument(
        "--length-bins",
        metavar="N,N,...",
        help=(
            "also quality and time by source length, e.g. 10,20,30: up to 10 tokens, up to 20, up"
            " to 30, more"
        ),
    )


def run(options: argparse.Namespace) -> None:
    """Loads the systems, compares them and writes the results.

    Raises:
        ValueError: a system or an option is invalid, or a file does not have a line for each
            sentence of the data.
    """
    from ..evaluation import comet, quality
    from ..evaluation.comparison import compare, source_texts, target_texts
    from ..evaluation.length import by_length, read_limits

    # Mistakes of the user are reported before anything is loaded.
    specs, settings = systems_to_compare(options), settings_of(options)
    recipe = _recipe_of(specs, options)
    told = _told(options) if options.sources else {}
    raw = read_raw_text(options, recipe_of_bundle(specs, told=told) if told else recipe)
    limits = read_limits(options.length_bins) if options.length_bins else None
    detokenize = quality.build_detokenizer(options.detokenize, recipe)
    if not options.comet and options.comet_program != COMET:
        raise ValueError(
            f"--comet-program {options.comet_program} has an effect only with --comet MODEL"
        )
    if options.comet:
        comet.check_comet(options.comet, options.comet_program)
    systems = load_systems(specs, options)
    if options.references:
        references = quality.read_lines(options.references)
    else:
        references = [detokenize(text) for text in target_texts(systems[0])]
    comparison = compare(
        systems,
        references=options.ratio_to,
        reference_texts=references,
        valid=(
            quality.read_valid_translations(options.valid_translations)
            if options.valid_translations
            else None
        ),
        detokenize=detokenize,
        settings=settings,
        rouge=options.rouge,
        identical_to=options.identical_to,
        raw=raw,
    )
    if options.memory:
        add_footprints(comparison, systems, options)
    if options.comet:
        sources = raw.lines if raw else source_texts(systems[0])
        comet.add_comet(comparison, sources, references, options.comet, options.comet_program)
    bins = []
    if limits:
        # Users count the words of a sentence without </s>.
        data = systems[0].dataset
        lengths = [len(data[number]["source"]) - 1 for number in range(len(data))]
        bins = by_length(comparison, lengths, references, limits)
    show(comparison, bins, systems, options)


def show(
    comparison: "Comparison",
    bins: "Sequence[LengthBin]",
    systems: "Sequence[System]",
    options: argparse.Namespace,
) -> None:
    """Prints the table and, with ``--examples``, some translations; with ``--out`` writes both and
    all other results into that folder.

    Args:
        comparison: the results of all systems.
        bins: the results by source length, for a second table; empty without ``--length-bins``.
        systems: the systems that were compared.
        options: the options of the command line.
    """
    from ..evaluation import step_colours
    from ..evaluation.length import draw_by_length, markdown_by_length
    from ..evaluation.report import markdown
    from ..evaluation.result_files import picture_files, write_comparison

    table = markdown(comparison) + ("\n" + markdown_by_length(comparison, bins) if bins else "")
    sys.stdout.write(table)
    if options.examples:
        text = step_colours.examples(
            comparison, systems, options.examples, colour=step_colours.use_colour(sys.stdout)
        )
        sys.stdout.write("\n" + text + "\n")
    if options.out:
        write_comparison(options.out, comparison, table)
        if bins:
            draw_by_length(comparison, bins, picture_files(options.out, "by_length"))
        if options.examples:
            plain = step_colours.examples(comparison, systems, options.examples, colour=False)
            write_text(options.out / "examples.txt", plain + "\n")
        logger.info("written to %s", options.out)


def systems_to_compare(options: argparse.Namespace) -> "List[SystemSpec]":
    """The descriptions of the systems in ``--system`` and ``--systems``.

    Raises:
        ValueError: no system is given, or one is not described correctly.
    """
    from ..evaluation.systems import parse_system, read_systems

    specs = [parse_system(text) for text in options.system]
    if options.systems:
        specs += read_systems(options.systems)
    if not specs:
        raise ValueError("no system is given; add --system name=...,path=...")
    return specs


def settings_of(options: argparse.Namespace) -> "Settings":
    """The settings of the comparison, from the command's options.

    Raises:
        ValueError: a number is less than 1, or ``--batch-sizes`` is not a list of numbers.
    """
    from ..evaluation.comparison import Settings

    require_positive(options, "repeats", "speed_sentences", "quality_batch", "threads")
    return Settings(
        batch_sizes=_batch_sizes(options.batch_sizes),
        repeats=options.repeats,
        speed_sentences=options.speed_sentences,
        quality_batch=options.quality_batch,
        seed=options.seed,
        threads=options.threads,
    )


def load_systems(specs: "Sequence[SystemSpec]", options: argparse.Namespace) -> "List[System]":
    """Loads the systems, after setting the number of threads (``--threads``) and the cores
    (``--pin``) for the measurement."""
    import torch

    from ..evaluation.systems import load_system

    torch.set_num_threads(options.threads)
    if options.pin:
        pin(options.threads)
    systems = []
    for spec in specs:
        logger.info("loading %s", spec.name)
        systems.append(load_system(spec, data_arguments(options)))
    return systems


def add_footprints(
    comparison: "Comparison", systems: "Sequence[System]", options: argparse.Namespace
) -> None:
    """Loads each system again in a process of its own, measures loading time and memory there, and
    stores them in ``comparison.results``, which must be in the order of ``systems``."""
    from ..evaluation.footprint import measure_footprint

    largest = max(comparison.settings.batch_sizes)
    for system, result in zip(systems, comparison.results):
        logger.info("loading and memory: %s", system.name)
        batches = result.timings[largest].batches
        result.footprint = measure_footprint(
            system.reloadable, data_arguments(options), batches, options.threads
        )


def _recipe_of(specs: "Sequence[SystemSpec]", options: argparse.Namespace) -> Optional[TextRecipe]:
    """The text preparation of the bundles among the systems; None if no system is a bundle, or if
    the options already determine every step that is needed.

    Raises:
        ValueError: a step is not determined by the options, and two bundles prepare text
            differently.
    """
    missing = [
        flags
        for flags, left in (
            ("--detokenize", options.detokenize is None),
            (
                "--tokenizer (--subwords, --codes)",
                options.sources is not None and not _told(options),
            ),
        )
        if left
    ]
    if not missing:
        return None
    return recipe_of_bundle(
        specs, f"give {' and '.join(missing)} for all, or compare each of them alone"
    )


def _told(options: argparse.Namespace) -> Dict[str, Any]:
    """The options of the text preparation that were given: {name in PREPARATION: value}."""
    given = {name: getattr(options, name) for name in PREPARATION}
    return {name: value for name, value in given.items() if value is not None}


def read_raw_text(
    options: argparse.Namespace, recipe: Optional[TextRecipe] = None
) -> "Optional[RawText]":
    """The raw source lines of ``--sources`` with their text preparation (tokeniser and subwords);
    None without ``--sources``.

    Args:
        options: the options of the command line.
        recipe: the text preparation of a bundle, with the values of the options already in it;
            None: it is found out from the options and the data.

    Raises:
        ValueError: a preparation is given without ``--sources``, or the languages or the
            preparation cannot be found out.
    """
    from ..evaluation import quality
    from ..evaluation.comparison import RawText
    from ..export.preparation import find_recipe

    told = [*map(flag, _told(options))]
    if options.sources is None:
        if told:
            raise ValueError(
                f"{', '.join(told)}: this prepares raw source lines, and none are given; give"
                f" --sources FILE, or leave out {', '.join(told)}"
            )
        return None
    data = options.data.split(os.pathsep)[0]
    source, target = options.source_lang, options.target_lang
    if source is None or target is None:
        source, target = language_pair(Path(data))
    if source is None or target is None:
        raise ValueError(
            f"{options.data}: the languages cannot be inferred from the names of its files; give"
            " --source-lang and --target-lang"
        )
    if recipe is None:
        recipe, _ = find_recipe(Path(data), (source, target), **_told(options))
    known = () if recipe.source_prefix is None else Words(Path(data) / f"dict.{source}.txt").words
    pipeline = TextPipeline(recipe, known=frozenset(known))
    return RawText(pipeline, quality.read_lines(options.sources))


def pin(threads: int) -> None:
    """Restricts this process, and the threads that it starts from now on, to the first ``threads``
    of the cores that it may use.

    Raises:
        ValueError: the operating system does not support this, or there are fewer cores.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise ValueError(
            "--pin: this operating system does not let a process choose its cores; leave out --pin"
        )
    cores = sorted(os.sched_getaffinity(0))
    if threads > len(cores):
        raise ValueError(
            f"--pin with --threads {threads}: this process may use only {len(cores)} cores;"
            " lower --threads"
        )
    os.sched_setaffinity(0, cores[:threads])


def _batch_sizes(text: str) -> List[int]:
    try:
        sizes = [int(size) for size in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--batch-sizes {text!r}: give numbers separated by commas, e.g. 1,32"
        ) from None
    if any(size < 1 for size in sizes):
        raise ValueError(f"--batch-sizes {text!r}: each must be at least 1")
    return sizes


main = command(build_parser, run)
