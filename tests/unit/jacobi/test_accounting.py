"""What was executed, against the passes as they were seen and the formula written out."""

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from parallel_decoding import make_generator

from fairseq_hrt.jacobi.accounting import DecoderSize, JacobiStatistics


def test_statistics(tiny):
    model, sample = tiny.lively(seed=2), tiny.sample([6, 3], seed=2)
    generator = make_generator(tiny, [model], options=dict(max_len_b=11), mode="pgj", block_size=3)
    seen = []
    generator.iteration_hooks.append(seen.append)
    found = generator.generate([model], sample)
    statistics = generator.statistics
    lengths = [len(best[0]["tokens"]) for best in found]
    assert statistics.sentences == 2 and statistics.tokens == sum(lengths)
    assert statistics.row_passes == len(seen) == sum(statistics.verified.values())
    assert (
        statistics.passes == generator.counters.decoder_calls == max(item.number for item in seen)
    )
    assert statistics.pushed == sum(len(item.answers) for item in seen)
    assert sum(count * passes for count, passes in statistics.verified.items()) == sum(lengths)
    size = DecoderSize.of(model)
    assert size == DecoderSize(layers=2, width=16, inner=24, vocabulary=16)
    # Written out for one layer of the formula: 8d²q + 4dqk + 4d²q + 4dqm + 4d·ffn·q, and 2dVq.
    layer = 8 * 256 * 3 + 4 * 16 * 3 * 5 + 4 * 256 * 3 + 4 * 16 * 3 * 7 + 4 * 16 * 24 * 3
    assert size.flops(3, 5, 7) == 2 * layer + 2 * 16 * 16 * 3
    # Recurrent cells have two matrices of D by D instead, whatever stands before.
    recurrent = DecoderSize.of(tiny.model("marian_transformer", marian_cell="ssru"))
    assert size.flops(3, 5, 7) - recurrent.flops(3, 5, 7) == 2 * (4 * 256 * 3 + 4 * 16 * 3 * 5)
    sources = [6, 3]
    expected = sum(
        size.flops(len(item.answers), item.first + len(item.answers), sources[item.sentence])
        for item in seen
    )
    assert statistics.flops == expected + sum(size.source_flops(length) for length in sources)
    assert statistics.plain_flops < statistics.flops
    assert f"{sum(lengths)} tokens in {len(seen)} passes" in statistics.report()
    json.dumps(statistics.to_json())
    for item in seen:
        tokens = found[item.sentence][0]["tokens"].tolist()
        assert item.answers[: item.verified] == tokens[item.first : item.first + item.verified]
        assert len(item.guesses) == len(item.answers) - 1 == len(item.log_probs) - 1


def test_statistics_of_decoding_one_by_one(tiny):
    model, sample = tiny.lively(seed=2), tiny.sample([6, 3], seed=2)
    generator = make_generator(tiny, [model], options=dict(max_len_b=11), mode="frontier", window=1)
    found = generator.generate([model], sample)
    statistics, tokens = generator.statistics, sum(len(best[0]["tokens"]) for best in found)
    assert statistics.tokens == statistics.row_passes == statistics.pushed == tokens > 0
    assert statistics.verified == {1: tokens} and statistics.flops == statistics.plain_flops


def multiplications(size, tokens, keys, source):
    """Of a pass, matrix by matrix: ([rows, inner], [inner, columns]) of each product."""
    d = size.width
    layer = [
        *[(tokens, d, d)] * 4, (tokens, d, keys), (tokens, keys, d),
        *[(tokens, d, d)] * 2, (tokens, d, source), (tokens, source, d),
        (tokens, d, size.inner), (tokens, size.inner, d),
    ]  # fmt: skip
    return size.layers * sum(a * b * c for a, b, c in layer) + tokens * d * size.vocabulary


@given(
    tokens=st.integers(1, 9),
    keys=st.integers(1, 30),
    source=st.integers(1, 30),
    layers=st.integers(1, 6),
)
def test_a_multiplication_and_an_addition_are_two(tokens, keys, source, layers):
    size = DecoderSize(layers=layers, width=8, inner=20, vocabulary=50)
    assert size.flops(tokens, keys, source) == 2 * multiplications(size, tokens, keys, source)
    # Keys and values of the source in each layer.
    assert size.source_flops(source) == 2 * layers * 2 * source * 8 * 8


def test_the_figures_of_a_run():
    statistics = JacobiStatistics(mode="pj", sentences=2, tokens=12, row_passes=5, passes=4,
                                  pushed=30, flops=6_000_000_000,
                                  plain_flops=4_000_000_000, seconds=1.5,
                                  verified=Counter({3: 2, 1: 3}))  # fmt: skip
    assert statistics.iteration_speedup == 12 / 5
    assert (
        statistics.report()
        == "jacobi pj: 2 sentences, 12 tokens in 5 passes (2.40 times fewer than word by word), 30"
        " tokens read (2.50 for each written), 6.00 GFLOP (1.50 times those of word by word);"
        " 1.50 s; tokens verified by a pass: {1: 3, 3: 2}"
    )
    statistics.draft_seconds = 0.25
    assert "1.50 s, 0.25 s of them for drafts; tokens verified" in statistics.report()
    assert "iterations" not in statistics.report()
    statistics.iterations = 6
    assert "drafts; 6 iterations as the paper counts them; tokens verified" in statistics.report()
    document = statistics.to_json()
    assert (
        list(document["proved"].items()) == [(1, 3), (3, 2)]
        and document["iteration_speedup"] == 2.4
    )
    assert document["plain_flops"] == 4_000_000_000 and set(vars(statistics)) < set(document)


def test_nothing_decoded_is_no_division_by_zero():
    assert (
        JacobiStatistics(mode="pj").iteration_speedup == 0
        and "0 sentences" in JacobiStatistics(mode="pj").report()
    )
