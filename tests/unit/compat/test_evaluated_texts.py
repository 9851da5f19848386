"""What fairseq evaluates, and literals (what is refused: test_checkpoint_contents.py)."""

import ast
import re
import warnings
from contextlib import suppress
from pathlib import Path

import fairseq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.compat.evaluated_texts import EVALUATED, literal

EVALUATORS = ("eval", "eval_str_list", "eval_str_dict", "eval_bool")


def evaluated_names():
    """What the installed fairseq hands to its evaluators, by reading its source."""
    folder, found = Path(fairseq.__file__).parent, set()
    for path in folder.rglob("*.py"):
        if "examples" in path.relative_to(folder).parts:
            continue
        text = path.read_text(encoding="utf-8")
        # Parsed where one is called with an argument.
        if not re.search(r"\beval\w*\s*\(\s*[^)\s]", text):
            continue
        for node in ast.walk(ast.parse(text)):
            function = getattr(node, "func", None)
            name = getattr(function, "id", getattr(function, "attr", None))
            # model.eval() has no argument; editdistance.eval compares.
            if (
                name not in EVALUATORS
                or not node.args
                or "editdistance" in ast.unparse(function)
                or ".ed." in ast.unparse(function)
            ):
                continue
            given = node.args[0]
            if isinstance(given, ast.Attribute):
                found.add(given.attr)
            elif isinstance(given, ast.Subscript):
                found.add(given.slice.value)
            else:
                # Arguments of argparse's types (lambda x: eval_str_list(x)) come from the command
                # line, a line of a manifest from data that only speech tasks read.
                assert ast.unparse(given) in ("x", "uf", "line.strip()", "xformers_att_config"), (
                    path,
                    ast.unparse(given),
                )
                found |= {ast.unparse(given)} & {"xformers_att_config"}
    return found


def test_every_evaluated_option_is_known():
    assert evaluated_names() == EVALUATED


NUMBERS = st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False)
LITERALS = st.recursive(
    NUMBERS | st.booleans() | st.none() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(LITERALS, st.integers(0, 20))
def test_literals_are_what_eval_makes_of_them(value, times):
    text = f"[{value!r}] * {times} + [{value!r}]"
    assert literal(text) == eval(text)


@pytest.mark.parametrize(
    "text",
    [
        "[(512, 3)] * 20",
        " [(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512,2,2)] * 2",
        "(0.9, 0.98)",
        "True",
        "6",
        "-1",
        "{'a': 1}",
        "10000,20000",
    ],
)
def test_configurations_of_fairseq_are_literals(text):
    assert literal(text) == eval(text.strip())


@pytest.mark.parametrize("text", ["1or 1", "[0x1for 2]", "(1)(2)", "'\\d'"])
def test_odd_forms_are_refused_without_a_warning(text):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with suppress(ValueError, SyntaxError):
            literal(text)
    assert not said
