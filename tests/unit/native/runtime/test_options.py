"""Options of the native engine: checked against a model, refused by name, handed to C."""

import math
from types import SimpleNamespace

import pytest

from fairseq_hrt.native.families import BY_NAME
from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.native.runtime.engine import UnsupportedOption
from fairseq_hrt.native.runtime.options import (
    longest_written,
    plan_search,
)


@pytest.mark.parametrize("options, message", [
    ({"hrt_decode_chunk": "7"}, "chunk size 7"), ({"hrt_decode_chunk": "x"}, "neither"),
    ({"hrt_decode_chunk": "auto", "hrt_chunk_table": "3:1"}, "hrt-chunk-table"),
    ({"beam": 2, "hrt_nat_beam": 3}, "hrt-nat-beam 3"), ({"hrt_draft_chunk": 2}, "give --beam 1"),
    ({"beam": 3, "nbest": 2, "hrt_nat_beam": 1}, "--nbest 2 with --hrt-nat-beam 1"),
])  # fmt: skip
def test_bad_options(runtime, options, message):
    engine = runtime.runtime_engine(runtime.build("hrt_transformer"))
    with engine, pytest.raises(ValueError, match=message):
        engine.decode([[4, 2]], runtime.options(**options))


def header(family="hrt", **more):
    own = dict(chunk_sizes=(2, 5), scale=3.0, block=1, directions=1)
    own.update(source_vocabulary=9, target_vocabulary=8, longest_target=64)
    return SimpleNamespace(family=family, record=BY_NAME[family], **{**own, **more})


def test_which_models_write_in_order():
    for family, expected in (
        ("autoregressive", True),
        ("hrt", True),
        ("dag", False),
        ("ctc", False),
    ):
        assert BY_NAME[family].writes_in_order(header(family)) is expected
    for block, directions, expected in ((1, 1, True), (2, 1, False), (1, 2, False)):
        model = header("bidirectional", block=block, directions=directions)
        assert model.record.writes_in_order(model) is expected


def test_the_longest_translation():
    """``</s>`` included; the model may end it before."""
    model = header(longest_source=10, longest_target=30)
    for given, expected in (
        (dict(max_len_b=7), 8),
        (dict(max_len_a=1.25, max_len_b=3), 16),
        (dict(max_len_b=200), 30),
    ):
        assert longest_written(model, DecodingOptions(**given)) == expected


PLAIN = dict(beam=3, nbest=2, lenpen=0.5, min_len=2, max_len_a=1.5, max_len_b=7)
JACOBI = dict(beam=1, jacobi_mode="frontier")


@pytest.mark.parametrize("family, options, expected", [
    ("autoregressive", PLAIN, PLAIN),
    ("autoregressive", dict(), dict(normalize=1, alignments=0, scores=1, batch_size=32)),
    ("autoregressive", dict(unnormalized=True), dict(normalize=0, jacobi=0)),
    ("autoregressive", dict(alignments=True), dict(alignments=1)),
    ("autoregressive", dict(print_alignment="hard"), dict(alignments=1)),
    ("autoregressive", JACOBI, dict(jacobi=1, jacobi_window=0, jacobi_draft=0)),
    ("autoregressive", dict(JACOBI, jacobi_window=4), dict(jacobi_window=4)),
    ("hrt", dict(), dict(nat_beam=5)),
    ("hrt", dict(beam=3), dict(nat_beam=3)),
    ("hrt", dict(hrt_nat_beam=2), dict(nat_beam=2)),
    ("dag", dict(dag_decode_strategy="viterbi"), dict(strategy=2, scale=3.0)),
    ("dag", dict(dag_decode_upsample_scale=0.5), dict(strategy=1, scale=0.5, max_graph=0)),
    ("dag", dict(dag_max_graph=7), dict(max_graph=7)),
])  # fmt: skip
def test_options_reach_the_kernel(family, options, expected):
    values = plan_search(header(family), DecodingOptions(**options)).kernel
    assert {name: getattr(values, name) for name in expected} == expected


@pytest.mark.parametrize("options, expected", [
    (dict(), [(math.inf, 2)]),
    (dict(hrt_decode_chunk="1"), [(math.inf, 1)]),
    (dict(hrt_decode_chunk="5"), [(math.inf, 5)]),
    (dict(hrt_decode_chunk="auto"), [(10, 1), (30, 2), (math.inf, 1)]),
    (dict(hrt_decode_chunk="auto", hrt_chunk_table="3.5:5,inf:1"), [(3.5, 5), (math.inf, 1)]),
])  # fmt: skip
def test_chunks_by_the_length_of_the_source(options, expected):
    plan = plan_search(header(), DecodingOptions(**options))
    values = plan.kernel
    size = values.table_size
    assert list(zip(values.table_limits[:size], values.table_chunks[:size])) == expected


def test_a_cap_that_no_graph_reaches_is_refused():
    with pytest.raises(ValueError, match="--dag-max-graph 64 has no effect: .* 64 positions"):
        plan_search(header("dag"), DecodingOptions(dag_max_graph=64))
    # A bundle's or a training's.
    assert plan_search(header("dag"), DecodingOptions(dag_max_graph=64), given=frozenset({"beam"}))
    with pytest.raises(ValueError, match="--dag-max-graph 7 belongs to models of the family dag"):
        plan_search(header(), DecodingOptions(dag_max_graph=7))


def test_vertices_write_unknown_words_only_where_that_is_allowed():
    for options, family, expected in (
        (dict(), "dag", math.inf),
        (dict(unkpen=2.0, dag_allow_unk=True), "dag", 2.0),
        (dict(unkpen=2.0), "hrt", 2.0),
    ):
        values = plan_search(header(family), DecodingOptions(**options)).kernel
        assert values.unkpen == expected


PLAIN_MODELS = "belongs to models of the family autoregressive, and this model is of the family"
ONLY = "has an effect only with"


@pytest.mark.parametrize("family, options, message", [
    ("dag", dict(jacobi_draft="source"),
     "--jacobi-draft source belongs to models of the family autoregressive, .* family dag"),
    ("hrt", dict(graphs=True), "family hrt writes no graph"),
    ("dag", dict(alignments=True), "words of a dag_transformer are not aligned"),
    ("bidirectional", dict(print_alignment="hard"),
     "--print-alignment: the words of a bidirectional_transformer"),
    ("dag", dict(nbest=2), f"--nbest 2 {ONLY} --dag-decode-strategy beam or sample"),
    ("dag", dict(min_len=4), f"--min-len 4 {ONLY} --dag-decode-strategy beam"),
    ("dag", dict(dag_decode_strategy="beam"),
     "--dag-decode-strategy beam: the native engine has greedy, lookahead, viterbi, joint-viterbi"),
    ("autoregressive", dict(temperature=2.0),
     "--temperature 2.0: the native engine has no such option"),
    ("autoregressive", dict(jacobi_window=4, beam=1),
     f"--jacobi-window 4 {ONLY} --jacobi-mode frontier"),
    ("autoregressive", dict(jacobi_mode="frontier", beam=2),
     "--beam 2: parallel decoding is exact for greedy search only"),
    ("autoregressive", dict(jacobi_mode="pj", jacobi_draft="source", beam=1),
     f"--jacobi-draft source {ONLY} --jacobi-mode frontier"),
    *(("autoregressive", dict(beam=1, jacobi_mode=mode, **more),
       f"--jacobi-mode {mode}: the native engine has frontier; use --engine torch")
      for mode, more in (("pj", {}), ("hgj", dict(jacobi_prefix_length=4)),
                         ("pgj", dict(jacobi_block_size=5, jacobi_known_length=True)))),
    ("autoregressive", dict(JACOBI, jacobi_draft="ngram"),
     "--jacobi-draft ngram: the native engine has previous, source; use --engine torch"),
    ("autoregressive", dict(JACOBI, jacobi_draft="source"),
     "one dictionary for both sides; this model has 9 source and 8 target words"),
])  # fmt: skip
def test_what_a_model_does_not_have_is_refused(family, options, message):
    block = dict(block=2) if family == "bidirectional" else {}
    with pytest.raises(ValueError, match=message):
        plan_search(header(family, **block), DecodingOptions(**options))


@pytest.mark.parametrize("family, own, options, expected", [
    ("autoregressive", {}, {}, True), ("dag", {}, {}, False), ("hrt", {}, {}, False),
    ("hrt", {}, dict(hrt_decode_chunk="1"), True),
    ("hrt", {}, dict(hrt_decode_chunk="auto"), False),
    ("hrt", {}, dict(hrt_decode_chunk="1", hrt_draft_chunk=2, beam=1), True),
    ("bidirectional", dict(block=3), {}, True),
    ("bidirectional", dict(block=2, directions=2), {}, False),
])  # fmt: skip
def test_which_models_take_first_words(family, own, options, expected):
    model = header(family, **own)
    assert model.record.takes_first_words(model, DecodingOptions(**options)) is expected
    for name, value in (("prefix_size", 2), ("forced_start", "a b")):
        asked = DecodingOptions(**{name: value}, **options)
        if expected:
            plan_search(model, asked)
            continue
        refusal = (
            f"--{name.replace('_', '-')} {value}: first words can be given to models that write"
            " from left to right"
        )
        with pytest.raises(UnsupportedOption, match=refusal):
            plan_search(model, asked)


def test_which_refusals_are_left_to_the_other_engine():
    for family, options in (
        ("dag", dict(dag_decode_strategy="beam")),
        ("dag", dict(no_repeat_ngram_size=2)),
        ("hrt", dict(temperature=2.0)),
    ):
        with pytest.raises(UnsupportedOption, match="use --engine torch"):
            plan_search(header(family), DecodingOptions(**options))
    with pytest.raises(ValueError, match="belongs to models of the family dag") as refusal:
        plan_search(header(), DecodingOptions(dag_keep_repeats=True))
    assert not isinstance(refusal.value, UnsupportedOption)


def test_what_nobody_gives_now_is_set_aside():
    left = DecodingOptions(hrt_decode_chunk="2", jacobi_window=4, beam=1)
    assert plan_search(header("autoregressive"), left, given=()).options == DecodingOptions(beam=1)
    with pytest.raises(ValueError, match=f"--jacobi-window 4 {ONLY} --jacobi-mode frontier"):
        plan_search(header("autoregressive"), left, given=("jacobi_window",))


def test_a_plan_for_all_translations():
    """The beam, or what its second stage completes; the kernel still gets the table."""
    plan = plan_search(header(), DecodingOptions(beam=4, nbest=2, hrt_nat_beam=3))
    every = plan.with_all()
    assert (plan.candidates, plan.kernel.nbest, every.kernel.nbest) == (3, 2, 3)
    assert every.options is plan.options and every.kernel.table_chunks[0] == 2
