"""Decoding options of the native engine: checked against a model, refused by name, handed to C as they are."""

import math
from types import SimpleNamespace

import pytest

from fairseq_hrt.options import DecodingOptions
from fairseq_hrt.runtime.engine import UnsupportedOption
from fairseq_hrt.runtime.options import (
    check_dictionaries,
    check_effects,
    options_for,
    settled,
    writes_in_order,
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
    own = dict(chunk_sizes=(2, 5), scale=3.0, block=1, directions=1, source_vocabulary=9, target_vocabulary=8)
    return SimpleNamespace(family=family, **{**own, **more})


def test_which_models_write_in_order():
    assert [writes_in_order(header(family)) for family in ("autoregressive", "hrt", "dag")] == [True, True, False]
    blocks = ((1, 1), (2, 1), (1, 2))
    assert [
        writes_in_order(header("bidirectional", block=block, directions=directions)) for block, directions in blocks
    ] == [True, False, False]


def test_every_option_reaches_the_kernel():
    values, _ = options_for(header("dag"), DecodingOptions(dag_decode_strategy="viterbi"))
    assert (values.strategy, values.scale) == (2, 3.0)
    assert options_for(header("dag"), DecodingOptions(dag_decode_upsample_scale=0.5))[0].scale == 0.5
    jacobi = dict(beam=1, jacobi_mode="hgj", jacobi_block_size=4)
    values, _ = options_for(header("autoregressive"), DecodingOptions(**jacobi))
    assert (values.jacobi_mode, values.jacobi_block, values.jacobi_prefix, values.jacobi_window) == (2, 4, -1, 0)
    values, _ = options_for(header("autoregressive"), DecodingOptions(**jacobi, jacobi_prefix_length=0))
    assert values.jacobi_prefix == 0
    plain = DecodingOptions(beam=3, nbest=2, lenpen=0.5, min_len=2, max_len_a=1.5, max_len_b=7, unnormalized=True)
    values, _ = options_for(header("autoregressive"), plain)
    assert (values.beam, values.nbest, values.lenpen, values.min_len) == (3, 2, 0.5, 2)
    assert (values.max_len_a, values.max_len_b, values.normalize, values.jacobi_mode) == (1.5, 7, 0, 0)
    values, _ = options_for(header("autoregressive"), DecodingOptions())
    assert (values.normalize, values.alignments, values.scores, values.batch_size) == (1, 0, 1, 32)
    for wanted in (dict(alignments=True), dict(print_alignment="hard")):
        assert options_for(header("autoregressive"), DecodingOptions(**wanted))[0].alignments == 1
    for wanted, completed in ((dict(), 5), (dict(hrt_nat_beam=2), 2), (dict(beam=3), 3)):
        assert options_for(header(), DecodingOptions(**wanted))[0].nat_beam == completed


@pytest.mark.parametrize("options, expected", [
    (dict(), [(math.inf, 2)]),
    (dict(hrt_decode_chunk="1"), [(math.inf, 1)]),
    (dict(hrt_decode_chunk="5"), [(math.inf, 5)]),
    (dict(hrt_decode_chunk="auto"), [(10, 1), (30, 2), (math.inf, 1)]),
    (dict(hrt_decode_chunk="auto", hrt_chunk_table="3.5:5,inf:1"), [(3.5, 5), (math.inf, 1)]),
])  # fmt: skip
def test_chunks_by_the_length_of_the_source(options, expected):
    values, _ = options_for(header(), DecodingOptions(**options))
    size = values.table_size
    assert list(zip(values.table_limits[:size], values.table_chunks[:size])) == expected


def test_vertices_write_unknown_words_only_where_that_is_allowed():
    for options, family, expected in (
        (dict(), "dag", math.inf),
        (dict(unkpen=2.0, dag_allow_unk=True), "dag", 2.0),
        (dict(unkpen=2.0), "hrt", 2.0),
    ):
        values, _ = options_for(header(family), DecodingOptions(**options))
        assert values.unkpen == expected


JACOBI = dict(beam=1, jacobi_mode="frontier")


@pytest.mark.parametrize("family, options, message", [
    ("autoregressive", dict(hrt_decode_chunk="3"),
     "--hrt-decode-chunk 3 belongs to models of the family hrt, and this one is of the family autoregressive"),
    ("hrt", dict(beam=1, jacobi_mode="pj"),
     "--jacobi-mode pj belongs to models of the family autoregressive, and this one is of the family hrt"),
    ("dag", dict(jacobi_draft="source"), "--jacobi-draft source belongs to models of the family autoregressive"),
    ("hrt", dict(graphs=True), "family hrt writes no graph"),
    ("dag", dict(alignments=True), "words of a dag_transformer are not aligned"),
    ("bidirectional", dict(print_alignment="hard"), "--print-alignment: the words of a bidirectional_transformer"),
    ("dag", dict(nbest=2), "--nbest 2 has an effect only with --dag-decode-strategy beam or sample"),
    ("dag", dict(min_len=4), "--min-len 4 has an effect only with --dag-decode-strategy beam"),
    ("dag", dict(dag_decode_strategy="beam"),
     "--dag-decode-strategy beam: the native engine has greedy, lookahead, viterbi, joint-viterbi; use --engine torch"),
    ("autoregressive", dict(temperature=2.0), "--temperature 2.0: the native engine has no such option"),
    ("autoregressive", dict(jacobi_window=4, beam=1), "--jacobi-window 4 has an effect only with --jacobi-mode frontier"),
    ("autoregressive", dict(jacobi_mode="pj", beam=2), "--beam 2: parallel decoding is exact for greedy search only"),
    ("autoregressive", dict(jacobi_mode="pj", jacobi_draft="source", beam=1),
     "--jacobi-draft source has an effect only with --jacobi-mode frontier"),
    ("autoregressive", dict(JACOBI, jacobi_draft="ngram"),
     "--jacobi-draft ngram: the native engine has previous, source; use --engine torch"),
    ("autoregressive", dict(JACOBI, jacobi_draft="source"),
     "one dictionary for both sides; this model has 9 source and 8 target words"),
])  # fmt: skip
def test_what_a_model_does_not_have_is_refused(family, options, message):
    block = dict(block=2) if family == "bidirectional" else {}
    with pytest.raises(ValueError, match=message):
        options_for(header(family, **block), DecodingOptions(**options))


def test_which_refusals_are_left_to_the_other_engine():
    for family, options in (
        ("dag", dict(dag_decode_strategy="beam")),
        ("dag", dict(no_repeat_ngram_size=2)),
        ("hrt", dict(temperature=2.0)),
    ):
        with pytest.raises(UnsupportedOption, match="use --engine torch"):
            options_for(header(family), DecodingOptions(**options))
    with pytest.raises(ValueError, match="belongs to models of the family dag") as refusal:
        check_effects(header(), DecodingOptions(dag_keep_repeats=True))
    assert not isinstance(refusal.value, UnsupportedOption)


def test_what_nobody_gives_now_is_set_aside(caplog):
    left = DecodingOptions(hrt_decode_chunk="2", jacobi_window=4, dag_keep_repeats=True, beam=1)
    assert settled(header("autoregressive"), left, given=()) == DecodingOptions(beam=1)
    assert settled(header(), left, given=("hrt_decode_chunk",)) == DecodingOptions(beam=1, hrt_decode_chunk="2")
    with pytest.raises(ValueError, match="--dag-keep-repeats True belongs to models of the family dag"):
        settled(header(), left, given=("dag_keep_repeats",))
    # Without --jacobi-mode there is no window.
    with pytest.raises(ValueError, match="--jacobi-window 4 has an effect only with --jacobi-mode frontier"):
        settled(header("autoregressive"), left, given=("jacobi_window",))
    assert not caplog.records
    wide = DecodingOptions(beam=4, dag_decode_strategy="greedy")
    assert settled(header("dag"), wide, given=("beam",)) == DecodingOptions(beam=1, dag_decode_strategy="greedy")
    (message,) = caplog.messages
    assert message.startswith("--beam 4 has an effect only with --dag-decode-strategy beam or sample; here it is 1")


def test_words_of_the_source_are_copied_where_they_are_the_same():
    options = DecodingOptions(**JACOBI, jacobi_draft="source")
    check_dictionaries(options, ["a", "b"], ["a", "b"])
    check_dictionaries(DecodingOptions(), ["a", "b"], ["b", "a"])
    with pytest.raises(ValueError, match="--jacobi-draft source copies words of the source: .*--joined-dictionary"):
        check_dictionaries(options, ["a", "b"], ["b", "a"])
