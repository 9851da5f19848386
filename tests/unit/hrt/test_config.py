"""The papers' settings are the defaults."""

from fairseq_hrt.hrt.config import HRTModelConfig, HRTTaskConfig
from fairseq_hrt.training.config import SmoothedLossConfig


def test_the_papers_defaults():
    assert SmoothedLossConfig().label_smoothing == 0.1
    model, task = HRTModelConfig(), HRTTaskConfig()
    assert (model.hrt_chunk_sizes, model.hrt_relative_window, str(model.hrt_tail_target)) == (
        [2],
        16,
        "eos",
    )
    assert (task.hrt_curriculum_power, task.hrt_curriculum_steps, task.raw_probability) == (
        1.0,
        None,
        0.0,
    )
    assert (task.hrt_eos_last_chunk, task.hrt_nat_beam, task.hrt_decode_chunk) == (
        False,
        None,
        None,
    )
