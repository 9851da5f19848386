"""What the small tasks have in common: a corpus written and binarised, and a training of less than
half a minute."""

import random

import pytest

from fairseq_hrt.evaluation.systems import FairseqSystem, SystemSpec

# The letters that may stand at each place of a sentence. With letters that stand anywhere,
# attention takes twice as many updates to find out where to look.
PLACES = ("abc", "def", "ghi", "jkl")


@pytest.fixture(scope="session")
def train(command):
    """A function that trains a tiny model on ``data``, with its checkpoints in ``folder``; it
    returns the last of them."""
    sides = [
        argument
        for side in ("encoder", "decoder")
        for argument in (
            f"--{side}-layers=1",
            f"--{side}-embed-dim=64",
            f"--{side}-ffn-embed-dim=64",
        )
    ]

    def run(data, folder, *options):
        command(
            "fairseq-train", data, "--user-dir", "fairseq_hrt", "--dropout=0.0", *sides,
            "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.005",
            "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "40", "--max-tokens", "400",
            "--clip-norm", "1", "--seed", "1", "--cpu", "--num-workers", "0", "--save-dir", folder,
            "--save-interval", "1000", "--log-format", "simple", "--disable-validation",
            "--share-decoder-input-output-embed", *options,
        )  # fmt: skip
        return folder / "checkpoint_last.pt"

    return run


@pytest.fixture(scope="session")
def learn(command, train, tmp_path_factory):
    """A function that trains a tiny model on ``sizes`` sentences of ``draw(generator, size)``; it
    returns (data, checkpoint).

    ``draw`` gives the sources and targets of a split.
    """

    def run(draw, sizes, *options):
        folder = tmp_path_factory.mktemp("capitals")
        generator = random.Random(3)
        for split, size in sizes.items():
            for language, lines in zip(("de", "en"), draw(generator, size)):
                (folder / f"{split}.{language}").write_text("".join(line + "\n" for line in lines))
        data = folder / "bin"
        splits = [f"--{split}pref={folder / split}" for split in sizes]
        command("fairseq-preprocess", "-s", "de", "-t", "en", *splits, "--destdir", data)
        return data, train(data, folder / "model", *options)

    return run


@pytest.fixture(scope="session")
def learn_capitals(learn):
    """:func:`learn` for one to four letters whose translations are the capital letters."""

    def train(*options):
        def draw(generator, size):
            lines = [
                " ".join(map(generator.choice, PLACES[: generator.randint(1, len(PLACES))]))
                for _ in range(size)
            ]
            return lines, [line.upper() for line in lines]

        return learn(draw, {"train": 2000, "valid": 1, "test": 100}, *options)

    return train


def assert_same_in_fixed_shapes(trained, task, options):
    """What a GPU records finds the translations that are found step by step."""
    data, checkpoint = trained
    system = FairseqSystem(
        SystemSpec("model", str(checkpoint), task, {**options, "engine": "torch"}),
        [str(data), "--source-lang", "de", "--target-lang", "en", "--cpu"],
    )
    sample, found = system.collate(range(100)), []
    for system.generator.uses_graphs in (False, True):
        found.append([best[0].tokens for best in system.decode(sample)])
    assert found[0] == found[1]


@pytest.fixture(scope="session")
def decode():
    """A function that translates the 100 test sentences of ``trained`` = (data, checkpoint) with a
    task's options; it returns (number of translations without a mistake, the system)."""

    def run(trained, task, **options):
        data, checkpoint = trained
        system = FairseqSystem(
            SystemSpec("model", str(checkpoint), task, options),
            [str(data), "--source-lang", "de", "--target-lang", "en", "--cpu"],
        )
        sample = system.collate(range(100))
        found = [best[0].tokens for best in system.decode(sample)]
        pad = system.task.target_dictionary.pad()
        targets = [[t for t in target.tolist() if t != pad] for target in sample["target"]]
        assert len(found) == len(targets) == 100
        assert_same_in_fixed_shapes(trained, task, options)
        return sum(words == target for words, target in zip(found, targets)), system

    return run
