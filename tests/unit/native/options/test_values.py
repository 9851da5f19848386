"""Every decoding option once: values, ranges, who honours it."""

import math
from dataclasses import fields, replace

import pytest
from fairseq.dataclass.configs import GenerationConfig

from fairseq_hrt.native.families import NAMES
from fairseq_hrt.native.options.schema import CALLER, EVERY_TASK, FAIRSEQ
from fairseq_hrt.native.options.values import (
    KINDS,
    SCHEMA,
    DecodingOptions,
    UnsupportedOption,
    forced_ids,
    options_of,
    read_value,
    require_native,
    require_torch,
)


@pytest.mark.parametrize("name", SCHEMA)
def test_an_option_is_described(name):
    option, (kind, optional) = SCHEMA[name], KINDS[name]
    assert option.origin in (FAIRSEQ, CALLER, EVERY_TASK, *NAMES) and kind in (
        int,
        float,
        bool,
        str,
    )
    if option.origin in NAMES:
        assert name.startswith(option.origin + "_")
    if option.origin not in (FAIRSEQ, CALLER):
        assert len(option.help) > 20 and "%" not in option.help
    if option.origin == FAIRSEQ:
        own = {field.name: field.default for field in fields(GenerationConfig)}
        assert getattr(DecodingOptions(), name) == own[name], "fairseq's default"
    if option.choices:
        assert kind is str and (optional or getattr(DecodingOptions(), name) in option.choices)
        assert option.native in (True, False) or set(option.native) <= set(option.choices)
    if option.request is not None and kind in (int, float):
        low, high = option.request
        assert (option.least is None or low >= option.least) and (
            option.most is None or high <= option.most
        )


@pytest.mark.parametrize(
    "values, message",
    [
        (dict(beam=0), "--beam 0: at least one hypothesis"),
        (dict(beam=2, nbest=3), "--nbest 3 with --beam 2"), (dict(nbest=0), "--nbest 0"),
        (dict(temperature=0.0), "--temperature 0.0"),
        (dict(temperature=math.nan), "--temperature nan"),
        (dict(temperature=math.inf), "--temperature inf"), (dict(unkpen=math.nan), "--unkpen nan"),
        (dict(unkpen=-math.inf), "--unkpen -inf"), (dict(unkpen=-1e308), "--unkpen -1e"),
        (dict(lenpen=math.inf), "--lenpen inf"), (dict(lenpen=-1e308), "--lenpen -1e"),
        (dict(max_len_b=-1), "--max-len-b -1"),
        (dict(max_len_a=-1.0), "--max-len-a -1.0: give a number from 0"),
        (dict(max_len_b=1 << 30), "--max-len-b 1073741824"),
        (dict(no_repeat_ngram_size=-1), "--no-repeat-ngram-size -1"),
        (dict(min_len=9, max_len_b=8), "--min-len 9 is greater than the maximum length 8"),
        (dict(beam="3"), "--beam '3' is not an integer"),
        (dict(beam=2.5), "--beam 2.5 is not an integer"),
        (dict(lenpen="1"), "--lenpen '1' is not a number"),
        (dict(jacobi_block_size=None), "--jacobi-block-size None is not an integer"),
        (dict(jacobi_window=0), "--jacobi-window 0: give a number from 1"),
        (dict(jacobi_prefix_length=-1), "--jacobi-prefix-length -1: give a number from 0"),
        (dict(jacobi_mode="x"), "--jacobi-mode x: choose one of frontier"),
        (dict(hrt_draft_width=5000), "--hrt-draft-width 5000: give a number from 0 to 32"),
        (dict(batch_size=0), "--batch-size 0"),
        (dict(dag_decode_beta=math.inf), "--dag-decode-beta inf"),
        (dict(dag_decode_beta=-0.5), "--dag-decode-beta -0.5"),
        (dict(dag_candidates=0), "--dag-candidates 0"),
        (dict(dag_sample_topp=0.0), "--dag-sample-topp 0.0"),
        (dict(dag_sample_topp=1.1), "--dag-sample-topp 1.1"),
        (dict(rescore_lenpen=20.5), "--rescore-lenpen 20.5"),
        (dict(dag_decode_upsample_scale=0.0),
         "--dag-decode-upsample-scale 0.0 must be greater than 0"),
        (dict(dag_decode_strategy="x"), "--dag-decode-strategy x: choose"),
        (dict(bidirectional_length_penalty="x"),
         "--bidirectional-length-penalty x: choose one of power, gnmt"),
    ],
)  # fmt: skip
def test_bad_values_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(**values)


def test_forbidding_the_unknown_word_is_a_value():
    assert DecodingOptions(unkpen=math.inf).unkpen == math.inf


def test_every_option_is_read_from_its_text():
    texts = {name: str(getattr(DecodingOptions(), name)) for name in SCHEMA}
    assert DecodingOptions.parse(texts) == DecodingOptions()
    assert DecodingOptions.parse(
        {"beam": "9", "scores": "true"}, beam=7, scores=False
    ) == DecodingOptions(beam=7, scores=False)
    assert read_value("unkpen", "inf") == math.inf and read_value("hrt_nat_beam", "None") is None
    for name, value, kind in (
        ("scores", "maybe", "neither"), ("unnormalized", "2", "neither"),
        ("beam", "2.5", "not an integer"), ("lenpen", "x", "not a number"),
        ("hrt_draft_chunk", "x", "not an integer"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} '{value}' is {kind}"):
            DecodingOptions.parse({name: value})


def test_flags_that_are_not_in_the_schema():
    neutral = {"sampling": False, "diverse_beam_groups": -1, "constraints": None, "lm_path": None}
    assert DecodingOptions.parse(neutral) == DecodingOptions()
    for wrong in ({"sampling": True}, {"nonsense": 1}):
        with pytest.raises(UnsupportedOption, match=next(iter(wrong)).replace("_", "-")):
            DecodingOptions.parse(wrong)
    with pytest.raises(UnsupportedOption, match=r"did you mean beam\? Else use --engine torch$"):
        DecodingOptions.parse({"baem": 5})


def test_which_engine_honours_what():
    require_native(DecodingOptions()), require_torch(DecodingOptions())
    for values in (
        dict(temperature=2.0),
        dict(no_repeat_ngram_size=3),
        dict(bidirectional_scoring="paper"),
        dict(dag_decode_strategy="beam"),
    ):
        with pytest.raises(
            UnsupportedOption,
            match=f"--{next(iter(values)).replace('_', '-')} .*use --engine torch",
        ):
            require_native(DecodingOptions(**values))
        require_torch(DecodingOptions(**values))
    with pytest.raises(UnsupportedOption, match="--hrt-draft-chunk 2: only the native engine"):
        require_torch(DecodingOptions(hrt_draft_chunk=2))


def test_what_was_changed():
    assert DecodingOptions().changed() == {}
    assert replace(DecodingOptions(), beam=1, unnormalized=True).changed() == {
        "beam": 1,
        "unnormalized": True,
    }
    assert DecodingOptions(unnormalized=True).normalize is False


def test_the_options_of_a_family():
    assert [own.name for own in options_of("bidirectional")] == [
        "bidirectional_scoring", "bidirectional_length_penalty", "bidirectional_deduplicate",
    ]  # fmt: skip


def test_a_forced_start_is_read():
    symbols, never = ["<s>", "<pad>", "</s>", "<unk>", "__de__", "ein"], ("<pad>", "</s>")

    def ids(text):
        return forced_ids(DecodingOptions(forced_start=text), symbols, never)

    assert ids(None) == [] and ids("__de__") == [4] and ids(" __de__  ein <unk>") == [4, 5, 3]
    for text, message in (
        ("__fr__", "--forced-start __fr__: __fr__ is not a word of the target dictionary"),
        ("ein </s>", "--forced-start ein </s>: </s> is not a word"),
        ("<pad>", "--forced-start <pad>: <pad> is not a word"),
        ("  ", "--forced-start '  ' is blank; give words"),
    ):
        with pytest.raises(ValueError, match=message):
            ids(text)
    with pytest.raises(
        ValueError, match="--forced-start ein with --prefix-size 2: both set how translations begin"
    ):
        forced_ids(DecodingOptions(forced_start="ein", prefix_size=2), symbols, never)
