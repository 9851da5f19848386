"""Tiny models that several files need: an autoregressive teacher, and students that are fine-tuned
from it."""

import functools

import pytest
from command_line import OPTIMIZER, SIZES
from tiny_models import STUDENTS


@pytest.fixture(scope="session")
def teacher(command, toy_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    command(
        "fairseq-train", toy_data, "--task", "translation", "--arch", "transformer", *SIZES,
        *OPTIMIZER, "--criterion", "label_smoothed_cross_entropy", "--max-update", "8",
        "--save-dir", folder,
    )  # fmt: skip
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def student_of(command, toy_data, teacher, tmp_path_factory):
    """A function of a family: the checkpoint of its student, which is trained when it is first
    asked for."""

    @functools.cache
    def train(family):
        folder = tmp_path_factory.mktemp(family)
        command(
            "fairseq-train", toy_data, "--user-dir", "fairseq_hrt", "--task",
            f"translation_{family}", *STUDENTS[family].split(), *SIZES, *OPTIMIZER,
            "--max-update", "4", "--save-dir", folder, "--finetune-from-model", teacher,
        )  # fmt: skip
        return folder / "checkpoint_last.pt"

    return train
