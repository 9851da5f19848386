"""``--store-ema`` with every family of models: trained, resumed, and the averages of one
decoded."""

import pytest
import torch
from command_line import RESUMABLE, SIZES, hypotheses
from fairseq.checkpoint_utils import load_ema_from_checkpoint

pytestmark = pytest.mark.slow

FAMILIES = {
    "hrt": "hrt_transformer --criterion hrt_loss --hrt-chunk-sizes 2,3 --hrt-curriculum-steps 4",
    "bidirectional": "bidirectional_transformer --criterion bidirectional_loss",
    "dag": "dag_transformer --criterion dag_nll_loss --dag-upsample-scale 4",
    "ctc": "ctc_transformer --criterion ctc_nll_loss --ctc-inputs unk",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_train_resume_and_decode(command, toy_data, tmp_path, family):
    arguments = [
        toy_data,
        "--user-dir",
        "fairseq_hrt",
        "--task",
        f"translation_{family}",
        "--arch",
        *FAMILIES[family].split(),
    ]
    arguments += [*SIZES, *RESUMABLE, "--store-ema", "--ema-decay", "0.5", "--save-dir", tmp_path]
    command("fairseq-train", *arguments, "--max-update", "2")
    before = averages(tmp_path)
    resumed = command("fairseq-train", *arguments, "--max-update", "3")
    assert "Loaded checkpoint" in resumed.stdout + resumed.stderr
    state = load_ema_from_checkpoint(tmp_path / "checkpoint_last.pt")
    # One more update with decay 0.5: half-way from the averages of before to the parameters.
    trained = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)["model"]
    for name, value in state["model"].items():
        if value.is_floating_point() and not name.endswith(("version", "_float_tensor")):
            torch.testing.assert_close(value, (before[name] + trained[name]) / 2, msg=name)
        elif not value.is_floating_point():
            assert value.equal(trained[name]), name
    if family != "dag":
        return
    torch.save(state, tmp_path / "averages.pt")
    output = command(
        "fairseq-generate", toy_data, "--user-dir", "fairseq_hrt", "--task",
        f"translation_{family}", "--cpu", "--beam", "1", "--path", tmp_path / "averages.pt",
        "--max-len-b", "10",
    ).stdout  # fmt: skip
    assert len(hypotheses(output)) == 20


def averages(folder):
    return load_ema_from_checkpoint(folder / "checkpoint_last.pt")["model"]
