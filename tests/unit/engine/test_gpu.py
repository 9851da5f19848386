"""Recorded decoding on a real GPU: ``pytest -m gpu``."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from fairseq import utils

from fairseq_hrt.bidirectional.generator import BidirectionalGenerator
from fairseq_hrt.ctc.generator import CtcGenerator
from fairseq_hrt.dag.generator import DagGenerator
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
    "dag": (
        "dag_transformer",
        dict(dag_upsample_scale="4"),
        DagGenerator,
        dict(beam=1, dag_decode_strategy="lookahead"),
    ),
    "ctc": ("ctc_transformer", dict(ctc_upsample_scale=2.0), CtcGenerator, dict(beam=1)),
}


def generators(tiny, kind, dtype, device="cuda"):
    arch, more, make, options = KINDS[kind]
    model = tiny.model(arch, **more).to(device, dtype)
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
        assert recorded.graph_refusal(sample["net_input"]["src_tokens"]) is None
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


def texts(generator, sample):
    return [[one.tokens for one in best] for best in generator.find(sample)]


@pytest.mark.parametrize("kind", KINDS)
def test_streams(tiny, kind):
    """Recorded on one stream, replayed on others, of two threads as well."""
    ordinary, recorded = generators(tiny, kind, torch.float32)
    samples = [utils.move_to_cuda(tiny.sample(lengths)) for lengths in ([5, 3, 6], [9], [4] * 7)]
    expected = [texts(ordinary, sample) for sample in samples]
    torch.cuda.synchronize()

    def on_stream(_):
        with torch.cuda.stream(torch.cuda.Stream()):
            found = [texts(recorded, sample) for sample in samples * 2]
            torch.cuda.current_stream().synchronize()
        return found

    assert [on_stream(number) for number in range(2)] == [expected * 2] * 2
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(on_stream, range(4))) == [expected * 2] * 4


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU, or none")
def test_two_devices(tiny):
    """Each device has its own recordings, whichever is the current one."""
    for kind in KINDS:
        for device in ("cuda:1", "cuda:0", "cuda:1"):
            ordinary, recorded = generators(tiny, kind, torch.float32, device)
            sample = utils.move_to_cuda(tiny.sample([5, 3, 6]), device)
            expected = texts(ordinary, sample)
            assert [texts(recorded, sample) for _ in range(2)] == [expected] * 2
