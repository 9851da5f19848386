"""Reads fairseq's dictionaries without fairseq, and maps words to ids."""

from pathlib import Path
from typing import Dict, List, Sequence

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNK = range(4)
_OVERWRITE = "#fairseq:overwrite"


class Words:
    """The words of a ``dict.LANGUAGE.txt``, with the ids that ``fairseq.data.Dictionary.load``
    gives them.

    Args:
        path: the file.

    Raises:
        ValueError: the file cannot be read, a line is not ``WORD COUNT``, or a word occurs twice
            without ``#fairseq:overwrite``.
    """

    eos, unk = EOS, UNK

    def __init__(self, path: Path) -> None:
        self.words: List[str] = list(SPECIAL)
        known = {word: number for number, word in enumerate(SPECIAL)}
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{path} cannot be read as a dictionary of fairseq (dict.LANGUAGE.txt): {error}"
            ) from error
        for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, start=1):
            word, space, count = line.rstrip().rpartition(" ")
            overwrite = count == _OVERWRITE
            if overwrite:
                word, space, count = word.rpartition(" ")
            if not space or not _is_number(count):
                raise ValueError(
                    f"{path}: line {number} is {line[:80]!r}, not a word with its count;"
                    " write WORD COUNT"
                )
            if word in known and not overwrite:
                raise ValueError(
                    f"{path}: line {number} has the word {word[:80]!r} again; remove the line, or"
                    f" append {_OVERWRITE} to it if it is to replace the earlier one"
                )
            known[word] = len(self.words)
            self.words.append(word)
        # "<s>" or "<pad>" in a text is an ordinary word: unknown, unless the file lists it.
        self._ids: Dict[str, int] = {
            word: number for word, number in known.items() if number >= len(SPECIAL)
        }

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, words: Sequence[str]) -> List[int]:
        """Returns the ids of words; words that are not in the file have the id of ``<unk>``."""
        get = self._ids.get
        return [get(word, UNK) for word in words]


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
