"""Which source word a written word comes from, and what to write for one that the model does not know.

PyTorch is loaded by :func:`align` alone: the runtime's translator replaces words, too.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Sequence

if TYPE_CHECKING:
    from fairseq.data import Dictionary
    from torch import Tensor

    from .ensemble import EngineEnsemble
    from .hypothesis import Hypothesis


def align(
    ensemble: "EngineEnsemble",
    net_input: "Dict[str, Tensor]",
    hypotheses: "Sequence[Sequence[Hypothesis]]",
    dictionary: "Dictionary",
    *,
    start: Optional[int] = None,
) -> None:
    """Fills in the ``alignment`` of hypotheses: the source word with most of the last layer's attention, averaged over its heads.

    One pass over finished translations, read from left to right by models that can do that; so it does not matter how they were found.

    Args:
        net_input: of the batch; its source ends with ``</s>``, which no word is aligned with unless there is nothing else.
        hypotheses: of each sentence.
        start: the start symbol; None: ``</s>``.
    """
    import torch

    source, first = net_input["src_tokens"], dictionary.eos() if start is None else start
    pad, eos = dictionary.pad(), dictionary.eos()
    with torch.inference_mode():
        memories = ensemble.encode(net_input)
        words = source.ne(pad) & source.ne(eos)
        words |= ~words.any(1, keepdim=True) & source.ne(pad)
        # Padding stands on one side.
        before = source.ne(pad).int().argmax(1, keepdim=True)
        for rank in range(max(map(len, hypotheses))):
            row = [best[min(rank, len(best) - 1)] for best in hypotheses]
            width = max(len(hypothesis.tokens) for hypothesis in row)
            lines = [[first, *hypothesis.tokens[:-1], *[eos] * (width - len(hypothesis.tokens))] for hypothesis in row]
            attention = ensemble.source_attention(memories, torch.tensor(lines, device=source.device))
            places = attention.masked_fill(~words.unsqueeze(1), -1.0).argmax(2) - before
            for hypothesis, line in zip(row, places.tolist()):
                hypothesis.alignment = line[: len(hypothesis.tokens)]


def read_lexicon(path: str) -> Dict[str, str]:
    """fairseq's format: a source word and its translation a line; an empty path is an empty lexicon.

    Raises:
        ValueError: the file cannot be read, or a line has fewer than two words.
    """
    if not path:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--replace-unk {path}: the lexicon cannot be read: {error}") from error
    lexicon = {}
    for number, line in enumerate(lines, 1):
        columns = line.split()
        if columns and len(columns) < 2:
            raise ValueError(f"--replace-unk {path}, line {number}: {line!r} is no source word with its translation")
        if columns:
            lexicon[columns[0]] = columns[1]
    return lexicon


def replace_unknown(
    tokens: Sequence[str], alignment: Sequence[int], source: Sequence[str], lexicon: Mapping[str, str], unknown: str
) -> List[str]:
    """Words instead of ``<unk>``: the translation that the lexicon has for the source word, or the source word itself.

    Args:
        tokens: a translation.
        alignment: the place in ``source`` of each token.
        source: whole words, or subwords; those of one word give one replacement.
        lexicon: see :func:`read_lexicon`.
        unknown: how the unknown word is written.
    """
    found: List[str] = []
    last: Optional[int] = None
    for token, place in zip(tokens, alignment):
        if token != unknown or place >= len(source):
            found.append(token)
            last = None
        elif place != last:
            found.append(lexicon.get(source[place], source[place]))
            last = place
    return found
