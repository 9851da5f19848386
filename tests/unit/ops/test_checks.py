"""Shapes, lengths and NaN that would give wrong results without a word."""

import math

import pytest
import torch
from simulated_device import SimulatedDevice

from fairseq_hrt.ops import postponed_checks
from fairseq_hrt.ops.checks import check, pairs_inside, probabilities
from fairseq_hrt.ops.fuzzy import passing_probabilities

LINKS, MATCH = torch.zeros(2, 4, 4), torch.zeros(2, 3, 4)
VERTICES, TOKENS = torch.tensor([4, 3]), torch.tensor([3, 2])


@pytest.mark.parametrize("change, message", [
    (dict(links=LINKS[0]), r"links has the shape \[4, 4\]"),
    (dict(links=LINKS[:, :, :3]), r"links has the shape \[2, 4, 3\]"),
    (dict(links=LINKS.unsqueeze(3)), r"links has the shape \[2, 4, 4, 1\]"),
    (dict(vertex_lengths=VERTICES[:1]), "vertex_lengths has the shape"),
    (dict(match=MATCH[0]), "match has the shape"), (dict(match=MATCH[:1]), "match has the shape"),
    (dict(match=MATCH[:, :, :3]), "match has the shape"),
    (dict(lengths=TOKENS.unsqueeze(1)), "target_lengths has the shape"),
    (dict(vertex_lengths=torch.tensor([4, 5])), r"vertex_lengths \[4, 5\] must be"),
    (dict(vertex_lengths=torch.tensor([1, 4])),
     r"vertex_lengths \[1, 4\] must be 2 numbers from 2 to L = 4"),
    (dict(lengths=torch.tensor([4, 2])),
     r"target_lengths \[4, 2\] must be 2 numbers from 2 to T = 3"),
    (dict(lengths=torch.tensor([3, 1])), "target_lengths"),
])  # fmt: skip
def test_what_does_not_fit(change, message):
    values = dict(links=LINKS, vertex_lengths=VERTICES, match=MATCH, lengths=TOKENS)
    check(**values)
    check(LINKS, VERTICES)
    with pytest.raises(ValueError, match=message):
        check(**{**values, **change})


@pytest.mark.parametrize("name, place, read", [
    ("links", (0, 0, 3), True), ("links", (1, 0, 3), False), ("links", (1, 3, 0), False),
    ("match", (0, 2, 3), True), ("match", (1, 1, 2), True), ("match", (1, 2, 0), False),
    ("match", (1, 0, 3), False),
])  # fmt: skip
def test_nan_counts_where_it_is_read(name, place, read):
    values = dict(links=LINKS.clone(), vertex_lengths=VERTICES, match=MATCH.clone(), lengths=TOKENS)
    values[name][place] = math.nan
    if read:
        with pytest.raises(ValueError, match=f"{name} holds NaN"):
            check(**values)
    else:
        check(**values)


def test_what_lies_inside():
    inside = pairs_inside(LINKS, VERTICES)
    assert (
        inside.shape == (2, 4, 4)
        and inside[0].all()
        and inside[1].nonzero().tolist() == [[u, v] for u in range(3) for v in range(3)]
    )
    found = probabilities(LINKS.bfloat16() - 1, VERTICES)
    assert found.dtype == torch.float32 and torch.equal(
        found, torch.where(inside, math.exp(-1), 0.0)
    )
    assert probabilities(LINKS.double(), VERTICES).dtype == torch.float64


def test_on_a_device_checks_can_wait(graphs):
    links = graphs.links(1, 4, [4])
    broken = links.clone()
    broken[0, 0, 1] = float("nan")
    with SimulatedDevice() as device:
        lengths, links, broken = device.send((torch.tensor([4]), links, broken))
        for given, wrong in ((links, False), (broken, True)):
            with postponed_checks() as checks:
                check(given, lengths)
                passing_probabilities(probabilities(given, lengths))
            assert not device.reads
            assert bool(checks.suspicious(lengths.device)) == wrong
            device.waits.clear()
        with pytest.raises(ValueError, match="links holds NaN"):
            checks.explain()
        with postponed_checks() as checks:
            passing_probabilities(probabilities(links.mT, lengths))
        with pytest.raises(ValueError, match="leads backwards"):
            checks.explain()
        with postponed_checks() as checks:
            assert not bool(checks.suspicious(lengths.device))
        # Outside of such a block nothing waits.
        with pytest.raises(ValueError, match="links holds NaN"):
            check(broken, lengths)


def test_checks_of_the_hosts_tensors_do_not_wait(graphs):
    with postponed_checks(), pytest.raises(ValueError, match="vertex_lengths"):
        check(graphs.links(1, 4, [4]), torch.tensor([5]))
