"""Which translations there are to choose from, and what a judge's opinion changes."""

import inspect
from types import SimpleNamespace

import pytest

from fairseq_hrt.engine import ModelScorer
from fairseq_hrt.native.decoding.hypothesis import Hypothesis
from fairseq_hrt.native.decoding.rescoring import Rescorer, Scorer, require_candidates
from fairseq_hrt.native.families import candidates
from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.native.runtime.engine import Engine


class Judge:
    """Likes a translation the better the larger its first word."""

    longest_source, longest_target = 4, 9

    def score(self, sources, targets, *, lenpen=1.0):
        return [
            [Hypothesis(own, own[0] / len(own) ** lenpen, [1.0] * len(own)) for own in group]
            for group in targets
        ]


def test_the_judge_decides():
    own = [
        Hypothesis([5, 6, 2], -0.1, [0.0] * 3, [1, 2, 3], 3),
        Hypothesis([9, 2], -0.2, [0.0] * 2, [1, 2], 2),
    ]
    (found,) = Rescorer(Judge(), lenpen=1.0).rank([[7, 2]], [own])
    assert [(one.tokens, one.score, one.positional_scores, one.steps) for one in found] == [
        ([9, 2], 4.5, [1.0] * 2, 3),
        ([5, 6, 2], 5 / 3, [1.0] * 3, 4),
    ]
    assert own[0].score == -0.1, "what the search has found stays as it is"
    with pytest.raises(
        ValueError,
        match="a source of 5 tokens is longer than the 4 which the rescoring model reads",
    ):
        Rescorer(Judge()).rank([[4, 5, 6, 7, 2]], [own])


@pytest.mark.parametrize(
    "family, options, count",
    [
        ("autoregressive", dict(beam=4), 4),
        ("autoregressive", dict(beam=40), 15),
        ("jacobi", dict(beam=1), 1),
        ("autoregressive", dict(beam=1, jacobi_mode="pj"), 1),
        ("dag", dict(beam=4), 1),
        ("dag", dict(beam=4, dag_decode_strategy="beam"), 4),
        ("hrt", dict(beam=4), 4),
        ("hrt", dict(beam=4, hrt_nat_beam=2), 2),
        ("hrt", dict(beam=4, hrt_nat_beam=2, hrt_decode_chunk="1"), 4),
    ],
)
def test_how_many_there_are(family, options, count):
    model = SimpleNamespace(chunk_sizes=[2, 3])
    assert candidates(family, DecodingOptions(**options), model, words=16) == count


def test_one_is_no_choice():
    require_candidates(2, "dag")
    for family, way in (
        ("dag", "--dag-decode-strategy beam"),
        ("hrt", "--hrt-nat-beam 2"),
        ("jacobi", "--beam 2"),
    ):
        with pytest.raises(ValueError, match=f"only one translation to choose from; give .*{way}"):
            require_candidates(1, family)


@pytest.mark.parametrize("engine", [ModelScorer, Engine])
def test_both_engines_have_what_the_protocol_asks_for(engine):
    for name in [name for name in dir(Scorer) if not name.startswith("_")]:
        asked, own = getattr(Scorer, name), inspect.getattr_static(engine, name)
        if isinstance(inspect.getattr_static(Scorer, name), property):
            assert isinstance(own, property)
        else:
            assert set(inspect.signature(asked).parameters) <= set(
                inspect.signature(own).parameters
            ), name
