"""A tiny autoregressive teacher for the families that are fine-tuned from one."""

import pytest
from command_line import OPTIMIZER, SIZES


@pytest.fixture(scope="session")
def teacher(command, toy_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    command(
        "fairseq-train", toy_data, "--task", "translation", "--arch", "transformer", *SIZES,
        *OPTIMIZER, "--criterion", "label_smoothed_cross_entropy", "--max-update", "8",
        "--save-dir", folder,
    )  # fmt: skip
    return folder / "checkpoint_last.pt"
