"""The stock commands of fairseq with its own `translation` task, from text to BLEU."""

import collections
import re
from types import SimpleNamespace

import pytest
import sacrebleu
import torch
from command_line import hypotheses
from command_line import parameters as parameters_of
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from tiny_models import SIZES, write_checkpoint

pytestmark = pytest.mark.slow

MODEL = [
    "--arch=transformer",
    "--encoder-layers=1",
    "--decoder-layers=1",
    *(f"--{side}-embed-dim=16" for side in ("encoder", "decoder")),
    *(f"--{side}-ffn-embed-dim=32" for side in ("encoder", "decoder")),
    *(f"--{side}-attention-heads=2" for side in ("encoder", "decoder")),
]
TRAINING = ["--task=translation", "--optimizer=adam", "--lr=0.01", "--max-tokens=500", "--cpu"]


def parameters(log: str) -> int:
    return int(re.search(r"num\. shared model params: ([\d,]+)", log)[1].replace(",", ""))


@pytest.fixture(scope="module")
def trained(toy_data, command, tmp_path_factory):
    """Folder with the checkpoints of two updates, and the log of that training."""
    folder = tmp_path_factory.mktemp("checkpoints")
    finished = command(
        "fairseq-train", toy_data, *TRAINING, *MODEL, "--max-update=2", "--save-dir", folder,
        "--eval-bleu", "--num-workers=1",
    )  # fmt: skip
    return folder, finished.stdout + finished.stderr


# the other commands do their work, here and in tests of their own
def test_help(command):
    assert "usage" in command("fairseq-eval-lm", "--help").stdout


def test_training_shows_no_warning_and_counts_parameters_once(trained):
    _, log = trained
    assert "Warning" not in log
    attention, ffn, norm = 4 * (16 * 16 + 16), (16 * 32 + 32) + (32 * 16 + 16), 2 * 16
    letters, specials = 10, 4
    pad = -(letters + specials) % 8  # dictionaries are filled up to a multiple of 8
    types = letters + specials + pad
    embeddings = 3 * types * 16  # source, target, and output
    encoder, decoder = attention + ffn + 2 * norm, 2 * attention + ffn + 3 * norm
    assert parameters(log) == embeddings + encoder + decoder


def test_training_resumes(trained, toy_data, command, tmp_path):
    folder, _ = trained
    (tmp_path / "checkpoint_last.pt").write_bytes((folder / "checkpoint_last.pt").read_bytes())
    finished = command(
        "fairseq-train", toy_data, *TRAINING, *MODEL, "--max-update=3", "--save-dir", tmp_path
    )
    log = finished.stdout + finished.stderr
    assert re.search(r"Loaded checkpoint .*@ 2 updates", log)
    assert "num_updates 3" in log


def test_generate_and_score_agree(trained, toy_data, command, tmp_path):
    checkpoint = trained[0] / "checkpoint_last.pt"
    output = command(
        "fairseq-generate", toy_data, "--path", checkpoint, "--beam=2", "--max-len-b=10", "--cpu"
    ).stdout
    assert output.count("\nH-") == 20
    for letter, column, name in (("H", 2, "system"), ("T", 1, "reference")):
        lines = [
            line.split("\t")[column] for line in output.splitlines() if line[:2] == f"{letter}-"
        ]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    scored = command(
        "fairseq-score", "-s", tmp_path / "system", "-r", tmp_path / "reference"
    ).stdout
    generated = re.search(r"BLEU4 = .*", output)[0]
    assert re.search(r"BLEU4 = .*", scored)[0] == generated


def test_interactive_reads_standard_input(trained, toy_data, command):
    checkpoint = trained[0] / "checkpoint_last.pt"
    output = command(
        "fairseq-interactive", toy_data, "--path", checkpoint, "--cpu", "--max-len-b=5",
        stdin="a b c\nj\n",
    ).stdout  # fmt: skip
    assert "H-0" in output and "H-1" in output


def test_validate(trained, toy_data, command):
    checkpoint = trained[0] / "checkpoint_last.pt"
    finished = command(
        "fairseq-validate", toy_data, "--task=translation", "--path", checkpoint, "--cpu",
        "--max-tokens=500",
    )  # fmt: skip
    assert re.search(r"valid on .* loss [\d.]+", finished.stdout + finished.stderr)


def test_unsafe_checkpoint_stops_the_command_with_the_reason(toy_data, command, tmp_path):
    checkpoint = tmp_path / "unsafe.pt"
    torch.save({"model": collections.ChainMap()}, checkpoint)
    finished = command("fairseq-generate", toy_data, "--path", checkpoint, "--cpu", check=False)
    assert finished.returncode == 2
    error = finished.stderr.splitlines()[-1]
    assert error.startswith("error: ") and "collections.ChainMap" in error
    assert "Traceback" not in finished.stderr


@pytest.fixture(scope="module")
def in_bfloat16(toy_data, command, tmp_path_factory):
    """Folder with the checkpoint of a training in bfloat16, and its log."""
    folder = tmp_path_factory.mktemp("bfloat16")
    finished = command(
        "fairseq-train",
        toy_data,
        *TRAINING,
        *MODEL,
        "--bf16",
        "--max-update=2",
        "--save-dir",
        folder,
    )
    return folder, finished.stdout + finished.stderr


def test_a_checkpoint_of_bfloat16_is_one_of_float32(in_bfloat16, toy_data, command):
    """A training continues from it below."""
    folder, log = in_bfloat16
    assert "matrix products in bfloat16" in log and "Warning" not in log
    state = load_checkpoint_to_cpu(str(folder / "checkpoint_last.pt"))
    assert {value.dtype for value in state["model"].values()} == {torch.float32}
    assert not state["cfg"].common.bf16 and not state["cfg"].common.tpu
    output = command(
        "fairseq-generate",
        toy_data,
        "--path",
        folder / "checkpoint_last.pt",
        "--max-len-b=5",
        "--cpu",
    ).stdout
    assert output.count("\nH-") == 20


def test_products_in_bfloat16_change_what_is_learnt_a_little(in_bfloat16, trained):
    half, single = (parameters_of(folder) for folder, _ in (in_bfloat16, trained))
    assert any(not torch.equal(half[name], single[name]) for name in half)
    # Adam changes no parameter by more than the learning rate an update.
    torch.testing.assert_close(half, single, rtol=0, atol=0.04)


def test_fp16_is_refused_on_a_cpu(toy_data, command, tmp_path):
    finished = command(
        "fairseq-train", toy_data, *TRAINING, *MODEL, "--fp16", "--save-dir", tmp_path, check=False
    )
    assert finished.returncode == 2
    assert (
        finished.stderr.splitlines()[-1].startswith("error: --fp16 needs a GPU")
        and "Traceback" not in finished.stderr
    )


def test_training_in_buckets_of_lengths(toy_data, command, tmp_path):
    command(
        "fairseq-train",
        toy_data,
        *TRAINING,
        *MODEL,
        "--num-batch-buckets=3",
        "--max-update=1",
        "--no-save",
    )


def test_shards_make_up_the_whole_set(trained, toy_data, command):
    generate = (
        "fairseq-generate", toy_data, "--user-dir=fairseq_hrt", "--task=translation", "--path",
        trained[0] / "checkpoint_last.pt", "--cpu", "--max-len-b=5", "--beam=1", "--batch-size=7",
    )  # fmt: skip
    # Three batches: the last shard gets one less.
    shards = [
        hypotheses(command(*generate, "--num-shards=2", f"--shard-id={shard}").stdout)
        for shard in range(2)
    ]
    assert sum(map(len, shards)) == 20 and all(shards)
    assert {**shards[0], **shards[1]} == hypotheses(command(*generate).stdout)


@pytest.fixture
def texts(tmp_path):
    """Files of translations and references, and their lines."""
    hypotheses = ["the cat sat on the mat .", "a dog barks !", "it rains"]
    references = ["the cat sat on a mat .", "a dog barked !", "it rains again"]
    for name, lines in (("system", hypotheses), ("reference", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return SimpleNamespace(
        files=("-s", tmp_path / "system", "-r", tmp_path / "reference"),
        hypotheses=hypotheses,
        references=references,
    )


def test_scores_of_sacrebleu(texts, command):
    expected = sacrebleu.corpus_bleu(texts.hypotheses, [texts.references]).format()
    # What is looked up before fairseq is imported is repaired as well: tests of its start.
    assert command("fairseq-score", *texts.files, "--sacrebleu").stdout.splitlines()[-1] == expected
    stdin = "".join(f"{line}\n" for line in texts.hypotheses)
    assert (
        command("fairseq-score", *texts.files[2:], "--sacrebleu", stdin=stdin).stdout.splitlines()[
            -1
        ]
        == expected
    )


def test_scores_of_sentences(texts, command):
    shown = command("fairseq-score", *texts.files, "--sentence-bleu").stdout
    expected = [
        sacrebleu.sentence_bleu(
            hypothesis,
            [reference],
            smooth_method="add-k",
            smooth_value=1,
            tokenize="none",
            use_effective_order=False,
        ).score
        for hypothesis, reference in zip(texts.hypotheses, texts.references)
    ]
    assert re.findall(r"^(\d) BLEU4 = ([\d.]+),", shown, re.M) == [
        (str(number), f"{score:2.2f}") for number, score in enumerate(expected)
    ]


def test_torchrun_continues_a_training_on_two_workers(
    in_bfloat16, toy_data, command, forks, tmp_path
):
    """Without a word of backends; the optimizer's state travels to the second worker through
    `torch.load`."""
    (tmp_path / "checkpoint_last.pt").write_bytes(
        (in_bfloat16[0] / "checkpoint_last.pt").read_bytes()
    )
    finished = command(
        "torchrun", "--standalone", "--nproc-per-node=2", "--no-python",
        *forks.command("fairseq-train"), toy_data, *TRAINING, *MODEL, "--max-update=3",
        "--save-dir", tmp_path, "--bf16", "--reset-dataloader",
    )  # fmt: skip
    log = finished.stdout + finished.stderr
    assert "num_updates 3" in log and "distributed init (rank 1)" in log
    assert re.search(r"Loaded checkpoint .*@ 2 updates", log)


@pytest.mark.parametrize("family, longest_target, options", [
    ("hrt", 6, ["--model-overrides={'max_target_positions': 1024}", "--max-len-b=5"]),
    ("dag", 1024, []),
])  # fmt: skip
def test_long_sources_are_cut_and_long_references_stay(
    toy_data, command, tmp_path, family, longest_target, options
):
    """As the recipes of the papers decode models that were trained on shorter sentences."""
    sizes = [*SIZES, "--max-source-positions=6", f"--max-target-positions={longest_target}"]
    model = write_checkpoint(tmp_path / "model.pt", toy_data, family, sizes=sizes)
    decoded = [
        "fairseq-generate", toy_data, "--user-dir=fairseq_hrt", f"--task=translation_{family}",
        f"--path={model}", "--beam=1",
    ]  # fmt: skip
    found = command(*decoded, "--truncate-source", "--max-source-positions=6", *options).stdout
    lengths = [len(line.split()) - 1 for line in found.splitlines() if line.startswith("T-")]
    assert len(hypotheses(found)) == len(lengths) == 20 and max(lengths) > 6
