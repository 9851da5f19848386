"""SacreBLEU of the translations in a log of fairseq-generate, with its signature.

    python examples/common/bleu_of_log.py test.log                            tokenised BLEU
    python examples/common/bleu_of_log.py test.log --detokenize moses:de --references test.de

Without --detokenize the words count as they were prepared, those of the references as well: the
figure of Moses's multi-bleu.perl and of fairseq's own last line. With it the text is detokenised
(none: it is raw text already, as that of SentencePiece) and sacreBLEU takes the words of its
tokenizer for the language. --references is raw text, one line for each sentence; without it the
references are those in the log, detokenised too.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence

import sacrebleu

from fairseq_hrt.evaluation.quality import bleu_metric, build_detokenizer, read_lines


def texts(lines: Sequence[str], kind: str) -> Dict[int, str]:
    """The first text of each sentence in lines ``T-0<tab>text`` or ``H-0<tab>score<tab>text``."""
    found: Dict[int, str] = {}
    for line in lines:
        head, _, text = line.partition("\t")
        if re.fullmatch(rf"{kind}-\d+", head):
            found.setdefault(int(head[2:]), text.partition("\t")[2] if kind == "H" else text)
    return found


def score(log: Path, detokenize: Optional[str], references: Optional[Path]) -> str:
    """One line: BLEU, what it compares, and the signature.

    Raises:
        ValueError: the log and the references do not belong together, or a package is missing.
        OSError: a file cannot be read.
    """
    lines = read_lines(log)
    found = texts(lines, "H")
    if not found:
        raise ValueError(f"{log} has no translations: leave --quiet out of fairseq-generate")
    numbers = sorted(found)
    own = texts(lines, "T")
    shown = "the log's references"
    if detokenize is None and references is not None:
        raise ValueError(f"--references {references}: raw text needs --detokenize")
    restore = build_detokenizer(detokenize or "none")
    if references is not None:
        expected: List[str] = read_lines(references)
        shown = str(references)
        if numbers != list(range(len(expected))):
            raise ValueError(
                f"{log} has translations of {len(numbers)} sentences and {references} has"
                f" {len(expected)} lines: give the references of this test set"
            )
    elif set(numbers) <= set(own):
        expected = [restore(own[number]) for number in numbers]
    else:
        raise ValueError(f"{log} has no references: give --references")
    metric = sacrebleu.BLEU(tokenize="none", force=True)
    if detokenize is not None:
        metric = bleu_metric(detokenize.partition(":")[2])
    bleu = metric.corpus_score([restore(found[number]) for number in numbers], [expected])
    kind = "tokenised" if detokenize is None else "detokenised"
    return (
        f"BLEU {bleu.score:.2f} ({kind}, {len(numbers)} sentences, {shown}):"
        f" {metric.get_signature()}"
    )


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path, help="what fairseq-generate has written, without --quiet")
    parser.add_argument("--detokenize", metavar="HOW", help="moses:LANGUAGE, or none")
    parser.add_argument("--references", type=Path, metavar="FILE", help="plain or gzip")
    given = parser.parse_args(arguments)
    try:
        line = score(given.log, given.detokenize, given.references)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
