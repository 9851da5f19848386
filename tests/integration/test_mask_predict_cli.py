"""Mask-Predict through the real command line: from a teacher on mixed targets, decoded in
iterations."""

from pathlib import Path

import pytest
from command_line import OPTIMIZER, SIZES, hypotheses, parameters

pytestmark = pytest.mark.slow
STUDY = Path(__file__).resolve().parents[2] / "examples" / "study"

TRAIN = (
    "--user-dir fairseq_hrt --task translation_mask_predict --arch mask_predict_transformer"
    " --criterion nat_loss --label-smoothing 0.1 --hrt-relative-window 4".split()
)


@pytest.fixture(scope="module")
def student(command, toy_data, teacher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mask_predict")
    output = command(
        "fairseq-train", toy_data, *TRAIN, *SIZES, *OPTIMIZER, "--max-update", "6", "--save-dir",
        folder, "--finetune-from-model", teacher, "--distilled-data", toy_data,
        "--raw-probability", "0.5",
    )  # fmt: skip
    return folder, output.stdout + output.stderr


def test_it_learns_from_its_teacher(student, teacher):
    folder, log = student
    assert log.count("train_inner") == 6 and "length" in log
    learnt, before = parameters(folder), parameters(teacher.parent)
    assert before.keys() < learnt.keys()
    assert learnt["decoder.layers.0.self_attn.relative_keys"].any()


def test_it_is_decoded_in_iterations(command, toy_data, student):
    output = command(
        "fairseq-generate", toy_data, "--user-dir", "fairseq_hrt", "--task",
        "translation_mask_predict", "--cpu", "--batch-size", "7", "--path",
        student[0] / "checkpoint_last.pt", "--beam", "1", "--iter-decode-max-iter", "3",
        "--iter-decode-with-beam", "2", "--iter-decode-force-max-iter",
        "--iter-decode-eos-penalty", "0",
    ).stdout  # fmt: skip
    assert sorted(hypotheses(output)) == list(range(20)) and "BLEU4 = " in output


def test_it_fills_in_what_is_hidden_of_a_translation(command, toy_data, student, teacher, tmp_path):
    output = command(
        "python", STUDY / "masked_translations.py", toy_data, "--out", tmp_path,
        "--translator", f"name=AT,path={teacher},task=translation_autoregressive,beam=1,max_len_b=9",
        "--filler", f"name=MP,path={student[0] / 'checkpoint_last.pt'}",
    ).stdout  # fmt: skip
    assert "| none | 0 | 0.00 |" in output and "| Chunk | 4 |" in output
    assert (tmp_path / "masked_translations.json").exists()


def test_a_benchmark_names_its_task(command, toy_data, student):
    output = command(
        "fairseq-hrt", "benchmark", toy_data, "--repeats", "1", "--speed-sentences", "2", "--system",
        f"name=MP,path={student[0] / 'checkpoint_last.pt'},beam=1,iter_decode_max_iter=3,"
        "iter_decode_force_max_iter=true,iter_decode_eos_penalty=0",
    ).stdout  # fmt: skip
    assert "| MP " in output
