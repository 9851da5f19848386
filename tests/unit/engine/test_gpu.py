"""Recorded decoding on a real GPU: ``pytest -m gpu``."""

import pytest
import torch
from fairseq import utils

from fairseq_hrt.bidirectional.generator import BidirectionalGenerator
from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.jacobi.drafts import Drafter
from fairseq_hrt.jacobi.generator import JacobiGenerator
from fairseq_hrt.native.options.values import DecodingOptions

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
]

LIMITS = dict(max_len_a=1.5, max_len_b=6)
KINDS = {
    "greedy": ("transformer", {}, AutoregressiveGenerator, dict(beam=1, min_len=3)),
    "beam": ("transformer", {}, AutoregressiveGenerator, dict(beam=4, unkpen=1.0)),
    "pre-norm": (
        "transformer",
        dict(encoder_normalize_before=True, decoder_normalize_before=True),
        AutoregressiveGenerator,
        dict(beam=3),
    ),
    "cells": ("marian_transformer", dict(marian_cell="ssru"), AutoregressiveGenerator, {}),
    "hrt": (
        "hrt_transformer",
        dict(hrt_chunk_sizes=[2, 3], hrt_relative_window=3),
        HRTGenerator,
        dict(beam=2, hrt_decode_chunk="2"),
    ),
    "bidirectional": ("bidirectional_transformer", {}, BidirectionalGenerator, dict(beam=1)),
    "bidirectional beam": ("bidirectional_transformer", {}, BidirectionalGenerator, dict(beam=3)),
    "jacobi": (
        "transformer",
        {},
        lambda *given: JacobiGenerator(*given, drafter=Drafter()),
        dict(beam=1, jacobi_mode="frontier", jacobi_window=3),
    ),
}


def generators(tiny, kind, dtype):
    arch, more, make, options = KINDS[kind]
    model = tiny.model(arch, **more).to("cuda", dtype)
    chosen = DecodingOptions(**{**LIMITS, **options})
    ordinary, recorded = (make([model], tiny.dictionary(), chosen) for _ in range(2))
    ordinary.uses_graphs = False
    return ordinary, recorded


@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_step_by_step(tiny, kind):
    """Batches of several sizes, again and again in other orders: what one leaves behind changes
    nothing in another."""
    ordinary, recorded = generators(tiny, kind, torch.float32)
    sizes = ([5, 3, 6], [7], [2, 9, 24, 4, 8, 3], [40], [5] * 20)
    for lengths in (*sizes, *sizes[::-1], *sizes[::2]):
        sample = utils.move_to_cuda(tiny.sample(lengths, seed=len(lengths)))
        expected, found = ordinary.find(sample), recorded.find(sample)
        assert recorded.graph_refusal(None) is None
        for mine, theirs in zip(found, expected, strict=True):
            assert [one.tokens for one in mine] == [one.tokens for one in theirs]
            for one, other in zip(mine, theirs):
                assert one.score == pytest.approx(other.score, abs=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_runs(tiny, kind, dtype):
    _, recorded = generators(tiny, kind, dtype)
    sample = utils.move_to_cuda(tiny.sample([5, 3, 6]))
    first = [[one.tokens for one in best] for best in recorded.find(sample)]
    assert [[one.tokens for one in best] for best in recorded.find(sample)] == first


def test_what_is_kept_is_bounded(tiny, monkeypatch):
    monkeypatch.setattr("fairseq_hrt.engine.graphs.MOST", 4)
    _, recorded = generators(tiny, "greedy", torch.float16)
    sizes = []
    for count in (1, 2, 3, 6, 12, 20, 40, 60) * 2:
        recorded.find(utils.move_to_cuda(tiny.sample([5] * count)))
        assert len(recorded.ensemble.graphs._kept) <= 4
        sizes.append(torch.cuda.memory_allocated())
    # The second round needs no more than the first.
    assert max(sizes[8:]) <= 1.2 * max(sizes[:8]) + 2**20
