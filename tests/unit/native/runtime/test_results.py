"""What the kernel has found is copied, and what was not asked for stays empty."""

from types import SimpleNamespace

import pytest

from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.native.runtime.results import read_results

# Two sentences, the first with two hypotheses.
FOUND = SimpleNamespace(
    sentences=2, counts=[2, 1], starts=[0, 2, 5], lengths=[2, 3, 1], tokens=[7, 2, 8, 9, 2, 2],
    scores=[-1.0, -2.0, -3.0], positional=[-0.5, -1.5, -1.0, -2.0, -3.0, -3.0], steps=[2, 3, 1],
    token_steps=[1, 2, 1, 2, 3, 1], places=[0, 1, 0, 0, 1, 0],
)  # fmt: skip


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("asked", [{}, {"alignments": True}, {"print_alignment": "hard"}])
def test_hypotheses_of_every_sentence(scores, asked):
    (first, second), (third,) = read_results(FOUND, DecodingOptions(scores=scores, **asked))
    assert [one.tokens for one in (first, second, third)] == [[7, 2], [8, 9, 2], [2]]
    assert [one.steps for one in (first, second, third)] == [2, 3, 1]
    assert second.token_steps == [1, 2, 3] and second.graph is None
    assert (second.score, second.positional_scores) == (
        (-2.0, [-1.0, -2.0, -3.0]) if scores else (None, [])
    )
    assert second.alignment == ([0, 0, 1] if asked else [])
