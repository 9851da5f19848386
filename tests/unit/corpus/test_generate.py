"""The files that `generate.py` writes."""

import json
import os
import subprocess
import sys

import pytest

SIZES = {"train": 300, "valid": 40, "test": 40}
NAMES = ("train.en", "train.de", "valid.en", "valid.de", "test.en", "test.de", "test.valid.jsonl")


def lines(path):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text.split("\n")[:-1]


@pytest.fixture(scope="module")
def one_mode(corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("one")
    corpus.generate.generate(out, **SIZES)
    return out


@pytest.fixture(scope="module")
def four_modes(corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("four")
    corpus.generate.generate(out, modes=4, **SIZES)
    return out


def test_sizes_and_distinct_pairs(one_mode):
    for split, size in SIZES.items():
        pairs = list(zip(lines(one_mode / f"{split}.en"), lines(one_mode / f"{split}.de")))
        assert len(pairs) == len(lines(one_mode / f"{split}.de")) == size
        assert len(set(pairs)) == size


def test_splits_share_no_sentence(one_mode):
    for language in ("en", "de"):
        sets = [set(lines(one_mode / f"{split}.{language}")) for split in SIZES]
        assert len(set.union(*sets)) == sum(SIZES.values())


def test_repeated_draws_are_dropped_until_the_grammar_is_exhausted(corpus, monkeypatch):
    sampler = corpus.grammar.Sampler(5)
    drawn = [sampler.sentence() for _ in range(10)]

    class Repeating:
        def __init__(self, seed):
            self.count = seed - 1

        def sentence(self):
            self.count += 1
            return drawn[self.count % len(drawn)]

    monkeypatch.setattr(corpus.generate, "Sampler", Repeating)
    monkeypatch.setattr(corpus.generate, "MAX_FAILURES", 50)
    stream, sources = corpus.generate.sample_items(0), []
    with pytest.raises(ValueError, match="no new sentence in 50 draws"):
        for item in stream:
            sources.append(item.source)
    assert 0 < len(sources) == len(set(sources)) <= len(drawn)


def test_command_is_independent_of_the_hash_seed(corpus, one_mode, tmp_path):
    command = [sys.executable, str(corpus.folder / "generate.py"), "--out", str(tmp_path)]
    for split, size in SIZES.items():
        command += [f"--{split}", str(size)]
    result = subprocess.run(
        command,
        env={**os.environ, "PYTHONHASHSEED": "123"},
        check=True,
        capture_output=True,
        text=True,
    )
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (one_mode / name).read_bytes()
    assert result.stdout.startswith("pairs 380; en: vocabulary ")


def test_another_seed_gives_another_corpus(corpus, one_mode, tmp_path):
    corpus.generate.generate(tmp_path, seed=2, **SIZES)
    assert not set(lines(tmp_path / "test.en")) & set(lines(one_mode / "test.en"))


def test_more_training_pairs_keep_the_other_splits(corpus, one_mode, tmp_path):
    corpus.generate.generate(tmp_path, **{**SIZES, "train": 350})
    assert lines(tmp_path / "test.en") == lines(one_mode / "test.en")
    assert lines(tmp_path / "train.en")[:300] == lines(one_mode / "train.en")


def test_modes_change_the_training_targets_only(one_mode, four_modes):
    for name in NAMES:
        same = (one_mode / name).read_bytes() == (four_modes / name).read_bytes()
        assert same == (name != "train.de")


def test_training_targets_come_from_the_first_modes(corpus, one_mode, four_modes):
    stream = corpus.generate.sample_items(seed=1)
    drawn = [next(stream) for _ in range(sum(SIZES.values()))][-SIZES["train"] :]
    ranks = []
    for item, target, canonical in zip(
        drawn, lines(four_modes / "train.de"), lines(one_mode / "train.de")
    ):
        options = list(corpus.german_syntax.translations(item.sentence))
        assert canonical == options[0]
        ranks.append(options.index(target))
    assert set(ranks) == {0, 1, 2, 3}
    assert min(ranks.count(rank) for rank in range(4)) > 30


def test_every_test_sentence_lists_its_valid_translations(one_mode):
    records = [json.loads(line) for line in lines(one_mode / "test.valid.jsonl")]
    assert [record["source"] for record in records] == lines(one_mode / "test.en")
    assert [record["translations"][0] for record in records] == lines(one_mode / "test.de")
    counts = [len(record["translations"]) for record in records]
    assert all(len(set(record["translations"])) == count for record, count in zip(records, counts))
    assert sum(counts) / len(counts) > 5 and max(counts) <= 400


def test_lengths_hold_for_every_translation(corpus, items):
    lengths = []
    for item in items[:400]:
        for text in (item.source, *corpus.german_syntax.translations(item.sentence)):
            lengths.append(len(corpus.generate.tokenise(text)))
    assert min(lengths) >= 3 and max(lengths) <= 30
    canonical = [len(corpus.generate.tokenise(item.canonical)) for item in items]
    assert 13 <= sum(canonical) / len(canonical) <= 17
    assert min(canonical) <= 4 and max(canonical) >= 25


def test_vocabulary_is_some_hundreds_of_words(corpus, items):
    for field in ("source", "canonical"):
        words = {
            token for item in items for token in corpus.generate.tokenise(getattr(item, field))
        }
        assert 400 < len(words) < 2000


def test_a_source_never_has_two_canonical_translations(corpus):
    sampler = corpus.grammar.Sampler(3)
    canonical = {}
    for _ in range(4000):
        sentence = sampler.sentence()
        target = corpus.german_syntax.realise(sentence, corpus.german_syntax.Choices())
        assert canonical.setdefault(corpus.english.realise(sentence), target) == target


@pytest.mark.parametrize("option, value", [("modes", 0), ("train", -1), ("test", -5)])
def test_bad_options_are_named(corpus, tmp_path, option, value):
    with pytest.raises(ValueError, match=f"--{option} is {value}"):
        corpus.generate.generate(tmp_path, **{option: value})
