"""What raw lines need besides a recipe that seems to fit: steps that are not undone when the
sources are turned into raw text, so that preparing this text again does not show them."""

import re
from collections import Counter
from typing import Container, Dict, Iterator, Sequence

from ..native.text.recipe import TextRecipe
from ..native.text.word_alignment import SPACELESS, UNSPACED
from .validation_data import Sentences

_PUNCTUATION = re.compile(r"[.,!?;:。，！？]")
# The form of language tokens (2de, <2de>, __de__, de_DE, de), and the share of the sentences
# that begin with one.
_TAG = re.compile(r"[a-z]{2}(-[A-Za-z]{2,4})?|(?=.*[^\W\d_])(?=.*[\d<>_\[\]@#]).+")
TAGGED = 0.95
# Scripts without spaces between words. Their words have less than LONG_WORD characters on average,
# the phrases between spaces in Thai or Burmese text have more.
_GAP = re.compile(f"(?<=[{UNSPACED}]) (?=[{UNSPACED}])")
LONG_WORD = 10


def steps_for_good(sample: Sentences, recipe: TextRecipe) -> Iterator[str]:
    """Yields, as texts for warnings, the steps that raw lines seem to need besides ``recipe``:
    language tokens, segmentation, a true-caser, …. ``recipe`` does not undo them, so sentences that
    it turns into raw text and prepares again come back unchanged, and the steps must be seen in the
    words of ``sample``, whose raw text is not known."""
    count, tags = len(sample.words), _language_tokens(sample.words)
    bodies = [_behind(words, tags) for words in sample.words]
    if tags:
        shown = ", ".join(map(repr, sorted(tags)[:3])) + ", …" * (len(tags) > 3)
        yield (
            f"{sum(tags.values())} of {count} sources begin with {shown}: if that is a language"
            " token, raw lines need one, too"
        )
    if count < 50:
        return
    text = "".join(bodies)
    if _PUNCTUATION.search(text) is None:
        yield "the sources have no punctuation: leave it out of raw lines, too"
    if text.upper() == text != text.lower():
        yield "the sources are in upper case: give raw lines in upper case, too"
    small = sum(map(_begins_small, bodies))
    if 2 * small > count and text != text.lower():
        yield (
            f"{small} of {count} sources begin in lower case although the text has capitals: if a"
            " true-caser did that, raw lines need it first, too"
        )
    gaps, signs = len(_GAP.findall("\n".join(bodies))), len(SPACELESS.findall(text))
    separator = recipe.tokenization.separator(recipe.tokenization.languages[0])
    if separator is None and gaps * LONG_WORD > signs:
        yield (
            "the sources have spaces between words, without which their script is written: segment"
            " raw lines in the same way first"
        )


def _language_tokens(sentences: Sequence[str]) -> Dict[str, int]:
    """The words with which the ``sentences`` begin, if they look like language tokens: a single
    word, or few words of the form of _TAG with which a share of TAGGED begins; else none. The value
    of each is the number of sentences that begin with it."""
    firsts = Counter(words.partition(" ")[0] for words in sentences)
    tags = {
        first: count for first, count in firsts.items() if len(firsts) == 1 or _TAG.fullmatch(first)
    }
    tagged = sum(tags.values())
    few = 2 * len(tags) <= tagged and len(set(sentences)) >= 20
    return tags if few and tagged >= TAGGED * len(sentences) else {}


def _behind(words: str, tags: Container[str]) -> str:
    """The words behind the first one of a sentence if this is one of ``tags`` or of the form of
    _TAG; else the sentence."""
    first, _, rest = words.partition(" ")
    return rest if first in tags or _TAG.fullmatch(first) else words


def _begins_small(text: str) -> bool:
    """Whether the first letter of ``text`` is in lower case, in a script that has capitals at the
    beginning of sentences (Georgian's has none there)."""
    letter = next(filter(str.isalpha, text), "")
    return letter.islower() and letter != letter.title()
