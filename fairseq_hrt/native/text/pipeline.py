"""Converts raw text to subwords and back, as the training text of a bundle was prepared."""

import re
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Container, List, Optional, Tuple

from ..io.escaping import shown
from .moses import WITHOUT_DETOKENIZER, Detokenizer, Normalizer, Tokenizer
from .moses_rules import MosesRules
from .remembered import Remembered
from .subword_units import SubwordUnits

TOKENIZERS = ("moses", "moses-punctuation", "space")
SUBWORDS = ("subword-nmt", "sentencepiece", "none")


@dataclass(frozen=True)
class TextRecipe:
    """The steps of text preparation.

    Attributes:
        source_lang, target_lang: language codes, for Moses' rules.
        tokenizer: ``moses`` (normalise punctuation, tokenise; detokenise translations),
            ``moses-punctuation`` (only normalise) or ``space`` (leave as it is).
        subwords: ``subword-nmt``, ``sentencepiece`` or ``none``.
        codes: file of the codes or model of the subwords.
        target_codes: that of the target language; None: the same file.
        source_prefix, target_prefix: language tokens with which sources and translations of
            multilingual models begin; removed from translations.
    """

    source_lang: str
    target_lang: str
    tokenizer: str
    subwords: str
    codes: Optional[Path] = None
    target_codes: Optional[Path] = None
    source_prefix: Optional[str] = None
    target_prefix: Optional[str] = None

    def __post_init__(self) -> None:
        for name, value, known in (
            ("tokenizer", self.tokenizer, TOKENIZERS),
            ("subwords", self.subwords, SUBWORDS),
        ):
            if value not in known:
                raise ValueError(
                    f"{name} {shown(value)} is unknown: choose one of {', '.join(known)}"
                )
        if (self.subwords == "none") != (self.codes is None):
            raise ValueError(
                f"subwords {self.subwords!r} {'need' if self.codes is None else 'take no'} file of"
                " codes (--codes)"
            )

    def reversed(self) -> "TextRecipe":
        """The recipe of the opposite direction."""
        return replace(
            self,
            source_lang=self.target_lang,
            target_lang=self.source_lang,
            codes=self.target_codes or self.codes,
            target_codes=None if self.target_codes is None else self.codes,
            source_prefix=self.target_prefix,
            target_prefix=self.source_prefix,
        )


# Marks the beginning of a file; within text it is an invisible character, replaced by U+2060 since
# Unicode 3.2.
BYTE_ORDER_MARK = "\ufeff"


def clean(text: str) -> str:
    """Returns one line without control characters and byte order marks, with single spaces."""
    if not text.isprintable():
        text = text.replace(BYTE_ORDER_MARK, "").translate(_SPACES)
    return " ".join(text.split())


def _space(code: int) -> int:
    """For ``str.translate``: control characters, line separators and lone surrogates to spaces."""
    return 32 if unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp", "Cs") else code


_SPACES = Remembered(_space)


# Language tokens of multilingual models: of M2M-100, of MBart-50 and NLLB, of Marian.
LANGUAGE_TOKEN = re.compile(r"__[a-z]{2,3}__|[a-z]{2,3}_[A-Z][A-Za-z]{1,3}|>>[^\s<>]+<<")
_TARGET_TOKEN = re.compile(r"(>>[^\s<>]+<<)\s*")


class TextPipeline:
    """Converts raw lines to the subwords of a model, and its output to raw text.

    Args:
        recipe: how.
        rules: Moses' rules, as a bundle keeps them; None: those of the installed sacremoses.
        known: the words of the model, among them its language tokens; only of multilingual models.

    Raises:
        ValueError: a required package is not installed, or the codes cannot be read.
    """

    def __init__(
        self,
        recipe: TextRecipe,
        rules: Optional[MosesRules] = None,
        known: Optional[Container[str]] = None,
    ) -> None:
        self.recipe, self._known = recipe, known
        self._tokenize: Callable[[str], str] = str
        self._detokenize: Callable[[str], str] = str
        if recipe.tokenizer == "moses":
            self._tokenize, self._detokenize = _moses(recipe, rules)
        elif recipe.tokenizer == "moses-punctuation":
            self._tokenize = Normalizer(recipe.source_lang)
        self._split, self._join = _subwords(recipe)

    def words(self, line: str) -> List[str]:
        """The subwords of a raw line; empty for a line of white space."""
        text, prefix = clean(line), self.recipe.source_prefix
        if prefix is None:
            return self._split(self._tokenize(text)) if text else []
        own = _TARGET_TOKEN.match(text)
        if own and (self._known is None or own[1] in self._known):
            # A line may name its own target language, as it does for other decoders of these
            # models. What the model does not have is text.
            prefix, text = own[1], text[own.end() :]
        return [prefix, *self._split(self._tokenize(text))] if text else []

    @property
    def prefix_length(self) -> int:
        """The number of subwords that are prepended to every source: 1 for a language token, else
        0."""
        return int(self.recipe.source_prefix is not None)

    def text(self, words: str) -> str:
        """The raw text of a model's output, given as subwords separated by spaces."""
        if self.recipe.target_prefix is not None:
            first, _, rest = words.partition(" ")
            if first == self.recipe.target_prefix or LANGUAGE_TOKEN.fullmatch(first):
                words = rest
        return self._detokenize(self._join(words))


def _moses(
    recipe: TextRecipe, rules: Optional[MosesRules]
) -> Tuple[Callable[[str], str], Callable[[str], str]]:
    if rules is None:
        rules = MosesRules.from_sacremoses(recipe.source_lang, recipe.target_lang)
    if (rules.language, rules.target_language) != (recipe.source_lang, recipe.target_lang):
        raise ValueError(
            f"the rules of text are for {rules.language} and {rules.target_language}, the"
            f" dictionaries for {recipe.source_lang} and {recipe.target_lang}: pack the bundle"
            " again"
        )
    normalize, tokenize = Normalizer(rules.language), Tokenizer(rules)
    if recipe.target_lang not in WITHOUT_DETOKENIZER:
        return lambda text: tokenize(normalize(text)), Detokenizer(rules)
    try:
        from sacremoses import MosesDetokenizer
    except ImportError as error:
        raise ValueError(
            "tokenizer moses needs the package sacremoses: pip install sacremoses"
        ) from error
    detokenizer = MosesDetokenizer(lang=recipe.target_lang)
    return lambda text: tokenize(normalize(text)), lambda text: detokenizer.detokenize(
        text.split(), unescape=False
    )


def _subwords(recipe: TextRecipe) -> Tuple[Callable[[str], List[str]], Callable[[str], str]]:
    if recipe.subwords == "none":
        return str.split, str
    if recipe.subwords == "subword-nmt":
        assert recipe.codes is not None
        return (
            SubwordUnits(recipe.codes).split,
            lambda words: f"{words} ".replace("@@ ", "").strip(),
        )
    try:
        import sentencepiece
    except ImportError as error:
        raise ValueError(
            "subwords sentencepiece need their package: pip install sentencepiece"
        ) from error
    model, target = (
        _sentencepiece(sentencepiece, path)
        for path in (recipe.codes, recipe.target_codes or recipe.codes)
    )
    # By SentencePiece itself: it also joins byte pieces, which stand for letters without a piece.
    return (
        lambda text: model.encode(text, out_type=str),
        lambda words: target.decode_pieces(words.split(" ")).replace("\u2581", " ").strip(),
    )


def _sentencepiece(package: Any, path: Optional[Path]) -> Any:
    try:
        return package.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{path} is not a SentencePiece model: {error}") from error
