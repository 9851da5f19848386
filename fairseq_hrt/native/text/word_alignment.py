"""Alignment of the words of a translation with those of its source, in raw text.

Models align subwords. Raw text differs from them by normalisation and tokenisation, of which only
the result is known here: each subword is searched for in the text, from left to right.
"""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from typing import Deque, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from .moses import unescape

# Scripts without spaces between words, of which each character is a word: Thai, Lao, Tibetan,
# Burmese, Khmer, Japanese, Chinese.
UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
SPACELESS = re.compile(f"[{UNSPACED}]")
_WORD = re.compile(f"[{UNSPACED}]|[^\\W{UNSPACED}]+(?:[-'’.,@/][^\\W{UNSPACED}]+)*|\\S")
# A subword is searched in the next characters: its own length, that of the subwords before it which
# were not found (at most _MOST_MISSING), and _SLACK for what a normaliser replaced.
_SLACK = 8
_MOST_MISSING = 200
# Most characters of a word: what is compared with each word of a translation must not grow with the
# text.
LONGEST_WORD = 100


class Link(NamedTuple):
    """A subword of a translation and the source subword that it is aligned with.

    Attributes:
        start, end: the span of characters of the subword in the translation.
        source: index of the middle character of the source subword in the source text.
    """

    start: int
    end: int
    source: int


class Words:
    """The words and punctuation marks of a text; every character but white space belongs to one.
    What is longer than :data:`LONGEST_WORD` is several words.

    Args:
        text: the text.
        spans: the characters [start, end) of each word; None: the words are found here.

    Attributes:
        starts, ends: the characters [start, end) of each word in the text.
        signs: for each word whether it is a punctuation mark.
    """

    def __init__(self, text: str, spans: Optional[Sequence[Tuple[int, int]]] = None) -> None:
        if spans is None:
            spans = [
                (start, min(start + LONGEST_WORD, found.end()))
                for found in _WORD.finditer(text)
                for start in range(*found.span(), LONGEST_WORD)
            ]
        self.text = text
        self.starts: List[int] = [start for start, _ in spans]
        self.ends: List[int] = [end for _, end in spans]
        self.signs: List[bool] = [not text[start].isalnum() for start in self.starts]
        self._twice_middles = [start + end for start, end in spans]

    def __len__(self) -> int:
        return len(self.starts)

    def before(self, place: int) -> int:
        """The number of words whose middle lies before index ``place`` of the text."""
        return bisect_left(self._twice_middles, 2 * place)

    def __getitem__(self, number: int) -> str:
        return self.text[self.starts[number] : self.ends[number]]

    def cut(self, places: Iterable[int]) -> "Tuple[Words, List[int]]":
        """Cuts words at the indices ``places`` of the text.

        Returns:
            The parts, and for each word the index of its first part, followed by the number of all
            parts.
        """
        ordered, firsts = sorted(set(places)), []
        spans: List[Tuple[int, int]] = []
        for start, end in zip(self.starts, self.ends):
            firsts.append(len(spans))
            inside = ordered[bisect_right(ordered, start) : bisect_left(ordered, end)]
            spans += zip([start, *inside], [*inside, end])
        return Words(self.text, spans), [*firsts, len(spans)]

    def at(self, start: int, end: int) -> range:
        """The indices of the words that overlap the characters [start, end)."""
        return range(bisect_right(self.ends, start), bisect_left(self.starts, end))


def links(
    source: str,
    subwords: Sequence[str],
    translation: str,
    tokens: Sequence[str],
    alignment: Sequence[int],
) -> List[Link]:
    """Turns the alignment of subwords into links between raw texts. A token has no link if it or
    its source subword is not found in its text.

    Args:
        source, translation: raw texts of a sentence.
        subwords: the source's subwords.
        tokens: the translation's subwords.
        alignment: for each token the index of a source subword; ``len(subwords)`` is ``</s>``.
    """
    places, spans = locate(source, subwords), locate(translation, tokens)
    return [
        Link(start, end, (places[place][0] + places[place][1]) // 2)
        for (start, end), place in zip(spans, alignment)
        if start < end and 0 <= place < len(places) and places[place][0] < places[place][1]
    ]


def locate(text: str, subwords: Sequence[str]) -> List[Tuple[int, int]]:
    """Finds the span (start, end) of each subword in a raw text. A subword that is not found there,
    because normalisation has changed it, has an empty span where it was expected."""
    spans, place, missing = [], 0, 0
    lowered = text.lower()
    # Some letters have a lower case of two characters.
    texts = (text, lowered) if len(lowered) == len(text) else (text,)
    for subword in subwords:
        written = subword.removesuffix("@@").replace("\u2581", "")
        # Moses may write hyphens as @-@ and escape signs.
        written = "-" if written == "@-@" else unescape(written)
        while place < len(text) and text[place].isspace():
            place += 1
        end = place + missing + len(written) + _SLACK
        start = max(one.find(written, place, end) for one in texts)
        if start < 0 or not written:
            spans.append((place, place))
            missing = min(missing + len(written), _MOST_MISSING)
        else:
            place = start + len(written)
            spans.append((start, place))
            missing = 0
    return spans


def origins(source: Words, translation: Words, found: Sequence[Link]) -> List[int]:
    """For each word of a translation the index of the source word to which most of its characters
    are linked; -1 if none are.

    Punctuation is only linked with punctuation and words with words: at the end of a sentence
    attention is often on other tokens. If a source word touches its neighbour, as in ``50%``, and
    the word linked with it has an equal neighbour on the same side, the neighbours are linked, too.
    """
    votes: List[Dict[int, int]] = [{} for _ in translation.starts]
    for link in found:
        for origin in source.at(link.source, link.source + 1):
            for word in translation.at(link.start, link.end):
                if source.signs[origin] == translation.signs[word]:
                    shared = min(link.end, translation.ends[word]) - max(
                        link.start, translation.starts[word]
                    )
                    votes[word][origin] = votes[word].get(origin, 0) + shared
    result = [max(own, key=lambda origin: own[origin]) if own else -1 for own in votes]
    for step, order in ((1, range(len(result) - 1)), (-1, range(len(result) - 1, 0, -1))):
        for word in order:
            other = result[word] + step
            if result[word] < 0 or not 0 <= other < len(source):
                continue
            first = min(result[word], other)
            if (
                source.ends[first] == source.starts[first + 1]
                and source[other] == translation[word + step]
            ):
                result[word + step] = other
    return result


def cut_words(
    source: Words, translation: Words, origin: Sequence[int], places: Iterable[int]
) -> Tuple[Words, Words, List[int]]:
    """Cuts words of the source at ``places``, and words of the translation at the corresponding
    places.

    Args:
        source, translation: the words of both texts.
        origin: for each word of the translation the index of its source word, or -1, see
            :func:`origins`.
        places: the indices of characters of the source before which words are cut.

    Returns:
        The parts of the source's words, those of the translation's, and for each of the latter the
        index of its source part, or -1. Numbers of the source that have no translation get one, see
        :func:`_with_numbers`.
    """
    parts, firsts = source.cut(places)
    origin = _with_numbers(source, translation, origin, parts, firsts)
    # (source word, words of the translation that stand side by side and have this origin).
    groups = [
        (own, [number for number, _ in group])
        for own, group in itertools.groupby(enumerate(origin), key=lambda entry: entry[1])
    ]
    cuts: List[List[int]] = [[] for _ in groups]
    cores: List[Sequence[int]] = [group for _, group in groups]
    for number, (own, group) in enumerate(groups):
        inside = parts.starts[firsts[own] + 1 : firsts[own + 1]] if own >= 0 else []
        if inside:
            cores[number] = core = _core(source[own], translation, group)
            start, end = translation.starts[core[0]], translation.ends[core[-1]]
            in_word = [place - source.starts[own] for place in inside]
            in_translation = _counterparts(source[own], translation.text[start:end], in_word)
            cuts[number] = [start + place for place in in_translation]
    others, numbers = translation.cut(itertools.chain.from_iterable(cuts))
    found: List[int] = []
    for (own, group), core, places in zip(groups, cores, cuts):
        own_parts = range(firsts[own], firsts[own + 1]) if own >= 0 else range(-1, 0)
        # Words of the group outside the core: beside a copy of the source word they have no origin,
        # beside a number they belong to the first part of the source word with letters.
        beside, lettered = set(group).difference(core), [-1]
        if beside and not _same_words(source[own], translation[core[0]]):
            lettered = [part for part in own_parts if any(map(str.isalpha, parts[part]))]
        for word in group:
            for part in range(numbers[word], numbers[word + 1]):
                if word in beside and lettered:
                    found.append(lettered[0])
                else:
                    found.append(own_parts[bisect_right(places, others.starts[part])])
    return parts, others, found


def _with_numbers(
    source: Words, translation: Words, origin: Sequence[int], parts: Words, firsts: Sequence[int]
) -> List[int]:
    """Returns ``origin``, the result of :func:`origins` (the source word of each word of the
    translation), with links added for the numbers that have none: to the same number, if need be
    with other separators (``1,000`` and ``1.000``), else to the word that probably spells it, see
    :func:`_spell_numbers`. ``parts`` and ``firsts`` are the two results of :meth:`Words.cut` for
    the source: its parts and each word's first part.
    """
    result = list(origin)
    for spelling in (str, _digits):
        written = [spelling(translation[word]) for word in range(len(result))]
        linked = set(zip(result, written))
        missing: Dict[str, Deque[int]] = defaultdict(deque)
        for word, (first, end) in enumerate(zip(firsts, firsts[1:])):
            for text in map(parts.__getitem__, range(first, end)):
                if has_digits(text) and (word, spelling(text)) not in linked:
                    missing[spelling(text)].append(word)
        taken: Set[Tuple[int, str]] = set()
        for word, own in enumerate(result):
            link, same = (own, written[word]), missing.get(written[word])
            if same and (own < 0 or link in taken or written[word] not in spelling(source[own])):
                result[word] = same.popleft()
            taken.add(link)
    whole = [word for word, (first, end) in enumerate(zip(firsts, firsts[1:])) if end == first + 1]
    _spell_numbers(source, translation, result, whole)
    return result


def _spell_numbers(
    source: Words, translation: Words, origin: List[int], candidates: Iterable[int]
) -> None:
    """Changes ``origin`` to link each number among the source words ``candidates`` that no word of
    the translation is linked with, to the word that probably spells it (``2 dogs``, ``zwei
    Hunde``): an unlinked word beside the translation of the number's neighbour or, if several
    adjacent words are linked with the neighbour, the one on the number's side."""
    found: Dict[int, Deque[int]] = defaultdict(deque)
    for word, own in enumerate(origin):
        found[own].append(word)
    for number in candidates:
        if number in found or not is_number(source[number]):
            continue
        for step in (1, -1):
            words = found.get(number + step) if number + step >= 0 else None
            if not words or translation.signs[words[0]] or has_digits(source[number + step]):
                continue
            end = 0 if step > 0 else -1
            beside, free = words[end] - step, words[end]
            if 0 <= beside < len(origin) and origin[beside] < 0 and not translation.signs[beside]:
                free = beside
            elif len(words) > 1 and words[end + step] == free + step:
                words.popleft() if step > 0 else words.pop()
            else:
                continue
            origin[free] = number
            found[number].append(free)
            break


def has_digits(text: str) -> bool:
    """Whether a digit is among the characters of a text."""
    return any(map(str.isdigit, text))


def is_number(text: str) -> bool:
    """Whether a text has digits and no letters."""
    return has_digits(text) and not any(map(str.isalpha, text))


def digit_runs(text: str) -> List[str]:
    """The runs of digits in a text, in their order."""
    return ["".join(run) for digits, run in itertools.groupby(text, str.isdigit) if digits]


def _digits(text: str) -> str:
    """The digits of a number, without separators; any other text as it is."""
    return "".join(digit_runs(text)) if is_number(text) else text


def _core(word: str, translation: Words, group: Sequence[int]) -> Sequence[int]:
    """The words of ``group`` (indices in the translation) with which the source word ``word`` is to
    be compared: its copy, if there is exactly one; else, if ``word`` has digits, the word with
    digits, if there is exactly one; else all of ``group``."""
    copies = [one for one in group if _same_words(word, translation[one])]
    numbers = [one for one in group if has_digits(translation[one])]
    if len(copies) == 1:
        return copies
    if len(numbers) == 1 and has_digits(word):
        return numbers
    return group


def _same_words(word: str, other: str) -> bool:
    return word.lower() == other.lower()


def _counterparts(word: str, translation: str, places: Sequence[int]) -> List[int]:
    """Returns for each index in ``places`` (sorted, none at an end) of a word the corresponding
    index of its translation. Within a common prefix or suffix it is that of the same character;
    between prefix and suffix it is proportional."""
    one, other = word.lower(), translation.lower()
    if (len(one), len(other)) != (len(word), len(translation)):
        one, other = word, translation
    before = shared_beginning(one, other)
    after = min(shared_beginning(one[::-1], other[::-1]), len(one) - before, len(other) - before)
    size, found = len(other) - before - after, []
    for place in places:
        if place <= before:
            found.append(place)
        elif len(one) - place <= after:
            found.append(len(other) - len(one) + place)
        else:
            # Rounded to the nearest character, halves up.
            share = 2 * (place - before) * size // (len(one) - before - after)
            found.append(before + (share + 1) // 2)
    # A number or sign is not translated to letters.
    if not any(map(str.isalpha, word[places[-1] :])) and any(map(str.isalpha, other[found[-1] :])):
        found[-1] = len(other)
    if not any(map(str.isalpha, word[: places[0]])) and any(map(str.isalpha, other[: found[0]])):
        found[0] = 0
    return found


def shared_beginning(one: str, other: str) -> int:
    """The length of the longest common prefix of two texts, in characters."""
    pairs = enumerate(zip(one, other))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
