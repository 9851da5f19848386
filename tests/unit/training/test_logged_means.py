"""Logged means do not depend on how batches are reduced: all at once, as fairseq-validate does, or
one after the other, as in training."""

import pytest
from fairseq.logging import metrics
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.ctc.criterion import CtcNllLoss
from fairseq_hrt.dag.criterion import DagNllLoss
from fairseq_hrt.training import SmoothedLoss


@st.composite
def batches(draw):
    """Batches of some sentences, all of which may have been skipped."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        sentences = draw(st.integers(0, 3))
        value = draw(st.integers(1, 9))
        found.append(
            dict(loss=float(value * sentences), nll_loss=float(2 * value * sentences),
                 sample_size=sentences, ntokens=5 * sentences, nsentences=3,
                 skipped=3 - sentences, vertices=20, tokens=10, positions=20)
        )  # fmt: skip
    return found


@pytest.mark.parametrize("criterion", [DagNllLoss, CtcNllLoss, SmoothedLoss])
@given(logs=batches())
def test_batches_together_or_one_after_the_other(criterion, logs):
    with metrics.aggregate(new_root=True) as together:
        criterion.reduce_metrics(logs)
    with metrics.aggregate(new_root=True) as after:
        for log in logs:
            criterion.reduce_metrics([log])
    for name in ("loss", "nll_loss", "skipped_share"):
        if name in together:
            values = (one.get_smoothed_value(name) for one in (together, after))
            # fairseq rounds to three places.
            assert next(values) == pytest.approx(next(values), abs=2e-3), name
