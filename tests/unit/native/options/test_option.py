"""A field that declares an option carries what is known of it."""

from dataclasses import dataclass, fields

import pytest

from fairseq_hrt.native.options.option import (
    EVERY_TASK,
    LARGEST_COUNT,
    Option,
    count,
    option,
    options_in,
)


def test_a_field_has_its_default_and_its_option():
    @dataclass
    class Some:
        beam: int = count(5, kernel="beam")
        engine: str = option("auto", "what decodes", origin=EVERY_TASK, choices=("auto", "torch"))
        sizes: list = option([2], "of chunks")
        other: int = 3

    assert options_in(Some) == {
        "beam": Option(5, least=1, most=LARGEST_COUNT, kernel="beam"),
        "engine": Option("auto", "what decodes", origin=EVERY_TASK, choices=("auto", "torch")),
        "sizes": Option([2], "of chunks"),
    }
    assert (Some().beam, Some().engine, Some().sizes) == (5, "auto", [2])
    assert Some().sizes is not Some().sizes
    # As fairseq reads it.
    assert [field.metadata.get("help") for field in fields(Some)][1:] == [
        "what decodes", "of chunks", None,
    ]  # fmt: skip
    with pytest.raises(TypeError, match="unknown"):
        option(1, unknown=True)


def test_values_that_ask_for_something():
    known = Option(1, neutral=(0,))
    assert [known.is_asked_for(value) for value in (None, 1, 0, 2, "1")] == [
        False, False, False, True, False,
    ]  # fmt: skip
