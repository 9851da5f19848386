"""Parallel decoding on a device that is not the host."""

import pytest
from simulated_device import assert_decodes_there

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

    options = DecodingOptions(beam=1, max_len_b=9, unkpen=float("inf"), **config)
    assert_decodes_there(
        lambda model: JacobiGenerator([model], tiny.dictionary(), options, drafter=drafter()),
        model, sample,
    )  # fmt: skip
