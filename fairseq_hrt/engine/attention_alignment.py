"""Which source word a written word comes from."""

from typing import Dict, Optional, Sequence

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..native.decoding import Hypothesis
from .ensemble import EngineEnsemble


@torch.no_grad()
def align(
    ensemble: EngineEnsemble,
    net_input: Dict[str, Tensor],
    hypotheses: Sequence[Sequence[Hypothesis]],
    dictionary: Dictionary,
    *,
    start: Optional[int] = None,
) -> None:
    """Fills in the ``alignment`` of hypotheses: the source word with most of the last layer's
    attention, averaged over its heads.

    One pass over finished translations, read from left to right by models that can do that; so it
    does not matter how they were found.

    Args:
        net_input: of the batch; its source ends with ``</s>``, which no word is aligned with unless
            there is nothing else.
        hypotheses: of each sentence.
        start: the start symbol; None: ``</s>``.
    """
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
            lines = [
                [first, *hypothesis.tokens[:-1], *[eos] * (width - len(hypothesis.tokens))]
                for hypothesis in row
            ]
            attention = ensemble.source_attention(
                memories, torch.tensor(lines, device=source.device)
            )
            places = attention.masked_fill(~words.unsqueeze(1), -1.0).argmax(2) - before
            for hypothesis, line in zip(row, places.tolist()):
                hypothesis.alignment = line[: len(hypothesis.tokens)]
