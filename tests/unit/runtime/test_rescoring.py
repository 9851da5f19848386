"""Translations chosen by another model against PyTorch's engine."""

import pytest
from runtime_models import NEAR, eager_results, runtime_engine, sources

from fairseq_hrt.runtime.engine import DecodeOptions
from fairseq_hrt.runtime.rescoring import Rescorer, candidates

WAYS = {
    "transformer": [dict(beam=4, nbest=4), dict(beam=3, min_len=3, unkpen=float("inf"))],
    "hrt_transformer": [
        dict(beam=4, nbest=3),
        dict(beam=4, hrt_nat_beam=2),
        dict(beam=3, nbest=3, hrt_decode_chunk="1"),
        dict(beam=3, hrt_nat_beam=1, hrt_decode_chunk="auto", hrt_chunk_table="3:1,inf:2"),
    ],
    "bidirectional_transformer": [dict(beam=4, nbest=4), dict(beam=5, nbest=2, bidirectional_deduplicate=True)],
}  # fmt: skip
ROWS = sources([1, 2, 5, 9, 6, 3])


@pytest.mark.parametrize("lenpen", [0.0, 1.4])
@pytest.mark.parametrize("judge_arch", ["transformer", "hrt_transformer"])
@pytest.mark.parametrize("arch, way", [(arch, way) for arch, ways in WAYS.items() for way in ways])
def test_as_in_pytorch(runtime, arch, way, judge_arch, lenpen):
    model, judge = runtime.build(arch, seed=3), runtime.build(judge_arch, seed=4)
    options = DecodeOptions(max_len_b=9, **way)
    expected = eager_results(model, ROWS, options, judge=judge, lenpen=lenpen)
    with runtime_engine(model) as engine, runtime_engine(judge, threads=2) as other:
        plain = engine.decode(ROWS, options)
        rescorer = Rescorer(other, lenpen=lenpen)
        rescorer.require(engine.header, options)
        found = rescorer.decode(engine, ROWS, options)
        assert engine.decode(ROWS, options) == plain
    for mine, theirs in zip(found, expected):
        assert [(one.tokens, one.steps, one.token_steps) for one in mine] == [
            (one["tokens"].tolist(), one["steps"], one["token_steps"].tolist()) for one in theirs
        ]
        for one, own in zip(mine, theirs):
            assert one.score == pytest.approx(float(own["score"]), abs=NEAR)
            assert one.positional_scores == pytest.approx(own["positional_scores"].tolist(), abs=NEAR)
    if options.beam > 3:
        assert [best[0].tokens for best in plain] != [best[0].tokens for best in found], (
            "the judge agrees: this shows nothing"
        )


@pytest.mark.parametrize(
    "arch, way, count",
    [
        ("transformer", dict(beam=1), 1),
        ("transformer", dict(beam=500), 15),
        ("hrt_transformer", dict(beam=4, hrt_nat_beam=1), 1),
        ("hrt_transformer", dict(beam=4, hrt_nat_beam=1, hrt_decode_chunk="auto"), 4),
        ("bidirectional_transformer", dict(beam=2), 2),
        ("dag_transformer", dict(beam=4), 1),
    ],
)
def test_how_many_there_are_to_choose_from(runtime, arch, way, count):
    model, judge = runtime.build(arch), runtime.build()
    options = DecodeOptions(max_len_b=9, **way)
    with runtime_engine(model) as engine, runtime_engine(judge) as other:
        assert candidates(engine.header, options) == count
        if count > 1:
            Rescorer(other).require(engine.header, options)
            # A beam that is wider than the dictionary finds what there is.
            assert max(len(best) for best in engine.decode(ROWS, options, every=True)) <= count
            return
        with pytest.raises(ValueError, match="--rescore-path: there is only one translation to choose from; give --"):
            Rescorer(other).require(engine.header, options)


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            dict(arch="bidirectional_transformer"),
            "is of the family bidirectional and does not write one word after the other",
        ),
        (dict(symbols=11), "--rescore-path: that model has 15 source words, the one that is decoded 16"),
        (dict(target_symbols=13), "--rescore-path: that model has 17 target words, the one that is decoded 16"),
        (dict(max_target_positions=20), "reads translations of 20 tokens, the one that is decoded writes up to"),
    ],
)
def test_a_judge_that_does_not_belong(runtime, settings, message):
    header = runtime_engine(runtime.build()).header
    with runtime_engine(runtime.build(**settings)) as other, pytest.raises(ValueError, match=message):
        Rescorer(other).require(header, DecodeOptions(beam=2))


def test_penalties_that_overflow(runtime):
    with runtime_engine(runtime.build()) as judge:
        for lenpen in (20.5, float("nan")):
            with pytest.raises(ValueError, match=f"--rescore-lenpen {lenpen} must lie between -20 and 20"):
                Rescorer(judge, lenpen=lenpen)
