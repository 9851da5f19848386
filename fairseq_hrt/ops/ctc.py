"""Connectionist temporal classification: best alignments, and expected n-grams of the texts that
aligned positions print (Shao and Feng, 2022, "Non-Monotonic Latent Alignments for CTC-Based
Non-Autoregressive Machine Translation").

Position t writes a word or the blank, independently of all others. Equal words next to each other
print one word, and blanks print none: ``a a _ a b`` prints ``a a b``.

Shapes: B batch, T positions (padded), n target words (padded), V vocabulary.
"""

from typing import List, NamedTuple, Tuple

import torch
from torch import Tensor

from . import fused

# Log-probabilities below this count as this one, so that differences of their sums stay finite.
_LEAST = -60.0


def ctc_best_alignment(
    log_probs: Tensor, targets: Tensor, lengths: Tensor, target_lengths: Tensor, *, blank: int
) -> Tuple[Tensor, Tensor]:
    """What each position writes in the most probable alignment of a target (Graves et al., 2006,
    with a maximum instead of the sum).

    Args:
        log_probs: ``[B, T, V]``, log-probability of each word at each position.
        targets: LongTensor ``[B, n]``, ids of the target words.
        lengths, target_lengths: LongTensors ``[B]``, positions and target words of each sentence.
        blank: id of the blank.

    Returns:
        (token at each position, LongTensor ``[B, T]``, the blank after the last position;
        log-probability of the alignment ``[B]``, -inf if there are too few positions for the
        target).
    """
    batch, positions, _ = log_probs.shape
    device, lowest = log_probs.device, float("-inf")
    # States: _ y_1 _ y_2 _ … y_n _
    states = 2 * targets.size(1) + 1
    labels = targets.new_full((batch, states), blank)  # [B, 2n + 1]
    labels[:, 1::2] = targets
    state = torch.arange(states, device=device)
    inside = state <= 2 * target_lengths.unsqueeze(1)  # [B, 2n + 1]
    # A blank may be left out between different words.
    skips = torch.zeros_like(inside)
    skips[:, 3::2] = targets[:, 1:] != targets[:, :-1]
    emitted = log_probs.gather(2, labels.unsqueeze(1).expand(-1, positions, -1))  # [B, T, 2n + 1]
    emitted = emitted.masked_fill(~inside.unsqueeze(1), lowest)
    if emitted.numel() and fused.available(device):
        from .fused import ctc

        path, scores = ctc.best_states(emitted, skips, lengths, target_lengths)
    else:
        path, scores = _best_states(emitted, skips, lengths, target_lengths)
    tokens = labels.gather(1, path)  # [B, T]
    place = torch.arange(positions, device=device)
    return tokens.masked_fill(place >= lengths.unsqueeze(1), blank), scores


def _best_states(
    emitted: Tensor, skips: Tensor, lengths: Tensor, target_lengths: Tensor
) -> Tuple[Tensor, Tensor]:
    """The best path through the S states ``_ y_1 _ … y_n _`` of each sentence, as state indices,
    LongTensor ``[B, T]``, the last one repeated behind the last position; and its log-probability
    ``[B]``. ``emitted`` ``[B, T, S]`` are log-probabilities of the states' tokens, ``skips``
    ``[B, S]`` is True for states that may follow the state two places before them."""
    (batch, positions, states), lowest = emitted.shape, float("-inf")
    state = torch.arange(states, device=emitted.device)
    best = torch.where(state < 2, emitted[:, 0], lowest)  # [B, 2n + 1]
    steps: List[Tensor] = []
    for position in range(1, positions):
        one = torch.cat([best.new_full((batch, 1), lowest), best[:, :-1]], 1)
        two = torch.cat([best.new_full((batch, 2), lowest), best[:, :-2]], 1)[:, :states]
        two = two.masked_fill(~skips, lowest)
        reached, step = torch.stack([best, one, two]).max(0)  # [B, 2n + 1] each
        # Behind its last position a sentence stays where it is.
        active = (position < lengths).unsqueeze(1)  # [B, 1]
        best = torch.where(active, reached + emitted[:, position], best)
        steps.append(torch.where(active, step, 0))
    ends = torch.stack([2 * target_lengths, (2 * target_lengths - 1).clamp(min=0)], 1)  # [B, 2]
    scores, which = best.gather(1, ends).max(1)  # [B] each
    current = ends.gather(1, which.unsqueeze(1))  # [B, 1]
    path = [current]
    for step in reversed(steps):
        current = current - step.gather(1, current)
        path.append(current)
    return torch.cat(path[::-1], 1), scores


class ExpectedNgrams(NamedTuple):
    """Expected n-grams of the printed texts; every field is ``[B]`` and differentiable.

    Attributes:
        score: brevity penalty times precision.
        precision: expected matches divided by the expected number of n-grams.
        brevity_penalty: min(1, exp(1 - target words / expected length)).
        expected_length: expected number of printed words.
    """

    score: Tensor
    precision: Tensor
    brevity_penalty: Tensor
    expected_length: Tensor


def expected_counts(
    log_probs: Tensor, targets: Tensor, lengths: Tensor, *, order: int, blank: int
) -> Tensor:
    """The expected number of times that each n-gram of the target is printed.

    Args:
        log_probs: ``[B, T, V]``, log-probability of each word at each position.
        targets: LongTensor ``[B, n]``, ids of the target words.
        lengths: LongTensor ``[B]``, positions of each sentence.
        order: the number of words of an n-gram.
        blank: id of the blank.

    Returns:
        ``[B, n - order + 1]``: entry i is that of the n-gram that begins at target word i; no entry
        if all targets are shorter than an n-gram.
    """
    batch, positions, _ = log_probs.shape
    place = torch.arange(positions, device=log_probs.device)
    outside = place >= lengths.unsqueeze(1)  # [B, T]
    chosen = targets.unsqueeze(1).expand(-1, positions, -1)
    probs = log_probs.gather(2, chosen).exp()  # [B, T, n]
    probs = probs.masked_fill(outside.unsqueeze(2), 0.0)
    count = targets.size(1) - order + 1
    if count < 1:
        return log_probs.new_zeros(batch, 0)
    before = torch.cat([torch.zeros_like(probs[:, :1]), probs[:, :-1]], 1)
    if order == 1:
        # The first position of a run: the one before it writes something else.
        return (probs * (1 - before)).sum(1)  # [B, n]
    # between[j, k]: all positions between j and k are blank; 1 for neighbours.
    blanks = log_probs[..., blank].clamp(min=_LEAST).masked_fill(outside, 0.0).cumsum(1)  # [B, T]
    between = torch.cat([torch.zeros_like(blanks[:, :1]), blanks[:, :-1]], 1)  # up to before k
    gaps = (between.unsqueeze(1) - blanks.unsqueeze(2)).triu(1).exp().triu(1)  # [B, T, T]
    apart = gaps.triu(2)
    # Any last position of the first word's run: what follows is blank or another word.
    standing = probs[:, :, :count]  # [B, T, count]
    for number in range(1, order):
        words = probs[:, :, number : number + count]  # [B, T, count]
        equal = targets[:, number : number + count] == targets[:, number - 1 : number - 1 + count]
        arriving = torch.where(
            equal.unsqueeze(1), apart.transpose(1, 2) @ standing, gaps.transpose(1, 2) @ standing
        )  # [B, T, count], the first position of this word's run, the word not yet written
        if number == order - 1:
            return (arriving * words).sum(1)
        # The run continues for any number of positions.
        run: List[Tensor] = []
        for position in range(positions):
            start = arriving[:, position]
            run.append(words[:, position] * (start + run[-1] if run else start))
        standing = torch.stack(run, 1)  # [B, T, count], its last position
    raise AssertionError("the loop returns")


def expected_length(log_probs: Tensor, lengths: Tensor, *, blank: int) -> Tensor:
    """The expected number of printed words, ``[B]``, for ``log_probs`` ``[B, T, V]`` of sentences
    with ``lengths`` ``[B]`` positions; ``blank`` is the id of the blank."""
    probs = log_probs.exp()
    place = torch.arange(log_probs.size(1), device=log_probs.device)
    probs = probs * (place < lengths.unsqueeze(1)).unsqueeze(2)  # [B, T, V]
    again = (probs[:, 1:] * probs[:, :-1]).sum(2)  # [B, T - 1], the same as the position before
    again = again - probs[:, 1:, blank] * probs[:, :-1, blank]
    return lengths - probs[..., blank].sum(1) - again.sum(1)  # [B]


def ctc_ngrams(
    log_probs: Tensor,
    targets: Tensor,
    lengths: Tensor,
    target_lengths: Tensor,
    *,
    order: int,
    blank: int,
) -> ExpectedNgrams:
    """Expected n-gram matches of the printed texts with a target, with brevity penalty.

    The expected number of n-grams is taken as the expected length - order + 1, at least 1. But for
    that limit, it differs from the exact number only by texts of fewer than order - 1 words.

    Args:
        log_probs: ``[B, T, V]``, log-probability of each word at each position.
        targets: LongTensor ``[B, n]``, ids of the target words, padded on the right.
        lengths, target_lengths: LongTensors ``[B]``, positions and target words of each sentence.
        order: the number of words of an n-gram.
        blank: id of the blank.
    """
    found = expected_counts(log_probs, targets, lengths, order=order, blank=blank)  # [B, N]
    size = found.size(1)
    number = torch.arange(size, device=targets.device)
    real = number <= (target_lengths - order).unsqueeze(1)  # [B, N]
    # Of equal n-grams the first counts for all of them.
    grams = targets.unfold(1, order, 1) if size else targets.new_zeros(len(targets), 0, order)
    same = (grams.unsqueeze(2) == grams.unsqueeze(1)).all(3)  # [B, N, N]
    same = same & real.unsqueeze(1) & real.unsqueeze(2)
    first = real & ~(same & (number.unsqueeze(1) > number)).any(2)  # [B, N]
    matches = torch.minimum(found, same.sum(2).to(found)).masked_fill(~first, 0.0).sum(1)  # [B]
    length = expected_length(log_probs, lengths, blank=blank)  # [B]
    total = (length - order + 1).clamp(min=1.0)
    brevity = (1 - target_lengths / length.clamp(min=1e-3)).clamp(max=0.0).exp()  # [B]
    precision = matches / torch.maximum(total, matches)
    return ExpectedNgrams(brevity * precision, precision, brevity, length)
