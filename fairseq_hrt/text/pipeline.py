"""Raw text to subwords and back; what a bundle remembers of how its training text was prepared."""

import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, List, Optional, Tuple

from ..escaping import shown
from .moses import WITHOUT_DETOKENIZER, Detokenizer, Normalizer, Tokenizer
from .moses_rules import MosesRules
from .remembered import Remembered
from .subword_units import SubwordUnits

TOKENIZERS = ("moses", "space")
SUBWORDS = ("subword-nmt", "sentencepiece", "none")


@dataclass(frozen=True)
class TextRecipe:
    """How text is prepared.

    Attributes:
        source_lang, target_lang: language codes, for Moses' rules.
        tokenizer: ``moses`` (punctuation normalised, tokenised; detokenised after translation) or ``space`` (as it is).
        subwords: ``subword-nmt``, ``sentencepiece`` or ``none``.
        codes: file of the subwords' codes or model.
    """

    source_lang: str
    target_lang: str
    tokenizer: str
    subwords: str
    codes: Optional[Path] = None

    def __post_init__(self) -> None:
        for name, value, known in (("tokenizer", self.tokenizer, TOKENIZERS), ("subwords", self.subwords, SUBWORDS)):
            if value not in known:
                raise ValueError(f"{name} {shown(value)} is unknown: choose one of {', '.join(known)}")
        if (self.subwords == "none") != (self.codes is None):
            raise ValueError(
                f"subwords {self.subwords!r} {'need' if self.codes is None else 'take no'} file of codes (--codes)"
            )


# Marks the beginning of a file; within text it is an invisible sign that has had a successor (U+2060) since Unicode 3.2.
BYTE_ORDER_MARK = "\ufeff"


def clean(text: str) -> str:
    """One line without control characters and byte order marks, with single spaces; letters of any script stay as they are."""
    if not text.isprintable():
        text = text.replace(BYTE_ORDER_MARK, "").translate(_SPACES)
    return " ".join(text.split())


def _space(code: int) -> int:
    """For ``str.translate``: a space for control characters, separators of lines and lone surrogates."""
    return 32 if unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp", "Cs") else code


_SPACES = Remembered(_space)


class TextPipeline:
    """Turns raw lines into the words that a model knows, and its words into text.

    Args:
        recipe: how.
        rules: Moses' rules, as a bundle keeps them; None: those of the installed sacremoses.

    Raises:
        ValueError: a package that it needs is not installed, or the codes cannot be read.
    """

    def __init__(self, recipe: TextRecipe, rules: Optional[MosesRules] = None) -> None:
        self.recipe = recipe
        self._tokenize, self._detokenize = _moses(recipe, rules) if recipe.tokenizer == "moses" else (str, str)
        self._split, self._join = _subwords(recipe)

    def words(self, line: str) -> List[str]:
        """Subwords of a raw line; empty for one without any word."""
        text = clean(line)
        return self._split(self._tokenize(text)) if text else []

    def text(self, words: str) -> str:
        """The raw text of a model's output, subwords separated by spaces."""
        return self._detokenize(self._join(words))


def _moses(recipe: TextRecipe, rules: Optional[MosesRules]) -> Tuple[Callable[[str], str], Callable[[str], str]]:
    if rules is None:
        rules = MosesRules.from_sacremoses(recipe.source_lang, recipe.target_lang)
    if (rules.language, rules.target_language) != (recipe.source_lang, recipe.target_lang):
        raise ValueError(
            f"the rules of text are for {rules.language} and {rules.target_language}, "
            f"the dictionaries for {recipe.source_lang} and {recipe.target_lang}: pack the bundle again"
        )
    normalize, tokenize = Normalizer(rules.language), Tokenizer(rules)
    if recipe.target_lang not in WITHOUT_DETOKENIZER:
        return lambda text: tokenize(normalize(text)), Detokenizer(rules)
    try:
        from sacremoses import MosesDetokenizer
    except ImportError as error:
        raise ValueError("tokenizer moses needs the package sacremoses: pip install sacremoses") from error
    detokenizer = MosesDetokenizer(lang=recipe.target_lang)
    return lambda text: tokenize(normalize(text)), lambda text: detokenizer.detokenize(text.split(), unescape=False)


def _subwords(recipe: TextRecipe) -> Tuple[Callable[[str], List[str]], Callable[[str], str]]:
    if recipe.subwords == "none":
        return str.split, str
    if recipe.subwords == "subword-nmt":
        assert recipe.codes is not None
        return SubwordUnits(recipe.codes).split, lambda words: f"{words} ".replace("@@ ", "").strip()
    try:
        import sentencepiece
    except ImportError as error:
        raise ValueError("subwords sentencepiece need their package: pip install sentencepiece") from error
    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(recipe.codes))
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{recipe.codes} is no SentencePiece model: {error}") from error
    joined: Callable[[str], str] = lambda words: words.replace(" ", "").replace("\u2581", " ").strip()  # noqa: E731
    return lambda text: model.encode(text, out_type=str), joined
