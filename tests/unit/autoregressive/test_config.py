"""Marian's conventions are the defaults."""

from argparse import ArgumentParser

from fairseq_hrt.autoregressive.config import MarianModelConfig
from fairseq_hrt.autoregressive.model import MarianTransformerModel


def test_defaults_are_marians():
    config = MarianModelConfig()
    assert (config.marian_first_position, config.marian_epsilon, config.marian_cell) == (
        0,
        1e-6,
        "attention",
    )
    assert (config.marian_zero_start, config.marian_output_bias, config.activation_fn) == (
        "yes",
        "yes",
        "swish",
    )


def test_each_can_be_chosen_on_the_command_line():
    parser = ArgumentParser()
    MarianTransformerModel.add_args(parser)
    given = parser.parse_args(
        "--marian-first-position 2 --marian-epsilon 1e-5 --marian-cell ssru --marian-zero-start no"
        " --marian-output-bias no --activation-fn swish".split()
    )
    config = MarianModelConfig.from_namespace(given)
    assert (config.marian_first_position, config.marian_epsilon) == (2, 1e-5)
    assert (config.marian_cell, config.marian_zero_start, config.marian_output_bias) == (
        "ssru",
        "no",
        "no",
    )
