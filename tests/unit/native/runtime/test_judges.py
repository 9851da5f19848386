"""Translations chosen by another model against PyTorch's engine."""

import dataclasses

import numpy as np
import pytest
from runtime_models import NEAR, eager_results, runtime_engine, sources

from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.evaluation.systems.native_system import require_judge
from fairseq_hrt.native.decoding import NumericalError, Rescorer, require_candidates
from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.native.runtime.engine import Engine, plan_search

WAYS = {
    "transformer": [dict(beam=4, nbest=4), dict(beam=3, min_len=3, unkpen=float("inf"))],
    "hrt_transformer": [
        dict(beam=4, nbest=3),
        dict(beam=4, hrt_nat_beam=2),
        dict(beam=3, nbest=3, hrt_decode_chunk="1"),
        dict(beam=3, hrt_nat_beam=1, hrt_decode_chunk="auto", hrt_chunk_table="3:1,inf:2"),
    ],
    "bidirectional_transformer": [dict(beam=4, nbest=4),
                                  dict(beam=5, nbest=2, bidirectional_deduplicate=True)],
}  # fmt: skip
ROWS = sources([1, 2, 5, 9, 6, 3])


def chosen(engine, judge, rows, options, *, lenpen=1.0):
    """What a model finds, in another one's order."""
    plan = plan_search(engine.header, options).with_all()
    found = Rescorer(judge, lenpen=lenpen).rank(rows, engine.decode(rows, plan))
    return [best[: options.nbest] for best in found]


@pytest.mark.parametrize("lenpen", [0.0, 1.4])
@pytest.mark.parametrize("judge_arch", ["transformer", "hrt_transformer"])
@pytest.mark.parametrize("arch, way", [(arch, way) for arch, ways in WAYS.items() for way in ways])
def test_as_in_pytorch(runtime, arch, way, judge_arch, lenpen):
    model, judge = runtime.build(arch, seed=3), runtime.build(judge_arch, seed=4)
    options = DecodingOptions(max_len_b=9, **way)
    # In a batch, rounding decides which of two ways to the same words is kept.
    expected = [eager_results(model, [row], options, judge=judge, lenpen=lenpen)[0] for row in ROWS]
    with runtime_engine(model) as engine, runtime_engine(judge, threads=2) as other:
        plain = engine.decode(ROWS, options)
        require_judge(other.header, engine.header, options)
        found = chosen(engine, other, ROWS, options, lenpen=lenpen)
        assert engine.decode(ROWS, options) == plain
    for mine, theirs in zip(found, expected):
        assert [(one.tokens, one.steps, one.token_steps) for one in mine] == [
            (one["tokens"].tolist(), one["steps"], one["token_steps"].tolist()) for one in theirs
        ]
        for one, own in zip(mine, theirs):
            assert one.score == pytest.approx(float(own["score"]), abs=NEAR)
            assert one.positional_scores == pytest.approx(
                own["positional_scores"].tolist(), abs=NEAR
            )
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
        ("ctc_transformer", dict(beam=4), 4),
    ],
)
def test_how_many_there_are_to_choose_from(runtime, arch, way, count):
    model, judge = runtime.build(arch), runtime.build()
    options = DecodingOptions(max_len_b=9, **way)
    with runtime_engine(model) as engine, runtime_engine(judge) as other:
        header = engine.header
        plan = plan_search(header, options)
        found = engine.decode(ROWS, plan.with_all())
        assert plan.candidates == count
        if count > 1:
            require_candidates(count, header.family)
            require_judge(other.header, header, options)
            # A beam that is wider than the dictionary finds what there is.
            assert max(map(len, found)) <= count
            return
        assert [len(best) for best in found] == [1] * len(ROWS)
        with pytest.raises(
            ValueError,
            match="--rescore-path: there is only one translation to choose from; give --",
        ):
            require_candidates(count, header.family)


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            dict(arch="bidirectional_transformer"),
            "belongs to the family bidirectional, which does not write one word after",
        ),
        (
            dict(symbols=11),
            (
                "--rescore-path: the model's source vocabulary is 15, but that of the model that"
                " translates is 16"
            ),
        ),
        (
            dict(target_symbols=13),
            (
                "the model's target vocabulary is 17, but that of the model that translates is 16:"
                " give one with the same dictionaries"
            ),
        ),
        (
            dict(max_target_positions=20),
            "reads translations of up to 20 tokens, but up to",
        ),
    ],
)
def test_a_judge_that_does_not_belong(runtime, settings, message):
    header = runtime_engine(runtime.build()).header
    with (
        runtime_engine(runtime.build(**settings)) as other,
        pytest.raises(ValueError, match=message),
    ):
        require_judge(other.header, header, DecodingOptions(beam=2))


def test_penalties_that_overflow(runtime):
    with runtime_engine(runtime.build()) as judge:
        for lenpen in (20.5, float("nan")):
            with pytest.raises(
                ValueError, match=f"--rescore-lenpen {lenpen}: give a number from -20 to 20"
            ):
                Rescorer(judge, lenpen=lenpen)


def test_words_with_other_meanings(runtime):
    model = runtime.build()
    header, tensors = convert(model, *model.dictionaries, weights="float32")
    refusal = pytest.raises(
        ValueError,
        match="--rescore-path: the model's unk is 5, but that of the model that translates is 3",
    )
    with Engine(dataclasses.replace(header, unk=5), tensors) as judge, refusal:
        require_judge(judge.header, header, DecodingOptions(beam=2))


def test_translations_that_are_short_enough(runtime):
    """What counts is what may be written, not what the model could write."""
    with (
        runtime_engine(runtime.build()) as engine,
        runtime_engine(runtime.build(max_target_positions=20)) as judge,
    ):
        require_judge(judge.header, engine.header, DecodingOptions(beam=4, max_len_b=19))
        found = chosen(
            engine, judge, ROWS, DecodingOptions(beam=4, nbest=4, min_len=19, max_len_b=19)
        )
        assert {len(one.tokens) for best in found for one in best} == {20}
        with pytest.raises(
            ValueError,
            match="of up to 20 tokens, but up to 21 may be written; lower --max-len-a",
        ):
            require_judge(judge.header, engine.header, DecodingOptions(beam=4, max_len_b=20))


def test_sources_that_are_too_long_for_the_judge(runtime):
    with (
        runtime_engine(runtime.build()) as engine,
        runtime_engine(runtime.build(max_source_positions=6)) as judge,
    ):
        assert chosen(engine, judge, ROWS[4:], DecodingOptions(beam=2))
        with pytest.raises(
            ValueError,
            match=(
                "--rescore-path: a source of 9 tokens is longer than the 6 which the rescoring model reads"
            ),
        ):
            chosen(engine, judge, ROWS, DecodingOptions(beam=2))


def test_a_judge_whose_numbers_overflow(runtime):
    model = runtime.build()
    header, tensors = convert(model, *model.dictionaries, weights="float32")
    tensors["decoder.layers.0.inner"] = np.full_like(tensors["decoder.layers.0.inner"], 3e38)
    refusal = pytest.raises(NumericalError, match="--rescore-path: the model computed NaN")
    with runtime_engine(model) as engine, Engine(header, tensors) as judge, refusal:
        chosen(engine, judge, ROWS, DecodingOptions(beam=2))
