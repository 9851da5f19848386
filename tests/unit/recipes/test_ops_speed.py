"""The comparison of dynamic programs: both sides compute the same, and a difference would be
seen."""

import ops_speed
import pytest
import torch
from ops_speed import (
    FuzzyMemory,
    OpsResult,
    compare_likelihood,
    compare_passing,
    fuzzy_memory,
    markdown,
    random_links,
)

from fairseq_hrt.evaluation.speed import Spread

CPU = torch.device("cpu")
SMALL = {
    compare_likelihood: dict(batch=2, size=9, tokens=4),
    compare_passing: dict(batch=2, size=9),
}


def test_graphs_are_complete():
    links = random_links(3, 7, CPU)
    assert links.shape == (3, 7, 7) and torch.equal(links, random_links(3, 7, CPU))
    assert not torch.equal(links, random_links(3, 7, CPU, seed=2))
    possible = links > float("-inf")
    assert torch.equal(possible, torch.ones(3, 7, 7, dtype=torch.bool).triu(1))
    assert torch.allclose(links.exp().sum(2), torch.tensor([1.0] * 6 + [0.0]))


@pytest.mark.parametrize("compare", SMALL)
def test_both_sides_agree(compare):
    found = compare(CPU, 3, **SMALL[compare])
    assert found.difference < 1e-4 and "B=2 L=9" in found.sizes
    for spread in (found.ours, found.loop, found.ratio):
        assert 0 < spread.low <= spread.median <= spread.high


@pytest.mark.parametrize(
    "compare, name, change",
    [
        (
            compare_likelihood,
            "dag_log_likelihood",
            lambda original: lambda *given: 1.5 * original(*given),
        ),
        # The probability of one vertex is off.
        (
            compare_passing,
            "passing_probabilities",
            lambda original: lambda *given: original(*given) * torch.tensor([1.0] * 8 + [2.0]),
        ),
    ],
)
def test_a_difference_is_seen(compare, name, change, monkeypatch):
    monkeypatch.setattr(ops_speed, name, change(getattr(ops_speed, name)))
    assert compare(CPU, 1, **SMALL[compare]).difference > 0.01


def test_both_sides_take_turns(monkeypatch):
    """Measured with a clock of its own: ours needs 2 s, 4 s and 2 s, the loop 8 s each time."""
    clock, turns = [0.0], []
    needed = {"ours": iter((9.0, 2.0, 4.0, 2.0)), "loop": iter((9.0, 8.0, 8.0, 8.0))}

    def side(name):
        def run():
            turns.append(name)
            clock[0] += next(needed[name])
            return (torch.tensor([1.0, 3.0 if name == "ours" else 2.5]),)

        return run

    monkeypatch.setattr(ops_speed, "_now", lambda device: clock[0])
    found = ops_speed._compare("p", "s", side("ours"), side("loop"), CPU, 3)
    assert turns == ["ours", "loop"] * 4, "once before, uncounted, to compare"
    assert found == OpsResult(
        "p", "s", Spread(2000, 2000, 4000), Spread(8000, 8000, 8000), Spread(4, 2, 4), 0.5
    )


def test_memory_of_the_fuzzy_loss():
    found = fuzzy_memory(CPU, batch=2, tokens=5, scale=3, width=4, vocabulary=30)
    assert found.tokens == 10 and found.sizes == "B=2 T=5 L=15 D=4 V=30"
    # Four bytes each.
    assert (
        found.logits == pytest.approx(2 * 15 * 30 * 4 / 1e9)
        and found.gigabytes > 0.05
        and found.seconds > 0
    )


def test_the_table():
    result = OpsResult(
        "p", "B=1", Spread(2.0, 1.0, 3.0), Spread(8.0, 7.0, 9.0), Spread(4.0, 3.5, 5.25), 1.5e-6
    )
    text = markdown([result], FuzzyMemory(10, "B=2", 1.25, 3.5, 7.0), "a machine")
    assert "| p | B=1 | 2.0 | 8.0 | 4.0 (3.5–5.2) | 1.5e-06 |" in text and "a machine" in text
    assert (
        "10 target tokens (B=2) in 1.2 s with a peak of 3.50 GB; the logits alone would be 7.00 GB."
        in text
    )


# ---------------------------------------------------------------- the command


@pytest.fixture
def calls(monkeypatch):
    found, threads = [], torch.get_num_threads()
    for name in ("compare_likelihood", "compare_passing", "fuzzy_memory"):
        monkeypatch.setattr(
            ops_speed,
            name,
            lambda *given, name=name, **named: found.append((name, *given, named)) or name,
        )
    monkeypatch.setattr(ops_speed, "markdown", lambda *given: found.append(given) or "table\n")
    yield found
    torch.set_num_threads(threads)


def test_what_was_parsed_is_measured(calls, capsys):
    ops_speed.main(
        ["--device", "cpu", "--threads", "2", "--repeats", "3", "--fuzzy-sentences", "5"]
    )
    cpu = torch.device("cpu")
    assert calls[:3] == [
        ("compare_likelihood", cpu, 3, {}),
        ("compare_passing", cpu, 3, {}),
        ("fuzzy_memory", cpu, {"batch": 5}),
    ]
    assert (
        calls[3][:2] == (["compare_likelihood", "compare_passing"], "fuzzy_memory")
        and torch.get_num_threads() == 2
    )
    assert capsys.readouterr().out == "table\n"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--repeats", "0"], "must be at least 1"),
        (["--threads", "-1"], "must be at least 1"),
        (["--fuzzy-sentences", "0"], "must be at least 1"),
        (["--device", "nowhere"], "--device nowhere: "),
        (["--device", "cuda:4096"], "--device cuda:4096: "),
    ],
)
def test_what_is_refused(calls, capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        ops_speed.main(arguments)
    assert (
        end.value.code == 2 and message in capsys.readouterr().err.splitlines()[-1] and calls == []
    )
