"""The files that `generate.py` writes, and what they guarantee."""

import json
import os
import re
import subprocess
import sys
from itertools import islice

import pytest

SIZES = {"train": 200, "valid": 8, "test": 8}
ONE = {**SIZES, "modes": 1, "seed": 1}


def lines(path):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text.split("\n")[:-1]


def records(path):
    return [json.loads(line) for line in lines(path)]


@pytest.fixture(scope="module")
def corpora(generator, tmp_path_factory):
    """With one mode and with four."""
    folders = {modes: tmp_path_factory.mktemp(f"modes{modes}") for modes in (1, 4)}
    for modes, folder in folders.items():
        generator.generate(folder, **{**ONE, "modes": modes})
    return folders


def test_no_sentence_comes_twice_within_or_across_splits(corpora):
    for language in ("en", "de"):
        splits = [lines(corpora[1] / f"{split}.{language}") for split in SIZES]
        assert [len(split) for split in splits] == list(SIZES.values())
        assert len(set().union(*splits)) == sum(SIZES.values())


def test_the_same_bytes_from_the_command(corpora, generator, tmp_path):
    command = [sys.executable, generator.__file__, "--out", str(tmp_path)]
    command += [word for split, size in SIZES.items() for word in (f"--{split}", str(size))]
    environment = {**os.environ, "PYTHONHASHSEED": "123"}
    shown = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    names = [path.name for path in sorted(corpora[1].iterdir())]
    assert len(names) == 8 and [path.name for path in sorted(tmp_path.iterdir())] == names
    for name in names:
        assert (tmp_path / name).read_bytes() == (corpora[1] / name).read_bytes(), name
    spread = r"tokens min/mean/max \d+/\d+\.\d/\d+"
    assert re.fullmatch(
        rf"pairs 216; en: vocabulary \d+, {spread}; de: vocabulary \d+, {spread};"
        r" valid translations mean/max \d+\.\d/\d+\n",
        shown.stdout,
    )


def test_another_seed_and_more_training_pairs(corpora, generator, tmp_path):
    generator.generate(tmp_path / "more", **{**ONE, "train": 230})
    generator.generate(tmp_path / "other", **{**ONE, "seed": 2})
    one, more, other = corpora[1], tmp_path / "more", tmp_path / "other"
    for name in ("test.en", "test.de", "valid.en", "valid.de"):
        assert lines(more / name) == lines(one / name)
        assert not set(lines(other / name)) & set(lines(one / name))
    assert lines(more / "train.en")[:200] == lines(one / "train.en")


def test_modes_change_the_training_targets_alone(corpora):
    for path in corpora[1].iterdir():
        same = path.read_bytes() == (corpora[4] / path.name).read_bytes()
        assert same == (path.name != "train.de"), path.name


def test_training_targets_are_among_the_first_translations(corpora, generator):
    stream = generator.sentences(1)
    drawn = [next(stream) for _ in range(sum(SIZES.values()))][-SIZES["train"] :]
    ranks = []
    for sentence, one, four in zip(drawn, *(lines(corpora[m] / "train.de") for m in (1, 4))):
        options = [generator.written(tokens) for tokens in islice(sentence.translations(), 4)]
        assert one == options[0]
        ranks.append(options.index(four))
    assert all(ranks.count(rank) > 25 for rank in range(4))


def test_every_test_sentence_lists_its_valid_translations(corpora):
    found = records(corpora[1] / "test.valid.jsonl")
    assert [record["source"] for record in found] == lines(corpora[1] / "test.en")
    assert [record["translations"][0] for record in found] == lines(corpora[1] / "test.de")
    for record in found:
        assert len(set(record["translations"])) == len(record["translations"]) < 400


def test_lengths_hold_for_every_translation(generator, sentences):
    lengths = []
    for sentence in sentences[:60]:
        texts = [generator.written(tokens) for tokens in sentence.translations()]
        lengths += [len(generator.tokens_of(text)) for text in (sentence.english, *texts)]
    assert min(lengths) >= 3 and max(lengths) <= 30
    canonical = [len(sentence.german) for sentence in sentences]
    assert 12 < sum(canonical) / len(canonical) < 18 and min(canonical) < 5 < 22 < max(canonical)


def test_a_source_has_one_canonical_translation_and_there_are_enough(generator):
    """Of some thousand draws nearly none is known: forty thousand pairs are far from all."""
    drawn = [generator.Derivation(number) for number in range(2000)]
    canonical = {(one.english, *one.german) for one in drawn}
    assert len({one.english for one in drawn}) == len(canonical) > 1980


@pytest.mark.parametrize("option, value", [("modes", "0"), ("train", "-1"), ("test", "-5")])
def test_bad_options_are_named(generator, tmp_path, capsys, option, value):
    with pytest.raises(SystemExit):
        generator.main(["--out", str(tmp_path), f"--{option}", value])
    assert f"--{option} is {value}, but must be at least" in capsys.readouterr().err


def test_empty_splits(generator, tmp_path):
    nothing = dict.fromkeys(SIZES, 0)
    assert generator.generate(tmp_path, **nothing, modes=1, seed=1).startswith("pairs 0; en: ")
    assert all(path.read_bytes() == b"" for path in tmp_path.iterdir())
