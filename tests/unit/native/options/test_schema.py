"""The schema holds what options may be; test_values.py checks their values."""

import pytest

from fairseq_hrt.native.options.schema import CALLER, EVERY_TASK, SCHEMA


@pytest.mark.parametrize("name", SCHEMA)
def test_a_field_is_an_option(name):
    option = SCHEMA[name]
    if option.kernel:
        assert option.native is not False and option.origin != EVERY_TASK
    if option.origin == CALLER:
        assert not option.help and option.request is None
    if option.request is not None:
        assert not name.endswith(("path", "file", "options")), "a request names no file"


def test_conditions_are_decided_in_the_order_of_the_schema():
    """One pass sets aside what has no effect, and with it what depends on that."""
    before = set()
    for name, option in SCHEMA.items():
        for other in option.when.reads if option.when is not None else ():
            when = SCHEMA[other].when
            # Where a part of its condition sets the other one aside, it goes too.
            part = getattr(option.when, "one", option.when)
            assert when is None or when is part or other in before, (name, other)
        before.add(name)


def test_the_kernels_names_are_distinct():
    names = [option.kernel for option in SCHEMA.values() if option.kernel]
    assert len(set(names)) == len(names) and "nat_beam" in names
