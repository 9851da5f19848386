"""A student beside the model that taught it, on raw text: how far they agree, and how fast each is.

    python examples/import/compare.py --teacher imported --student student --text raw/test.en

Both by the native engine on one thread, one sentence at a time, in turns of 50 sentences each:
first the teacher, then the student in chunks and one word after the other
(``--hrt-decode-chunk 1``). Speed is that of the median round. BLEU, chrF and equal texts are those
of the student's text against the teacher's: there is no human translation in it, so they measure
agreement and no quality. Writes a table in Markdown, the signatures, and the first sentences.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

from fairseq_hrt.evaluation.quality import evaluate, read_lines
from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.io.progress import Progress

TURN = 50


def translate_in_turns(
    systems: Dict[str, Callable[[str], str]],
    lines: Sequence[str],
    rounds: int,
    advance: Callable[[int], None] = lambda count: None,
) -> Dict[str, List[float]]:
    """Seconds that each system took for all lines, of each round; nothing is kept of what they
    write. ``advance`` is told of every few translations, outside of what is timed."""
    seconds: Dict[str, List[float]] = {name: [] for name in systems}
    for _ in range(rounds):
        spent = dict.fromkeys(systems, 0.0)
        for begin in range(0, len(lines), TURN):
            for name, translate in systems.items():
                started = time.perf_counter()
                turn = lines[begin : begin + TURN]
                for line in turn:
                    translate(line)
                spent[name] += time.perf_counter() - started
                advance(len(turn))
        for name, value in spent.items():
            seconds[name].append(value)
    return seconds


def report(
    texts: Dict[str, List[str]],
    seconds: Dict[str, List[float]],
    lines: Sequence[str],
    examples: int,
) -> str:
    """What is written: the first system is the teacher."""
    teacher, *students = texts
    speed = {name: len(lines) / statistics.median(values) for name, values in seconds.items()}
    rows = [f"| {teacher} | | | | {speed[teacher]:.0f} | 1.00 |"]
    signatures = ""
    for name in students:
        found = evaluate(texts[name], texts[teacher])
        equal = sum(own == other for own, other in zip(texts[name], texts[teacher]))
        rows.append(
            f"| {name} | {found.bleu:.1f} | {found.chrf:.1f} | {equal} of {len(lines)} |"
            f" {speed[name]:.0f} | {speed[name] / speed[teacher]:.2f} |"
        )
        signatures = f"BLEU `{found.bleu_signature}`, chrF `{found.chrf_signature}`"
    head = (
        "| system | BLEU | chrF | equal texts | sentences/s | × teacher |\n| --- | ---: | ---: |"
        " ---: | ---: | ---: |"
    )
    shown = [
        "\n".join([f"- {lines[number]}", *(f"  - {name}: {texts[name][number]}" for name in texts)])
        for number in range(min(examples, len(lines)))
    ]
    return "\n".join([head, *rows, "", signatures, "", *shown])


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--teacher", type=Path, required=True, metavar="BUNDLE")
    parser.add_argument("--student", type=Path, required=True, metavar="BUNDLE")
    parser.add_argument("--text", type=Path, required=True, metavar="FILE", help="raw source lines")
    parser.add_argument(
        "--rounds", type=int, default=5, help="of the timing (default: %(default)s)"
    )
    parser.add_argument(
        "--examples", type=int, default=5, help="sentences to show (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: give 1 or more")
    try:
        lines = read_lines(options.text)
        if not lines:
            raise ValueError(f"{options.text} has no line")
        teacher, student = (
            from_pretrained(folder, engine="native", threads=1)
            for folder in (options.teacher, options.student)
        )
        systems: Dict[str, Callable[[str], str]] = {
            "imported model": lambda line: teacher.translate(line, beam=1),
            "student, in chunks": lambda line: student.translate(line, beam=1),
            "student, word by word": lambda line: student.translate(
                line, beam=1, hrt_decode_chunk=1
            ),
        }
        # The texts are made before the timing, which is then of engines that are warm.
        total = (options.rounds + 1) * len(systems) * len(lines)
        texts: Dict[str, List[str]] = {name: [] for name in systems}
        with Progress("translations", total, visible=True) as progress:
            for name, translate in systems.items():
                for line in lines:
                    texts[name].append(translate(line))
                    progress.add(1)
            seconds = translate_in_turns(systems, lines, options.rounds, progress.add)
        print(report(texts, seconds, lines, options.examples))
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
