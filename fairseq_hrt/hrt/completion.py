"""The work of stage II on the host: its input from the hypotheses of stage I, and the translations
from its output."""

from typing import List, Optional, Tuple

import torch
from torch import Tensor

from ..engine import check_number
from ..native.decoding import Hypothesis, best_first
from ..native.options.values import DecodingOptions
from .decoder import HRTDecoder
from .sample import skip_cmlm_input


def same_number(kept: List[List[Hypothesis]]) -> Tuple[List[Hypothesis], int]:
    """Gives all sentences the same number of hypotheses, the largest in ``kept``, by repeating the
    last hypothesis of a sentence that has fewer. Returns (all hypotheses in one list, sentence by
    sentence; the number of hypotheses per sentence)."""
    beams = max(len(hypotheses) for hypotheses in kept)
    rows = [hypotheses[min(n, len(hypotheses) - 1)] for hypotheses in kept for n in range(beams)]
    return rows, beams


def masked_line(row: Hypothesis, chunk_size: int, steps: int, decoder: HRTDecoder) -> List[int]:
    """The input of stage II for a hypothesis of stage I: K - 1 masks before each of its tokens,
    then padding up to ``steps`` chunks of K tokens."""
    line = skip_cmlm_input(row.tokens, chunk_size, mask=decoder.mask)
    return line + [decoder.padding_idx] * (chunk_size * (steps - row.steps))


def masked_input(
    rows: List[Hypothesis], chunk_size: int, decoder: HRTDecoder, device: torch.device
) -> Tuple[Tensor, Optional[Tensor]]:
    """The input of stage II for R hypotheses of stage I: (ids, LongTensor ``[R, L]``, padded;
    BoolTensor ``[R, 1, L]``, False for padding, or None if there is no padding). Each row has
    K - 1 masks before every token of stage I, K = ``chunk_size``."""
    steps = max(row.steps for row in rows)
    lines = [masked_line(row, chunk_size, steps, decoder) for row in rows]
    tokens = torch.tensor(lines, device=device)  # [R, L]
    if all(row.steps == steps for row in rows):
        return tokens, None
    lengths = torch.tensor([chunk_size * row.steps for row in rows], device=device).unsqueeze(1)
    inside = torch.arange(tokens.size(1), device=device) < lengths  # [R, L]
    return tokens, inside.unsqueeze(1)  # [R, L], [R, 1, L]


def completions(
    kept: List[List[Hypothesis]],
    rows: List[Hypothesis],
    words: List[List[int]],
    numbers: List[List[float]],
    chunk_size: int,
    decoder: HRTDecoder,
    options: DecodingOptions,
) -> List[List[Hypothesis]]:
    """The completed translations of each sentence, best first.

    Args:
        kept: hypotheses of stage I, of each sentence.
        rows: these hypotheses in one list, equally many per sentence, see :func:`same_number`.
        words: ids that stage II chose at the masked positions of each row.
        numbers: log-probabilities of these words.
        chunk_size: K.
        decoder: the decoder of the first model.
        options: the decoding options.
    """
    finished = [
        _complete(row, line, scores, chunk_size, decoder, options)
        for row, line, scores in zip(rows, words, numbers)
    ]
    beams = len(rows) // len(kept)
    return [
        best_first(finished[number * beams : number * beams + len(hypotheses)])
        for number, hypotheses in enumerate(kept)
    ]


def _complete(
    row: Hypothesis,
    choice: List[int],
    best: List[float],
    chunk_size: int,
    decoder: HRTDecoder,
    options: DecodingOptions,
) -> Hypothesis:
    """The translation that completes ``row``, a hypothesis of stage I: cut after the first
    ``</s>`` and scored by Eq. 2, divided by the number of tokens of its chunks ** lenpen unless
    ``--hrt-scoring eq2`` or ``--unnormalized`` is given.

    Args:
        choice: ids of the words at the masked positions.
        best: log-probabilities of these words.
        chunk_size, decoder, options: as for :func:`completions`.
    """
    length = chunk_size * row.steps
    tokens, scores = [0] * length, [0.0] * length
    tokens[chunk_size - 1 :: chunk_size] = row.tokens
    scores[chunk_size - 1 :: chunk_size] = row.positional_scores
    gaps = chunk_size - 1
    for place in range(gaps):
        tokens[place::chunk_size] = choice[place : gaps * row.steps : gaps]
        scores[place::chunk_size] = best[place : gaps * row.steps : gaps]
    end = tokens.index(decoder.eos) + 1
    counted = list(scores)
    if not decoder.learn_tail:
        # The model was not trained behind the first </s>: predictions there are noise.
        counted = [
            s for place, s in enumerate(scores) if place < end or (place + 1) % chunk_size == 0
        ]
    total = sum(counted)
    check_number(total)
    divides = options.normalize and options.hrt_scoring == "normalized"
    steps = [
        place // chunk_size if place % chunk_size == 0 else row.steps + 1
        for place in range(1, end + 1)
    ]
    hypothesis = Hypothesis(
        tokens=tokens[:end],
        score=total / length**options.lenpen if divides else total,
        positional_scores=scores[:end],
        token_steps=steps,
        steps=row.steps + 1,
    )
    if options.retain_iter_history:
        hypothesis.history = _history(row, hypothesis, chunk_size, decoder.dictionary.unk())
    return hypothesis


def _history(row: Hypothesis, hypothesis: Hypothesis, chunk_size: int, unk: int) -> List[List[int]]:
    """The partial translation after each step, with ``unk`` for tokens still to come: first
    those of ``row``, the hypothesis of stage I, and last ``hypothesis``, its completion."""
    gap = [unk] * (chunk_size - 1)
    partial: List[int] = []
    history = []
    for token in row.tokens:
        partial = partial + gap + [token]
        history.append(partial)
    return history + [hypothesis.tokens]
