"""Translates raw text with a bundle: one sentence a line in, one line out.

Example:

    fairseq-hrt translate bundle --text "Good morning."
    fairseq-hrt translate bundle < input.txt > output.txt
    fairseq-hrt translate bundle first.txt second.txt.gz -o translated
    fairseq-hrt translate bundle input.txt -o output.txt --resume
    fairseq-hrt translate bundle input.txt --json --beam 5 --nbest 3
    tail -f log | fairseq-hrt translate bundle --line-buffered
    fairseq-hrt translate bundle input.txt --engine native --threads 2

The output has as many lines as the input, in its order; empty lines stay empty. A byte order mark
is left out, gzip is recognised in the input and written to an output whose name ends in .gz. What
is not UTF-8 is refused, and so is what is not text at all (a PDF, a docx, …). An output file
appears when it is complete; devices, pipes and - are written through.

With --resume what is finished stays in OUTPUT.partial when the run is interrupted, and the same
command continues there; the result is the same byte by byte. Another bundle, other options or
another input are refused.

Options of decoding that have no flag here are given by --set (without dashes; =true for a switch):
--set no_repeat_ngram_size=3; --set task=... decodes the checkpoint with another task. --json writes
an object for each line: text, score, tokens with their log-probabilities and decoder passes, and
the other hypotheses.
"""

import argparse
import gzip
import logging
import os
import sys
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Sequence, Tuple, cast

from ..native.io.files import remove_leftovers
from ..native.io.progress import Doing, Progress, count_lines
from ..native.io.streams import is_stream, writing
from .binary import text_lines
from .command import command
from .jobs import Job, input_lines, plan_jobs, read_line, shown
from .output_lines import output_lines
from .parser import require_positive, verb_parser
from .settings import (
    add_decoding_arguments,
    add_engine_arguments,
    add_shortlist_argument,
    given_settings,
)
from .unknown import UnknownWords

logger = logging.getLogger(__name__)
# Sentences decoded together where --batch-size names no other number; batches read at a time, whose
# sentences are sorted by length.
BATCH, BATCHES = 32, 32
# Called with undecoded input lines, and the bytes of the output for them.
Sink = Callable[[List[bytes], bytes], None]


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("translate", __doc__)
    parser.add_argument("bundle", type=Path, help="folder made by fairseq-hrt bundle or import")
    parser.add_argument(
        "files",
        nargs="*",
        # Without it argparse calls them required.
        default=[],
        type=Path,
        metavar="FILE",
        help="text files; - or none: the standard input",
    )
    parser.add_argument(
        "--text",
        action="append",
        metavar="TEXT",
        help="translate this text instead of files; repeatable",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="PATH",
        help="file for the translations; a folder where several files are given",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep finished lines when interrupted, and continue after them",
    )
    parser.add_argument(
        "--json", action="store_true", help="a JSON object for each line instead of its text"
    )
    parser.add_argument(
        "--alignments",
        action="store_true",
        help=(
            "behind each translation a tab and its alignment as fairseq prints it: pairs of"
            " subwords, SOURCE-TARGET from 0; for models that write from left to right"
        ),
    )
    parser.add_argument(
        "--glossary",
        type=Path,
        metavar="FILE",
        help="given translations: a term, a tab and its translation in each line",
    )
    parser.add_argument(
        "--split-sentences",
        action="store_true",
        help="lines may hold several sentences: translate each on its own",
    )
    parser.add_argument(
        "--line-buffered",
        action="store_true",
        help="translate each line as soon as it arrives, for use in a pipe",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        help=f"sentences decoded together (default: {BATCH})",
    )
    add_engine_arguments(parser)
    add_shortlist_argument(parser)
    parser.add_argument(
        "--quiet", action="store_true", help="no progress, and no line about the engine"
    )
    add_decoding_arguments(parser)
    return parser


def planned(options: argparse.Namespace) -> Tuple[List[Job], Dict[str, str]]:
    """Returns the pairs of input and output files, and the decoding options as texts by name, both
    checked before anything is loaded.

    Raises:
        ValueError: options contradict each other, or an input or output file cannot be used.
    """
    require_positive(options, "batch_size", "threads")
    if options.text and (options.files or options.resume):
        raise ValueError("--text is translated instead of files: leave out the files and --resume")
    if options.line_buffered and (options.batch_size or 1) > 1 and not options.split_sentences:
        raise ValueError(
            f"--batch-size {options.batch_size}: with --line-buffered each line is decoded alone;"
            " leave one of the two out"
        )
    options.batch_size = options.batch_size or BATCH
    if options.alignments and options.split_sentences:
        raise ValueError(
            "--alignments counts the subwords of a single sentence, so leave out --split-sentences"
        )
    if options.text and options.output is not None and options.output.is_dir():
        raise ValueError(
            f"{options.output} is a folder, and --text has no file name to use in it; give a file"
            " as --output"
        )
    settings = given_settings(options)
    nbest = settings.get("nbest", "false")
    if nbest != "false" and int(nbest) > 1 and not options.json:
        raise ValueError(
            f"--nbest {settings['nbest']}: further translations are written only with"
            " --json; add --json"
        )
    aligned = settings.get("print_alignment", "false")
    if aligned != "false" and not options.json:
        raise ValueError(
            f"--set print_alignment={aligned}: alignments are written only with --json, or with"
            " --alignments in its place"
        )
    if options.alignments:
        settings["print_alignment"] = "hard"
    return plan_jobs(options.files, options.output, resume=options.resume), settings


def run(options: argparse.Namespace) -> None:
    """Loads the bundle and translates every file.

    Raises:
        ValueError: options contradict each other, or an input or output file cannot be used.
        OSError: a file cannot be read or written.
    """
    jobs, settings = planned(options)
    if not options.text and jobs[0].source is None and sys.stdin.isatty():
        sys.stderr.write("reading from the terminal: one sentence per line, Ctrl-D to end\n")
        # Whoever types wants to see each translation.
        options.line_buffered = not options.resume
    # Imported here: --help needs no NumPy.
    from ..native.bundles.pretrained import from_pretrained

    with Doing("loading the model", visible=not options.quiet):
        model = from_pretrained(
            options.bundle, device=options.device, engine=options.engine, threads=options.threads,
            use_shortlist=options.shortlist, glossary=options.glossary,
            **settings,
        )  # fmt: skip
    skipped = False
    if options.resume:
        skipped = resume_jobs(model, jobs, options)
    else:
        translate_jobs(model, jobs, options)
    # Lines of an earlier run may have held terms.
    if options.glossary is not None and not model.terms_found and not skipped:
        logger.warning(
            "%s: none of its terms was found in the input; each line must hold a term of %s, a tab"
            " and the term's translation",
            options.glossary,
            model.bundle.source_lang,
        )
    if not options.quiet:
        tell_engine(model)


def resume_jobs(model: Any, jobs: Sequence[Job], options: argparse.Namespace) -> bool:
    """Translates the inputs of all ``jobs`` with ``model``, a Translator (``--resume``). Lines that
    an interrupted run has finished are skipped; returns whether there were any."""
    from ..native.io.resuming import ResumableOutput, identified_options

    identity = {
        "bundle": model.bundle.content_hash(), "options": identified_options(model.defaults),
        "json": options.json, "batch_size": options.batch_size,
        "line_buffered": options.line_buffered, **model.identity(),
    }  # fmt: skip
    identity.update(
        {name: True for name in ("alignments", "split_sentences") if getattr(options, name)}
    )
    if options.glossary is not None:
        identity["glossary"] = model.glossary.identity()
    outputs = [ResumableOutput(cast(Path, job.target), identity) for job in jobs]
    skipped = False
    for job, output in zip(jobs, outputs):
        with output, input_lines(job.source) as lines:
            output.skip(lines)
            skipped |= output.lines > 0
            if not output.finished:
                translate_lines(model, lines, output.append, options, job, begun=output.lines)
                output.finish()
    for output in outputs:
        output.forget()
    return skipped


def translate_jobs(model: Any, jobs: Sequence[Job], options: argparse.Namespace) -> None:
    """Translates the inputs of all ``jobs`` (or ``--text``) with ``model``, a Translator. An output
    file appears when it is complete; to a pipe or device each block of lines is written at once."""

    def translate(job: Job, target: BinaryIO, *, through: bool) -> None:
        def write(lines: List[bytes], data: bytes) -> None:
            target.write(data)
            if through:
                # The reader of the stream gets each block at once.
                target.flush()

        if options.text:
            given = (
                line
                for text in options.text
                # Bytes that Python could not decode are restored.
                for line in text.encode("utf-8", "surrogateescape").split(b"\n")
            )
            translate_lines(model, text_lines(given, "--text"), write, options, job)
            return
        with input_lines(job.source) as lines:
            translate_lines(model, lines, write, options, job)

    if is_stream(jobs[0].target):
        # Opened once: the reader of a pipe takes its closing for the end.
        with writing(jobs[0].target) as target:
            for job in jobs:
                translate(job, target, through=True)
        return
    for job in jobs:
        place = Path(os.path.realpath(cast(Path, job.target)))
        place.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(place.parent, place.name + ".")
        with writing(place) as target:
            translate(job, target, through=False)


def translate_lines(
    model: Any,
    lines: Iterator[bytes],
    write: Sink,
    options: argparse.Namespace,
    job: Job,
    *,
    begun: int = 0,
) -> None:
    """Translates lines of an input, and passes as many output lines to ``write``.

    The lines are decoded in blocks of a fixed number of lines, so that a resumed run decodes the
    same sentences together.

    Args:
        model: a :class:`~..native.bundles.translator.Translator`.
        lines: the input's lines, undecoded.
        write: called for each block with its input lines and the bytes of its output.
        job: the input and output that the lines belong to; a gzip output has a gzip member for each
            block.
        begun: how many lines of the input precede ``lines``.
    """
    size = 1 if options.line_buffered else BATCHES * options.batch_size
    unknown = UnknownWords(model, "--text" if options.text else shown(job.source))
    visible = False if options.quiet or options.line_buffered else None
    total = None if options.text else partial(count_lines, job.source)
    with Progress("lines", total, done=begun, visible=visible) as progress:
        while block := list(islice(lines, size)):
            texts = [
                read_line(line, first=not begun and not number) for number, line in enumerate(block)
            ]
            # Lines are tokenised once, here; those to be split, later, by sentence.
            rows = texts if options.split_sentences else [*map(model.in_words, texts)]
            unknown.look(rows, begun)
            data = "".join(f"{line}\n" for line in output_lines(model, rows, options)).encode(
                "utf-8"
            )
            # mtime=0: the same text gives the same bytes.
            write(block, gzip.compress(data, mtime=0) if job.compressed else data)
            begun += len(block)
            progress.add(len(block))
    unknown.sum_up()
    if job.compressed and not begun:
        write([], gzip.compress(b"", mtime=0))


def tell_engine(model: Any) -> None:
    """Writes one line about the engine and weights of ``model``, a Translator, to the standard
    error; called last, so that an error message is the only line."""
    sys.stderr.write(f"decoded with {model.describe()}\n")


main = command(build_parser, run, progress=False, intermixed=True)
