"""Parallel decoding on a device that is not the host."""

from dataclasses import replace

import pytest
from simulated_device import SimulatedDevice

from fairseq_hrt.jacobi.drafts import Drafter, NGramDrafter
from fairseq_hrt.jacobi.generator import JacobiGenerator
from fairseq_hrt.native.options.values import DecodingOptions


@pytest.mark.parametrize(
    "config, drafter",
    [
        (dict(jacobi_mode="frontier", jacobi_window=4), NGramDrafter),
        (dict(jacobi_mode="frontier", jacobi_window=1), Drafter),
        (dict(jacobi_mode="pj"), Drafter),
        (dict(jacobi_mode="pgj"), Drafter),
        (dict(jacobi_mode="hgj"), Drafter),
    ],
)
def test_decoding_happens_on_the_device(tiny, config, drafter):
    model, sample = tiny.lively(seed=3), tiny.sample([5, 3, 6])

    def decode(model, sample):
        options = DecodingOptions(beam=1, max_len_b=9, unkpen=float("inf"))
        generator = JacobiGenerator(
            [model], tiny.dictionary(), replace(options, **config), drafter=drafter()
        )
        return [best[0]["tokens"].tolist() for best in generator.generate([model], sample)]

    expected = decode(model, sample)
    with SimulatedDevice() as device:
        assert decode(device.move(model), device.send(sample)) == expected
