"""Values of unknown origin in messages."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.compat.display import escaped, shown

PARTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=9)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=9)
    ),
    max_leaves=30,
)


@settings(max_examples=40)
@given(st.text(max_size=300) | st.binary(max_size=300) | PARTS)
def test_values_are_shown_on_one_short_line(value):
    text = shown(value)
    assert text.isprintable() and len(text) < 420


@pytest.mark.parametrize("value, text", [
    (None, "None"), (7, "7"), ("a\n\x1b", "'a\\n\\x1b'"), (b"a", "b'a'"), ([1, "x"], "[1, 'x']"),
    ({"a": (1,)}, "{'a': (1,)}"), ("x" * 200, "'" + "x" * 100 + "'…"), (Counter("a"), "<Counter>"),
    (dict, "<class 'dict'>")
])  # fmt: skip
def test_values_are_recognised(value, text):
    assert shown(value) == text


def test_what_is_endless_or_cannot_be_shown_is_named_by_its_kind():
    class Damaged:
        def __repr__(self):
            raise ValueError

    doubled = [1]
    for _ in range(60):
        doubled = [doubled, doubled]
    assert shown(Damaged()) == "<Damaged>"
    # Its digits are too many for repr.
    assert shown(10**5000).startswith(("<int", "1000"))
    assert len(shown(doubled)) < 110 and shown(Counter({1: doubled})) == "<Counter>"


def test_no_sign_of_a_control_is_left():
    assert escaped("a\n\x1b[2J\u202eä") == "a\\n\\x1b[2J\\u202eä"
