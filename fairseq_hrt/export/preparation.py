"""Finds out how the text of binarised data was prepared (tokeniser and subwords)."""

import logging
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Callable, Iterator, List, Optional, Sequence, Set, Tuple

from ..native.text.dictionary import Words
from ..native.text.moses_rules import MosesRules
from ..native.text.pipeline import subword_units, tokenization
from ..native.text.recipe import TextRecipe, kind_of_subwords
from ..native.text.word_separators import SEPARATORS
from .preparation_doubts import steps_for_good
from .validation_data import Sentences, sampled, validation_sides

logger = logging.getLogger(__name__)

# A recipe that gives back a smaller share of the sentences than LIMIT is refused; for one below
# GOOD, or that another surpasses by MARGIN, a warning is logged.
LIMIT, GOOD, MARGIN = 0.5, 0.9, 0.05
# Signs that punctuation normalisation replaces wherever they stand.
_TYPOGRAPHIC = re.compile("[„“”–—´‘‚’…«»]")
_ESCAPE = re.compile("&(apos|quot|amp|lt|gt|#124|#91|#93);")
# A punctuation mark on its own, as tokenisers leave it. Text looks tokenised if more than this
# share of its sentences have one.
_APART = re.compile(r"(?<!\S)[.,!?;:。，！？](?!\S)")
TOKENISED = 0.2


@dataclass(frozen=True)
class Fit:
    """How well a recipe (tokeniser and subwords) fits the data, tried by turning sentences into raw
    text and preparing that again.

    Attributes:
        recipe: the recipe that was tried.
        shares: the share, from 0 to 1, of source and of target sentences that come back token for
            token.
        evidence: for source and target, the number of sentences that show that a tokeniser
            separated their words, minus the number that show the contrary. The former come back
            although their raw text differs from their words; the latter come back only if the
            tokeniser is left out.
    """

    recipe: TextRecipe
    shares: Tuple[float, float]
    evidence: Tuple[int, int]

    @property
    def share(self) -> float:
        """The smaller one of the shares of source and target."""
        return min(self.shares)

    def __str__(self) -> str:
        source, target = (f"{100 * share:.0f} %" for share in self.shares)
        return (
            f"{self.recipe.tokenizer}, {self.recipe.subwords} gives back {source} of the source and"
            f" {target} of the target sentences of the validation set"
        )


def find_recipe(
    data: Path,
    languages: Tuple[str, str],
    *,
    tokenizer: Optional[str] = None,
    subwords: Optional[str] = None,
    codes: Optional[Path] = None,
    target_codes: Optional[Path] = None,
    sources: Optional[Sequence[str]] = None,
) -> Tuple[TextRecipe, Optional[Fit]]:
    """Finds out how the text of binarised data was prepared, and checks the result with the
    validation set.

    Each possible recipe turns sentences of the validation set into raw text, unless this is given
    as ``sources``, and prepares the text again. The recipe that gives back most sentences is
    chosen, if the evidence (:class:`Fit`) supports it. Without a validation set the dictionaries
    decide.

    Args:
        data: the folder of fairseq-preprocess.
        languages: source and target.
        tokenizer, subwords: names from the user; None: to be found out.
        codes: the file with the codes or the model of the subwords.
        target_codes: such a file for the target language; None: the same as ``codes``.
        sources: raw source lines of the validation set, one for each sentence; None: unknown.

    Returns:
        (recipe, how well it fits); the latter is None without a validation set.

    Raises:
        ValueError: the recipe is unknown, the chosen one gives back less than LIMIT of the
            validation set, or that set was made with other dictionaries.
    """
    source, target = (Words(data / f"dict.{language}.txt") for language in languages)
    written = [*source.words[4:], *target.words[4:]]
    if subwords is None:
        subwords = kind_of_subwords(written)
        if subwords == "none" and codes is not None:
            subwords = "subword-nmt"
    sides = next(validation_sides(data, languages), ((), None))
    if sides[1] is not None and sources is not None and len(sources) != len(sides[0]):
        raise ValueError(
            f"--sources: {len(sources)} raw lines, but the validation set has {len(sides[0])}"
            " sentences: give the raw text of the validation set, line by line"
        )

    def recipe(name: str) -> TextRecipe:
        return TextRecipe(*languages, name, subwords, codes, target_codes)

    given = None if tokenizer is None else recipe(tokenizer)
    samples: Optional[Tuple[Sentences, Sentences]] = None
    if sides[1] is not None:
        join = [subword_units(one)[1] for one in (recipe("space").reversed(), recipe("space"))]
        samples = (
            sampled(sides[0], source, subwords, data, join[0], sources),
            sampled(sides[1], target, subwords, data, join[1], None),
        )
        if not all(sample.rows for sample in samples):
            samples = None
    names = _tokenizers(languages, written, samples, subwords)
    if samples is None:
        found = given or recipe("space" if subwords == "sentencepiece" else names[0])
        logger.warning(
            "%s holds no validation set of %s-%s: whether its text was prepared by %s, %s could not"
            " be checked",
            data, *languages, found.tokenizer, subwords,
        )  # fmt: skip
        return found, None
    fits = list(_fits([recipe(name) for name in names], samples))
    best = _best(fits, subwords, raw=sources is not None)
    chosen = best if given is None else next(_fits([given], samples))
    if chosen.share < LIMIT:
        advice = (
            f"{best.recipe.tokenizer} gives back {100 * best.share:.0f} %: leave --tokenizer out"
            if best.share >= LIMIT
            else "give the --codes and the --tokenizer of the training"
        )
        raise ValueError(
            f"text preparation {chosen}, so raw text would reach the model as words that differ"
            f" from those of its training; {advice}, or, to leave out this check against the"
            " validation set, give --data a folder that holds only the dictionaries"
        )
    for doubt in _doubts(chosen, best, samples):
        logger.warning("text preparation %s; %s", chosen, doubt)
    return chosen.recipe, chosen


def _doubts(chosen: Fit, best: Fit, samples: Tuple[Sentences, Sentences]) -> Iterator[str]:
    """Yields reasons, for warnings, why the recipe of ``chosen`` may be wrong although it gives
    back most sentences. ``best`` is the fit of the best recipe, ``samples`` are source and target
    sentences."""
    tokenization = chosen.recipe.tokenization
    surpassed = sum(best.shares) >= sum(chosen.shares) + MARGIN
    # Any text comes back from spaces alone.
    separated = tokenization.name == "space" and best.recipe.tokenization.name == "moses"
    if surpassed or (separated and best.evidence[0] > 0):
        yield f"{best}; leave --tokenizer out to take that recipe"
    elif chosen.share < GOOD:
        yield (
            "the other sentences were prepared otherwise, or by subwords with a vocabulary"
            " threshold"
        )
    if tokenization.name != "moses":
        apart = sum(_APART.search(words) is not None for words in samples[0].words)
        if apart > TOKENISED * len(samples[0].words):
            yield (
                f"{apart} of {len(samples[0].words)} source sentences have punctuation marks on"
                " their own, as tokenised text has: give such text to the bundle, or the"
                " --tokenizer of the training"
            )
    elif min(best.evidence) < 0 < max(best.evidence):
        yield "one language looks tokenised and the other does not"
    if not samples[0].raw:
        yield from steps_for_good(samples[0], chosen.recipe)


def _tokenizers(
    languages: Tuple[str, str],
    words: Sequence[str],
    samples: Optional[Tuple[Sentences, Sentences]],
    subwords: str,
) -> List[str]:
    """The names of the tokenisers to try, the most likely first: Moses, with the variants of which
    the dictionaries' ``words`` or the sentences show signs, then those that separate words at
    spaces only."""
    text = words if samples is None else samples[0].words
    # Some scripts have no cases.
    cased = [one for one in text if one.lower() != one.upper()] or words
    both = words if samples is None else [*words, *samples[0].words, *samples[1].words]
    variants = [
        name
        for name, shown in (
            ("unnormalised", any(map(_TYPOGRAPHIC.search, text))),
            ("aggressive", any("@-@" in one for one in both)),
            ("escape", any(map(_ESCAPE.search, both))),
            ("lower", bool(cased) and not any(word != word.lower() for word in cased)),
        )
        if shown
    ]
    parts = [re.split("[_-]", language)[0].lower() for language in languages]
    rules = [""]
    if not _moses_languages().issuperset(languages):
        # zh_CN and deu_Latn name a language otherwise, src and tgt none.
        if tuple(parts) != languages and all(re.fullmatch("[a-z]{2,3}", part) for part in parts):
            rules.append(f":{parts[0]}:{parts[1]}")
        rules.append(":en")
    separators = [
        name for name, separator in SEPARATORS.items() if any(map(separator.separates, languages))
    ]
    # Normalisation also moves full stops across quotation marks, so both are tried.
    turned = [name for name in variants if name != "unnormalised"]
    turned = turned if len(turned) < len(variants) else ["unnormalised", *variants]
    names = [
        "+".join([f"moses{rule}", *chosen, *separator])
        for separator in ([], *([name] for name in separators))
        for rule in rules
        if rule != ":en" or not separator
        for chosen in (variants, turned)
    ]
    plain = ["space", "moses-punctuation"] if subwords == "sentencepiece" else ["space"]
    return [*names, *("+".join([name, *(["lower"] * ("lower" in variants))]) for name in plain)]


def _moses_languages() -> Set[str]:
    from sacremoses import corpus

    return set(corpus.NonbreakingPrefixes().available_langs.values())


@lru_cache(maxsize=16)
def _rules(source: str, target: str) -> MosesRules:
    return MosesRules.from_sacremoses(source, target)


def _fits(recipes: Sequence[TextRecipe], samples: Tuple[Sentences, Sentences]) -> Iterator[Fit]:
    """Tries recipes that have the same subwords, and yields how well each fits. Recipes whose
    package is not installed are left out, unless there is only one."""
    forth, back = subword_units(recipes[0]), subword_units(recipes[0].reversed())
    for recipe in recipes:
        other = recipe.reversed()
        try:
            prepare, restore = (tokenization(one, _rules_of(one)) for one in (recipe, other))
        except ValueError:
            if len(recipes) == 1:
                raise
            continue
        # (words to subwords, text to words, words to text) of a side
        source = _share(samples[0], forth[0], prepare[0], restore[1], recipe, target=False)
        target = _share(samples[1], back[0], restore[0], prepare[1], recipe, target=True)
        yield Fit(recipe, (source[0], target[0]), (source[1], target[1]))


def _rules_of(recipe: TextRecipe) -> Optional[MosesRules]:
    chosen = recipe.tokenization
    return _rules(*chosen.languages) if chosen.name == "moses" else None


def _share(
    sample: Sentences,
    split: Callable[[str], List[str]],
    tokenize: Callable[[str], str],
    detokenize: Callable[[str], str],
    recipe: TextRecipe,
    *,
    target: bool,
) -> Tuple[float, int]:
    """Prepares the raw text of sampled sentences with a recipe, and counts those that come back.

    Args:
        sample: the sentences.
        split: splits words into subwords.
        tokenize: turns raw text into words, separated by spaces.
        detokenize: turns such words into raw text, if the sample has none.
        recipe: the recipe that is tried.
        target: True for the target side, False for the source side.

    Returns:
        (share of sentences that come back token for token, evidence); see :class:`Fit`.
    """
    # The targets of lower-case sources may be in any case.
    lower = target and "lower" in recipe.tokenization.variants
    same = evidence = 0
    for number, (row, words) in enumerate(zip(sample.rows, sample.words)):
        text = sample.raw[number] if sample.raw else detokenize(words)
        if split(tokenize(text)) == (split(words.lower()) if lower else row):
            same += 1
            evidence += text != words
        else:
            evidence -= split(words) == row
    return same / len(sample.rows), evidence


def _best(fits: Sequence[Fit], subwords: str, *, raw: bool) -> Fit:
    """The fit of the best recipe, the first of equal ones. If the raw text is known (``raw``), the
    shares alone decide; otherwise a recipe with Moses is chosen only if the evidence (:class:`Fit`)
    supports it or, unless ``subwords`` is ``sentencepiece``, does not contradict it."""
    if raw:
        return max(fits, key=lambda fit: sum(fit.shares))
    moses = [fit for fit in fits if fit.recipe.tokenization.name == "moses"]
    best = max(moses, key=lambda fit: sum(fit.shares))
    # Any text comes back from spaces alone. Subwords of BPE are usually those of words.
    shown = best.evidence[0]
    if shown > 0 or (shown == 0 and subwords != "sentencepiece"):
        return best
    return next(fit for fit in fits if fit.recipe.tokenization.name == "space")
