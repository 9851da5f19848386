"""Best paths of every length against all paths."""

import math
from unittest import mock

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_hrt.ops import joint_viterbi, viterbi


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_the_best_path_of_the_best_length(graphs, data):
    lengths = data.draw(st.lists(st.integers(2, 8), min_size=1, max_size=3))
    limits = [data.draw(st.integers(1, 7)) for _ in lengths]
    beta = data.draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    seed = data.draw(st.integers(0, 999))
    links = graphs.links(len(lengths), max(lengths), lengths, seed=seed, spread=3.0, holes=0.3)
    tokens = (
        -torch.rand(
            links.shape[:2], dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
        )
        * 3
    )
    if data.draw(st.booleans()):
        tokens = torch.zeros_like(tokens)
    found = joint_viterbi(
        tokens, links, torch.tensor(lengths), max_interior=torch.tensor(limits), length_beta=beta
    )
    for row, (length, limit) in enumerate(zip(lengths, limits)):
        candidates = []
        for path in graphs.paths(length):
            count = len(path) - 2
            if count > limit:
                continue
            score = graphs.score(links[row], path) + sum(float(tokens[row, v]) for v in path[:-1])
            if score > -math.inf:
                candidates.append(
                    (score / max(count, 1) ** beta if count else -math.inf, score, path)
                )
        rank, score, path = max(candidates, default=(-math.inf, -math.inf, ()))
        if rank == -math.inf and candidates:
            score, path = candidates[0][1:]
        assert [v for v in found.paths[row].tolist() if v >= 0] == list(path)
        assert float(found.scores[row]) == pytest.approx(score, abs=1e-9)


def large_graph(graphs, seed, size, *, spread, reach=None):
    """(scores, links) of one sentence; links lead no further than ``reach``."""
    links = graphs.links(1, size, [size], seed=seed, spread=spread)
    if reach is not None:
        links[0, torch.ones(size, size).triu(reach + 1).bool()] = -math.inf
    return (
        -3 * torch.rand(1, size, dtype=links.dtype, generator=torch.Generator().manual_seed(seed)),
        links,
    )


@settings(max_examples=25, deadline=None)
@example(  # 2 ** beta is infinite, and no path of two inner vertices is left
    seed=2,
    sizes=[4],
    limits=(2, 1, 1),
    beta=1e6,
    reach=None,
    spread=0.1,
    dtype=torch.float32,
    words=-0.5,
)
@given(
    seed=st.integers(0, 999),
    sizes=st.lists(st.integers(2, 40), min_size=1, max_size=3),
    limits=st.tuples(*[st.integers(1, 45)] * 3),
    beta=st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.0, 1.4, 3.0, 1e6]),
    reach=st.sampled_from([None, None, 2, 7]),
    spread=st.sampled_from([0.1, 1.0, 5.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    words=st.sampled_from([0.0, 1.0, -0.5]),
)
def test_states_that_are_left_out_lead_nowhere(
    graphs, seed, sizes, limits, beta, reach, spread, dtype, words
):
    """The same paths and scores, to the last bit."""
    size = max(sizes)
    scores, links = torch.zeros(len(sizes), size), torch.full((len(sizes), size, size), -math.inf)
    for row, own in enumerate(sizes):
        found = large_graph(graphs, seed + row, own, spread=spread, reach=reach)
        scores[row, :own], links[row, :own, :own] = (part[0] for part in found)
    arguments = (words * scores).to(dtype), links.to(dtype), torch.tensor(sizes)
    options = dict(max_interior=torch.tensor(limits[: len(sizes)]), length_beta=beta)
    whole = joint_viterbi(*arguments, **options)
    with mock.patch.object(viterbi, "_MANY", 0):
        found = joint_viterbi(*arguments, **options)
    for name in ("scores", "ranks"):
        assert torch.equal(getattr(found, name).nan_to_num(), getattr(whole, name).nan_to_num())
    width = found.paths.size(1)
    assert torch.equal(found.paths, whole.paths[:, :width]) and (whole.paths[:, width:] == -1).all()


class Elements(TorchDispatchMode):
    """Counts the elements that operations read and write."""

    count = 0

    @classmethod
    def _should_skip_dynamo(cls):
        # Otherwise PyTorch imports its compiler.
        return False

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        found = function(*arguments, **(options or {}))
        for value in (*arguments, *(found if isinstance(found, (tuple, list)) else (found,))):
            self.count += (
                value.numel() if isinstance(value, torch.Tensor) and not function.is_view else 0
            )
        return found


@pytest.mark.parametrize("limit", [10**6, 0.2, 0.1])
def test_the_work_is_that_of_a_few_passes_over_the_links(graphs, limit):
    """Whether the best path is short enough or not; layer by layer it would be the cube of the
    size."""
    work = []
    for size in (60, 120, 240):
        scores, links = large_graph(graphs, 3, size, spread=2.0)
        with mock.patch.object(viterbi, "_MANY", 0), Elements() as elements:
            joint_viterbi(
                scores,
                links,
                torch.tensor([size]),
                max_interior=max(int(limit * size), 1),
                length_beta=1.0,
            )
        work.append(elements.count)
    assert work[2] < 5 * work[1] < 25 * work[0]


def test_a_larger_beta_gives_longer_paths(graphs):
    lengths = torch.tensor([20] * 6)
    links = graphs.links(6, 20, [20] * 6, spread=0.3)
    counts = [
        int(
            joint_viterbi(
                torch.zeros(6, 20).double(), links, lengths, max_interior=18, length_beta=beta
            )
            .paths.ge(0)
            .sum()
        )
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
            tokens[row : row + 1, :length], links[row : row + 1, :length, :length],
            torch.tensor([length]), max_interior=options["max_interior"][row : row + 1],
            length_beta=1.0,
        )  # fmt: skip
        assert [v for v in alone.paths[0].tolist() if v >= 0] == [
            v for v in together.paths[row].tolist() if v >= 0
        ]
        assert float(alone.scores[0]) == pytest.approx(float(together.scores[row]))


def test_no_path_and_wrong_limits(graphs):
    links = torch.full((1, 4, 4), -math.inf, dtype=torch.float64)
    found = joint_viterbi(
        torch.zeros(1, 4).double(), links, torch.tensor([4]), max_interior=2, length_beta=1.0
    )
    assert found.paths.eq(-1).all() and found.scores.tolist() == [-math.inf]
    with pytest.raises(ValueError, match="max_interior"):
        joint_viterbi(
            torch.zeros(1, 4).double(), links, torch.tensor([4]), max_interior=0, length_beta=1.0
        )
    links[0, 1, 2] = math.nan
    with pytest.raises(ValueError, match="NaN"):
        joint_viterbi(
            torch.zeros(1, 4).double(), links, torch.tensor([4]), max_interior=2, length_beta=1.0
        )
