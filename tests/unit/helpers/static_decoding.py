"""Decoding by computations of fixed shapes, beside decoding step by step."""

from typing import Any, Callable, Dict, List

import pytest
from simulated_device import SimulatedDevice

from fairseq_hrt.native.decoding import Hypothesis


def assert_equal(found: List[List[Hypothesis]], expected: List[List[Hypothesis]]) -> None:
    """Both searches found the same."""
    for mine, theirs in zip(found, expected, strict=True):
        for name in ("tokens", "token_steps", "token_directions", "steps"):
            assert [getattr(one, name) for one in mine] == [getattr(one, name) for one in theirs]
        for own, other in zip(mine, theirs):
            numbers = [own.score, *own.positional_scores]
            assert numbers == pytest.approx([other.score, *other.positional_scores], abs=1e-8)


def assert_static_equals(
    make: Callable[[Any], Any], model: Any, samples: List[Dict[str, Any]]
) -> None:
    """What ``make(model)`` finds in batch after batch is the same with and without fixed shapes.

    Args:
        make: function from a model to its generator.
        samples: batches for one generator, whose buffers keep what earlier ones left.
    """
    ordinary, static = make(model), make(model)
    ordinary.uses_graphs, static.uses_graphs = False, True
    for sample in samples:
        assert_equal(static.find(sample), ordinary.find(sample))
    assert static.graph_refusal(None) is None


def assert_recordable(make: Callable[[Any], Any], model: Any, sample: Dict[str, Any]) -> int:
    """A batch is decoded on the simulated device as on the host, by functions that a CUDA graph can
    hold and that do the same each time they run.

    Returns:
        The reads of the host.
    """
    expected = make(model)
    expected.uses_graphs = False
    tokens = [[one.tokens for one in best] for best in expected.find(sample)]
    with SimulatedDevice() as device:
        generator = make(device.move(model))
        generator.uses_graphs = True
        moved = device.send(sample)
        generator.find(moved)
        first, reads = {tuple(run) for run in device.recordings}, device.reads
        del device.recordings[:]
        found = generator.find(moved)
        # Whatever runs again ran in the same way before.
        assert {tuple(run) for run in device.recordings} <= first
        assert [[one.tokens for one in best] for best in found] == tokens
        return device.reads - reads
