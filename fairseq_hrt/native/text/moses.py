"""Moses' punctuation normaliser, tokeniser and detokeniser, with the results of sacremoses but
without importing it.

Character classes, and abbreviations that keep their full stop, are taken from sacremoses
(:mod:`.moses_rules`). Its procedures are reimplemented, so that a rule costs no time in lines to
which it does not apply; tests compare the results in every language. Not implemented are protected
patterns, which nothing here uses, and the detokeniser's rules for Czech.
"""

import re
from typing import Dict, List, Pattern, Tuple, Union

from .moses_rules import LATIN, MosesRules, Ranges, is_member
from .remembered import Remembered

# sacremoses' own rules for Czech raise an error: next() of a list.
WITHOUT_DETOKENIZER = ("cs",)
_CJK = (
    (4352, 4607), (11904, 42191), (43072, 43135), (44032, 55215), (63744, 64255), (65072, 65103),
    (65381, 65500), (94208, 101119), (110592, 110895), (110960, 111359), (131072, 196607),
)  # fmt: skip


def _class(ends: Ranges, below: int = 0x110000) -> str:
    """Writes ranges of code points (first, last, first, last, …) as a character class of a regular
    expression, without its brackets; ranges that begin at ``below`` or above are left out."""
    pairs = zip(ends[::2], ends[1::2])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in pairs if first < below)


def squeeze(text: str) -> str:
    """Replaces runs of spaces by one space."""
    while "  " in text:
        text = text.replace("  ", " ")
    return text


# "&" comes first and is restored last, as the other escapes begin with it.
_ESCAPES = (
    ("&", "&amp;"), ("|", "&#124;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&apos;"),
    ('"', "&quot;"), ("[", "&#91;"), ("]", "&#93;"),
)  # fmt: skip
# As former versions of Moses wrote them.
_FORMER_ESCAPES = (("|", "&bar;"), ("[", "&bra;"), ("]", "&ket;"))
_ESCAPED = str.maketrans(dict(_ESCAPES))


def escape(text: str) -> str:
    """Escapes characters such as ``&`` and ``'`` as ``sacremoses.MosesTokenizer.escape_xml``
    does."""
    return text.translate(_ESCAPED)


def unescape(text: str) -> str:
    """Undoes :func:`escape`, as ``sacremoses.MosesDetokenizer.unescape_xml`` does."""
    if "&" in text:
        for sign, escaped in (*_FORMER_ESCAPES, *reversed(_ESCAPES)):
            text = text.replace(escaped, sign)
    return text


class Normalizer:
    """Normalises punctuation as ``sacremoses.MosesPunctNormalizer(lang=language).normalize``
    does."""

    UNICODE = (("„", '"'), ("“", '"'), ("”", '"'), ("–", "-"), ("—", " - "))
    QUOTES = (("´", "'"), ("‘", "'"), ("‚", "'"), ("’", "'"), ("''", '"'), ("…", "..."))
    FRENCH = (
        ("\u00a0«\u00a0", '"'), ("«\u00a0", '"'), ("«", '"'), ("\u00a0»\u00a0", '"'),
        ("\u00a0»", '"'), ("»", '"'),
    )  # fmt: skip
    SPACES = (
        ("\u00a0%", "%"), ("nº\u00a0", "nº "), ("\u00a0:", ":"), ("\u00a0ºC", " ºC"),
        ("\u00a0cm", " cm"), ("\u00a0?", "?"), ("\u00a0!", "!"), ("\u00a0;", ";"),
        (",\u00a0", ", "),
    )  # fmt: skip
    AFTER_BRACKET = re.compile(r"\) ([.!:?;,])")
    PER_CENT = re.compile(r"(\d) %")
    ENGLISH_QUOTE = re.compile(r'"([,.]+)')
    # Also matches full stops without a quotation mark behind them: otherwise the search would start
    # again at each of these, which takes quadratic time.
    OTHER_QUOTE = re.compile(r'(\.+)(?:"(\s*[^<]))?')
    NUMBER = re.compile("(\\d)\u00a0(\\d)")

    def __init__(self, language: str) -> None:
        self.language = language
        self.point = (
            r"\g<1>,\g<2>" if language in ("de", "es", "cz", "cs", "fr") else r"\g<1>.\g<2>"
        )

    def __call__(self, text: str) -> str:
        """Returns the normalised text."""
        if "\r" in text:
            text = text.replace("\r", "")
        brackets = "(" in text or ")" in text
        if brackets:
            text = text.replace("(", " (").replace(")", ") ")
        text = squeeze(text)
        if brackets:
            text = self.AFTER_BRACKET.sub(r")\g<1>", text).replace("( ", "(").replace(" )", ")")
        if " %" in text:
            text = self.PER_CENT.sub(r"\g<1>%", text)
        text = text.replace(" :", ":").replace(" ;", ";").replace("`", "'").replace("''", ' " ')
        if text.isascii():
            text = squeeze(text)
        else:
            text = self._beyond_ascii(text)
        if '"' in text:
            text = self._quotes(text)
        if "\u00a0" in text:
            text = self.NUMBER.sub(self.point, text)
        return text.strip()

    def _beyond_ascii(self, text: str) -> str:
        for sign, other in self.UNICODE:
            text = text.replace(sign, other)
        text = squeeze(text)
        for sign, other in self.QUOTES:
            text = text.replace(sign, other)
        for sign, other in self.FRENCH:
            text = text.replace(sign, other)
        if "\u00a0" in text:
            for sign, other in self.SPACES:
                text = text.replace(sign, other)
        return squeeze(text)

    def _quotes(self, text: str) -> str:
        if self.language == "en":
            return self.ENGLISH_QUOTE.sub(r'\g<1>"', text)
        if self.language in ("de", "es", "fr"):
            return self.OTHER_QUOTE.sub(_quote_before_stops, text.replace(',"', '",'))
        return text


def _quote_before_stops(found: "re.Match[str]") -> str:
    return found[0] if found[2] is None else f'"{found[1]}{found[2]}'


class Tokenizer:
    """Tokenises as ``sacremoses.MosesTokenizer(lang=language).tokenize(text, escape=False,
    return_str=True)`` does.

    Args:
        rules: Moses' rules of the language.
        aggressive: whether to split words at hyphens, as with ``aggressive_dash_splits=True``.
    """

    JUNK = re.compile("[\\000-\\037]")
    DOTS = re.compile(r"\.{2,}")
    # Also matches runs of DOT without MULTI: otherwise the search would start again at each DOT,
    # which takes quadratic time.
    MARKER = re.compile(r"(?:DOT)+(MULTI)?")

    def __init__(self, rules: MosesRules, *, aggressive: bool = False) -> None:
        self.rules, self.aggressive = rules, aggressive
        self.padding = Remembered(self._pad)
        self.alnum = _members(rules.alnum)
        self.alpha, self.number = _members(rules.alpha), _members(rules.number)
        self.numeric = frozenset(rules.numeric_prefixes)
        self.prefixes = frozenset(rules.prefixes) - self.numeric
        self._expressions: Dict[Tuple[str, bool], List[Tuple[Pattern[str], str]]] = {}

    def __call__(self, text: str) -> str:
        """Returns the tokens of a text, separated by spaces."""
        if not text.isprintable():
            text = self.JUNK.sub("", re.sub(r"\s+", " ", text))
        text = text.strip().translate(self.padding)
        if self.aggressive and "-" in text:
            text = self._hyphens(text)
        if ".." in text:
            text = self._mark_dots(text)
        if "," in text:
            text = self._commas(text)
        if "'" in text:
            text = self._apostrophes(text)
        text = self._split_full_stops(text)
        if text.endswith(".'"):
            text = f"{text[:-2]} . ' "
        # Also replaces markers that were in the text itself, as sacremoses does.
        return self.MARKER.sub(_dots, text) if "DOTMULTI" in text else text

    def _pad(self, code: int) -> Union[int, str]:
        """Returns what ``str.translate`` writes for the character with the code point ``code``: the
        character with spaces around it or, for letters, digits, white space and ``.'`,-``, the same
        code."""
        sign = chr(code)
        kept = sign in ".'`,-" or sign.isspace() or is_member(self.rules.alnum, code)
        return code if kept else f" {sign} "

    def _hyphens(self, text: str) -> str:
        """Splits words at hyphens: ``well @-@ known``."""
        first, *others = text.split("-")
        parts, before = [first], first[-1:]
        for part in others:
            inside = before and part and self.alnum[before] and self.alnum[part[0]]
            parts += [" @-@ " if inside else "-", part]
            before = part[-1:]
        return "".join(parts)

    def _mark_dots(self, text: str) -> str:
        def mark(match: "re.Match[str]") -> str:
            marker = " " + "DOT" * (match.end() - match.start()) + "MULTI"
            return marker + " " if match.end() < len(text) else marker

        return self.DOTS.sub(mark, text)

    def _commas(self, text: str) -> str:
        """Puts spaces around commas, except between digits."""
        if ",," in text:
            return self._apply("comma", text)
        number = self.number
        first, *others = text.split(",")
        parts, before = [first], first[-1:]
        for part in others:
            # Unchanged: a comma between digits, before a digit at the beginning, or all alone.
            inside = (not before or number[before]) and (number[part[0]] if part else not before)
            parts.append("," + part if inside else " , " + part)
            before = part[-1:]
        return "".join(parts)

    def _apostrophes(self, text: str) -> str:
        language, alpha = self.rules.language, self.alpha
        if language not in ("en", "fr", "it"):
            return text.replace("'", " ' ")
        first, *others = text.split("'")
        if any(len(part) < 2 for part in others[:-1]):
            # The original expressions match a character on each side of an apostrophe. If two
            # apostrophes share one, the order of matches matters: use these expressions.
            return self._apply("apostrophe", text)
        parts, before = [first], first[-1:]
        for part in others:
            after = part[:1]
            if not before or not after:
                sign = "'"
            elif alpha[before] and alpha[after]:
                sign = " '" if language == "en" else "' "
            elif language == "en" and alpha[after] and self.number[before]:
                sign = " '" if after == "s" else "'"
            else:
                sign = " ' "
            parts += [sign, part]
            before = part[-1:]
        return "".join(parts)

    def _apply(self, what: str, text: str) -> str:
        latin = text.isascii() or max(text) < LATIN
        key = (what, latin)
        if key not in self._expressions:
            self._expressions[key] = self._compile(what, ord(LATIN) if latin else 0x110000)
        for expression, result in self._expressions[key]:
            text = expression.sub(result, text)
        return text

    def _compile(self, what: str, below: int) -> List[Tuple[Pattern[str], str]]:
        number, alpha = _class(self.rules.number, below), _class(self.rules.alpha, below)
        rules = {
            "comma": [(f"([^{number}]),", r"\1 , "), (f",([^{number}])", r" , \1"),
                      (f"([{number}]),$", r"\1 , ")],
            "en": [
                (f"([^{alpha}])'([^{alpha}])", r"\1 ' \2"),
                (f"([^{alpha}{number}])'([{alpha}])", r"\1 ' \2"),
                (f"([{alpha}])'([^{alpha}])", r"\1 ' \2"), (f"([{alpha}])'([{alpha}])", r"\1 '\2"),
                (f"([{number}])'(s)", r"\1 '\2"),
            ],
            "fr": [
                (f"([^{alpha}])'([^{alpha}])", r"\1 ' \2"),
                (f"([^{alpha}])'([{alpha}])", r"\1 ' \2"),
                (f"([{alpha}])'([^{alpha}])", r"\1 ' \2"), (f"([{alpha}])'([{alpha}])", r"\1' \2"),
            ],
        }  # fmt: skip
        chosen = what if what == "comma" else "en" if self.rules.language == "en" else "fr"
        return [(re.compile(expression), result) for expression, result in rules[chosen]]

    def _split_full_stops(self, text: str) -> str:
        tokens = text.split()
        if "." in text:
            last = len(tokens) - 1
            for number, token in enumerate(tokens):
                if token[-1] == "." and len(token) > 1:
                    following = tokens[number + 1] if number < last else ""
                    if not self._keeps_its_full_stop(token[:-1], following):
                        tokens[number] = f"{token[:-1]} ."
        return " ".join(tokens)

    def _keeps_its_full_stop(self, prefix: str, following: str) -> bool:
        if prefix in self.prefixes or ("." in prefix and any(map(self.alpha.__getitem__, prefix))):
            return True
        if not following:
            return False
        if is_member(self.rules.lower, ord(following[0])):
            return True
        return prefix in self.numeric and "0" <= following[0] <= "9"


def _members(ends: Ranges) -> Remembered[str, bool]:
    """Makes a cache {character: whether it belongs to a class}; ``ends`` are the class's ranges of
    code points."""
    return Remembered(lambda sign: is_member(ends, ord(sign)))


def _dots(match: "re.Match[str]") -> str:
    return match[0] if match[1] is None else "." * ((match.end() - match.start() - 5) // 3)


_PLAIN, _ASIAN, _OPENING, _PUNCTUATION, _FRENCH_PUNCTUATION, _CONTRACTION, _ELISION, _QUOTE = range(
    8
)


class Detokenizer:
    """Detokenises as ``sacremoses.MosesDetokenizer(lang=language).detokenize(text.split(),
    unescape=False)`` does.

    Args:
        rules: Moses' rules; those of the target language are used.

    Raises:
        ValueError: the language is in ``WITHOUT_DETOKENIZER``.
    """

    def __init__(self, rules: MosesRules) -> None:
        if rules.target_language in WITHOUT_DETOKENIZER:
            raise ValueError(
                f"Detokenizer does not support {rules.target_language}: use"
                " sacremoses.MosesDetokenizer"
            )
        self.rules = rules
        self.english = rules.target_language == "en"
        self.elides = rules.target_language in ("fr", "it", "ga")
        self.kinds = Remembered(self._kind)

    def __call__(self, text: str) -> str:
        """Joins the tokens in ``text``, which spaces separate, to raw text."""
        tokens = text.split()
        if "@-@" in text:
            tokens = f" {' '.join(tokens)} ".replace(" @-@ ", "-").split()
        parts: List[str] = []
        space = " "
        quotes: Dict[str, int] = {}
        for number, (token, kind) in enumerate(zip(tokens, map(self.kinds.__getitem__, tokens))):
            left, right = True, True
            if kind == _ASIAN:
                left = not (number and is_cjk(tokens[number - 1][-1]))
            elif kind == _OPENING:
                right = False
            elif kind == _PUNCTUATION:
                left = False
            elif kind == _FRENCH_PUNCTUATION:
                left, space = True, " "
            elif kind == _CONTRACTION:
                left = number == 0
            elif kind == _ELISION:
                right = not (
                    number + 1 < len(tokens)
                    and is_member(self.rules.target_alpha, ord(tokens[number + 1][0]))
                )
            elif kind == _QUOTE:
                left, right = self._quote(token, tokens[number - 1] if number else "", quotes)
            parts.append(space + token if left else token)
            space = " " if right else ""
        return squeeze("".join(parts)).strip()

    def _quote(self, token: str, before: str, quotes: Dict[str, int]) -> Tuple[bool, bool]:
        """Whether the quotation mark ``token`` has a space (on its left, on its right). ``before``
        is the token before it, or empty. ``quotes``, which is updated, is {mark: how many of them
        came before}: they open and close in turn."""
        name = '"' if not token.strip("„“") else token
        count = quotes.get(name, 0)
        if count % 2 == 0 and self.english and token == "'" and before.endswith("s"):
            return False, True
        quotes[name] = count + 1
        return (True, False) if count % 2 == 0 else (False, True)

    def _kind(self, token: str) -> int:
        language, alpha = self.rules.target_language, self.rules.target_alpha
        if is_cjk(token[0]) and language != "ko":
            return _ASIAN
        if all(sign in "([{¿¡" or is_member(self.rules.currency, ord(sign)) for sign in token):
            return _OPENING
        if not token.strip(",.?!:;\\%}])"):
            return (
                _FRENCH_PUNCTUATION
                if language == "fr" and token in tuple("?!:;\\%")
                else _PUNCTUATION
            )
        if self.english and token[0] == "'" and len(token) > 1 and is_member(alpha, ord(token[1])):
            return _CONTRACTION
        if self.elides and token[-1] == "'" and len(token) > 1 and is_member(alpha, ord(token[-2])):
            return _ELISION
        return _PLAIN if token.strip("'\"„“`") else _QUOTE


def is_cjk(sign: str) -> bool:
    """Whether a character is Chinese, Japanese or Korean by the ranges of sacremoses."""
    code = ord(sign)
    return code >= 4352 and any(first <= code <= last for first, last in _CJK)
