"""The summarisation corpus: the same bytes everywhere, summaries that follow from their reports."""

import hashlib
import re

import pytest


@pytest.fixture(scope="module")
def corpus(load_example):
    return load_example("corpus/summaries.py")


def read(folder, split):
    kinds = ("article", "summary")
    return list(zip(*((folder / f"{split}.{kind}").read_text().splitlines() for kind in kinds)))


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("summaries")
    corpus.main(["--out", str(folder), "--train", "2000", "--valid", "100", "--test", "100"])
    return folder


def test_the_same_bytes_everywhere_and_no_report_twice(corpus, folder, tmp_path, capsys):
    corpus.main(["--out", str(tmp_path), "--train", "3", "--valid", "100", "--test", "100"])
    assert "train.summary: 3 texts, vocabulary " in capsys.readouterr().out
    digest = hashlib.sha256()
    for split in ("test", "valid"):
        assert read(tmp_path, split) == read(folder, split)
        digest.update((tmp_path / f"{split}.article").read_bytes())
    assert digest.hexdigest() == "1d4c848590b6b68a17285a825931fa5d2a33f27b95a19b27bb52a7e4b3caa715"
    articles = [article for s in ("test", "valid", "train") for article, _ in read(folder, s)]
    assert len(set(articles)) == len(articles) == 2200


def test_a_summary_is_a_function_of_its_report(corpus, folder):
    """Derived again from the report alone, by a reader that does not know how it was made."""
    numbers = {word: number for number, word in enumerate(corpus.NUMBERS)}
    kinds = set()
    for article, summary in read(folder, "train"):
        assert 6 <= len(re.findall(r"\.( |$)", article)) <= 9
        if hurt := re.search(r"injured were (\w+) men and (\w+) women\.", article):
            total = sum(numbers[word] for word in hurt.groups())
            place = re.search(r"ran into a tram in (\w+)\.", article)[1]
            who = f"{corpus.NUMBERS[total].capitalize()} people hurt"
            assert summary == f"{who} as two vehicles collide in {place}."
            kinds.add("accident")
        elif goals := re.search(r"over, (\w+) had scored (\d) and (\w+) (\d)\.", article):
            (more, winner), (less, loser) = sorted([goals.groups()[1::-1], goals.groups()[:1:-1]])[
                ::-1
            ]
            best = re.search(r"(\w+) was the best player", article)[1]
            assert summary == f"{winner} beat {loser} {more} to {less}; {best} shines."
            kinds.add("match")
        elif money := re.search(r"firm earned (\d+) million, after (\d+) million", article):
            verb = "rises" if int(money[1]) > int(money[2]) else "falls"
            owner, goods = re.search(r"(\w+) of \w+, who makes (\w+),", article).groups()
            sort = {"steel": "metal", "copper": "metal", "bread": "food", "ships": "vehicle"}[goods]
            assert summary == f"Profit of {sort} maker {owner} {verb} to {money[1]} million."
            kinds.add("business")
        elif votes := re.search(r"(\d+) members were in favour and (\d+)", article):
            majority = int(votes[1]) - int(votes[2])
            place = re.search(r"council of (\w+) met", article)[1]
            verdict = "approves" if majority > 0 else "rejects"
            assert summary == f"{place} {verdict} bridge by a majority of {abs(majority)}."
            kinds.add("vote")
    assert kinds == {"accident", "match", "business", "vote"}
