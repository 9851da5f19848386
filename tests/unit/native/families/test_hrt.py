"""Which chunk sizes hrt decodes with, and options that do not go together."""

import math

import pytest

from fairseq_hrt.native.families.hrt import chunk_table, completed
from fairseq_hrt.native.options.values import DecodingOptions


def test_chunk_sizes():
    def table(choice, text="10:1,30:2,inf:1", trained=(3, 2)):
        return chunk_table(DecodingOptions(hrt_decode_chunk=choice, hrt_chunk_table=text), trained)

    assert (
        table(None) == [(math.inf, 2)]
        and table("3") == [(math.inf, 3)]
        and table("1") == [(math.inf, 1)]
    )
    assert table("auto") == [(10, 1), (30, 2), (math.inf, 1)]
    for choice in ("0", "-1", "2.0", "two", ""):
        with pytest.raises(
            ValueError, match=r"--hrt-decode-chunk .* is neither a chunk size \(1, 2, …\) nor auto"
        ):
            table(choice)
    for text in (
        "",
        "10:1",
        "30:1,10:2,inf:1",
        "10:1,10:2,inf:1",
        "nan:1,inf:2",
        "10:0,inf:1",
        "10,inf:1",
        "10:x,inf:1",
        "inf:1,inf:2",
    ):
        with pytest.raises(ValueError, match="--hrt-chunk-table .*10:1,30:2,inf:1"):
            table("auto", text)
    for choice, text in (("7", ""), ("auto", "9:1,inf:4")):
        with pytest.raises(
            ValueError,
            match="chunk size [47] was not trained: this model has 1 .autoregressive. and 3, 2",
        ):
            table(choice, text)


@pytest.mark.parametrize(
    "values, chunk, message",
    [
        (dict(beam=2, hrt_nat_beam=3), 2, "--hrt-nat-beam 3 with --beam 2"),
        (dict(beam=3, nbest=2, hrt_nat_beam=1), 2, "--nbest 2 with --hrt-nat-beam 1"),
        (dict(no_repeat_ngram_size=2), 2, "--no-repeat-ngram-size"),
        (dict(hrt_draft_chunk=2, beam=1), 2, "--hrt-draft-chunk"),
        (dict(hrt_draft_chunk=2, beam=2), 1, "--hrt-draft-chunk"),
    ],
)  # fmt: skip
def test_options_of_hrt_that_do_not_go_together(values, chunk, message):
    with pytest.raises(ValueError, match=message):
        completed(DecodingOptions(**values), [(math.inf, chunk)])


def test_how_many_hypotheses_the_second_stage_completes():
    assert completed(DecodingOptions(beam=4), [(math.inf, 2)]) == 4
    assert completed(DecodingOptions(beam=4, hrt_nat_beam=2), [(9, 1), (math.inf, 2)]) == 2
    assert completed(DecodingOptions(beam=2, nbest=2, hrt_nat_beam=7), [(math.inf, 1)]) == 2, (
        "there is none"
    )
