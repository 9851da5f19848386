"""The papers' settings are the defaults."""

from fairseq_hrt.dag.config import (
    DagFuzzyLossConfig,
    DagModelConfig,
    DagNllLossConfig,
    DagTaskConfig,
)


def test_the_defaults_are_those_of_the_papers():
    """DA-Transformer, sections 3.4 and 4.1; FA-DAT, sections 3 and 4.1."""
    nll, fuzzy, task, model = (
        DagNllLossConfig(),
        DagFuzzyLossConfig(),
        DagTaskConfig(),
        DagModelConfig(),
    )
    assert (nll.dag_glance_schedule, str(nll.dag_glance_strategy)) == (
        "0.5:0.1@200k",
        "number-random",
    )
    assert str(nll.dag_glance_forcing) == "vertex"
    assert (nll.dag_length_loss_factor, fuzzy.dag_length_loss_factor) == (0.1, 0.0)
    assert (fuzzy.dag_ngram_order, fuzzy.dag_glance_schedule, str(fuzzy.dag_glance_strategy)) == (
        2,
        "0.1",
        "number-random",
    )
    assert (model.dag_upsample_scale, str(model.dag_upsample_base), model.dag_link_features) == (
        "8",
        "source",
        "feature:position",
    )
    assert (
        model.dag_max_transition_length is None
        and model.dag_length_classes == 256
        and not model.dag_count_bos
    )
    assert (str(task.dag_decode_strategy), task.dag_decode_beta, task.dag_decode_length_beta) == (
        "lookahead",
        1.0,
        1.0,
    )
    assert not task.dag_keep_repeats and not task.dag_allow_unk
