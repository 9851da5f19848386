"""Scores translations: BLEU and chrF by sacreBLEU on detokenised text, ROUGE, and the share of
sentences whose translation is in a given set of valid ones."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

import sacrebleu

from ..native.io.streams import raw_lines, reading
from ..native.text.pipeline import tokenization
from ..native.text.recipe import TextRecipe

Detokenizer = Callable[[str], str]


@dataclass(frozen=True)
class Quality:
    """Scores of one system on one test set.

    Attributes:
        bleu: sacreBLEU, 0 to 100.
        bleu_signature: sacreBLEU's description of how BLEU was computed.
        chrf: chrF2, 0 to 100.
        chrf_signature: sacreBLEU's description of how chrF was computed.
        valid_share: share of hypotheses that are one of the valid translations, 0 to 1; None if
            these are not known.
        rouge: F1 of ``ROUGE-1``, ``ROUGE-2`` and ``ROUGE-L`` by these names, 0 to 100, mean over
            the sentences; None if it was not asked for.
        length_ratio: number of words in the hypotheses divided by that in the references, as
            sacreBLEU counts them; below 1, BLEU has a brevity penalty.
    """

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    valid_share: Optional[float]
    rouge: Optional[Dict[str, float]]
    length_ratio: float


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[str],
    valid: Optional[Sequence[Set[str]]] = None,
    *,
    rouge: bool = False,
    language: str = "",
) -> Quality:
    """Scores detokenised translations.

    Args:
        hypotheses: the translations, one for each sentence.
        references: the reference of each sentence.
        valid: the set of all valid translations of each sentence; None if they are not known.
        rouge: True also computes ROUGE.
        language: the code of the target language, by which :func:`bleu_metric` chooses BLEU's
            tokeniser.

    Raises:
        ValueError: the numbers of sentences differ, or the package of ROUGE or of the language's
            tokeniser is not installed.
    """
    for name, others in (("references", references), ("sets of valid translations", valid)):
        if others is not None and len(others) != len(hypotheses):
            raise ValueError(
                f"{len(hypotheses)} hypotheses but {len(others)} {name}: give those of the same"
                " test set, one for each sentence"
            )
    bleu, chrf = bleu_metric(language), sacrebleu.CHRF()
    score = bleu.corpus_score(hypotheses, [references])
    return Quality(
        bleu=score.score,
        bleu_signature=str(bleu.get_signature()),
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        chrf_signature=str(chrf.get_signature()),
        valid_share=None if valid is None else valid_share(hypotheses, valid),
        rouge=rouge_scores(hypotheses, references) if rouge else None,
        length_ratio=score.sys_len / max(score.ref_len, 1),
    )


def bleu_metric(language: str) -> sacrebleu.BLEU:
    """sacreBLEU's BLEU with its tokeniser for a target language: ``zh``, ``ja-mecab``,
    ``ko-mecab``, and 13a for all others.

    Raises:
        ValueError: the tokeniser's package is not installed; the message names it.
    """
    try:
        return sacrebleu.BLEU(trg_lang=language)
    except (ImportError, RuntimeError) as error:
        # The last line of sacreBLEU's message names the package.
        raise ValueError(f"BLEU for language {language}: {' '.join(str(error).split())}") from error


def rouge_scores(hypotheses: Sequence[str], references: Sequence[str]) -> Dict[str, float]:
    """F1 of ``ROUGE-1``, ``ROUGE-2`` and ``ROUGE-L`` (Lin, 2004) by these names, 0 to 100, mean
    over the sentences; computed by the package rouge-score with Porter's stemmer.

    Raises:
        ValueError: the package is not installed.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise ValueError(
            "--rouge needs the package rouge-score: pip install rouge-score"
        ) from error
    names = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
    scorer = RougeScorer(list(names.values()), use_stemmer=True)
    scores = [
        scorer.score(reference, hypothesis) for reference, hypothesis in zip(references, hypotheses)
    ]
    return {
        shown: 100 * sum(score[name].fmeasure for score in scores) / max(len(scores), 1)
        for shown, name in names.items()
    }


def valid_share(hypotheses: Sequence[str], valid: Sequence[Set[str]]) -> float:
    """The share, from 0 to 1, of ``hypotheses`` that are one of their ``valid`` translations;
    surrounding spaces are ignored."""
    hits = sum(
        hypothesis.strip() in translations for hypothesis, translations in zip(hypotheses, valid)
    )
    return hits / len(hypotheses)


def read_lines(path: Path) -> List[str]:
    """The lines of a text file, plain or gzip, without line ends. Only a line feed ends a line, as
    for the tools that made the data.

    Raises:
        ValueError: a line is not UTF-8, or the gzip data are damaged; the message names the file.
        OSError: the file cannot be read.
    """
    found: List[str] = []
    try:
        with reading(path) as file:
            for line in raw_lines(file, str(path)):
                found.append(line.decode("utf-8").rstrip("\r\n"))
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {len(found) + 1} is not UTF-8 ({error}): convert the file first, e.g."
            " with iconv -t UTF-8"
        ) from None
    return found


def read_valid_translations(path: Path) -> List[Set[str]]:
    """Reads the valid translations of each sentence from a file with a JSON object
    ``{"source": ..., "translations": [...]}`` per line.

    Raises:
        ValueError: a line is not such an object; the message names its number.
    """
    result = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row: Dict[str, Any] = json.loads(line)
            result.append({translation.strip() for translation in row["translations"]})
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError, RecursionError) as error:
            message = (
                f"{path}, line {number}: give a JSON object for each sentence,"
                ' {"source": ..., "translations": [...]}'
            )
            raise ValueError(message) from error
    return result


def build_detokenizer(name: Optional[str], recipe: Optional[TextRecipe] = None) -> Detokenizer:
    """Makes a function that detokenises a line.

    Args:
        name: ``moses:LANGUAGE``, e.g. ``moses:de``: sacremoses with the language's rules, which
            also undoes escapes such as ``&quot;``; ``none``: lines stay as they are; None: the
            detokeniser of ``recipe``; without a recipe lines stay as they are.
        recipe: the text preparation of a bundle.

    Raises:
        ValueError: ``name`` has another form, or sacremoses is not installed.
    """
    if name is None and recipe is not None:
        return tokenization(recipe)[1]
    if name in (None, "none"):
        return lambda text: text
    match = re.fullmatch(r"moses:([a-z]{2,3})", str(name))
    if not match:
        raise ValueError(f"detokeniser {name!r}: use moses:LANGUAGE, e.g. moses:de, or none")
    try:
        from sacremoses import MosesDetokenizer
    except ImportError as error:
        raise ValueError(
            f"detokeniser {name!r} needs sacremoses: pip install sacremoses"
        ) from error
    moses = MosesDetokenizer(lang=match[1])
    return lambda text: moses.detokenize(text.split())
