"""Converts raw text to subwords and back, in the way that a bundle's training text was prepared."""

import re
from pathlib import Path
from typing import Any, Callable, Container, Iterable, List, Optional, Sequence, Tuple

from .moses import WITHOUT_DETOKENIZER, Detokenizer, Normalizer, Tokenizer, escape, unescape
from .moses_rules import MosesRules, sacremoses
from .recipe import TextRecipe
from .remembered import Remembered
from .subword_units import SubwordUnits
from .word_separators import word_separator

Step = Callable[[str], str]


def one_line(text: str) -> str:
    """Makes a text into one line: line feeds, carriage returns and lone surrogates become spaces,
    and a byte order mark at the beginning is removed. Other characters are left to the steps of
    text preparation, as in training."""
    return text if text.isprintable() else text.removeprefix("\ufeff").translate(_SPACES)


def _space(code: int) -> int:
    return 32 if code in (10, 13) or 0xD800 <= code < 0xE000 else code


_SPACES = Remembered(_space)
# Anything but white space and control characters.
_SIGN = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]")


# Language tokens of multilingual models: of M2M-100, of MBart-50 and NLLB, of Marian.
LANGUAGE_TOKEN = re.compile(r"__[a-z]{2,3}__|[a-z]{2,3}_[A-Z][A-Za-z]{1,3}|>>[^\s<>]+<<")
# A token of Marian's at the beginning of a line, after white space and characters without width.
_TARGET_TOKEN = re.compile(r"[\s\u200b\ufeff]*(>>[^\s<>]+<<)\s*")


def target_tokens(words: Iterable[str]) -> List[str]:
    """The tokens among ``words`` that tell OPUS-MT's multilingual models the target language, such
    as ``>>fra<<``."""
    return [word for word in words if word.startswith(">>") and word.endswith("<<")]


class TextPipeline:
    """Converts raw lines to the subwords of a model, and its output to raw text.

    Args:
        recipe: the steps of text preparation.
        rules: Moses' rules that a bundle stores; None: those of the installed sacremoses.
        known: the words of a multilingual model's source dictionary. A line may begin with one of
            its language tokens (``>>deu<<``) to choose the target language; any other such token is
            text.

    Raises:
        ValueError: a required package is not installed, or the file of codes cannot be read.
    """

    def __init__(
        self,
        recipe: TextRecipe,
        rules: Optional[MosesRules] = None,
        known: Container[str] = (),
    ) -> None:
        self.recipe, self._known = recipe, known
        self._tokenize, self._detokenize = tokenization(recipe, rules)
        self._split, self._join = subword_units(recipe)
        self._prefix = (recipe.source_prefix or "").split()

    def words(self, line: str) -> List[str]:
        """The subwords of a raw line, for multilingual models with a language token in front; none
        if the line has only white space and control characters."""
        text = one_line(line)
        if _SIGN.search(text) is None:
            return []
        if not self._prefix:
            return self._split(self._tokenize(text))
        own, end = self.own_token(text)
        words = self._split(self._tokenize(text[end:]))
        return [*self.with_token(self._prefix, own), *words] if words else []

    def with_token(self, words: Sequence[str], token: Optional[str]) -> List[str]:
        """A copy of ``words``, a source's subwords with the model's prefix, in which ``token``
        replaces the language token that ends the prefix; None: an unchanged copy."""
        first = self.prefix_length
        return [*words] if token is None else [*words[: first - 1], token, *words[first:]]

    def own_token(self, line: str) -> Tuple[Optional[str], int]:
        """The language token of the model with which a line begins (``>>deu<<``), to choose its own
        target language, and the index in the line at which the text behind the token begins; (None,
        0) for other lines."""
        own = _TARGET_TOKEN.match(line) if self._prefix else None
        return (own[1], own.end()) if own and own[1] in self._known else (None, 0)

    def unknown_token(self, line: str) -> Optional[str]:
        """The language token at the beginning of a line, such as ``>>xyz<<``, if the model has
        tokens of this form but not this one: it is then translated as text. Else None."""
        if not self._prefix or not self._prefix[-1].startswith(">>"):
            return None
        own = _TARGET_TOKEN.match(line)
        return own[1] if own and own[1] not in self._known else None

    @property
    def prefix_length(self) -> int:
        """The number of subwords that are prepended to every source, the last one of which is the
        language token; 0 if the model needs none."""
        return len(self._prefix)

    def text(self, words: str) -> str:
        """Converts a model's output, subwords separated by spaces, to raw text."""
        if self.recipe.target_prefix is not None:
            first, _, rest = words.partition(" ")
            if first == self.recipe.target_prefix or LANGUAGE_TOKEN.fullmatch(first):
                words = rest
        return self._detokenize(self._join(words))


def tokenization(recipe: TextRecipe, rules: Optional[MosesRules] = None) -> Tuple[Step, Step]:
    """Returns two functions for the steps of a recipe before subwords: one converts raw text to
    words separated by spaces, the other converts such words back to raw text.

    Args:
        recipe: the steps of text preparation.
        rules: Moses' rules for the recipe's languages; None: those of the installed sacremoses.

    Raises:
        ValueError: a required package is not installed, or the rules are for other languages.
    """
    chosen = recipe.tokenization
    source, target = chosen.languages
    steps: List[Step] = [Normalizer(source)] if chosen.normalises else []
    restore: Step = str
    if chosen.name == "moses":
        if rules is None:
            rules = MosesRules.from_sacremoses(source, target)
        if (rules.language, rules.target_language) != (source, target):
            raise ValueError(
                f"Moses' rules of text are for {rules.language} and {rules.target_language}, the"
                f" bundle's text preparation for {source} and {target}: pack the bundle again"
            )
        separator = chosen.separator(source)
        steps.append(
            Tokenizer(rules, aggressive="aggressive" in chosen.variants)
            if separator is None
            else word_separator(separator)
        )
        restore = _detokenizer(rules)
    if "escape" in chosen.variants:
        steps.append(escape)
        detokenize = restore
        # sacremoses joins @-@ before it unescapes. The order has no effect: no escape contains @-@.
        restore = lambda words: detokenize(unescape(words))  # noqa: E731
    if "lower" in chosen.variants:
        steps.append(str.lower)
    return _composed(steps), restore


def _composed(steps: List[Step]) -> Step:
    def prepared(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return prepared


def _detokenizer(rules: MosesRules) -> Step:
    if rules.target_language not in WITHOUT_DETOKENIZER:
        return Detokenizer(rules)
    detokenizer = sacremoses().MosesDetokenizer(lang=rules.target_language)
    return lambda text: detokenizer.detokenize(text.split(), unescape=False)


def subword_units(
    recipe: TextRecipe,
) -> Tuple[Callable[[str], List[str]], Step]:
    """Returns two functions for the subwords of a recipe: one splits words separated by spaces into
    a list of subwords, the other joins subwords separated by spaces into words separated by spaces.

    Raises:
        ValueError: a required package is not installed, or the file of codes cannot be read.
    """
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
            "subwords sentencepiece need the package sentencepiece: pip install sentencepiece"
        ) from error
    model, target = (
        _sentencepiece(sentencepiece, path)
        for path in (recipe.codes, recipe.target_codes or recipe.codes)
    )
    # By SentencePiece itself: it also joins byte pieces, which stand for letters without a piece.
    # fairseq splits the pieces at white space within them.
    return (
        lambda text: " ".join(model.encode(text, out_type=str)).split(),
        lambda words: (
            # "< unk>" is not the special symbol, for which SentencePiece writes " ⁇ ".
            target.decode_pieces(words.replace("<unk>", "< unk>").split(" "))
            .replace("\u2581", " ")
            .strip()
        ),
    )


def _sentencepiece(package: Any, path: Optional[Path]) -> Any:
    try:
        return package.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise ValueError(
            f"{path} is not a SentencePiece model: {error}; give the .model file that its"
            " training wrote"
        ) from error
