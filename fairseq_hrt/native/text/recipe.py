"""How the training text of a model was prepared: the tokeniser and the kind of subwords, as they
are named in ``bundle.json`` and on the command line."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import FrozenSet, Optional, Sequence, Tuple

from ..io.escaping import shown
from .word_separators import SEPARATORS

TOKENIZERS = ("moses", "moses-punctuation", "space")
SUBWORDS = ("subword-nmt", "sentencepiece", "none")
# Variants of moses; the other tokenisers have ``lower`` alone.
VARIANTS = ("unnormalised", "aggressive", "escape", "lower", *SEPARATORS)
_FORM = re.compile(r"([a-z-]+)((?::[A-Za-z]{2,3}){0,2})((?:\+[a-z]+)*)")
SPECIFICATION = "NAME[:LANGUAGE][+VARIANT...]"


def kind_of_subwords(words: Sequence[str]) -> str:
    """Guesses the kind of subwords, one of SUBWORDS, from the words of a dictionary: ``▁`` at the
    beginning shows SentencePiece, ``@@`` at the end subword-nmt; ``none`` if less than one per cent
    of the words have either."""
    pieces = sum(word.startswith("\u2581") for word in words)
    continued = sum(word.endswith("@@") for word in words)
    if 100 * max(pieces, continued) < len(words):
        return "none"
    return "sentencepiece" if pieces > continued else "subword-nmt"


@dataclass(frozen=True)
class Tokenization:
    """How text becomes words; :meth:`parse` reads ``moses``, ``moses:en+escape+aggressive``, ….

    Attributes:
        name: ``moses`` (normalise punctuation, tokenise; detokenise translations),
            ``moses-punctuation`` (only normalise) or ``space`` (leave the text as it is).
        languages: codes of the source and target language, for Moses' rules.
        variants: ``unnormalised`` leaves punctuation as it is; ``aggressive`` splits words at
            hyphens (``well @-@ known``); ``escape`` writes ``&apos;`` for an apostrophe and so on,
            as Moses and fairseq's ``--tokenizer moses`` do by default; ``lower`` is lower case;
            ``jieba``, ``mecab`` or ``characters`` separates the words of a language without spaces.
    """

    name: str
    languages: Tuple[str, str]
    variants: FrozenSet[str] = frozenset()

    @classmethod
    def parse(cls, text: str, languages: Tuple[str, str]) -> "Tokenization":
        """Reads a specification.

        Args:
            text: ``NAME[:LANGUAGE[:LANGUAGE]][+VARIANT...]``. A single language is used for both
                sides.
            languages: source and target language of the model, used if ``text`` names none.

        Raises:
            ValueError: a name or a variant does not exist, or has no effect for these languages.
        """
        form = _FORM.fullmatch(text)
        name, own, variants = form.groups() if form else (text, "", "")
        if name not in TOKENIZERS:
            raise ValueError(
                f"tokenizer {shown(text)} is unknown: choose one of {', '.join(TOKENIZERS)}; moses"
                f" may have variants ({', '.join(VARIANTS)}), e.g. moses+escape+aggressive"
            )
        given = own.split(":")[1:]
        if given and name == "space":
            raise ValueError(
                f"tokenizer {shown(text)}: space has no rules of a language; leave the language out"
            )
        if given:
            languages = (given[0], given[-1])
        chosen = variants.split("+")[1:]
        for variant in chosen:
            if variant not in (VARIANTS if name == "moses" else ("lower",)):
                raise ValueError(
                    f"tokenizer {shown(text)}: {name} has no variant {shown(variant)}; it has"
                    f" {', '.join(VARIANTS) if name == 'moses' else 'lower'}"
                )
        separators = [variant for variant in chosen if variant in SEPARATORS]
        if len(separators) > 1:
            raise ValueError(
                f"tokenizer {shown(text)}: give only one of {' and '.join(separators)}"
            )
        made = cls(name, languages, frozenset(chosen))
        if separators and not any(map(made.separator, languages)):
            raise ValueError(
                f"tokenizer {shown(text)}: {separators[0]} has no effect on {languages[0]} and"
                f" {languages[1]}; leave it out"
            )
        return made

    def separator(self, language: str) -> Optional[str]:
        """The variant (``jieba``, …) that separates the words of a language in place of Moses'
        tokeniser; None if Moses' tokeniser separates them."""
        for name in self.variants.intersection(SEPARATORS):
            if SEPARATORS[name].separates(language):
                return name
        return None

    @property
    def normalises(self) -> bool:
        """Whether punctuation is normalised."""
        return self.name != "space" and "unnormalised" not in self.variants

    def __str__(self) -> str:
        chosen = [variant for variant in VARIANTS if variant in self.variants]
        return "+".join([self.name, *chosen])


@dataclass(frozen=True)
class TextRecipe:
    """The steps of text preparation.

    Attributes:
        source_lang, target_lang: language codes, for Moses' rules.
        tokenizer: a specification such as ``moses+escape``, see :meth:`Tokenization.parse`.
        subwords: ``subword-nmt``, ``sentencepiece`` or ``none``.
        codes: file of subword-nmt's codes, or SentencePiece's model; None for ``none``.
        target_codes: such a file for the target language; None: the file ``codes``.
        source_prefix: language token that a multilingual model needs in front of every source, or
            the subwords (``▁ >>deu<<``) that end in it; None: it needs none.
        target_prefix: language token with which the model's translations begin, and which is
            removed from them; None: they begin with none.
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
        _ = self.tokenization
        if self.subwords not in SUBWORDS:
            raise ValueError(
                f"subwords {shown(self.subwords)} is unknown: choose one of {', '.join(SUBWORDS)}"
            )
        if (self.subwords == "none") != (self.codes is None):
            raise ValueError(
                f"subwords {self.subwords!r} {'need a' if self.codes is None else 'take no'} file"
                " of codes (--codes)"
            )
        if self.target_codes is not None and self.codes is None:
            raise ValueError(
                f"--target-codes {shown(str(self.target_codes))}: give the source language's codes,"
                " too (--codes)"
            )

    @cached_property
    def tokenization(self) -> Tokenization:
        """The tokeniser with its variants."""
        return Tokenization.parse(self.tokenizer, (self.source_lang, self.target_lang))

    def reversed(self) -> "TextRecipe":
        """The recipe for the opposite direction of translation: source and target are exchanged."""
        source, target = self.tokenization.languages
        tokenizer = str(self.tokenization)
        if (source, target) != (self.source_lang, self.target_lang):
            name, *variants = tokenizer.split("+")
            tokenizer = "+".join([f"{name}:{target}:{source}", *variants])
        return replace(
            self,
            source_lang=self.target_lang,
            target_lang=self.source_lang,
            tokenizer=tokenizer,
            codes=self.target_codes or self.codes,
            target_codes=None if self.target_codes is None else self.codes,
            source_prefix=self.target_prefix,
            target_prefix=self.source_prefix,
        )
