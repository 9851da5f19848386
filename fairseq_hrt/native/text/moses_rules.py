"""Moses' rules for a pair of languages: character classes, and abbreviations that keep their full
stop.

They are taken from sacremoses when a bundle is made, and stored in it as JSON: importing sacremoses
takes longer than many translations.
"""

import json
from bisect import bisect_right
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List, Tuple

from ..io.escaping import printable

FORMAT = 1
Ranges = Tuple[int, ...]
# Text of code points below this (Latin scripts) gets small regular expressions, which compile fast.
LATIN = "\u0250"
_CLASSES = ("alnum", "alpha", "number", "lower", "target_alpha", "currency")


@dataclass(frozen=True)
class MosesRules:
    """The rules of a pair of languages, as sacremoses has them.

    Attributes:
        language: language of the normaliser and tokeniser.
        target_language: language of the detokeniser.
        alnum, alpha, number, lower: character classes of the tokeniser, as sorted ranges of code
            points (first, last, first, last, …), the last included.
        target_alpha, currency: character classes of the detokeniser, in the same form.
        prefixes: abbreviations that keep their full stop.
        numeric_prefixes: abbreviations that keep their full stop only before a number.
    """

    language: str
    target_language: str
    alnum: Ranges
    alpha: Ranges
    number: Ranges
    lower: Ranges
    target_alpha: Ranges
    currency: Ranges
    prefixes: Tuple[str, ...]
    numeric_prefixes: Tuple[str, ...]

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            kind = int if name in _CLASSES else str
            parts = [value] if name.endswith("language") else value
            if not isinstance(parts, (list, tuple)) or not all(
                type(part) is kind for part in parts
            ):
                raise ValueError(
                    f"Moses' rules: {name} must hold only values of type {kind.__name__}"
                )
        for name in _CLASSES:
            ends = getattr(self, name)
            if (
                len(ends) % 2
                or list(ends) != sorted(ends)
                or (ends and not 0 <= ends[0] <= ends[-1] < 0x110000)
            ):
                raise ValueError(
                    f"Moses' rules: {name} is not a sorted list of code points (first, last, …)"
                )
        for name in ("alpha", "number"):
            # Expressions for Latin text hold only characters below LATIN: there must be some.
            if not getattr(self, name) or getattr(self, name)[0] >= ord(LATIN):
                raise ValueError(f"Moses' rules: {name} has no character before U+{ord(LATIN):04X}")

    @classmethod
    def from_sacremoses(cls, language: str, target_language: str) -> "MosesRules":
        """Reads the rules from the installed sacremoses; ValueError if it is not installed."""
        package = sacremoses()
        target = package.MosesDetokenizer
        return cls(
            language, target_language, **_of_source(package.MosesTokenizer, language),
            target_alpha=_ranges(target.IsAlpha), currency=_ranges(target.IsSc),
        )  # fmt: skip

    def save(self, path: Path) -> None:
        """Writes the rules as JSON."""
        path.write_text(
            json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False) + "\n",
            encoding="utf-8",
            newline="\n",
        )

    @classmethod
    def load(cls, path: Path) -> "MosesRules":
        """Reads a file that :meth:`save` has written.

        Raises:
            ValueError: the file is missing or damaged.
        """
        try:
            document: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            version = document.pop("format")
            if version != FORMAT:
                raise ValueError(f"file format {version!r}, but this release reads {FORMAT}")
            rules: Dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in document.items()
            }
            return cls(**rules)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{path} does not hold Moses' rules of text: {printable(str(error))}; pack the"
                " bundle again"
            ) from error


def sacremoses() -> Any:
    """Imports the package sacremoses and returns it; ValueError if it is not installed."""
    try:
        import sacremoses as package
    except ImportError as error:
        raise ValueError(
            "tokenizer moses needs the package sacremoses: pip install sacremoses"
        ) from error
    return package


@lru_cache(maxsize=32)
def _of_source(tokenizer: Any, language: str) -> Dict[str, Any]:
    """Reads a language's rules for the tokeniser from sacremoses' ``MosesTokenizer``, the class
    ``tokenizer``. Returns {field of :class:`MosesRules`: value}. The result is cached: for Chinese
    and Japanese the class compiles expressions for a second or more."""
    source = tokenizer(lang=language)
    return {
        "alnum": _ranges(source.IsAlnum),
        "alpha": _ranges(source.IsAlpha),
        "number": _ranges(source.IsN),
        "lower": _ranges(source.IsLower),
        "prefixes": tuple(source.NONBREAKING_PREFIXES),
        "numeric_prefixes": tuple(source.NUMERIC_ONLY_PREFIXES),
    }


# Most languages have the same classes.
@lru_cache(maxsize=16)
def _ranges(signs: str) -> Ranges:
    """The code points of the characters in ``signs``, as sorted ranges (first, last, first, last,
    …)."""
    ends: List[int] = []
    for code in sorted(set(map(ord, signs))):
        if ends and ends[-1] == code - 1:
            ends[-1] = code
        else:
            ends += [code, code]
    return tuple(ends)


def is_member(ends: Ranges, code: int) -> bool:
    """Whether a code point lies in one of the sorted ranges (first, last, first, last, …)."""
    place = bisect_right(ends, code)
    # Inside a range an odd number of ends is <= code; or code is the last of a range.
    return place % 2 == 1 or (place > 0 and ends[place - 1] == code)
