"""A directed acyclic Transformer learns a small task with two right answers through the real command line, and writes one of them in one
pass."""

import random

import pytest

from fairseq_hrt.evaluation.systems import load_system, parse_system

pytestmark = pytest.mark.slow

LETTERS = "abcdefgh"


@pytest.fixture(scope="module")
def trained(command, tmp_path_factory):
    """A model that turns letters into capital letters and sometimes says something in front of them; returns (data, checkpoint)."""
    folder = tmp_path_factory.mktemp("capitals")
    generator = random.Random(3)
    for split, size in (("train", 2500), ("valid", 20), ("test", 100)):
        # No letter twice: a translation without repeats can be right.
        lines = [" ".join(generator.sample(LETTERS, k=generator.randint(1, 4))) for _ in range(size)]
        (folder / f"{split}.de").write_text("".join(line + "\n" for line in lines))
        answers = [generator.choice(["", "well "]) + line.upper() for line in lines]
        (folder / f"{split}.en").write_text("".join(answer + "\n" for answer in answers))
    data = folder / "bin"
    splits = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    command("fairseq-preprocess", "-s", "de", "-t", "en", *splits, "--destdir", data)
    sides = [
        argument
        for side in ("encoder", "decoder")
        for argument in (f"--{side}-layers=1", f"--{side}-embed-dim=64", f"--{side}-ffn-embed-dim=128")
    ]
    command(
        "fairseq-train", data, "--user-dir", "fairseq_hrt", "--task", "translation_dag", "--criterion", "dag_nll_loss",
        "--arch", "dag_transformer_tiny", "--dropout=0.0", *sides, "--dag-upsample-scale", "4",
        "--dag-glance-schedule", "0.5:0.1@250", "--optimizer", "adam", "--lr", "0.005", "--lr-scheduler", "inverse_sqrt",
        "--warmup-updates", "50", "--max-tokens", "600", "--max-update", "250", "--seed", "1", "--cpu", "--clip-norm", "1",
        "--num-workers", "0", "--no-epoch-checkpoints", "--save-dir", folder / "model", "--log-format", "simple",
        "--share-decoder-input-output-embed", "--disable-validation",
    )  # fmt: skip
    return data, folder / "model" / "checkpoint_last.pt"


def translations(trained, **options):
    """``[(source, [translation, …]), …]`` of the test sentences."""
    data, checkpoint = trained
    chosen = "".join(f",{name}={value}" for name, value in options.items())
    system = load_system(parse_system(f"name=DAG,path={checkpoint}{chosen}"), [str(data), "--gen-subset", "test"])
    sample = system.collate(range(100))
    source = system.task.source_dictionary
    lines = [source.string(system.dataset[number]["source"]) for number in sample["id"].tolist()]
    found = system.decode(sample)
    # One pass, whoever searches its graph.
    assert system.counters.decoder_calls == 1
    return [(line, [system.text(best["tokens"]) for best in several]) for line, several in zip(lines, found)]


def right(source, text):
    return text in (source.upper(), f"well {source.upper()}")


@pytest.mark.parametrize("strategy", ["greedy", "lookahead", "joint-viterbi"])
def test_one_of_two_answers_is_written(trained, strategy):
    found = translations(trained, dag_decode_strategy=strategy)
    assert sum(right(source, texts[0]) for source, texts in found) >= 80


def test_the_most_probable_texts_are_both_answers(trained):
    found = translations(trained, dag_decode_strategy="beam", beam=4, nbest=4)
    assert all(len(set(texts)) == len(texts) == 4 for _, texts in found)
    assert sum(right(source, texts[0]) for source, texts in found) >= 80
    assert sum(sum(right(source, text) for text in texts) == 2 for source, texts in found) >= 70
