"""The CTC family through the real command line: train, fine-tune, resume, decode, score, bundle,
trace, distil, and what is refused."""

import pytest
from command_line import (
    OPTIMIZER,
    RESUMABLE,
    SIZES,
    VALIDATED,
    assert_same,
    hypotheses,
    parameters,
    refused,
)

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
    """(checkpoint, output of the training), validated by the native engine."""
    folder = tmp_path_factory.mktemp("student")
    log = train(
        command, toy_data, folder, "ctc_nll_loss", "--max-update", "6", "--ctc-glance-schedule",
        "0.8", "--eval-bleu", "--distilled-data", toy_data, "--raw-probability", "0.5",
        optimizer=VALIDATED,
    )  # fmt: skip
    return folder / "checkpoint_last.pt", log


def test_training_logs_what_is_documented(student):
    inner = next(line for line in student[1].splitlines() if "train_inner" in line)
    for name in ("nll_loss", "ppl", "skipped_share", "wrong_share", "glance_rate"):
        assert f"{name}=" in inner
    valid = next(line for line in student[1].splitlines() if "valid on 'valid' subset" in line)
    assert all(f"| {name}" in valid for name in ("nll_loss", "ppl", "bleu"))


def test_fine_tuning_by_ngrams_and_decoding(command, toy_data, student, tmp_path):
    log = train(
        command, toy_data, tmp_path, "ctc_ngram_loss", "--max-update", "2", "--ctc-ngram-order",
        "3", "--finetune-from-model", student[0],
    )  # fmt: skip
    assert "precision=" in log and "brevity_penalty=" in log
    path = tmp_path / "checkpoint_last.pt"
    for options in ("--beam 1", "--beam 4 --nbest 2 --lenpen 0.6", "--beam 1 --engine torch"):
        output = command("fairseq-generate", toy_data, *DECODE, "--path", path, *options.split())
        found = hypotheses(output.stdout)
        assert sorted(found) == list(range(20))
        assert all(len(best) == (2 if "nbest" in options else 1) for best in found.values())
    scored = command("fairseq-generate", toy_data, *DECODE, "--path", path, "--score-reference")
    assert sorted(hypotheses(scored.stdout)) == list(range(20))


def test_a_bundle_translates_and_is_traced_and_distilled(command, toy_data, student, tmp_path):
    bundle, system = tmp_path / "bundle", f"name=ctc,path={student[0]},beam=1,max_len_b=20"
    command(
        "fairseq-hrt", "bundle", student[0], "--data", toy_data, "--tokenizer", "space",
        "--subwords", "none", "--set", "beam=1", "--set", "max_len_b=20", "--runtime", "float32",
        "--output", bundle,
    )  # fmt: skip
    arguments = [toy_data, *DECODE, "--path", student[0], "--beam", "1"]
    expected = hypotheses(command("fairseq-generate", *arguments).stdout)
    lines = (toy_data.parent / "test.de").read_text()
    for engine in ("native", "torch"):
        found = command("fairseq-hrt", "translate", bundle, "--engine", engine, stdin=lines).stdout
        assert found.splitlines() == [expected[number][0] for number in range(20)]
    # All words of one pass.
    traced = command("fairseq-hrt", "trace", bundle, "--text", lines.splitlines()[0]).stdout
    shown = " ".join(f"●{word}" for word in [*expected[0][0].split(), "</s>"])
    assert shown in traced and "in 1 passes" in traced
    out = tmp_path / "distilled"
    command(
        "fairseq-hrt", "distill", toy_data, "--gen-subset", "test", "--system", system, "--out", out
    )
    assert (out / "train.en").read_text().splitlines() == [
        expected[number][0] for number in range(20)
    ]


@pytest.mark.parametrize("verb, message", [
    ("graph", "writes no graph: give a dag_transformer"), ("export", "a CtcTransformerModel does not write one word after another"),
])  # fmt: skip
def test_verbs_of_other_families_refuse_it(toy_data, student, tmp_path, verb, message):
    arguments = {
        "graph": [toy_data, "--system", f"name=ctc,path={student[0]}", "--out", tmp_path],
        "export": [student[0], "--data", toy_data, "--output", tmp_path / "out"],
    }[verb]
    assert message in refused("fairseq-hrt", verb, *arguments)


def test_a_resumed_training_ends_as_if_it_had_not_stopped(command, toy_data, tmp_path):
    options = ["--ctc-glance-schedule", "0.8"]
    for folder, updates in (("whole", "4"), ("parts", "2"), ("parts", "4")):
        train(
            command, toy_data, tmp_path / folder, "ctc_nll_loss", "--max-update", updates,
            *options, optimizer=RESUMABLE,
        )  # fmt: skip
    assert_same(parameters(tmp_path / "whole"), parameters(tmp_path / "parts"))


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_the_teacher_chooses_from_the_beam(command, toy_data, student, teacher, engine):
    arguments = [toy_data, *DECODE, "--path", student[0], "--beam", "4", "--engine", engine]
    own, best = (
        hypotheses(command("fairseq-generate", *arguments, *more.split()).stdout)
        for more in ("--nbest 4", f"--rescore-path {teacher}")
    )
    assert all(best[number][0] in texts for number, texts in own.items())
    assert best != {number: texts[:1] for number, texts in own.items()}


def test_another_upsampling_is_taken_knowingly(command, toy_data, student, tmp_path):
    (tmp_path / "checkpoint_last.pt").write_bytes(student[0].read_bytes())
    change = ["--ctc-upsample-scale", "2"]
    told = "that model was trained with --ctc-upsample-scale 3 --ctc-inputs unk"
    output = refused(
        "fairseq-train", toy_data, *MODEL, "ctc_nll_loss", *SIZES, *OPTIMIZER,
        "--save-dir", tmp_path, "--max-update", "7", *change,
    )  # fmt: skip
    options = "--ctc-upsample-scale 3.0, this one --ctc-upsample-scale 2.0"
    assert f"checkpoint_last.pt: its training has {options}; give the options" in output
    log = train(
        command, toy_data, tmp_path / "other", "ctc_nll_loss", "--max-update", "1",
        "--finetune-from-model", student[0], *change,
    )  # fmt: skip
    assert f"{told}; this one has --ctc-upsample-scale 2 --ctc-inputs unk" in log


def test_positions_for_no_pair_are_refused(toy_data, tmp_path):
    output = refused(
        "fairseq-train", toy_data, *MODEL, "ctc_nll_loss", *SIZES, *OPTIMIZER,
        "--save-dir", tmp_path, "--max-update", "1", "--ctc-upsample-scale", "0.01",
    )  # fmt: skip
    assert "training pairs have fewer positions than words: raise --ctc-upsample-scale" in output


@pytest.mark.parametrize(
    "options, message",
    [
        ("--beam 4 --engine native --ctc-lm-path no.arpa", "the native engine has no such option"),
        ("--beam 4 --ctc-lm-path no.arpa", "--ctc-lm-path needs the package kenlm"),
        ("--beam 1 --ctc-lm-path no.arpa", "has an effect only with --beam 2 or more"),
        ("--beam 1 --min-len 3", "--min-len 3 needs a search that compares lengths"),
        ("--beam 1 --prefix-size 1", "--prefix-size"),
        ("--beam 1 --task translation", "fairseq's own search cannot decode a ctc_transformer"),
    ],
)
def test_what_is_refused(toy_data, student, options, message):
    assert message in refused(
        "fairseq-generate", toy_data, *DECODE, "--path", student[0], *options.split()
    )
