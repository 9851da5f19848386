"""``fairseq-hrt shortlist``: the words of binarised data, without special symbols, become a table."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import tasks

from fairseq_hrt.cli import shortlist as verb
from fairseq_hrt.hub import lexical_table


@pytest.fixture
def data(tiny, monkeypatch):
    """Three pairs of sentences; what :func:`train` and :func:`write_lex` get."""
    source, target = tiny.dictionary(4), tiny.dictionary(6)
    row = lambda *words: torch.tensor([*words, source.eos()])  # noqa: E731
    found = SimpleNamespace(calls=[], subsets=[])
    found.pairs = SimpleNamespace(
        src=[row(4, source.unk(), 5), row(6), row(7)], tgt=[row(8), row(target.unk(), 9, 9), row(4)]
    )
    pairs = type("Pairs", (list,), vars(found.pairs))([0, 1, 2])
    task = SimpleNamespace(
        source_dictionary=source, target_dictionary=target, load_dataset=found.subsets.append, dataset=lambda subset: pairs
    )
    found.whole = pairs
    monkeypatch.setattr(tasks, "setup_task", lambda config: task)
    train = lambda *sides, iterations: found.calls.append((sides, iterations)) or SimpleNamespace(sources=[4, 6])  # noqa: E731
    monkeypatch.setattr(lexical_table, "train", train)
    monkeypatch.setattr(lexical_table, "write_lex", lambda *given, **named: found.calls.append((given, named)) or 2)
    return found


def words(side):
    return [row.tolist() for row in side]


def test_words_and_their_symbols_are_handed_on(data, tiny, tmp_path):
    verb.main([str(tmp_path), "-s", "de", "-t", "en", "--output", "lex"])
    ((sides, iterations), (given, named)) = data.calls
    assert data.subsets == ["train"] and iterations == 5
    # Neither </s> nor unknown words.
    assert words(sides[0]) == [[4, 5], [6], [7]] and words(sides[1]) == [[8], [9, 9], [4]]
    assert str(given[0]) == "lex" and given[2:] == (tiny.dictionary(4).symbols, tiny.dictionary(6).symbols)
    assert named == {"best": 100, "least": 1e-4}


def test_the_first_sentences_of_a_subset(data, tmp_path):
    options = ["--gen-subset", "valid", "--sentences", "2", "--iterations", "3", "--best", "7", "--least", "0"]
    verb.main([str(tmp_path), "--output", "lex", *options])
    ((sides, iterations), (_, named)) = data.calls
    assert data.subsets == ["valid"] and iterations == 3 and named == {"best": 7, "least": 0.0}
    assert words(sides[0]) == [[4, 5], [6]] and words(sides[1]) == [[8], [9, 9]]


@pytest.mark.parametrize(
    "option", ["--iterations=0", "--best=0", "--sentences=0", "--least=1", "--least=-0.1", "--least=nan"]
)
def test_impossible_numbers(data, option, capsys):
    with pytest.raises(SystemExit) as end:
        verb.main(["data", "--output", "lex", option])
    assert end.value.code == 2 and "at least 1, --least at least 0 and less than 1" in capsys.readouterr().err
    assert data.calls == data.subsets == []


def test_data_without_a_target_side(data, capsys, tmp_path):
    data.whole.tgt = None
    type(data.whole).tgt = None
    with pytest.raises(SystemExit) as end:
        verb.main([str(tmp_path), "--output", "lex"])
    assert end.value.code == 2 and "train has no target side" in capsys.readouterr().err and data.calls == []
