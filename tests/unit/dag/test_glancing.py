"""Schedules, what is shown, and what shown vertices may do."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.dag.glancing import (
    FORCINGS,
    STRATEGIES,
    Glanced,
    choose_glanced,
    force,
)
from fairseq_hrt.ops import dag_log_likelihood
from fairseq_hrt.training import GlanceSchedule


def test_schedule():
    schedule = GlanceSchedule("0.5:0.1@200k", "--dag-glance-schedule")
    assert (
        schedule.at(0) == 0.5
        and schedule.at(100_000) == pytest.approx(0.3)
        and schedule.at(200_000) == 0.1
    )
    assert schedule.at(10**7) == 0.1
    assert GlanceSchedule("0.1", "--dag-glance-schedule").at(5) == 0.1
    late = GlanceSchedule("0.4@10:0.2@20:0.2@30:0@40", "--dag-glance-schedule")
    assert [round(late.at(update), 6) for update in (0, 10, 15, 25, 35, 50)] == [
        0.4,
        0.4,
        0.3,
        0.2,
        0.1,
        0,
    ]


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.5", "-0.1", "0.5:0.1", "0.5@5:0.1@5", "0.5@2k:0.1@1k", "0.1@", "0.1@1m", "."],
)
def test_bad_schedules(text):
    with pytest.raises(ValueError, match="--dag-glance-schedule"):
        GlanceSchedule(text, "--dag-glance-schedule")


def glance_example(*, times=1, **options):
    """Two sentences with T = 5 and 3, L = 8 and 4, of which one and three vertices are already
    right; so many times, under other numbers."""
    alignment = torch.tensor([[0, -1, 1, 2, -1, -1, 3, 4], [0, -1, 1, 2, -1, -1, -1, -1]])
    targets = torch.tensor([[0, 5, 6, 7, 2], [0, 8, 2, 1, 1]])
    right = torch.tensor([[0, 0, 1, 0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 0, 0, 0]]).bool()
    settings = dict(share=0.5, strategy="number-random", update=3, seed=1)
    settings.update(options)
    example = alignment, right, targets, torch.tensor([[5], [3]])
    alignment, right, targets, lengths = (part.repeat(times, 1) for part in example)
    ids = torch.tensor([7, 9]) + 4 * torch.arange(times).unsqueeze(1)
    return choose_glanced(
        alignment, right, targets, lengths.flatten(), ids=ids.flatten(), **settings
    )


def test_number_random_shows_the_share_of_the_wrong_ones():
    found = glance_example()
    assert found.right.tolist() == [1, 3]
    assert found.shown.sum(1).tolist() == [2, 0]
    assert (found.shown <= (found.alignment >= 0)).all()
    assert found.tokens.tolist()[0] == [0, 0, 5, 6, 0, 0, 7, 2]
    assert glance_example(share=1.0).shown.sum(1).tolist() == [4, 0]
    assert glance_example(share=0.1).shown.sum(1).tolist() == [0, 0]


def test_every_vertex_of_the_path_is_drawn_equally_often():
    counts = sum(
        glance_example(update=update, share=0.25, times=200).shown[::2].double().sum(0)
        for update in range(10)
    )
    on_path = glance_example().alignment[0] >= 0
    assert (counts[~on_path] == 0).all()
    assert ((counts[on_path] - 400).abs() < 90).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_sentence_draws_for_itself(strategy):
    """Two sentences that differ in nothing but their numbers."""
    alignment = torch.arange(8).expand(2, 8)
    shown = [
        choose_glanced(
            alignment, torch.zeros(2, 8, dtype=torch.bool), torch.arange(10, 18).expand(2, 8),
            torch.tensor([8, 8]), share=0.5, strategy=strategy, ids=torch.tensor([4, 5]),
            update=update, seed=1,
        ).shown for update in range(20)
    ]  # fmt: skip
    assert sum(not torch.equal(first, second) for first, second in shown) > 15
    assert sum(not torch.equal(one[0], other[0]) for one, other in zip(shown, shown[1:])) > 14


def test_the_other_strategies():
    assert glance_example(strategy="fix").shown.sum(1).tolist() == [3, 2]
    sizes = torch.cat([
        glance_example(strategy="cmlm", update=update, times=30).shown.sum(1).view(-1, 2)
        for update in range(10)
    ])  # fmt: skip
    assert set(sizes[:, 0].tolist()) == {0, 1, 2, 3, 4, 5} and set(sizes[:, 1].tolist()) == {
        0,
        1,
        2,
        3,
    }
    sizes = torch.cat([
        glance_example(strategy="bernoulli", update=update, times=40).shown.sum(1).view(-1, 2)
        for update in range(10)
    ]).double()  # fmt: skip
    assert sizes[:, 0].mean() == pytest.approx(2.0, abs=0.25) and sizes[:, 1].max() == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_sentence_is_shown_the_same_in_any_batch(strategy):
    both = glance_example(strategy=strategy).shown
    alone = choose_glanced(
        torch.tensor([[0, -1, 1, 2, -1, -1, 3, 4, -1, -1]]), torch.arange(10).eq(2).unsqueeze(0),
        torch.tensor([[0, 5, 6, 7, 2, 1]]), torch.tensor([5]),
        share=0.5, strategy=strategy, ids=torch.tensor([7]), update=3, seed=1,
    ).shown  # fmt: skip
    assert both[0].tolist() == alone[0, :8].tolist()
    assert any(
        glance_example(strategy="number-random", seed=seed).shown[0].tolist() != both[0].tolist()
        for seed in range(2, 6)
    )


@pytest.mark.parametrize("forcing", FORCINGS)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_forced_likelihood_by_enumeration(graphs, forcing, data):
    tokens, vertices = data.draw(st.integers(2, 4)), data.draw(st.integers(4, 6))
    seed = data.draw(st.integers(0, 1000))
    links, match = (
        graphs.links(1, vertices, [vertices], seed=seed),
        graphs.match(1, tokens, vertices, seed=seed),
    )
    inner = sorted(
        data.draw(st.sets(st.integers(1, vertices - 2), min_size=tokens - 2, max_size=tokens - 2))
    )
    path = [0, *inner, vertices - 1]
    shown_vertices = data.draw(st.sets(st.sampled_from(path)))
    alignment = torch.full((1, vertices), -1)
    alignment[0, path] = torch.arange(tokens)
    shown = torch.zeros(1, vertices, dtype=torch.bool)
    shown[0, list(shown_vertices)] = True
    forced = force(match, Glanced(shown, alignment, alignment, shown.sum(1)), forcing)
    expected = 0.0
    for walk in graphs.paths(vertices):
        if len(walk) != tokens:
            continue
        total, allowed = graphs.score(links[0], walk), True
        for step, vertex in enumerate(walk):
            own = int(alignment[0, vertex])
            if forcing != "none" and vertex in shown_vertices and own != step:
                allowed = False
            free = forcing == "path" and vertex in shown_vertices
            total += 0.0 if free else float(match[0, step, vertex])
        if forcing == "path" and not shown_vertices <= set(walk):
            allowed = False
        expected += math.exp(total) if allowed else 0.0
    found = dag_log_likelihood(forced, links, torch.tensor([tokens]), torch.tensor([vertices]))
    assert float(found) == pytest.approx(math.log(expected), abs=1e-9)


def test_no_gradient_through_shown_vertices():
    match = torch.randn(1, 3, 4, dtype=torch.double, requires_grad=True)
    alignment = torch.tensor([[0, 1, -1, 2]])
    shown = torch.tensor([[False, True, False, False]])
    for forcing, kept in (("vertex", False), ("path", False), ("none", True)):
        forced = force(match, Glanced(shown, alignment, alignment, shown.sum(1)), forcing)
        gradient = torch.autograd.grad(forced[forced > -math.inf].sum(), match)[0]
        assert bool(gradient[0, :, 1].any()) == kept
        assert gradient[0, 0, 0] == 1


def test_all_strategies_have_names():
    assert set(itertools.chain(STRATEGIES, FORCINGS)) == {
        "number-random", "bernoulli", "fix", "cmlm", "vertex", "path", "none",
    }  # fmt: skip
