"""``fairseq-hrt shortlist``: the words of binarised data, without special symbols, become a
table."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import tasks

from fairseq_hrt.cli import shortlist as verb
from fairseq_hrt.engine import models
from fairseq_hrt.export import lexical_table


class Pairs:
    """Three pairs of sentences."""

    def __init__(self, source, target):
        def side(dictionary, *rows):
            return [torch.tensor([*row, dictionary.eos()]) for row in rows]

        self.src = side(source, [4, source.unk(), 5], [6], [7])
        self.tgt = side(target, [8], [target.unk(), 9, 9], [4])

    def __len__(self):
        return 3


@pytest.fixture
def data(tiny, monkeypatch):
    """The pairs, and ``calls``: what is asked of fairseq, :func:`train` and :func:`write_lex`."""
    source, target = tiny.dictionary(4), tiny.dictionary(6)
    found = SimpleNamespace(pairs=Pairs(source, target), calls=[])

    def note(name, result=None):
        return lambda *given, **named: found.calls.append((name, given, named)) or result

    task = SimpleNamespace(
        source_dictionary=source,
        target_dictionary=target,
        load_dataset=note("load"),
        dataset=lambda subset: found.pairs,
    )
    monkeypatch.setattr(
        models, "generation_config", note("config", SimpleNamespace(task="of the data"))
    )
    monkeypatch.setattr(tasks, "setup_task", lambda config: task)
    monkeypatch.setattr(lexical_table, "train", note("train", SimpleNamespace(sources=[4, 6])))
    monkeypatch.setattr(lexical_table, "write_lex", note("write", 2))
    return found


def words(side):
    return [row.tolist() for row in side]


def test_words_and_their_symbols_are_handed_on(data, tiny, works, capsys):
    verb.main(["bin", "-s", "de", "-t", "en", "--output", "lex"])
    assert (
        " bundle will keep the likeliest 50 targets of a source word\n" in capsys.readouterr().err
    )
    assert works == ["reading the sentences", "writing the table"]
    config, load, (_, sides, trained), (_, written, choice) = data.calls
    languages = ["--source-lang", "de", "--target-lang", "en"]
    assert config[1][0][:7] == ["bin", "--gen-subset", "train", *languages] and load[1] == (
        "train",
    )
    # Neither </s> nor unknown words.
    assert words(sides[0]) == [[4, 5], [6], [7]] and words(sides[1]) == [[8], [9, 9], [4]]
    assert written[0] == Path("lex") and written[2:] == (
        tiny.dictionary(4).symbols,
        tiny.dictionary(6).symbols,
    )
    assert trained == {"iterations": 5} and choice == {"best": 100, "least": 1e-4}


def test_the_first_sentences_of_a_subset(data, capsys):
    options = [
        "--gen-subset",
        "valid",
        "--sentences",
        "2",
        "--iterations",
        "3",
        "--best",
        "7",
        "--least",
        "0",
    ]
    verb.main(["bin", "--output", "lex", *options])
    assert "will keep" not in capsys.readouterr().err
    _, load, (_, sides, trained), (_, _, choice) = data.calls
    assert (
        load[1] == ("valid",)
        and trained == {"iterations": 3}
        and choice == {"best": 7, "least": 0.0}
    )
    assert words(sides[0]) == [[4, 5], [6]] and words(sides[1]) == [[8], [9, 9]]


@pytest.mark.parametrize(
    "option",
    ["--iterations=0", "--best=0", "--sentences=0", "--least=1", "--least=-0.1", "--least=nan"],
)
def test_impossible_numbers(data, option, capsys):
    with pytest.raises(SystemExit) as end:
        verb.main(["data", "--output", "lex", option])
    assert (
        end.value.code == 2
        and "at least 1, --least at least 0 and less than 1" in capsys.readouterr().err
    )
    assert data.calls == []


def test_data_without_a_target_side(data, capsys):
    data.pairs.tgt = None
    with pytest.raises(SystemExit) as end:
        verb.main(["bin", "--output", "lex"])
    assert end.value.code == 2 and capsys.readouterr().err.endswith(
        "error: bin: train has no target side; give a --gen-subset with translations\n"
    )
    assert [name for name, *_ in data.calls] == ["config", "load"]
