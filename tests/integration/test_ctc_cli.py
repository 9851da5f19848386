"""The CTC family through the real command line: train, fine-tune, resume, decode, score, bundle,
and what is refused."""

import pytest
from command_line import OPTIMIZER, RESUMABLE, SIZES, assert_same, hypotheses, parameters, refused

pytestmark = pytest.mark.slow

TASK = "--user-dir fairseq_hrt --task translation_ctc".split()
MODEL = [*TASK, "--arch", "ctc_transformer", "--ctc-inputs", "unk", "--criterion"]
DECODE = [*TASK, *"--cpu --batch-size 7 --max-len-b 20".split()]


def train(command, data, folder, criterion, *options, optimizer=OPTIMIZER):
    output = command(
        "fairseq-train", data, *MODEL, criterion, *SIZES, *optimizer, "--save-dir", folder, *options
    )
    return output.stdout + output.stderr


@pytest.fixture(scope="module")
def student(command, toy_data, tmp_path_factory):
    """(checkpoint, output of the training)."""
    folder = tmp_path_factory.mktemp("student")
    log = train(
        command, toy_data, folder, "ctc_nll_loss", "--max-update", "6", "--ctc-glance-schedule",
        "0.8",
    )  # fmt: skip
    return folder / "checkpoint_last.pt", log


def test_training_logs_what_is_documented(student):
    inner = next(line for line in student[1].splitlines() if "train_inner" in line)
    for name in ("nll_loss", "ppl", "skipped_share", "wrong_share", "glance_rate"):
        assert f"{name}=" in inner


def test_fine_tuning_by_ngrams_and_decoding(command, toy_data, student, tmp_path):
    log = train(
        command, toy_data, tmp_path, "ctc_ngram_loss", "--max-update", "2", "--ctc-ngram-order",
        "3", "--finetune-from-model", student[0],
    )  # fmt: skip
    assert "precision=" in log and "brevity_penalty=" in log
    path = tmp_path / "checkpoint_last.pt"
    for options in ("--beam 1", "--beam 4 --nbest 2 --lenpen 0.6", "--beam 1 --engine auto"):
        output = command("fairseq-generate", toy_data, *DECODE, "--path", path, *options.split())
        found = hypotheses(output.stdout)
        assert sorted(found) == list(range(20))
        assert all(len(best) == (2 if "nbest" in options else 1) for best in found.values())
    scored = command("fairseq-generate", toy_data, *DECODE, "--path", path, "--score-reference")
    assert sorted(hypotheses(scored.stdout)) == list(range(20))


def test_a_resumed_training_ends_as_if_it_had_not_stopped(command, toy_data, tmp_path):
    options = ["--ctc-glance-schedule", "0.8"]
    for folder, updates in (("whole", "4"), ("parts", "2"), ("parts", "4")):
        train(
            command, toy_data, tmp_path / folder, "ctc_nll_loss", "--max-update", updates,
            *options, optimizer=RESUMABLE,
        )  # fmt: skip
    assert_same(parameters(tmp_path / "whole"), parameters(tmp_path / "parts"))


def test_positions_for_no_pair_are_refused(command, toy_data, tmp_path):
    output = refused(
        command, "fairseq-train", toy_data, *MODEL, "ctc_nll_loss", *SIZES, *OPTIMIZER,
        "--save-dir", tmp_path, "--max-update", "1", "--ctc-upsample-scale", "0.01",
    )  # fmt: skip
    assert "training pairs have fewer positions than words: give a larger scale" in output


@pytest.mark.parametrize(
    "options, message",
    [
        ("--beam 1 --engine native", "the native engine has no search of ctc"),
        ("--beam 1 --min-len 3", "--min-len 3 needs a search that compares lengths"),
        ("--beam 2 --no-repeat-ngram-size 2", "--no-repeat-ngram-size 2 has no effect"),
        ("--beam 1 --prefix-size 1", "--prefix-size"),
        ("--beam 1 --task translation", "fairseq's own search cannot decode a ctc_transformer"),
    ],
)
def test_what_is_refused(command, toy_data, student, options, message):
    assert message in refused(
        command, "fairseq-generate", toy_data, *DECODE, "--path", student[0], *options.split()
    )
