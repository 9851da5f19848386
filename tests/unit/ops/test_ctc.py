"""CTC against enumeration of every output."""

import itertools
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.ops.ctc import ctc_best_alignment, ctc_ngrams, expected_counts, expected_length

BLANK = 0


def printed(output):
    return tuple(word for word, _ in itertools.groupby(output) if word != BLANK)


def outputs(log_probs):
    """Every output of the positions ``[T, V]``, with its log-probability."""
    for output in itertools.product(range(log_probs.size(1)), repeat=log_probs.size(0)):
        yield output, float(sum(row[word] for row, word in zip(log_probs, output)))


@st.composite
def batches(draw):
    sizes = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=3))
    vocabulary = draw(st.integers(2, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    positions, words = max(size for size, _ in sizes), max(1, *(count for _, count in sizes))
    logits = torch.randn(len(sizes), positions, vocabulary, generator=generator).double() * 2
    targets = torch.randint(1, vocabulary, (len(sizes), words), generator=generator)
    return (
        logits.log_softmax(-1), targets, torch.tensor([size for size, _ in sizes]),
        torch.tensor([count for _, count in sizes]),
    )  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(batches())
def test_best_alignments_are_those_of_enumeration(batch):
    log_probs, targets, lengths, target_lengths = batch
    tokens, scores = ctc_best_alignment(*batch, blank=BLANK)
    likelihood = torch.nn.functional.ctc_loss(
        log_probs.transpose(0, 1), targets, lengths, target_lengths, BLANK, reduction="none"
    )
    for row, (size, count) in enumerate(zip(lengths.tolist(), target_lengths.tolist())):
        target = tuple(targets[row, :count].tolist())
        found = {
            output: score
            for output, score in outputs(log_probs[row, :size])
            if printed(output) == target
        }
        assert bool(scores[row] > float("-inf")) == bool(found)
        if found:
            own = tuple(tokens[row, :size].tolist())
            assert printed(own) == target and found[own] == pytest.approx(max(found.values()))
            assert float(scores[row]) == pytest.approx(found[own])
            total = torch.tensor(list(found.values())).logsumexp(0)
            assert float(-likelihood[row]) == pytest.approx(float(total), abs=1e-4)
        assert set(tokens[row, size:].tolist()) <= {BLANK}


@settings(max_examples=25, deadline=None)
@given(batches(), st.integers(1, 3))
def test_expected_counts_are_those_of_enumeration(batch, order):
    log_probs, targets, lengths, target_lengths = batch
    counts = expected_counts(log_probs, targets, lengths, order=order, blank=BLANK)
    found = expected_length(log_probs, lengths, blank=BLANK)
    result = ctc_ngrams(*batch, order=order, blank=BLANK)
    for row, (size, count) in enumerate(zip(lengths.tolist(), target_lengths.tolist())):
        expected, length = Counter(), 0.0
        for output, score in outputs(log_probs[row, :size]):
            text, weight = printed(output), torch.tensor(score).exp().item()
            length += weight * len(text)
            for place in range(len(text) - order + 1):
                expected[text[place : place + order]] += weight
        assert float(found[row]) == pytest.approx(length, abs=1e-5)
        words = targets[row].tolist()
        for place, value in enumerate(counts[row].tolist()):
            assert value == pytest.approx(expected[tuple(words[place : place + order])], abs=1e-5)
        own = Counter(tuple(words[i : i + order]) for i in range(count - order + 1))
        matches = sum(min(number, expected[gram]) for gram, number in own.items())
        total = max(length - order + 1, 1.0, matches)
        assert float(result.precision[row]) == pytest.approx(matches / total, abs=1e-5)


def test_gradients_of_the_score():
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(2, 5, 4, generator=generator).double().requires_grad_()
    targets, sizes = torch.tensor([[1, 2, 2], [3, 1, 1]]), torch.tensor([5, 4])
    for order in (1, 2, 3):
        torch.autograd.gradcheck(
            lambda given, order=order: ctc_ngrams(
                given.log_softmax(-1), targets, sizes, torch.tensor([3, 2]), order=order,
                blank=BLANK,
            ).score,
            logits,
        )  # fmt: skip


def test_what_is_nearly_impossible_has_no_nan():
    log_probs = torch.full((1, 4, 3), -200.0)
    log_probs[:, :, 1] = 0.0
    log_probs.requires_grad_()
    found = ctc_ngrams(
        log_probs, torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]), order=2,
        blank=BLANK,
    )  # fmt: skip
    found.score.sum().backward()
    assert torch.isfinite(found.score).all() and torch.isfinite(log_probs.grad).all()
