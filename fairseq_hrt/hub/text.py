"""Raw text to subwords and back; what a bundle remembers of how its training text was prepared."""

import contextlib
import io
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, List, Optional

from ..common.escaping import printable, shown

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
            raise ValueError(f"subwords {self.subwords!r} {'need' if self.codes is None else 'take no'} file of codes")


# Marks the beginning of a file; within text it is an invisible sign that has had a successor (U+2060) since Unicode 3.2.
BYTE_ORDER_MARK = "\ufeff"


def clean(text: str) -> str:
    """One line without control characters and byte order marks, with single spaces; letters of any script stay as they are."""
    text = text.replace(BYTE_ORDER_MARK, "")
    kept = "".join(" " if unicodedata.category(sign) in ("Cc", "Zl", "Zp", "Cs") else sign for sign in text)
    return re.sub(r"\s+", " ", kept).strip()


class TextPipeline:
    """Turns raw lines into the words that a model knows, and its words into text.

    Args:
        recipe: how.

    Raises:
        ValueError: a package that it needs is not installed, or the codes cannot be read.
    """

    def __init__(self, recipe: TextRecipe) -> None:
        self.recipe = recipe
        self._tokenize, self._detokenize = _moses(recipe) if recipe.tokenizer == "moses" else (str, str)
        self._split, self._join = _subwords(recipe)

    def words(self, line: str) -> List[str]:
        """Subwords of a raw line; empty for one without any word."""
        text = clean(line)
        return self._split(self._tokenize(text)) if text else []

    def text(self, words: str) -> str:
        """The raw text of a model's output, subwords separated by spaces."""
        return self._detokenize(self._join(words))


def _moses(recipe: TextRecipe):
    try:
        from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer
    except ImportError as error:
        raise ValueError("tokenizer moses needs the package sacremoses: pip install sacremoses") from error
    normalizer, tokenizer = MosesPunctNormalizer(lang=recipe.source_lang), MosesTokenizer(lang=recipe.source_lang)
    detokenizer = MosesDetokenizer(lang=recipe.target_lang)

    def tokenize(text: str) -> str:
        return tokenizer.tokenize(normalizer.normalize(text), escape=False, return_str=True)

    def detokenize(text: str) -> str:
        return detokenizer.detokenize(text.split(), unescape=False)

    return tokenize, detokenize


def _read_codes(bpe: Callable[..., Any], path: Path) -> Any:
    """subword-nmt's reader, which ends the process over a file that it does not understand.

    Raises:
        ValueError: the file holds no codes.
    """
    said = io.StringIO()
    try:
        with open(path, encoding="utf-8") as codes, contextlib.redirect_stderr(said):
            return bpe(codes)
    except (SystemExit, ValueError, IndexError) as error:
        reason = said.getvalue() if isinstance(error, SystemExit) else str(error)
        raise ValueError(f"{path} holds no codes of subword-nmt: {printable(' '.join(reason.split()))[:200]}") from error


def _subwords(recipe: TextRecipe):
    if recipe.subwords == "none":
        return str.split, str
    splitting: Callable[[str], List[str]]
    if recipe.subwords == "subword-nmt":
        try:
            from subword_nmt.apply_bpe import BPE
        except ImportError as error:
            raise ValueError("subwords subword-nmt need their package: pip install subword-nmt==0.3.8") from error
        bpe = _read_codes(BPE, recipe.codes)
        splitting = lambda text: bpe.process_line(text).split()  # noqa: E731
        return splitting, lambda words: f"{words} ".replace("@@ ", "").strip()
    try:
        import sentencepiece
    except ImportError as error:
        raise ValueError("subwords sentencepiece need their package: pip install sentencepiece") from error
    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(recipe.codes))
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{recipe.codes} is no SentencePiece model: {error}") from error
    splitting = lambda text: model.encode(text, out_type=str)  # noqa: E731
    return splitting, lambda words: words.replace(" ", "").replace("\u2581", " ").strip()
