"""Walks through graphs against loops over one sentence."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.dag.paths import (
    WalkRules,
    _choose,
    best_successors,
    follow,
    path_lists,
    sentence_keys,
    walk,
)
from fairseq_hrt.native.decoding import NumericalError


@given(
    consecutive=st.integers(0, 3), anywhere=st.integers(0, 3), candidates=st.integers(1, 6),
    seed=st.integers(0, 10**6), keep_repeats=st.booleans(), beta=st.sampled_from([0.7, 0.0]),
    kinds=st.integers(2, 3),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_repeat_suppression_equals_a_loop(
    graphs, consecutive, anywhere, candidates, seed, keep_repeats, beta, kinds
):
    lengths = [12, 7]
    links = graphs.links(2, 12, lengths, seed=seed, spread=1.5)
    # Short steps, so that sentences are long enough for repetitions.
    vertex = torch.arange(12)
    links = torch.log_softmax(links - 1.5 * (vertex - vertex.unsqueeze(1)), 2).nan_to_num(
        nan=-math.inf
    )
    # Two or three words only: repetitions everywhere.
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.log_softmax(
        torch.randn(2, 12, 3 + kinds, generator=generator, dtype=torch.double), 2
    )
    log_probs[:, :, :3] = -math.inf
    rules = WalkRules(
        beta=beta,
        candidates=candidates,
        consecutive=consecutive,
        anywhere=anywhere,
        keep_repeats=keep_repeats,
    )
    last = torch.tensor(lengths) - 1
    vertices, tokens, parts = walk(
        links,
        log_probs.topk(min(candidates, 3 + kinds), 2),
        last,
        rules,
        eos=2,
        keys=torch.tensor([1, 2]),
    )
    for row, end in enumerate(last.tolist()):
        path, written, words = [0], [], []
        while path[-1] != end:
            pairs = []
            for v in range(path[-1] + 1, end + 1):
                own = [(0.0, 2)] if v == end else sorted(
                    ((float(log_probs[row, v, y]), y) for y in range(3 + kinds)),
                    reverse=True)[:candidates]  # fmt: skip
                pairs += [
                    (float(links[row, path[-1], v]) + beta * score, v, y)
                    for score, y in own
                    if score > -math.inf
                ]
            # As topk does, of equal ones the first; beta 0 makes them equal.
            pairs.sort(key=lambda pair: -pair[0])
            if beta == 0.0 and len({round(pair[0], 9) for pair in pairs}) < len(pairs):
                break
            fine = [
                pair
                for pair in pairs[:candidates]
                if prints_well(words, pair[2], consecutive, anywhere, keep_repeats)
            ]
            _, v, y = (fine or pairs)[0]
            path.append(v)
            written.append(y)
            if keep_repeats or not words or words[-1] != y:
                words.append(y)
        found = [v for v in vertices[row].tolist() if v >= 0]
        assert found[: len(path) - 1] == path[1:]
        assert [y for y in tokens[row].tolist() if y >= 0][: len(written)] == written
        for v, y, part in zip(path[1:], written, parts[row].tolist()):
            assert part == (0.0 if y == 2 else pytest.approx(float(log_probs[row, v, y])))


def prints_well(words, token, consecutive, anywhere, keep_repeats):
    """Whether the rules allow ``token`` behind ``words``; a repeat that is not printed can only be
    an immediate one."""
    if token == 2:
        return True
    if not keep_repeats and words and words[-1] == token:
        return consecutive == 0
    return allowed([*words, token], consecutive, anywhere)


def allowed(words, consecutive, anywhere):
    for size in range(1, consecutive + 1):
        if len(words) >= 2 * size and words[-size:] == words[-2 * size : -size]:
            return False
    grams = (
        [tuple(words[i : i + anywhere]) for i in range(len(words) - anywhere + 1)]
        if anywhere
        else []
    )
    # Where every candidate was forbidden an older repetition is there already.
    return not grams or grams[-1] not in grams[:-1]


def test_samples_have_the_probabilities_of_the_graph(graphs):
    links = graphs.links(1, 4, [4], seed=3).expand(4000, 4, 4)
    log_probs = torch.log_softmax(torch.randn(1, 4, 5, dtype=torch.double), 2)
    log_probs[:, :, :3] = -math.inf
    log_probs = torch.log_softmax(log_probs, 2).expand(4000, 4, 5)
    rules = WalkRules(beta=1.0, candidates=20, temperature=1.0)
    best = log_probs.topk(5, 2)
    vertices, tokens, _ = walk(
        links.clone(), best, torch.full((4000,), 3), rules, eos=2, keys=torch.arange(4000)
    )
    counts = Counter(zip(map(tuple, vertices.tolist()), map(tuple, tokens.tolist())))
    for (path, words), count in counts.items():
        path = [0, *(v for v in path if v >= 0)]
        expected = math.exp(
            graphs.score(links[0], path)
            + sum(float(log_probs[0, v, y]) for v, y in zip(path[1:-1], words))
        )
        assert count / 4000 == pytest.approx(expected, abs=4 * math.sqrt(expected / 4000) + 1e-3)
    narrow = WalkRules(beta=1.0, candidates=20, temperature=1.0, top_p=1e-9)
    same, _, _ = walk(
        links.clone(), best, torch.full((4000,), 3), narrow, eos=2, keys=torch.arange(4000)
    )
    assert (same == same[0]).all()


@pytest.mark.parametrize(
    "top_p, drawn",
    [(0.5, {0}), (0.51, {0, 1}), (0.75, {0, 1}), (0.76, {0, 1, 2}), (1.0, {0, 1, 2})],
)
def test_the_share_that_is_drawn_from_ends_where_it_is_reached(top_p, drawn):
    rules = WalkRules(beta=1.0, candidates=3, temperature=1.0, top_p=top_p)
    scores = torch.tensor([0.5, 0.25, 0.25], dtype=torch.double).log().expand(300, 3)
    # Powers of two: shares are exact.
    chosen = _choose(scores, torch.zeros(300, 3, dtype=torch.bool), rules, torch.arange(300), 0)
    assert set(chosen.tolist()) == drawn


@given(st.lists(st.integers(2, 40), min_size=1, max_size=4), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_follow(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    size = max(lengths)
    successors = torch.zeros(len(lengths), size, dtype=torch.long)
    expected = torch.zeros(len(lengths), size, dtype=torch.bool)
    for row, length in enumerate(lengths):
        for u in range(length - 1):
            successors[row, u] = torch.randint(u + 1, min(u + 4, length), (1,), generator=generator)
        vertex = 0
        expected[row, 0] = True
        while vertex != length - 1:
            vertex = int(successors[row, vertex])
            expected[row, vertex] = True
    assert torch.equal(follow(successors, torch.tensor(lengths) - 1), expected)


def test_successors():
    links = torch.tensor([[[-math.inf, -1.0, -2.0], [-math.inf, -math.inf, 0.0], [-math.inf] * 3]])
    scores = torch.tensor([[0.0, -3.0, -0.5]])
    assert best_successors(links)[0, :2].tolist() == [1, 2]
    assert [int(best_successors(links, scores, beta)[0, 0]) for beta in (1.0, 0.3)] == [2, 1]


def test_nan_links_never_loop():
    links = torch.full((1, 4, 4), math.nan)
    with pytest.raises(NumericalError, match="NaN"):
        follow(best_successors(links), torch.tensor([3]))


def test_sentences_have_numbers_of_their_own():
    """Whatever they are batched with, and for each draw another."""
    tokens = torch.tensor([[1, 5, 6, 2]])
    assert sentence_keys(tokens, 1, 0) == sentence_keys(torch.tensor([[5, 6, 2, 1, 1]]), 1, 0)
    keys = [
        int(sentence_keys(t, 1, n)) for t in (tokens, torch.tensor([[6, 5, 2]])) for n in (0, 1)
    ]
    assert len(set(keys)) == 4


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_path_lists(passed):
    assert path_lists(torch.tensor(passed)) == [
        [v for v, here in enumerate(row) if here] for row in passed
    ]


@given(seed=st.integers(0, 10**6), beta=st.sampled_from([0.0, 0.3, 2.0]))
def test_the_next_vertex_is_the_best_one_for_link_and_word(graphs, seed, beta):
    links, scores = graphs.links(2, 6, [6, 4], seed=seed), -torch.rand(2, 6, dtype=torch.double)
    plain, weighted = best_successors(links), best_successors(links, scores, beta)
    for row, length in enumerate((6, 4)):
        for u in range(length - 1):
            later = range(u + 1, length)
            assert int(plain[row, u]) == max(later, key=lambda v: float(links[row, u, v]))
            assert int(weighted[row, u]) == max(
                later, key=lambda v: float(links[row, u, v]) + beta * float(scores[row, v])
            )
