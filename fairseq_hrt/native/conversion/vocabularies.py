"""Converts vocabularies of other toolkits to fairseq's dictionaries.

fairseq's dictionaries begin with ``<s>``, ``<pad>``, ``</s>``, ``<unk>``. The rows of imported
matrices, one per word, are therefore reordered; words that the model lacks get rows of zeros.
"""

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ..io.escaping import shown
from ..text.dictionary import SPECIAL
from .plain_files import parse_yaml, read_bytes, read_json, read_text

logger = logging.getLogger(__name__)

# Characters that no word of a dictionary can have: spaces, line breaks, lone surrogates.
_UNWRITABLE = re.compile("[ \t\n\r\v\f\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")
# Replaces words that cannot be written or are missing.
FILLER = "madeupword{:04d}"
# The share of a SentencePiece model's pieces that a vocabulary may lack without a warning: those
# that did not occur in the training text.
MISSING = 0.05


@dataclass(frozen=True)
class Vocabulary:
    """The words of an imported model.

    Attributes:
        words: the words of fairseq's dictionary after its four special symbols.
        rows: for each id of that dictionary, special symbols included, the row in the imported
            matrices; -1 if these have none.
        size: the number of rows of these matrices.
    """

    words: Tuple[str, ...]
    rows: Tuple[int, ...]
    size: int

    def save(self, path: Path) -> None:
        """Writes the words as a dictionary of fairseq, ``dict.LANGUAGE.txt``."""
        path.write_text(
            "".join(f"{word} 1\n" for word in self.words), encoding="utf-8", newline="\n"
        )

    def reordered(self, matrix: np.ndarray, missing: float = 0.0) -> np.ndarray:
        """Reorders the rows of a matrix ``[size, …]`` to fairseq's ids: ``[len(rows), …]``, with
        ``missing`` for words that the model lacks."""
        rows = np.asarray(self.rows)
        result = np.full((len(rows), *matrix.shape[1:]), missing, np.float32)
        result[rows >= 0] = matrix[rows[rows >= 0]]
        return result

    def ids(self) -> Dict[int, int]:
        """Inverts :attr:`rows`: {row of the imported matrices: id of fairseq's dictionary}."""
        return {row: number for number, row in enumerate(self.rows) if row >= 0}


def make_vocabulary(
    rows: List[Optional[str]], special: Mapping[str, int], subject: object
) -> Vocabulary:
    """Puts the words of a model in fairseq's order.

    Args:
        rows: the word of each row of the model's matrices. Rows with None, or with a word that no
            dictionary can hold, get a made-up word.
        special: {special symbol: its row} for those of ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``
            that the model has.
        subject: the file, for error messages.

    Raises:
        ValueError: a word occurs twice, or ``</s>`` or ``<unk>`` is missing.
    """
    for symbol in ("</s>", "<unk>"):
        if symbol not in special:
            raise ValueError(
                f"{subject} has no {symbol}, which every vocabulary needs: give the vocabulary with"
                " which the model was trained"
            )
    taken = set(special.values())
    words: List[str] = []
    order = [special.get(symbol, -1) for symbol in SPECIAL]
    seen = set(SPECIAL)
    for row, word in enumerate(rows):
        if row in taken:
            continue
        if not word or _UNWRITABLE.search(word):
            # A dictionary cannot hold this word, and no text has it: rename it to keep its row.
            word = FILLER.format(row)
        if word in seen:
            raise ValueError(
                f"{subject} has the word {shown(word)} twice: give the vocabulary with which the"
                " model was trained"
            )
        seen.add(word)
        words.append(word)
        order.append(row)
    return Vocabulary(tuple(words), tuple(order), len(rows))


def by_number(
    numbers: Mapping[str, Any], rows: int, subject: object, *, truncate: bool = False
) -> List[Optional[str]]:
    """Inverts a table that gives each word its row: returns the word of each row, None for a row
    without a word.

    Args:
        numbers: {word: row}.
        rows: the number of rows of the model's matrix.
        subject: the file, for error messages.
        truncate: True: words with a row beyond the matrix are ignored, as with Marian's
            ``dim-vocabs``; False: they are refused.

    Raises:
        ValueError: a row is not an integer, beyond the matrix, or given twice.
    """
    found: List[Optional[str]] = [None] * rows
    for word, number in numbers.items():
        if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 10:
            number = int(number)
        if type(number) is not int or number < 0:
            raise ValueError(
                f"{subject} gives {shown(word)} the id {shown(number)}; it must be an integer"
                " from 0"
            )
        if number >= rows:
            if truncate:
                continue
            raise ValueError(
                f"{subject} gives {shown(word)} the id {number}, but the model has {rows} words:"
                " the file belongs to another model; put this model's vocabulary there"
            )
        if found[number] is not None:
            raise ValueError(
                f"{subject} gives both {shown(found[number])} and {shown(word)} the id {number}:"
                " give each word an id of its own"
            )
        found[number] = word
    return found


def specials_in(rows: List[Optional[str]]) -> Dict[str, int]:
    """Finds the special symbols of fairseq's dictionaries (``<s>``, ``<pad>``, ``</s>``, ``<unk>``)
    among the words of ``rows``: {symbol: its row}, without those that are not there."""
    return {word: row for row, word in enumerate(rows) if word in SPECIAL}


def load_sentencepiece(path: Path) -> Any:
    """Loads a SentencePiece model; ValueError if the file is not one, or the package is not
    installed."""
    try:
        import sentencepiece
    except ImportError as error:
        raise ValueError(
            "SentencePiece models need their package: pip install sentencepiece"
        ) from error
    model = sentencepiece.SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(read_bytes(path))
        size = model.get_piece_size()
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise ValueError(
            f"{path} is not a SentencePiece model, or damaged:"
            f" {' '.join(str(error).split())[:200]}; download or copy it again"
        ) from None
    if size < 1:
        raise ValueError(
            f"{path} is not a SentencePiece model: it has no pieces; download or copy it again"
        )
    return model


def pieces(model: Any) -> List[str]:
    """The pieces of a SentencePiece model, in the order of their ids."""
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]


def require_pieces(path: Path, vocabulary: Vocabulary) -> None:
    """Compares the pieces of a SentencePiece model, apart from its control symbols, with a model's
    vocabulary. Logs a warning if some are missing there (MISSING), or have white space inside.

    Raises:
        ValueError: the file is not a SentencePiece model, or most of its pieces are missing.
    """
    model, words = load_sentencepiece(path), set(vocabulary.words)
    ordinary = [
        model.id_to_piece(number)
        for number in range(model.get_piece_size())
        if not (model.is_control(number) or model.is_unknown(number) or model.is_unused(number))
    ]
    missing = [piece for piece in ordinary if piece not in words]
    told = f"{path}: {len(missing)} of its {len(ordinary)} pieces ({shown(missing[:3])}, …)"
    if 2 * len(missing) > len(ordinary):
        raise ValueError(
            f"{told} are not in the model's vocabulary: the file belongs to another model; put this"
            " model's SentencePiece model there"
        )
    if len(missing) > MISSING * len(ordinary):
        logger.warning(
            "%s are not in the model's vocabulary: does the file belong to this model?", told
        )
    spaced = [piece for piece in words.intersection(ordinary) if piece.split() != [piece]]
    if spaced:
        logger.warning(
            "%s: %d pieces have white space inside, such as %s; they are split there, as fairseq"
            " does, so words that the model has not seen in its training take their place",
            path,
            len(spaced),
            shown(min(spaced)),
        )


def marian_vocabulary(path: Path, rows: int) -> Vocabulary:
    """Reads a vocabulary of Marian: ``.spm``, YAML or JSON (word: id), or plain text with one word
    per line. ``rows`` is the number of rows of the model's embedding.

    Raises:
        ValueError: the file has another format, or belongs to a model of another size.
    """
    if path.suffix == ".spm":
        model = load_sentencepiece(path)
        found: List[Optional[str]] = list(pieces(model))
        if len(found) != rows:
            raise ValueError(
                f"{path} has {len(found)} pieces, but the model has {rows} words: the file belongs"
                " to another model; put this model's vocabulary there"
            )
        special = {
            "</s>": model.eos_id(),
            "<unk>": model.unk_id(),
            "<s>": model.bos_id(),
            "<pad>": model.pad_id(),
        }
        return make_vocabulary(
            found, {name: row for name, row in special.items() if row >= 0}, path
        )
    if path.suffix in (".yml", ".yaml", ".json"):
        table = read_json(path) if path.suffix == ".json" else parse_yaml(read_text(path), path)
        if not isinstance(table, dict):
            raise ValueError(
                f"{path} holds {shown(table)}, not a table of words and their ids: give the"
                " model's vocabulary"
            )
        found = by_number(table, rows, path, truncate=True)
    else:
        lines = read_text(path).split("\n")
        given = [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)][:rows]
        found = [*given, *([None] * (rows - len(given)))]
    return make_vocabulary(found, specials_in(found), path)
