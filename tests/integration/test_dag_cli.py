"""The DAG family through the real command line: train, fine-tune, resume, decode, score, validate,
and what is refused."""

import pytest
from command_line import (
    OPTIMIZER,
    RESUMABLE,
    SIZES,
    VALIDATED,
    assert_same,
    hypotheses,
    lines,
    parameters,
    refused,
    train_in_two_processes,
    train_until_killed,
)

pytestmark = pytest.mark.slow

TASK = "--user-dir fairseq_hrt --task translation_dag".split()
MODEL = [*TASK, *"--arch dag_transformer --dag-upsample-scale 3".split()]
NLL = [*MODEL, "--criterion", "dag_nll_loss"]
FUZZY = [*MODEL, "--criterion", "dag_fuzzy_loss"]
DECODE = [*TASK, *"--cpu --batch-size 7 --max-len-b 20".split()]


@pytest.fixture(scope="module")
def student(command, toy_data, tmp_path_factory):
    """Trained with glancing on graphs of drawn sizes, validated with bare --eval-bleu; (checkpoint,
    output)."""
    folder = tmp_path_factory.mktemp("student")
    output = command(
        "fairseq-train", toy_data, *NLL, *SIZES, *VALIDATED, "--max-update", "8", "--save-dir",
        folder, "--dag-upsample-scale", "2~4", "--dag-glance-schedule", "0.8", "--eval-bleu",
        "--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric",
        "--keep-best-checkpoints", "2",
    )  # fmt: skip
    return folder / "checkpoint_last.pt", output.stdout + output.stderr


def test_training_logs_what_is_documented(student):
    inner = next(line for line in student[1].splitlines() if "train_inner" in line)
    for name in (
        "nll_loss",
        "glance_accuracy",
        "glance_rate",
        "vertices_per_token",
        "skipped_share",
        "skipped_sentences",
    ):
        assert f" {name}=" in inner
    valid = next(line for line in student[1].splitlines() if "valid on 'valid' subset" in line)
    assert all(f"| {name}" in valid for name in ("loss", "nll_loss", "ppl", "bleu"))


@pytest.fixture(scope="module")
def fuzzy(command, toy_data, student, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzzy")
    output = command(
        "fairseq-train", toy_data, *FUZZY, *SIZES, *VALIDATED, "--max-update", "3", "--save-dir",
        folder, "--finetune-from-model", student[0],
    )  # fmt: skip
    inner = next(
        line for line in (output.stdout + output.stderr).splitlines() if "train_inner" in line
    )
    for name in ("precision", "recall", "brevity_penalty", "length_ratio", "glance_rate"):
        assert f" {name}=" in inner
    return folder / "checkpoint_last.pt"


@pytest.mark.parametrize(
    "options",
    [
        "--dag-decode-strategy greedy --dag-decode-upsample-scale 2",
        "--dag-no-repeat-consecutive 2 --no-repeat-ngram-size 3 --dag-candidates 8",
        "--dag-decode-strategy viterbi --dag-keep-repeats --print-step --retain-iter-history"
        " --dag-allow-unk --unkpen 3",
        "--dag-decode-strategy joint-viterbi --dag-decode-length-beta 1.2 --fp16",
        "--dag-decode-strategy beam --beam 4 --nbest 2 --lenpen 1.1",
        "--dag-decode-strategy sample --nbest 2 --temperature 0.7 --dag-sample-topp 0.9",
    ],
)
def test_generate(command, toy_data, fuzzy, options):
    arguments = options.split()
    output = command("fairseq-generate", toy_data, *DECODE, "--path", fuzzy, *arguments).stdout
    found, scores = hypotheses(output), lines(output, "P")
    assert sorted(found) == list(range(20))
    assert all(len(texts) == (2 if "--nbest" in options else 1) for texts in found.values())
    for number, texts in found.items():
        for text, positions in zip(texts, scores[number]):
            assert len(text.split()) + 1 == len(positions.split())
    assert "BLEU4 = " in output
    if "--print-step" in options:
        assert {texts[0] for texts in lines(output, "I").values()} == {"1"}


def test_an_ensemble(command, toy_data, student, fuzzy):
    output = command(
        "fairseq-generate", toy_data, *DECODE, "--path", f"{student[0]}:{fuzzy}"
    ).stdout
    assert sorted(hypotheses(output)) == list(range(20))


@pytest.mark.parametrize(
    "options", ["--dag-decode-strategy beam --beam 4", "--dag-decode-strategy sample --beam 6"]
)
def test_the_teacher_chooses_from_the_whole_beam(command, toy_data, fuzzy, teacher, options):
    """However many translations are asked for."""
    arguments = [toy_data, *DECODE, "--path", fuzzy, *options.split()]
    own, best, several = (
        hypotheses(command("fairseq-generate", *arguments, *more).stdout)
        for more in (
            ["--nbest", arguments[-1]],
            ["--rescore-path", teacher],
            ["--rescore-path", teacher, "--nbest", arguments[-1]],
        )
    )
    assert best == {number: texts[:1] for number, texts in several.items()}
    assert {number: sorted(texts) for number, texts in own.items()} == {
        number: sorted(texts) for number, texts in several.items()
    }
    assert best != {number: texts[:1] for number, texts in own.items()}


def test_interactive_keeps_every_line(command, toy_data, student):
    text = "a b c\n\n" + "d " * 500 + "\nä ö 你好 \u200b x\na\n"
    output = command(
        "fairseq-interactive", toy_data, *TASK, "--cpu", "--path", student[0], "--max-len-b", "20",
        "--buffer-size", "3", "--batch-size", "2", stdin=text,
    )  # fmt: skip
    assert sorted(lines(output.stdout, "H")) == list(range(5))
    assert "Traceback" not in output.stderr


def test_validate(command, toy_data, student):
    output = command(
        "fairseq-validate", toy_data, *TASK, "--cpu", "--max-tokens", "300", "--path", student[0],
        "--valid-subset", "valid", "--log-format", "simple",
    )  # fmt: skip
    assert "ppl" in output.stdout + output.stderr


def test_scores_of_references(command, toy_data, student):
    scored = command(
        "fairseq-generate", toy_data, *DECODE, "--path", student[0], "--score-reference"
    ).stdout
    targets = {number: texts[0] for number, texts in lines(scored, "T").items()}
    assert {number: texts[0] for number, texts in hypotheses(scored).items()} == targets


TRAINING = [*NLL, *SIZES, *RESUMABLE, "--max-update", "4", "--save-interval-updates", "2",
            "--keep-interval-updates", "1", "--dag-glance-schedule", "0.5", "--dag-upsample-scale",
            "2~4"]  # fmt: skip


def test_a_killed_training_goes_on_bit_equal_with_other_workers(command, forks, toy_data, tmp_path):
    """With dropout, drawn graph sizes and glancing, all of which are random."""
    training = [toy_data, *TRAINING]
    command("fairseq-train", *training, "--save-dir", tmp_path / "undisturbed")
    train_until_killed(forks, *training, "--save-dir", tmp_path / "killed", "--num-workers", "2")
    command("fairseq-train", *training, "--save-dir", tmp_path / "killed", "--num-workers", "1")
    assert_same(parameters(tmp_path / "undisturbed"), parameters(tmp_path / "killed"))


@pytest.mark.parametrize("loss", ["nll", "fuzzy"])
def test_two_processes_learn_what_one_learns(toy_data, command, forks, tmp_path, loss):
    """Means over sentences: the micro-batches' sizes do not matter."""
    model = [*(NLL if loss == "nll" else FUZZY), "--dag-upsample-base", "predict"]
    shared = [
        toy_data,
        *model,
        *SIZES,
        *RESUMABLE,
        "--max-update",
        "2",
        "--dropout",
        "0",
        "--batch-size",
        "8",
    ]
    command("fairseq-train", *shared, "--update-freq", "2", "--save-dir", tmp_path / "one")
    train_in_two_processes(forks, tmp_path / "rendezvous", *shared, "--save-dir", tmp_path / "two")
    assert_same(parameters(tmp_path / "one"), parameters(tmp_path / "two"), rtol=1e-4, atol=1e-5)


def test_targets_longer_than_their_graph_are_counted_or_filtered(command, toy_data, tmp_path):
    arguments = [
        toy_data,
        *NLL,
        *SIZES,
        *OPTIMIZER,
        "--max-update",
        "1",
        "--dag-upsample-scale",
        "1.1",
    ]
    output = command("fairseq-train", *arguments, "--save-dir", tmp_path / "counted")
    inner = next(
        line for line in (output.stdout + output.stderr).splitlines() if "train_inner" in line
    )
    assert float(inner.split("skipped_share=")[1].split(",")[0]) > 0
    output = command(
        "fairseq-train",
        *arguments,
        "--dag-filter-ratio",
        "1.1",
        "--save-dir",
        tmp_path / "filtered",
        check=False,
    )
    assert "--dag-filter-ratio 1.1 leaves" in output.stdout + output.stderr


@pytest.mark.parametrize(
    "options, message",
    [
        (
            "--nbest 2 --beam 2",
            "--nbest 2 has an effect only with --dag-decode-strategy beam or sample",
        ),
        ("--min-len 4", "--min-len 4 has an effect only with --dag-decode-strategy beam"),
        (
            "--beam 4 --rescore-path at.pt",
            "only one translation to choose from; give --dag-decode-strategy beam",
        ),
        ("--dag-decode-strategy beam --dag-lm-path no.arpa", "kenlm"),
        ("--match-source-len", "--match-source-len: not supported"),
    ],
)
def test_impossible_decoding(toy_data, student, options, message):
    assert message in refused(
        "fairseq-generate", toy_data, *DECODE, "--path", student[0], *options.split()
    )


def test_a_foreign_checkpoint(toy_data, teacher):
    message = refused("fairseq-generate", toy_data, *DECODE, "--path", teacher)
    assert "TransformerModel, not a dag_transformer" in message


@pytest.mark.parametrize(
    "change, message",
    [
        (["--dag-glance-schedule", "2"], "--dag-glance-schedule '2'"),
        (["--dag-upsample-scale", "8~4"], "--dag-upsample-scale '8~4'"),
        (["--arch", "transformer"], "not a dag_transformer"),
    ],
)
def test_impossible_training(toy_data, tmp_path, change, message):
    model = [*TASK, *"--arch dag_transformer --criterion dag_nll_loss".split()]
    arguments = [*model, *SIZES, *OPTIMIZER, "--max-update", "2", "--save-dir", tmp_path, *change]
    assert message in refused("fairseq-train", toy_data, *arguments)
