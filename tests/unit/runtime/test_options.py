"""Decoding options of the runtime: read from text, refused by name, handed to C as they are."""

import dataclasses
import math
from types import SimpleNamespace

import pytest

from fairseq_hrt.options import NEUTRAL, DecodingOptions, chunk_table, options_for
from fairseq_hrt.runtime.engine import UnsupportedOption


@pytest.mark.parametrize("options, message", [
    ({"beam": 0}, "--beam 0"), ({"beam": 2, "nbest": 3}, "--nbest 3"), ({"lenpen": float("nan")}, "--lenpen"), ({"max_len_a": -1.0}, "--max-len-a"),
    ({"batch_size": 0}, "batch_size"), ({"hrt_decode_chunk": "7"}, "chunk size 7"), ({"hrt_decode_chunk": "x"}, "neither"),
    ({"hrt_decode_chunk": "auto", "hrt_chunk_table": "3:1"}, "hrt-chunk-table"), ({"beam": 2, "hrt_nat_beam": 3}, "hrt-nat-beam 3"),
    ({"beam": 3, "nbest": 2, "hrt_nat_beam": 1}, "--nbest 2"), ({"hrt_draft_chunk": 2}, "beam=1"), ({"hrt_draft_chunk": 1, "beam": 1}, "drafts"),
])  # fmt: skip
def test_bad_options(runtime, options, message):
    with runtime.runtime_engine(runtime.build("hrt_transformer")) as engine, pytest.raises(ValueError, match=message):
        engine.decode([[4, 2]], runtime.options(**options))


def test_options_from_text(runtime):
    with runtime.runtime_engine(runtime.build("hrt_transformer")) as engine:
        found = [engine.decode([[4, 5, 2]], runtime.options(beam=1, hrt_decode_chunk=chunk)) for chunk in (3, "3")]
        assert found[0] == found[1]
    read = runtime.options.parse(
        {"beam": "3", "lenpen": "0.6", "unnormalized": True, "hrt_eos_last_chunk": "True", "sampling": False}, scores=False
    )
    assert (read.beam, read.lenpen, read.normalize, read.hrt_eos_last_chunk, read.scores) == (3, 0.6, False, True, False)
    for wrong in ({"sampling": True}, {"prefix_size": "2"}, {"no_repeat_ngram_size": 3}, {"nonsense": 1}):
        with pytest.raises(UnsupportedOption, match=next(iter(wrong)).replace("_", "-")):
            runtime.options.parse(wrong)
    with pytest.raises(ValueError, match="--beam 'x'"):
        runtime.options.parse({"beam": "x"})
    for strategy in ("beam", "sample", "x"):
        with (
            runtime.runtime_engine(runtime.build("dag_transformer")) as engine,
            pytest.raises(UnsupportedOption, match=strategy),
        ):
            engine.decode([[4, 2]], runtime.options(beam=1, dag_decode_strategy=strategy))


def header(family="hrt", **more):
    return SimpleNamespace(
        family=family, chunk_sizes=(2, 5), scale=3.0, block=1, directions=1, source_vocabulary=9, target_vocabulary=8, **more
    )


def test_what_asks_for_nothing_is_read_over():
    for name, values in NEUTRAL.items():
        for value in values:
            assert DecodingOptions.parse({name: value}) == DecodingOptions()
    # As fairseq's own defaults are, an option whose value is an enumeration included.
    assert DecodingOptions.parse({"bidirectional_scoring": SimpleNamespace(name="canonical")}) == DecodingOptions()


def test_every_option_is_read_from_its_text():
    texts = {item.name: str(item.default) for item in dataclasses.fields(DecodingOptions) if item.default is not None}
    assert DecodingOptions.parse(texts) == DecodingOptions()
    assert DecodingOptions.parse({"beam": "9", "scores": "true"}, beam=7, scores=False) == DecodingOptions(
        beam=7, scores=False
    )
    for name, value in (
        ("scores", "maybe"),
        ("unnormalized", "2"),
        ("beam", "2.5"),
        ("lenpen", "x"),
        ("hrt_draft_chunk", "x"),
    ):
        with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} '{value}' is n"):
            DecodingOptions.parse({name: value})


@pytest.mark.parametrize("values, message", [
    (dict(min_len=-1), "--min-len -1"), (dict(max_len_b=1 << 30), "--max-len-b 1073741824"), (dict(unkpen=math.nan), "--unkpen nan"),
    (dict(unkpen=-math.inf), "--unkpen -inf"), (dict(dag_decode_beta=math.inf), "--dag-decode-beta inf"), (dict(nbest=0), "--nbest 0"),
    (dict(lenpen=-1e308), "--lenpen -1e"), (dict(unkpen=-1e308), "--unkpen -1e"), (dict(max_len_a=-1.0), "^--max-len-a -1.0: give a length"),
    (dict(jacobi_block_size=0), "--jacobi-block-size 0: give a number from 1"), (dict(jacobi_window=0), "--jacobi-window 0: give a number from 1"),
    (dict(jacobi_prefix_length=-1), "--jacobi-prefix-length -1: give a number from 0"), (dict(jacobi_window=2.5), "--jacobi-window 2.5 is no whole"),
    (dict(jacobi_block_size=None), "--jacobi-block-size None is no whole number"), (dict(jacobi_block_size=1 << 30), "--jacobi-block-size 1073741824"),
    (dict(beam="3"), "--beam '3' is no whole number"), (dict(beam=2.5), "--beam 2.5 is no"), (dict(hrt_draft_width=5000), "hrt_draft_width=5000: .* 0 to 4096"),
])  # fmt: skip
def test_bad_values_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(**values)
    assert DecodingOptions(unkpen=math.inf).unkpen == math.inf


@pytest.mark.parametrize("options, expected", [
    (dict(), [(math.inf, 2)]), (dict(hrt_decode_chunk="1"), [(math.inf, 1)]), (dict(hrt_decode_chunk="5"), [(math.inf, 5)]),
    (dict(hrt_decode_chunk="auto"), [(10, 1), (30, 2), (math.inf, 1)]), (dict(hrt_decode_chunk="auto", hrt_chunk_table="3.5:5,inf:1"), [(3.5, 5), (math.inf, 1)]),
])  # fmt: skip
def test_chunks_by_the_length_of_the_source(options, expected):
    assert chunk_table(header(), DecodingOptions(**options)) == expected
    values, _ = options_for(header(), DecodingOptions(**options))
    assert list(zip(values.table_limits[: values.table_size], values.table_chunks[: values.table_size])) == expected


@pytest.mark.parametrize("table", ["", "10:1", "30:1,10:2,inf:1", "inf:0", "inf:1,inf:2", "a:1", "10-1,inf:1"])
def test_tables_that_are_none(table):
    with pytest.raises(ValueError, match="--hrt-chunk-table .*10:1,30:2,inf:1"):
        chunk_table(header(), DecodingOptions(hrt_decode_chunk="auto", hrt_chunk_table=table))


def test_vertices_write_unknown_words_only_where_that_is_allowed():
    for allowed, family, expected in ((False, "dag", math.inf), (True, "dag", 2.0), (False, "hrt", 2.0)):
        values, _ = options_for(header(family), DecodingOptions(unkpen=2.0, dag_allow_unk=allowed))
        assert values.unkpen == expected
    values, _ = options_for(header("dag"), DecodingOptions(dag_decode_strategy="viterbi"))
    assert (values.strategy, values.scale) == (2, 3.0)
    assert options_for(header("dag"), DecodingOptions(dag_decode_upsample_scale=0.5))[0].scale == 0.5


@pytest.mark.parametrize("family, options, message", [
    ("autoregressive", dict(hrt_decode_chunk="3"), "no hrt_transformer but a model of the family autoregressive"), ("hrt", dict(graphs=True), "family hrt writes no graph"),
    ("dag", dict(alignments=True), "words of a dag_transformer are not aligned"), ("dag", dict(nbest=2), "--nbest 2 needs --dag-decode-strategy beam"),
    ("dag", dict(min_len=4), "--min-len 4 needs"), ("dag", dict(dag_decode_upsample_scale=0.0), "--dag-decode-upsample-scale 0.0"),
    ("dag", dict(dag_decode_strategy="beam"), "--dag-decode-strategy beam: the runtime knows greedy"),
    ("hrt", dict(jacobi_mode="pj", beam=1), "--jacobi-mode pj: it decodes autoregressive models, and this one is of the family hrt"),
    ("autoregressive", dict(jacobi_window=4, beam=1), "--jacobi-window 4 needs a --jacobi-mode, such as frontier"),
    ("dag", dict(jacobi_draft="source"), "--jacobi-draft source needs a --jacobi-mode"),
    ("autoregressive", dict(jacobi_mode="x", beam=1), "--jacobi-mode x: choose one of frontier, hgj, pgj, pj"),
    ("autoregressive", dict(jacobi_mode="pj", beam=2), "--beam 2: parallel decoding is exact for greedy search only"),
    ("autoregressive", dict(jacobi_mode="pj", jacobi_draft="source", beam=1), "--jacobi-draft source needs --jacobi-mode frontier, not pj"),
    ("autoregressive", dict(jacobi_mode="frontier", jacobi_draft="ngram", beam=1), "--jacobi-draft ngram: the runtime knows previous, source; use --engine torch"),
    ("autoregressive", dict(jacobi_mode="frontier", jacobi_draft="source", beam=1), "one dictionary for both sides; this model has 9 source and 8 target words"),
])  # fmt: skip
def test_options_of_other_families(family, options, message):
    with pytest.raises(ValueError, match=message):
        options_for(header(family), DecodingOptions(**options))
