"""The comparison of dynamic programs: both sides compute the same, and a difference would be
seen."""

import re

import ops_speed
import pytest
import torch
from ops_speed import Program, compared, fuzzy_memory, likelihood, passing, random_links, row

CPU = torch.device("cpu")
SMALL = {likelihood: dict(batch=2, size=9, tokens=4), passing: dict(batch=2, size=9)}


def test_graphs_are_complete():
    links = random_links(3, 7, CPU)
    assert links.shape == (3, 7, 7) and torch.equal(links, random_links(3, 7, CPU))
    assert not torch.equal(links, random_links(3, 7, CPU, seed=2))
    possible = links > float("-inf")
    assert torch.equal(possible, torch.ones(3, 7, 7, dtype=torch.bool).triu(1))
    assert torch.allclose(links.exp().sum(2), torch.tensor([1.0] * 6 + [0.0]))


@pytest.mark.parametrize("program", SMALL)
def test_both_sides_agree(program):
    made = program(CPU, **SMALL[program])
    difference, timings = compared(made, CPU, 3)
    assert difference < 1e-4 and "B=2 L=9" in made.sizes and set(timings) == {"ours", "loop"}
    gradients = made.loop()
    assert all(torch.isfinite(one).all() for one in gradients)
    assert max(float(one.abs().max()) for one in gradients) > 0.01


@pytest.mark.parametrize("program, name, change", [
    (likelihood, "dag_log_likelihood", lambda original: lambda *given: 1.5 * original(*given)),
    # The probability of one vertex is off.
    (passing, "passing_probabilities",
     lambda original: lambda *given: original(*given) * torch.tensor([1.0] * 8 + [2.0])),
])  # fmt: skip
def test_a_difference_is_seen(program, name, change, monkeypatch):
    monkeypatch.setattr(ops_speed, name, change(getattr(ops_speed, name)))
    assert compared(program(CPU, **SMALL[program]), CPU, 1)[0] > 0.01


def test_a_row_has_medians_and_ranges(monkeypatch):
    """Measured with a clock of its own: ours needs 2 s, 4 s and 2 s, the loop 8 s each time."""
    clock = [0.0]
    # Once to compare, once to warm up.
    needed = {"ours": iter((9.0, 9.0, 2.0, 4.0, 2.0)), "loop": iter((9.0, 9.0, 8.0, 8.0, 8.0))}

    def side(name):
        def run():
            clock[0] += next(needed[name])
            return (torch.tensor([1.0, 3.0 if name == "ours" else 2.5]),)

        return run

    monkeypatch.setattr(ops_speed, "now", lambda device: clock[0])
    shown = row(Program("p", "B=1", side("ours"), side("loop")), CPU, 3)
    assert shown == "| p | B=1 | 2000.0 | 8000.0 | 4.0 (2.0–4.0) | 5.0e-01 |\n"


def test_memory_of_the_fuzzy_loss():
    found = fuzzy_memory(CPU, batch=2, tokens=5, scale=3, width=4, vocabulary=10_000)
    shown = "Fuzzy loss: 10 target tokens (B=2 T=5 L=15 D=4 V=10000) in"
    assert found.startswith(shown) and float(re.search("peak of (.*?) GB", found)[1]) > 0.05
    # Four bytes each.
    assert "the logits alone would be 0.00 GB" in found


def test_the_command(monkeypatch, capsys):
    threads = torch.get_num_threads()
    for program in (likelihood, passing):
        small = lambda device, program=program: program(device, **SMALL[program])  # noqa: E731
        monkeypatch.setattr(ops_speed, program.__name__, small)
    monkeypatch.setattr(ops_speed, "fuzzy_memory", lambda device, batch: f"{device} {batch}\n")
    words = ["--device", "cpu", "--threads", "2", "--repeats", "2", "--fuzzy-sentences", "5"]
    ops_speed.main(words)
    used = torch.get_num_threads()
    torch.set_num_threads(threads)
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in shown[2:4]] == [
        "| dag_log_likelihood", "| passing_probabilities",
    ]  # fmt: skip
    assert used == 2 and "2 thread(s)" in shown[5] and shown[-1] == "cpu 5"


@pytest.mark.parametrize("arguments, message", [
    (["--repeats", "0"], "--repeats 0 must be at least 1"),
    (["--threads", "-1"], "--threads -1 must be at least 1"),
    (["--fuzzy-sentences", "0"], "--fuzzy-sentences 0 must be at least 1"),
    (["--device", "nowhere"], "--device nowhere: "),
    (["--device", "cuda:4096"], "--device cuda:4096: "),
])  # fmt: skip
def test_what_is_refused(capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        ops_speed.main(arguments)
    assert end.value.code == 2 and message in capsys.readouterr().err.splitlines()[-1]
