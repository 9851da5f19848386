"""Alignment of translated words with source words by attention."""

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
    """Sets the ``alignment`` of hypotheses: for each token the index (0 = first) of the source word
    with the highest attention weight in the last decoder layer, averaged over heads and models.

    The models read the finished translations, whichever search found them, again: in one causal
    pass the best of each sentence, in another one the second best, and so on.

    Args:
        ensemble: the models, which decode from left to right.
        net_input: fairseq's ``sample["net_input"]`` of the batch. A token is aligned with ``</s>``
            only if its source has no other word.
        hypotheses: for each sentence its hypotheses, changed in place.
        dictionary: the target dictionary.
        start: id of the start symbol; None: ``</s>``.
    """
    source, first = net_input["src_tokens"], dictionary.eos() if start is None else start
    pad, eos = dictionary.pad(), dictionary.eos()
    with torch.inference_mode():
        memories = ensemble.encode(net_input)
        words = source.ne(pad) & source.ne(eos)  # [B, S]
        words |= ~words.any(1, keepdim=True) & source.ne(pad)  # [B, S]
        # [B, 1], the padding to the left of each source; indices count from its first word.
        before = source.ne(pad).int().argmax(1, keepdim=True)
        for rank in range(max(map(len, hypotheses))):
            row = [best[min(rank, len(best) - 1)] for best in hypotheses]
            width = max(len(hypothesis.tokens) for hypothesis in row)
            lines = [
                [first, *hypothesis.tokens[:-1], *[eos] * (width - len(hypothesis.tokens))]
                for hypothesis in row
            ]
            attention = ensemble.source_attention(  # [B, T, S]
                memories, torch.tensor(lines, device=source.device)
            )
            places = attention.masked_fill(~words.unsqueeze(1), -1.0).argmax(2) - before  # [B, T]
            for hypothesis, line in zip(row, places.tolist()):
                hypothesis.alignment = line[: len(hypothesis.tokens)]
