"""The best word from the upper bits of the weights: the same as from all of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_operations import INT8, INT8_16, Operations, Rule, Screening

from fairseq_hrt.native.runtime import library


@pytest.fixture(scope="module", params=["amx_int8", "avx512_vnni", "avx_vnni", "avx2"])
def ops(request):
    kernel = library.load_library()
    if request.param not in library.instruction_sets(kernel).usable:
        pytest.skip(f"this machine cannot run {request.param}")
    return Operations(request.param, library=kernel, guard=64)


def layer(seed, outputs, inputs, *, spread=0.0, alike=0.0, odd=0.05):
    """(weights, scales, bias): some rows are copies of others, some are extreme."""
    random = np.random.default_rng(seed)
    weights = np.clip(random.normal(0, 35, (outputs, inputs)).round(), -127, 127).astype(np.int8)
    copies = random.random(outputs) < alike
    weights[copies] = weights[random.integers(0, outputs, copies.sum())]
    for row in np.flatnonzero(random.random(outputs) < odd):
        weights[row] = random.choice([-127, -113, -112, 0, 15, 16, 127], inputs)
    scales = (10.0 ** random.uniform(-spread, spread, outputs) / 1000).astype(np.float32)
    scales[random.random(outputs) < odd / 2] = 0
    if alike:
        scales[:] = scales[0]
    return weights, scales, (spread * random.standard_normal(outputs)).astype(np.float32)


def features(seed, weights, rows, cosine):
    """Rows that point towards some output: [rows, inputs]."""
    random = np.random.default_rng(seed + 1)
    towards = weights[random.integers(0, len(weights), rows)].astype(np.float64)
    towards /= np.maximum(np.linalg.norm(towards, axis=1, keepdims=True), 1)
    noise = random.standard_normal((rows, weights.shape[1])) / np.sqrt(weights.shape[1])
    return (cosine * towards + np.sqrt(1 - cosine**2) * noise).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 4),
    outputs=st.integers(1, 700),
    inputs=st.one_of(st.integers(1, 40), st.sampled_from([128, 512, 1024])),
    cosine=st.sampled_from([0.0, 0.2, 0.5, 0.9]),
    spread=st.sampled_from([0.0, 0.3, 3.0]),
    alike=st.sampled_from([0.0, 0.5]),
    kind=st.sampled_from([INT8, INT8_16]),
    data=st.data(),
)
def test_the_word_and_its_value_are_those_of_all_bits(
    ops, seed, rows, outputs, inputs, cosine, spread, alike, kind, data
):
    weights, scales, bias = layer(seed, outputs, inputs, spread=spread, alike=alike)
    matrix = ops.pack(weights, scales, bias, int8=kind)
    x = features(seed, weights, rows, cosine)
    ready, rough = ops.prepare(x, kind), ops.prepare(x, INT8)
    screen = ops.screen(matrix)
    values = ops.product(ops.pack(weights, scales, bias), rough)
    slack = 1e-6 * np.abs(values)
    assert (ops.bounds(screen, matrix, rough) >= values - slack).all()
    ids = st.lists(st.integers(-2, outputs + 2), max_size=4)
    rules = [
        Rule(
            data.draw(ids) + ([int(values[r].argmax())] if r % 2 else []),
            data.draw(st.integers(-1, outputs)),
            data.draw(st.sampled_from([0.0, 3.5, -2.0])),
        )
        for r in range(rows)
    ]
    for given_rules in (None, rules):
        expected = ops.best(matrix, ready, given_rules)[:2]
        found = ops.screened_best(
            screen, matrix, ready, given_rules, rough=None if kind == INT8 else rough
        )
        if found:
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])
    assert ops.check_guards()


@pytest.mark.parametrize("kind", [INT8, INT8_16])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_a_clear_best_word_is_found(ops, rows, kind):
    """A screen that always gave up would be as right."""
    weights, scales, bias = layer(5, 20000, 256, odd=0.0)
    matrix = ops.pack(weights, scales, bias, int8=kind)
    screen = ops.screen(matrix)
    for seed in range(20):
        x = features(seed, weights, rows, 0.6)
        ready = ops.prepare(x, kind)
        rough = ready if kind == INT8 else ops.prepare(x, INT8)
        tokens, values = ops.screened_best(screen, matrix, ready, rough=rough)
        expected = ops.best(matrix, ready)
        np.testing.assert_array_equal(tokens, expected[0])
        np.testing.assert_array_equal(values, expected[1])


@pytest.mark.parametrize("wide", [40, 70, 129])
def test_the_lowest_of_equals_is_best(ops, wide):
    """Whichever has the highest bound."""
    weights = np.full((130, 4096), 3, np.int8)
    weights[[70, 40, 129]] = 104
    weights[wide, ::2], weights[wide, 1::2] = 97, 111
    matrix = ops.pack(weights, np.ones(130, np.float32), np.zeros(130, np.float32))
    ready = ops.prepare(np.ones((1, 4096), np.float32), INT8)
    screen = ops.screen(matrix)
    found = [
        ops.screened_best(screen, matrix, ready, [Rule(banned)])[0][0]
        for banned in ([], [40], [40, 70])
    ]
    assert found == [40, 70, 129]


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_what_is_no_number_is_left_to_all_bits(ops, value):
    weights, scales, bias = layer(1, 200, 64)
    x = features(1, weights, 2, 0.5)
    ready = ops.prepare(x, INT8)
    if value == 3e38:
        scales[7] = value  # the value of an output is infinite
        weights[7] = 127 * np.sign(x[1])
    else:
        bias[7] = value
    matrix = ops.pack(weights, scales, bias)
    assert ops.screened_best(ops.screen(matrix), matrix, ready) is None
    x[0, 3] = np.nan
    matrix = ops.pack(*layer(1, 200, 64))
    ready = ops.prepare(x, INT8)
    assert ops.screened_best(ops.screen(matrix), matrix, ready) is None


def test_nothing_left_to_choose_is_left_to_all_bits(ops):
    weights, scales, bias = layer(1, 70, 64)
    matrix, ready = (
        ops.pack(weights, scales, bias),
        ops.prepare(features(1, weights, 1, 0.5), INT8),
    )
    rule = Rule(list(range(70)))
    assert ops.screened_best(ops.screen(matrix), matrix, ready, [rule]) is None


def test_after_giving_up_calls_go_without(ops):
    weights, scales, bias = layer(3, 3000, 512, odd=0.0)
    matrix = ops.pack(weights, scales, bias)
    screen, screening = ops.screen(matrix), Screening()
    flat = ops.prepare(features(3, weights, 1, 0.0), INT8)
    clear = ops.prepare(features(3, weights, 1, 0.9), INT8)

    def settled(ready):
        return ops.screened_best(screen, matrix, ready, screening=screening) is not None

    for pause in (8, 16, 32, 64, 64):
        assert not settled(flat)
        assert [settled(clear) for _ in range(pause)] == [False] * pause
    assert settled(clear) and not settled(flat)
    assert [settled(clear) for _ in range(9)] == [False] * 8 + [True]


def test_what_is_screened(ops):
    def of(outputs, inputs, kind=np.int8):
        weights = np.ones((outputs, inputs), kind)
        scales = np.ones(outputs, np.float32) if kind == np.int8 else None
        return ops.pack(weights, scales, None)

    worth = ops.library.fh_worth_screening
    assert [worth(of(n, 512)) for n in (2000, 4000)] == [0, 1]
    assert ops.library.fh_screen_size(of(3, 8200)) == worth(of(300, 8200)) == 0
    assert ops.library.fh_screen_size(of(3, 64, np.float32)) == 0
