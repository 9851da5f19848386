"""Options that several families share, as fairseq's commands read them."""

from argparse import ArgumentParser

import pytest
from fairseq.dataclass.utils import gen_parser_from_dataclass

from fairseq_hrt.training.config import ACTIVATIONS, ConventionsConfig, DistillationConfig


def parse(*arguments):
    parser = ArgumentParser()
    gen_parser_from_dataclass(parser, DistillationConfig())
    return parser.parse_args(arguments)


def test_nothing_is_distilled_by_default():
    assert vars(parse()) == {"distilled_data": None, "raw_probability": 0.0}


def test_options_of_the_command_line():
    given = parse("--distilled-data", "a:b", "--raw-probability", "0.25")
    assert (given.distilled_data, given.raw_probability) == ("a:b", 0.25)
    assert DistillationConfig.from_namespace(given) == DistillationConfig(
        distilled_data="a:b", raw_probability=0.25
    )


def test_a_probability_is_a_number(capsys):
    with pytest.raises(SystemExit):
        parse("--raw-probability", "often")
    assert "--raw-probability" in capsys.readouterr().err


def test_conventions_are_fairseqs_by_default():
    config = ConventionsConfig()
    assert (config.activation_fn, config.marian_first_position, config.marian_epsilon) == (
        "relu",
        None,
        1e-5,
    )
    assert (
        config.marian_output_bias == "no"
        and ACTIVATIONS[:2] == ["relu", "gelu"]
        and ACTIVATIONS[-1] == "swish"
    )
