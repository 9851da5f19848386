"""Which step fixed a token, in the terminal."""

import io

import pytest

from fairseq_hrt.evaluation.step_colours import legend, show_steps, use_colour


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    "stream, environment, expected",
    [
        (io.StringIO(), {}, False),
        (Terminal(), {}, True),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
    ],
)
def test_colours_are_used_as_asked(stream, environment, expected):
    assert use_colour(stream, environment) is expected


def test_steps_are_shown():
    assert show_steps(["Ja", "."], [2, 1], colour=False) == "Ja/2 ./1"
    assert show_steps(["Ja", "."], None, colour=False) == "Ja ."
    coloured = show_steps(["Ja", ".", "!"], [2, 1, 2], colour=True)
    first, second, third = coloured.split(" ")
    assert "Ja" in first and first.startswith("\x1b[") and first.endswith("\x1b[0m")
    colour = first.split("Ja")[0]
    assert third.startswith(colour) and not second.startswith(colour)
    assert legend(2, colour=False) == ""
    assert "1" in legend(2, colour=True)


def test_a_step_for_each_token():
    with pytest.raises(ValueError, match="2 tokens but 1 steps"):
        show_steps(["a", "b"], [1], colour=False)


def test_directions_have_letters():
    tokens, steps = ["Ja", ",", "gern"], [1, 2, 1]
    assert show_steps(tokens, steps, colour=False, directions=[0, 0, 1]) == "Ja/1a ,/2a gern/1b"
    painted = show_steps(tokens, steps, colour=True, directions=[0, 0, 1]).split(" ")
    assert "[4;" in painted[2] and "[4;" not in painted[0]
