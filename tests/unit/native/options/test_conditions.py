"""What options need: of known values, joined, and told in words."""

from fairseq_hrt.native.options.conditions import (
    Condition,
    at_least,
    chosen,
    flag,
    given,
    other_than,
    same,
)


def test_conditions_of_one_option():
    assert flag("hrt_decode_chunk") == "--hrt-decode-chunk"
    for condition, yes, no in (
        (chosen("mode", "a", "b"), ["a", "b"], ["c", None]),
        (given("path"), ["x", 0, True], [None, False]),
        (other_than("power", 0), [1, "x"], [0, "0"]),
        (at_least("count", 2), [2, 3], [1, 0]),
    ):
        (name,) = condition.reads
        assert all(condition.holds({name: value}) for value in yes)
        assert not any(condition.holds({name: value}) for value in no)
        # Nothing speaks against what is not known.
        assert condition.holds({}) and flag(name) in condition.text


def test_conditions_are_joined():
    one, other = chosen("a", "1"), chosen("b", "2")
    both = one & other
    assert both.text == "--a 1 and --b 2"
    for a, b in (("1", "2"), ("1", "x"), ("x", "2"), ("x", "x")):
        values = {"a": a, "b": b}
        assert both.holds(values) == (one.holds(values) and other.holds(values))
    assert isinstance(both & one, Condition) and (both & one).reads == ("a", "b", "a")
    # Options that one of them depends on may be missing.
    assert both.holds({"a": "1"}) and not both.holds({"a": "x"}) and not both.holds({"b": "x"})


def test_choices_are_texts_or_enumerations():
    assert same("0", 0) and same(None, None) and not same("x", "y")
