"""The papers' settings are the defaults."""

from fairseq_hrt.bidirectional.config import (
    BidirectionalModelConfig,
    BidirectionalTaskConfig,
)
from fairseq_hrt.training.config import SmoothedLossConfig


def test_the_defaults_are_those_of_the_paper():
    """Two directions, one word each, label smoothing 0.1, nothing taught behind </s>, no
    ablation."""
    model, task = BidirectionalModelConfig(), BidirectionalTaskConfig()
    assert (
        model.bidirectional_directions,
        model.bidirectional_tokens_per_step,
        model.bidirectional_block,
    ) == (2, 1, None)
    for ablation in (
        "vanilla_mask",
        "vanilla_positions",
        "middle_to_side",
        "independent_directions",
        "distinct_starts",
    ):
        assert getattr(model, f"bidirectional_{ablation}") is False
    assert SmoothedLossConfig().label_smoothing == 0.1
    assert (task.bidirectional_train_dead_slots, task.bidirectional_truncate_target) == (
        False,
        False,
    )
    assert (str(task.bidirectional_scoring), str(task.bidirectional_length_penalty)) == (
        "canonical",
        "power",
    )
    assert (task.bidirectional_deduplicate, task.distilled_data, task.raw_probability) == (
        False,
        None,
        0.0,
    )
    # The training's seed, not one of the task's own.
    assert BidirectionalTaskConfig.__dataclass_fields__["seed"].default == "${common.seed}"
