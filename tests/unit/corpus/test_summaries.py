"""The summarisation corpus: the same bytes everywhere, summaries that follow from their reports."""

import hashlib
import re

import pytest


@pytest.fixture(scope="module")
def corpus(load_example):
    return load_example("corpus/summaries.py")


@pytest.fixture(scope="module")
def splits(corpus, tmp_path_factory):
    return corpus.write(
        tmp_path_factory.mktemp("summaries"), {"train": 2000, "valid": 100, "test": 100}, 1
    )


def test_the_same_bytes_everywhere(corpus, tmp_path):
    corpus.write(tmp_path, {"train": 50, "valid": 5, "test": 5}, 1)
    digest = hashlib.sha256()
    for path in sorted(tmp_path.iterdir()):
        digest.update(path.read_bytes())
    assert digest.hexdigest() == "eabae8d7af9f1fd7a6c4076fb447f6d9ab0777fe84b172434e6e18a390979ae0"
    assert len((tmp_path / "train.article").read_text().splitlines()) == 50


def test_no_report_occurs_twice_and_held_out_texts_do_not_depend_on_the_size(
    corpus, splits, tmp_path
):
    articles = [article for pairs in splits.values() for article, _ in pairs]
    assert len(set(articles)) == len(articles) == 2200
    assert (
        corpus.write(tmp_path, {"train": 3, "valid": 100, "test": 100}, 1)["test"] == splits["test"]
    )


def test_long_reports_and_short_summaries(splits):
    for article, summary in splits["train"]:
        assert 30 <= len(article.split()) <= 120 and 7 <= len(summary.split()) <= 16
        assert 6 <= len(re.findall(r"\.( |$)", article)) <= 9


def test_a_summary_is_a_function_of_its_report(corpus, splits):
    """Derived again from the report alone, by a reader that does not know how it was made."""
    words = {word: number for number, word in enumerate(corpus.NUMBERS)} | {"none": 0}
    kinds = set()
    for article, summary in splits["train"]:
        if hurt := re.search(r"Among the injured were (\w+) m[ae]n and (\w+) wom[ae]n\.", article):
            total = sum(words[number] for number in hurt.groups())
            assert summary.startswith(f"{corpus.NUMBERS[total].capitalize()} people hurt")
            kinds.add("accident")
        elif goals := re.search(r"over, (\w+) had scored (\w+) and (\w+) (\w+)\.", article):
            first, a, second, b = goals.groups()
            a, b = words[a], words[b]
            best = re.search(r"(\w+) was the best player", article)[1]
            if a == b:
                assert summary == f"{first} and {second} draw {a} to {b}; {best} shines."
            else:
                winner, loser = (first, second) if a > b else (second, first)
                assert (
                    summary == f"{winner} beat {loser} {max(a, b)} to {min(a, b)}; {best} shines."
                )
            kinds.add("match")
        elif money := re.search(r"It earned (\d+) million, after (\d+) million", article):
            now, before = map(int, money.groups())
            verb = "rises to" if now > before else "falls to" if now < before else "stays at"
            assert f"{verb} {now} million" in summary
            kinds.add("business")
        elif saved := re.search(r"(\w+) carried (\w+ child(?:ren)?) into", article):
            assert summary.startswith(f"{saved[1]} rescues {saved[2]} from burning ")
            kinds.add("fire")
        elif votes := re.search(r"(\d+) members were in favour and (\d+)", article):
            yes, no = map(int, votes.groups())
            assert (
                f"{'approves' if yes > no else 'rejects'} " in summary
                and f"majority of {abs(yes - no)}." in summary
            )
            kinds.add("vote")
    assert kinds == {"accident", "match", "business", "fire", "vote"}


def test_the_command(corpus, tmp_path, capsys):
    corpus.main(["--out", str(tmp_path / "a"), "--train", "20", "--valid", "2", "--test", "2"])
    assert "24 articles, tokens min/mean/max" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        corpus.main(["--out", str(tmp_path / "b"), "--train", "-1"])
