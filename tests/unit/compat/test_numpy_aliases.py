"""The NumPy names that fairseq uses and NumPy has dropped."""

import ast
import re
import types
from pathlib import Path

import fairseq
import numpy
import pytest
from fairseq.data import data_utils

from fairseq_hrt.compat.numpy_aliases import REPAIR

needs_repair = pytest.mark.skipif(hasattr(numpy, "int"), reason="this NumPy has its aliases still")


@needs_repair
def test_aliases_are_restored_in_the_module_alone():
    module = types.ModuleType("user")
    module.np = numpy
    REPAIR.apply(module)
    assert module.np.int is int
    assert module.np.float is float
    assert module.np.array([1]).dtype == numpy.array([1]).dtype
    assert not hasattr(numpy, "int")


@needs_repair
def test_reason_names_what_is_missing():
    assert "np.int" in REPAIR.needed


def test_not_needed_where_numpy_has_them(monkeypatch):
    for name, value in (("int", int), ("float", float), ("compat", object())):
        monkeypatch.setattr(numpy, name, value, raising=False)
    monkeypatch.setattr(numpy, "percentile", lambda values, q, interpolation="linear": None)
    assert REPAIR.needed is None


def test_block_mask_of_data_utils_runs():
    mask = data_utils.compute_mask_indices(
        (2, 30), None, mask_prob=0.5, mask_length=3, no_overlap=True, min_space=1
    )
    assert mask.shape == (2, 30)
    assert mask.any()


def test_buckets_of_lengths():
    sizes = numpy.array([9, 1, 4, 4, 7, 2])
    # The largest size at or below each third of the sorted sizes: 1 2 4 4 7 9.
    assert data_utils.get_buckets(sizes, 3).tolist() == [2, 4, 9]
    assert data_utils.get_bucketed_sizes(sizes, [2, 4, 9]).tolist() == [9, 2, 4, 4, 9, 2]


def test_percentiles_with_either_name_of_the_method():
    module = types.ModuleType("user")
    module.np = numpy
    REPAIR.apply(module)
    for options in ({"method": "lower"}, {"interpolation": "lower"}, {}):
        expected = numpy.percentile([1, 2], 50, method="lower" if options else "linear")
        assert module.np.percentile([1, 2], 50, **options) == expected


def test_every_numpy_name_in_fairseq_exists_where_it_is_used():
    """Reads the source, so that a name in a rarely used function is found as well."""
    root = Path(fairseq.__file__).parent
    absent = set()
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] == "examples":  # demonstrations, many of which need further packages
            continue
        module, text = ".".join(("fairseq", *parts)), path.read_text(encoding="utf-8")
        # Only what may be absent is parsed.
        if all(hasattr(numpy, name) for name in re.findall(r"\bnp\s*\.\s*(\w+)", text)):
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "np"
                and not hasattr(numpy, node.attr)
            ):
                absent.add(module)
    assert absent <= set(REPAIR.modules)
