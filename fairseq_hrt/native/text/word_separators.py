"""Separates the words of languages that are written without spaces between them."""

import logging
import tempfile
from functools import cache
from typing import Any, Callable, Dict, NamedTuple, Tuple

Separate = Callable[[str], str]
_CHINESE, _JAPANESE = ("zh", "zho", "cmn", "chi", "yue", "wuu"), ("ja", "jpn")


class Separator(NamedTuple):
    """A way to separate words.

    Attributes:
        languages: codes of the languages that it serves; ``zh`` covers ``zh_CN``, too.
        package: the packages to install, as arguments of ``pip install``; empty: none.
        make: returns a function that separates the words of a text by spaces.
    """

    languages: Tuple[str, ...]
    package: str
    make: Callable[[], Separate]

    def separates(self, language: str) -> bool:
        """Whether this separator serves the language with the given code."""
        return language.replace("-", "_").split("_")[0].lower() in self.languages


def _jieba() -> Separate:
    import jieba

    jieba.setLogLevel(logging.WARNING)
    cutter: Any = jieba.Tokenizer()
    # jieba caches its dictionary in this folder and unmarshals what it finds there; the default is
    # shared by all users of a machine.
    with tempfile.TemporaryDirectory() as cutter.tmp_dir:
        cutter.initialize()
    return lambda text: " ".join(word for word in cutter.cut(text) if not word.isspace())


def _mecab() -> Separate:
    import ipadic
    import MeCab

    tagger = MeCab.Tagger(f"{ipadic.MECAB_ARGS} -Owakati")
    return lambda text: tagger.parse(text).strip() if text else ""


def _characters() -> Separate:
    return lambda text: " ".join("".join(map(_apart, text)).split())


def _apart(sign: str) -> str:
    return f" {sign} " if "\u3040" <= sign <= "\u9fff" or sign >= "\U00020000" else sign


SEPARATORS: Dict[str, Separator] = {
    "jieba": Separator(_CHINESE, "jieba==0.42.1", _jieba),
    "mecab": Separator(_JAPANESE, "mecab-python3==1.0.12 ipadic==1.0.0", _mecab),
    "characters": Separator((*_CHINESE, *_JAPANESE), "", _characters),
}


@cache
def word_separator(name: str) -> Separate:
    """Returns the function of the separator ``name``, a key of SEPARATORS. It is loaded once in
    each process, since jieba takes a second.

    Raises:
        ValueError: the separator's package is not installed.
    """
    try:
        return SEPARATORS[name].make()
    except ImportError as error:
        raise ValueError(
            f"{name}, which separates words, is not installed ({error}): pip install"
            f" {SEPARATORS[name].package}"
        ) from error
