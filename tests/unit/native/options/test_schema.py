"""The schema holds what options may be; test_options.py checks their values."""

from dataclasses import fields

import pytest

from fairseq_hrt.native.options.conditions import Condition
from fairseq_hrt.native.options.option import Option
from fairseq_hrt.native.options.schema import CALLER, EVERY_TASK, Schema


@pytest.mark.parametrize("own", fields(Schema), ids=lambda own: own.name)
def test_a_field_is_an_option(own):
    option = own.metadata["option"]
    assert isinstance(option, Option)
    if option.when is not None:
        assert isinstance(option.when, Condition) and own.name not in option.when.reads
        known = {field.name for field in fields(Schema)} | {"normalize"}
        assert set(option.when.reads) <= known
    if option.kernel:
        assert option.native is not False and option.origin != EVERY_TASK
    if option.origin == CALLER:
        assert not option.help and option.request is None


def test_the_kernels_names_are_distinct():
    names = [
        own.metadata["option"].kernel for own in fields(Schema) if own.metadata["option"].kernel
    ]
    assert len(set(names)) == len(names) and "nat_beam" in names


def test_a_request_names_no_file():
    for own in fields(Schema):
        if own.metadata["option"].request is not None:
            assert not own.name.endswith(("path", "file", "options"))
