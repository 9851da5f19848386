"""The hybrid-regressive family through the real command line: train, resume, decode, validate, and
everything refused."""

import pickletools
import re
import zipfile

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

HRT = (
    "--user-dir fairseq_hrt --task translation_hrt --arch hrt_transformer --criterion hrt_loss"
    " --hrt-chunk-sizes 2,3".split()
)
DECODE = "--user-dir fairseq_hrt --task translation_hrt --cpu --batch-size 7 --max-len-b 20".split()


@pytest.fixture(scope="module")
def student(command, toy_data, teacher, tmp_path_factory):
    """Fine-tuned from the teacher on mixed targets, validated with bare --eval-bleu; (folder,
    output of the training)."""
    folder = tmp_path_factory.mktemp("student")
    output = command(
        "fairseq-train", toy_data, *HRT, *SIZES, *VALIDATED, "--max-update", "8", "--save-dir",
        folder, "--finetune-from-model", teacher, "--distilled-data", toy_data,
        "--raw-probability", "0.5", "--eval-bleu", "--hrt-eval-autoregressive",
    )  # fmt: skip
    return folder, output.stdout + output.stderr


def test_training_and_validation_report_all_tasks(student):
    _, log = student
    valid = next(line for line in log.splitlines() if "valid on 'valid' subset" in line)
    for name in (
        "loss",
        "at_loss",
        "cmlm_loss",
        "skip_at_loss",
        "skip_cmlm_loss",
        "chunked 1",
        "bleu",
        "bleu_autoregressive",
    ):
        assert f"| {name}" in valid
    shares = [float(share) for share in re.findall(r"train_inner.*?chunked=([\d.]+)", log)]
    assert len(shares) == 8 and shares[0] == 0 and shares[-1] > 0.7, (
        "update 0 without chunks, then ever more"
    )


def test_a_checkpoint_names_no_class_of_this_package(student):
    """So that modules may move and old checkpoints still load."""
    with zipfile.ZipFile(student[0] / "checkpoint_last.pt") as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        named = [
            value
            for operation, value, _ in pickletools.genops(archive.read(name))
            if operation.name in ("GLOBAL", "INST")
        ]
    assert "torch._utils _rebuild_tensor_v2" in named
    assert not [value for value in named if "fairseq_hrt" in value]


@pytest.mark.parametrize(
    "options",
    [
        "--hrt-decode-chunk 1 --beam 1",
        "--hrt-decode-chunk 2 --beam 4 --hrt-nat-beam 2 --nbest 2 --lenpen 0.6",
        "--hrt-decode-chunk 3 --beam 4 --rescore-path {student}",
        "--hrt-decode-chunk auto --hrt-chunk-table 4:1,6:2,inf:3 --beam 2 --fp16",
        "--beam 2 --hrt-eos-last-chunk --print-step --retain-iter-history",
    ],
)
def test_generate(command, toy_data, student, options):
    path = student[0] / "checkpoint_last.pt"
    arguments = options.format(student=path).split()
    output = command("fairseq-generate", toy_data, *DECODE, "--path", path, *arguments).stdout
    found, scores = hypotheses(output), lines(output, "P")
    assert sorted(found) == list(range(20))
    assert all(len(texts) == (2 if "--nbest" in options else 1) for texts in found.values())
    for number, texts in found.items():
        for text, positions in zip(texts, scores[number]):
            assert len(text.split()) + 1 == len(positions.split())
    assert "BLEU4 = " in output
    if "--print-step" in options:
        steps, history = lines(output, "I"), lines(output, "E")
        assert all(len(history[number]) == int(found[0]) for number, found in steps.items())


def test_interactive_keeps_every_line(command, toy_data, student):
    text = "a b c\n\n" + "d " * 500 + "\nä ö 你好 \u200b x\na\n"
    output = command(
        "fairseq-interactive", toy_data, *DECODE[:-4], "--path", student[0] / "checkpoint_last.pt",
        "--max-len-b", "20", "--buffer-size", "3", "--batch-size", "2", "--beam", "2",
        "--hrt-decode-chunk", "2", "--truncate-source", "--max-source-positions", "200", stdin=text,
    )  # fmt: skip
    assert sorted(lines(output.stdout, "H")) == list(range(5))
    assert "Traceback" not in output.stderr


def test_references_are_scored_by_both_stages(command, toy_data, student):
    path = student[0] / "checkpoint_last.pt"
    output = command(
        "fairseq-generate", toy_data, *DECODE, "--path", path, "--score-reference", "--bf16"
    ).stdout
    texts, scores = hypotheses(output), lines(output, "P")
    for number, target in lines(output, "T").items():
        assert (
            texts[number] == target and len(scores[number][0].split()) == len(target[0].split()) + 1
        )
    assert len(texts) == 20


def test_validate(command, toy_data, student):
    output = command(
        "fairseq-validate", toy_data, "--user-dir", "fairseq_hrt", "--task", "translation_hrt",
        "--cpu", "--max-tokens", "300", "--path", student[0] / "checkpoint_last.pt",
        "--valid-subset", "valid", "--log-format", "simple",
    )  # fmt: skip
    assert "skip_cmlm_loss" in output.stdout + output.stderr


def test_autoregressive_engine_equals_fairseq(command, toy_data, teacher):
    both = [
        command(
            "fairseq-generate", toy_data, "--user-dir", "fairseq_hrt", "--task", task, "--path",
            teacher, "--cpu", "--beam", "5", "--nbest", "5", "--max-len-b", "12",
        ).stdout
        for task in ("translation", "translation_autoregressive")
    ]  # fmt: skip
    texts = [hypotheses(out) for out in both]
    assert len(texts[0]) == 20 and texts[0] == texts[1]


# ---------------------------------------------------------------------- training is reproducible


TRAINING = [
    *HRT,
    *SIZES,
    *RESUMABLE,
    "--max-update",
    "4",
    "--save-interval-updates",
    "2",
    "--keep-interval-updates",
    "1",
]


def test_killed_and_resumed_training_is_bit_equal(command, forks, toy_data, tmp_path):
    """With other workers."""
    arguments = [toy_data, *TRAINING, "--distilled-data", toy_data, "--raw-probability", "0.5"]
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    command("fairseq-train", *arguments, "--save-dir", undisturbed)
    train_until_killed(forks, *arguments, "--save-dir", killed, "--num-workers", "2")
    command("fairseq-train", *arguments, "--save-dir", killed, "--num-workers", "1")
    assert_same(parameters(undisturbed), parameters(killed))


def test_an_extended_training_keeps_its_curriculum(command, toy_data, tmp_path):
    """Whatever extends it: more updates, and again; another length only where it is asked for."""

    def shares(*options):
        output = command("fairseq-train", toy_data, *HRT, *SIZES, *RESUMABLE, "--save-dir", tmp_path,
                         *options)  # fmt: skip
        log = output.stdout + output.stderr
        return [float(share) for share in re.findall(r"train_inner.*?chunked=([\d.]+)", log)], log

    begun, log = shares("--max-update", "4")
    assert 0.5 < begun[3] < 1 and "curriculum" not in log.split("INFO | fairseq_cli.train")[-1]
    for total in ("5", "6"):
        own, log = shares("--max-update", total)
        assert own == [1.0] and (
            "keeps the 4 updates that it was begun with: --hrt-curriculum-steps"
            f" {total} adapts it to --max-update" in log
        )
    own, log = shares("--max-update", "7", "--hrt-curriculum-steps", "14")
    assert 0.2 < own[0] < 0.7 and (
        "was begun with --hrt-curriculum-steps 4 --hrt-curriculum-power 1; now they are 14 and 1"
        in log
    )
    # fairseq does not read the length then, and the log names the new one.
    own, log = shares("--max-update", "16", "--reset-dataloader")
    assert own[0] < 0.7 and "from update 7 on it is 16 updates long" in log


def test_two_processes_learn_what_one_learns(toy_data, command, forks, tmp_path):
    """Without dropout, two processes of one batch each are one process of two batches an update."""
    shared = [*HRT, *SIZES, *RESUMABLE, "--max-update", "2", "--dropout", "0", "--batch-size", "8"]
    command(
        "fairseq-train", toy_data, *shared, "--update-freq", "2", "--save-dir", tmp_path / "one"
    )
    train_in_two_processes(
        forks, tmp_path / "rendezvous", toy_data, *shared, "--save-dir", tmp_path / "two"
    )
    assert_same(parameters(tmp_path / "one"), parameters(tmp_path / "two"), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "options, message",
    [
        ("--beam 1 --hrt-nat-beam 5", "--hrt-nat-beam 5 with --beam 1"),
        (
            "--hrt-decode-chunk 4",
            "chunk size 4 was not trained: this model has 1 (autoregressive) and 2, 3",
        ),
        (
            "--match-source-len --retain-dropout",
            "--match-source-len, --retain-dropout: not supported",
        ),
        (
            "--beam 4 --hrt-nat-beam 1 --rescore-path at.pt",
            "only one translation to choose from; give --beam and --hrt-nat-beam 2",
        ),
    ],
)
def test_impossible_decoding(toy_data, student, options, message):
    path = student[0] / "checkpoint_last.pt"
    assert message in refused(
        "fairseq-generate", toy_data, *DECODE, "--path", path, *options.split()
    )


def test_a_foreign_checkpoint(toy_data, teacher):
    message = refused("fairseq-generate", toy_data, *DECODE, "--path", teacher)
    assert (
        "TransformerModel, not a hrt_transformer" in message
        and "translation_autoregressive" in message
    )


def test_a_truncated_checkpoint(toy_data, student, tmp_path):
    broken = tmp_path / "broken.pt"
    content = (student[0] / "checkpoint_last.pt").read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    assert "broken.pt" in refused("fairseq-generate", toy_data, *DECODE, "--path", broken)


@pytest.mark.parametrize(
    "change, message",
    [
        (["--max-update", "0", "--max-epoch", "1"], "give --max-update, or --hrt-curriculum-steps"),
        (["--hrt-chunk-sizes", "1"], "--hrt-chunk-sizes [1]"),
        (["--hrt-chunk-sizes", "2,2"], "each once"),
        (["--decoder-learned-pos"], "needs sinusoidal positions"),
        (["--distilled-data", "nowhere"], "nowhere"),
        (
            ["--raw-probability", "0.5"],
            "--raw-probability 0.5 has an effect only with --distilled-data",
        ),
        (["--criterion", "cross_entropy"], "--criterion hrt_loss, not cross_entropy"),
        (["--arch", "transformer"], "not a hrt_transformer"),
    ],
)
def test_impossible_training(toy_data, tmp_path, change, message):
    arguments = [*HRT, *SIZES, *OPTIMIZER, "--max-update", "2", "--save-dir", tmp_path, *change]
    if change[0] == "--arch":
        place = arguments.index("--hrt-chunk-sizes")
        del arguments[place : place + 2]
    assert message in refused("fairseq-train", toy_data, *arguments)


def test_misaligned_distilled_data(command, toy_corpus, toy_data, tmp_path):
    for language in ("de", "en"):
        text = (toy_corpus / f"train.{language}").read_text().splitlines(keepends=True)
        (tmp_path / f"train.{language}").write_text("".join(text[1:] + text[:1]))
    command(
        "fairseq-preprocess", "-s", "de", "-t", "en", "--trainpref", tmp_path / "train",
        "--destdir", tmp_path / "bin", "--srcdict", toy_data / "dict.de.txt", "--tgtdict",
        toy_data / "dict.en.txt",
    )  # fmt: skip
    message = refused(
        "fairseq-train", toy_data, *HRT, *SIZES, *OPTIMIZER, "--max-update", "2",
        "--save-dir", tmp_path / "model", "--distilled-data", tmp_path / "bin",
    )  # fmt: skip
    assert "the source of sentence 0 differs" in message
