"""``fairseq-hrt ops-speed``: device and repeats are handed on; what cannot be measured is refused."""

import pytest
import torch

from fairseq_hrt.cli import ops_speed as verb
from fairseq_hrt.evaluation import ops_speed


@pytest.fixture
def calls(monkeypatch):
    found, threads = [], torch.get_num_threads()
    for name in ("compare_likelihood", "compare_passing", "fuzzy_memory"):
        monkeypatch.setattr(ops_speed, name, lambda *given, name=name, **named: found.append((name, *given, named)) or name)
    monkeypatch.setattr(ops_speed, "markdown", lambda *given: found.append(given) or "table\n")
    yield found
    torch.set_num_threads(threads)


def test_what_was_parsed_is_measured(calls, capsys):
    verb.main(["--device", "cpu", "--threads", "2", "--repeats", "3", "--fuzzy-sentences", "5"])
    cpu = torch.device("cpu")
    assert calls[:3] == [
        ("compare_likelihood", cpu, 3, {}),
        ("compare_passing", cpu, 3, {}),
        ("fuzzy_memory", cpu, {"batch": 5}),
    ]
    assert calls[3][:2] == (["compare_likelihood", "compare_passing"], "fuzzy_memory") and torch.get_num_threads() == 2
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
        verb.main(arguments)
    assert end.value.code == 2 and message in capsys.readouterr().err.splitlines()[-1] and calls == []
