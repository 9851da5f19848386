"""JSON objects of unknown origin."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.native.io.json_objects import json_object

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(), values))
def test_objects_are_read(document):
    assert json_object(json.dumps(document)) == document


@pytest.mark.parametrize(
    "text, reason",
    [
        ("[1]", "it is \\[1\\], not a JSON object"),
        ('{"a": {"b": 1, "b": 2}}', "'b' appears twice"),
        ('{"a": ' * 100_000, "it is nested too deeply"),
        ('{\n"a" 1}', "Expecting ':' delimiter"),
    ],
)
def test_what_is_refused(text, reason):
    with pytest.raises(ValueError, match=reason) as refused:
        json_object(text)
    assert "\n" not in str(refused.value)
