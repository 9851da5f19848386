"""The defaults decode without loss in a window that slides; what can be chosen is what there is."""

import pytest
from fairseq import options

from fairseq_hrt.jacobi.config import JacobiTaskConfig
from fairseq_hrt.native.options.schema import JACOBI_DRAFTS, JACOBI_MODES


def parse(*arguments):
    parser = options.get_generation_parser(default_task="translation_jacobi")
    return options.parse_args_and_arch(
        parser, ["data", "--task", "translation_jacobi", "--path", "model.pt", *arguments]
    )


def test_the_defaults():
    config = JacobiTaskConfig()
    assert (str(config.jacobi_mode), config.jacobi_block_size, str(config.jacobi_draft)) == (
        "frontier",
        3,
        "previous",
    )
    assert (config.jacobi_window, config.jacobi_prefix_length, config.jacobi_draft_path) == (
        None,
        None,
        None,
    )
    assert config.jacobi_draft_options == "{}"


def test_the_command_line_says_the_same():
    """None of the numbers that may be left out becomes 0."""
    given, config = parse(), JacobiTaskConfig()
    for name in vars(config):
        if name.startswith("jacobi_"):
            assert getattr(given, name) == getattr(config, name), name
    assert (
        parse("--jacobi-window", "4").jacobi_window,
        parse("--jacobi-prefix-length", "0").jacobi_prefix_length,
    ) == (4, 0)


@pytest.mark.parametrize("option, choices", [("mode", JACOBI_MODES), ("draft", JACOBI_DRAFTS)])
def test_what_can_be_chosen(option, choices, capsys):
    for choice in choices:
        assert getattr(parse(f"--jacobi-{option}", choice), f"jacobi_{option}") == choice
    with pytest.raises(SystemExit):
        parse(f"--jacobi-{option}", "other")
    assert f"argument --jacobi-{option}: invalid choice: 'other'" in capsys.readouterr().err
