"""The bidirectional family through the real command line: train, resume, decode, score, validate,
and what is refused."""

import shutil

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

TASK = "--user-dir fairseq_hrt --task translation_bidirectional".split()
MODEL = [*TASK, *"--arch bidirectional_transformer --criterion bidirectional_loss".split()]
DECODE = [*TASK, *"--cpu --batch-size 7 --max-len-b 20".split()]


@pytest.fixture(scope="module")
def student(command, toy_data, teacher, tmp_path_factory):
    """IBDecoder + SA with two start symbols from the teacher on mixed targets, validated with bare
    --eval-bleu; (checkpoint, output)."""
    folder = tmp_path_factory.mktemp("student")
    output = command(
        "fairseq-train", toy_data, *MODEL, *SIZES, *VALIDATED, "--max-update", "4", "--save-dir",
        folder, "--bidirectional-tokens-per-step", "2", "--bidirectional-train-dead-slots",
        "--bidirectional-distinct-starts", "--finetune-from-model", teacher, "--distilled-data",
        toy_data, "--raw-probability", "0.5", "--eval-bleu",
    )  # fmt: skip
    return folder / "checkpoint_last.pt", output.stdout + output.stderr


def test_validation_reports_perplexity_and_bleu(student):
    valid = next(line for line in student[1].splitlines() if "valid on 'valid' subset" in line)
    assert all(f"| {name}" in valid for name in ("loss", "nll_loss", "ppl", "bleu"))


@pytest.mark.parametrize(
    "options",
    [
        "--beam 3 --nbest 2 --bidirectional-scoring paper --bidirectional-length-penalty gnmt"
        " --lenpen 0.6",
        "--beam 1 --bidirectional-deduplicate --fp16",
        "--beam 2 --print-step --retain-iter-history",
    ],
)
def test_generate(command, toy_data, student, options):
    output = command(
        "fairseq-generate", toy_data, *DECODE, "--path", student[0], *options.split()
    ).stdout
    found, scores = hypotheses(output), lines(output, "P")
    assert sorted(found) == list(range(20))
    assert all(len(texts) == (2 if "--nbest" in options else 1) for texts in found.values())
    for number, texts in found.items():
        for text, positions in zip(texts, scores[number]):
            assert len(text.split()) + 1 == len(positions.split())
    assert "BLEU4 = " in output
    if "--print-step" in options:
        steps, history = lines(output, "I"), lines(output, "E")
        assert all(len(history[number]) == int(texts[0]) for number, texts in steps.items())


def test_the_teacher_chooses(command, toy_data, student, teacher, tmp_path):
    """The translations of the beam, in the order of the scores that stock fairseq gives with the
    teacher to them."""
    arguments = [toy_data, *DECODE, "--path", student[0], "--beam", "4", "--nbest", "4"]
    own = hypotheses(command("fairseq-generate", *arguments).stdout)
    output = command(
        "fairseq-generate", *arguments, "--rescore-path", teacher, "--rescore-lenpen", "0.5"
    ).stdout
    chosen, scores = hypotheses(output), lines(output, "P")
    assert {number: sorted(texts) for number, texts in own.items()} == {
        number: sorted(texts) for number, texts in chosen.items()
    }
    assert own != chosen
    for numbers in scores.values():
        found = [list(map(float, text.split())) for text in numbers]
        totals = [sum(values) / len(values) ** 0.5 for values in found]
        assert totals == sorted(totals, reverse=True)
    # The favourites, as references of a data set.
    for side, texts in (("de", lines(output, "S")), ("en", chosen)):
        shutil.copy(toy_data / f"dict.{side}.txt", tmp_path)
        (tmp_path / f"test.de-en.{side}").write_text(
            "".join(f"{texts[number][0]}\n" for number in range(20))
        )
    scored = command(
        "fairseq-generate", tmp_path, "--dataset-impl", "raw", "--task", "translation", "--cpu",
        "--path", teacher, "--score-reference",
    ).stdout  # fmt: skip
    for number, texts in lines(scored, "P").items():
        expected = list(map(float, texts[0].split()))
        assert list(map(float, scores[number][0].split())) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            "--beam 2 --rescore-path {student}",
            "{student}: the checkpoint belongs to the task translation_bidirectional",
        ),
        (
            "--beam 2 --rescore-path {teacher}.gone",
            "{teacher}.gone: --rescore-path: No such file or directory",
        ),
        ("--beam 2 --rescore-path {teacher}:", "--rescore-path: a name of a checkpoint is empty"),
    ],
)
def test_who_cannot_choose(toy_data, student, teacher, options, message):
    names = {"teacher": teacher, "student": student[0]}
    arguments = [option.format(**names) for option in options.split()]
    assert message.format(**names) in refused(
        "fairseq-generate", toy_data, *DECODE, "--path", student[0], *arguments
    )


def test_interactive_keeps_every_line(command, toy_data, student):
    text = "a b c\n\n" + "d " * 500 + "\nä ö 你好 \u200b x\na\n"
    output = command(
        "fairseq-interactive", toy_data, *TASK, "--cpu", "--path", student[0], "--max-len-b", "20",
        "--buffer-size", "3", "--batch-size", "2", "--beam", "2", stdin=text,
    )  # fmt: skip
    assert sorted(lines(output.stdout, "H")) == list(range(5))
    assert "Traceback" not in output.stderr


def test_validate(command, toy_data, student):
    output = command(
        "fairseq-validate", toy_data, *TASK, "--cpu", "--max-tokens", "300", "--path", student[0],
        "--valid-subset", "valid", "--log-format", "simple",
    )  # fmt: skip
    assert "ppl" in output.stdout + output.stderr


def test_scores_of_references_are_those_of_the_search(command, toy_data, student):
    """A translation scored as a reference has the score with which it was found."""
    arguments = [toy_data, *DECODE, "--path", student[0], "--beam", "1"]
    scored = command("fairseq-generate", *arguments, "--score-reference").stdout
    assert sorted(lines(scored, "H")) == list(range(20))
    targets = {number: texts[0] for number, texts in lines(scored, "T").items()}
    for number, texts in hypotheses(scored).items():
        assert texts[0] == targets[number]


TRAINING = [*MODEL, *SIZES, *RESUMABLE, "--max-update", "4", "--save-interval-updates", "2",
            "--keep-interval-updates", "1", "--raw-probability", "0.5"]  # fmt: skip


def test_a_killed_training_goes_on_bit_equal_with_other_workers(command, forks, toy_data, tmp_path):
    training = [toy_data, *TRAINING, "--distilled-data", toy_data]
    command("fairseq-train", *training, "--save-dir", tmp_path / "undisturbed")
    train_until_killed(forks, *training, "--save-dir", tmp_path / "killed", "--num-workers", "2")
    command("fairseq-train", *training, "--save-dir", tmp_path / "killed", "--num-workers", "1")
    assert_same(parameters(tmp_path / "undisturbed"), parameters(tmp_path / "killed"))


def test_two_processes_learn_what_one_learns(toy_data, command, forks, tmp_path):
    """Without dropout, two processes of one batch each are one process of two batches an update."""
    shared = [
        toy_data,
        *MODEL,
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


def test_long_targets_are_cut_at_their_end(command, toy_data, tmp_path):
    arguments = [
        toy_data,
        *MODEL,
        *SIZES,
        *OPTIMIZER,
        "--max-update",
        "1",
        "--max-target-positions",
        "4",
    ]
    skipped = []
    for name, cut in (("left out", []), ("cut", ["--bidirectional-truncate-target"])):
        output = command("fairseq-train", *arguments, *cut, "--save-dir", tmp_path / name)
        skipped.append("skipped" in output.stdout + output.stderr)
    assert skipped == [True, False]


@pytest.mark.parametrize(
    "options, message",
    [
        ("--no-repeat-ngram-size 2", "--bidirectional-deduplicate"),
        ("--match-source-len", "--match-source-len: not supported"),
    ],
)
def test_impossible_decoding(toy_data, student, options, message):
    assert message in refused(
        "fairseq-generate", toy_data, *DECODE, "--path", student[0], *options.split()
    )


def test_a_foreign_checkpoint(toy_data, teacher):
    message = refused("fairseq-generate", toy_data, *DECODE, "--path", teacher)
    assert (
        "TransformerModel, not a bidirectional_transformer" in message
        and "translation_autoregressive" in message
    )


@pytest.mark.parametrize(
    "change, message",
    [
        (["--bidirectional-directions", "3"], "--bidirectional-directions 3: give 1"),
        (["--arch", "transformer"], "not a bidirectional_transformer"),
        (["--left-pad-target"], "--left-pad-target"),
    ],
)
def test_impossible_training(toy_data, tmp_path, change, message):
    arguments = [*MODEL, *SIZES, *OPTIMIZER, "--max-update", "2", "--save-dir", tmp_path, *change]
    assert message in refused("fairseq-train", toy_data, *arguments)
