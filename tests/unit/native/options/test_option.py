"""A field of the schema carries what is known of its option."""

from dataclasses import dataclass, fields

import pytest

from fairseq_hrt.native.options.option import EVERY_TASK, FAIRSEQ, Option, option


def test_a_field_has_its_default_and_its_option():
    @dataclass(frozen=True)
    class Some:
        beam: int = option(5, FAIRSEQ, least=1, kernel="beam")
        engine: str = option("auto", EVERY_TASK, "what decodes", choices=("auto", "torch"))

    assert (Some().beam, Some().engine) == (5, "auto")
    beam, engine = (field.metadata["option"] for field in fields(Some))
    assert beam == Option(FAIRSEQ, least=1, kernel="beam") and not beam.help
    assert engine == Option(EVERY_TASK, "what decodes", choices=("auto", "torch"))
    with pytest.raises(TypeError, match="unknown"):
        option(1, FAIRSEQ, unknown=True)
