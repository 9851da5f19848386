"""Best paths of every length against all paths."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.ops import joint_viterbi


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_the_best_path_of_the_best_length(graphs, data):
    lengths = data.draw(st.lists(st.integers(2, 8), min_size=1, max_size=3))
    limits = [data.draw(st.integers(1, 7)) for _ in lengths]
    beta = data.draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    seed = data.draw(st.integers(0, 999))
    links = graphs.links(len(lengths), max(lengths), lengths, seed=seed, spread=3.0, holes=0.3)
    tokens = -torch.rand(links.shape[:2], dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 3
    if data.draw(st.booleans()):
        tokens = torch.zeros_like(tokens)
    found = joint_viterbi(tokens, links, torch.tensor(lengths), max_interior=torch.tensor(limits), length_beta=beta)
    for row, (length, limit) in enumerate(zip(lengths, limits)):
        candidates = []
        for path in graphs.paths(length):
            count = len(path) - 2
            if count > limit:
                continue
            score = graphs.score(links[row], path) + sum(float(tokens[row, v]) for v in path[:-1])
            if score > -math.inf:
                candidates.append((score / max(count, 1) ** beta if count else -math.inf, score, path))
        rank, score, path = max(candidates, default=(-math.inf, -math.inf, ()))
        if rank == -math.inf and candidates:
            score, path = candidates[0][1:]
        assert [v for v in found.paths[row].tolist() if v >= 0] == list(path)
        assert float(found.scores[row]) == pytest.approx(score, abs=1e-9)


def test_a_larger_beta_gives_longer_paths(graphs):
    lengths = torch.tensor([20] * 6)
    links = graphs.links(6, 20, [20] * 6, spread=0.3)
    counts = [
        int(joint_viterbi(torch.zeros(6, 20).double(), links, lengths, max_interior=18, length_beta=beta).paths.ge(0).sum())
        for beta in (0.0, 1.0, 3.0)
    ]
    assert counts[0] < counts[1] < counts[2]


def test_batch_mates_and_padding_change_nothing(graphs):
    lengths = [4, 9, 6]
    links = graphs.links(3, 9, lengths, spread=2.0)
    tokens = -torch.rand(3, 9).double()
    options = dict(max_interior=torch.tensor([2, 7, 4]), length_beta=1.0)
    together = joint_viterbi(tokens, links, torch.tensor(lengths), **options)
    for row, length in enumerate(lengths):
        alone = joint_viterbi(
            tokens[row : row + 1, :length], links[row : row + 1, :length, :length], torch.tensor([length]),
            max_interior=options["max_interior"][row : row + 1], length_beta=1.0,
        )  # fmt: skip
        assert [v for v in alone.paths[0].tolist() if v >= 0] == [v for v in together.paths[row].tolist() if v >= 0]
        assert float(alone.scores[0]) == pytest.approx(float(together.scores[row]))


def test_no_path_and_wrong_limits(graphs):
    links = torch.full((1, 4, 4), -math.inf, dtype=torch.float64)
    found = joint_viterbi(torch.zeros(1, 4).double(), links, torch.tensor([4]), max_interior=2, length_beta=1.0)
    assert found.paths.eq(-1).all() and found.scores.tolist() == [-math.inf]
    with pytest.raises(ValueError, match="max_interior"):
        joint_viterbi(torch.zeros(1, 4).double(), links, torch.tensor([4]), max_interior=0, length_beta=1.0)
    links[0, 1, 2] = math.nan
    with pytest.raises(ValueError, match="NaN"):
        joint_viterbi(torch.zeros(1, 4).double(), links, torch.tensor([4]), max_interior=2, length_beta=1.0)
