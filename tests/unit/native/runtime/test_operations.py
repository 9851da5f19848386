"""Every operation of the kernel on every instruction set that this machine can run, against NumPy
in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_operations import FLOAT32, INT8, INT8_16, NAN, NONE, Operations, Rule

from fairseq_hrt.native.runtime import library

SETTINGS = settings(max_examples=25, deadline=None)
SETS = ["amx_int8", "avx512_vnni", "avx_vnni", "avx2", "neon_dotprod", "plain"]
sizes = st.tuples(
    st.integers(1, 20), st.integers(1, 130), st.integers(1, 200), st.integers(0, 2**32 - 1)
)


@pytest.fixture(scope="module")
def kernel():
    """As in conftest.py, so that installed wheels without PyTorch pass these tests, too:
    --noconftest."""
    return library.load_library()


@pytest.fixture(scope="module", params=SETS)
def ops(request, kernel):
    if request.param not in library.instruction_sets(kernel).usable:
        pytest.skip(f"this machine cannot run {request.param}")
    return Operations(request.param, library=kernel, guard=64)


@pytest.fixture(scope="module")
def every(kernel):
    return [
        Operations(name, library=kernel, guard=64)
        for name in library.instruction_sets(kernel).usable
    ]


def quantised(x, positive=False):
    """The contract of `prepare`, in float32 as the kernel computes it: (integers, scales)."""
    steps = np.float32(255 if positive else 127)
    largest = np.abs(x).max(1)
    with np.errstate(all="ignore"):
        usable = np.isfinite(largest) & (largest >= np.float32(1e-36))
        factor = np.where(usable, steps / largest, 0).astype(np.float32)
        integers = np.where(usable[:, None], np.rint(x * factor[:, None]), 0)
        if positive:
            integers = np.maximum(integers, 0)
        scales = np.where(
            np.isfinite(largest), np.where(usable, largest / steps, 0), np.nan
        ).astype(np.float32)
    return integers.astype(np.int64), scales


def int8_product(weights, scales, bias, integers, input_scales, residual=None, relu=False):
    """What the kernel computes, each step rounded to float32."""
    sums = (integers @ weights.astype(np.int64).T).astype(np.float32)
    out = sums * (input_scales[:, None] * scales) + bias
    out = out if residual is None else out + residual
    return np.maximum(out, np.float32(0)) if relu else out


def int8_case(rows, inputs, outputs, seed):
    random = np.random.default_rng(seed)
    # all 255 weights, the extremes often
    weights = random.integers(-127, 128, (outputs, inputs)).astype(np.int8)
    weights[random.random((outputs, inputs)) < 0.3] = 127
    weights[random.random((outputs, inputs)) < 0.2] = -127
    scales = (random.random(outputs) * 0.02 + 1e-4).astype(np.float32)
    bias = random.standard_normal(outputs).astype(np.float32)
    x = (random.standard_normal((rows, inputs)) * 10.0 ** random.integers(-3, 4, (rows, 1))).astype(
        np.float32
    )
    return weights, scales, bias, x


# ---------------------------------------------------------------------- int8


@SETTINGS
@given(sizes, st.booleans())
def test_integers_of_a_row(ops, shape, positive):
    rows, inputs, _, seed = shape
    x = int8_case(rows, inputs, 1, seed)[3]
    x = np.maximum(x, 0) if positive else x
    found, scales = ops.integers(ops.prepare(x, INT8, positive=positive))
    expected, expected_scales = quantised(x, positive)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(scales, expected_scales)
    assert ops.check_guards()


def test_halves_are_rounded_to_even(ops):
    x = np.array([[127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5]], np.float32)
    assert ops.integers(ops.prepare(x, INT8))[0].tolist() == [[127, 0, 2, 2, 0, -2, -2, 126]]


def test_rows_that_cannot_be_quantised(ops):
    x = np.array(
        [
            [0, 0, -0.0],
            [1, np.nan, 2],
            [np.inf, 1, 2],
            [1e-37, 0, 0],
            [1e-36, 0, -1e-36],
            [3e38, 0, -3e38],
        ],
        np.float32,
    )
    integers, scales = ops.integers(ops.prepare(x, INT8))
    assert integers.tolist() == [[0, 0, 0]] * 4 + [[127, 0, -127]] * 2
    np.testing.assert_array_equal(
        scales[:5],
        np.array([0, np.nan, np.nan, 0, np.float32(1e-36) / np.float32(127)], np.float32),
    )
    positive = ops.integers(
        ops.prepare(np.array([[-1.0, 1.0, 0.5]], np.float32), INT8, positive=True)
    )[0]
    assert positive.tolist() == [[0, 255, 128]], "what relu cannot have written becomes 0"


@SETTINGS
@given(sizes, st.booleans(), st.booleans(), st.booleans())
def test_int8_product_is_exact(ops, shape, positive, relu, with_residual):
    rows, _, outputs, seed = shape
    weights, scales, bias, x = int8_case(*shape)
    x = np.maximum(x, 0) if positive else x
    residual = (
        np.random.default_rng(seed).standard_normal((rows, outputs)).astype(np.float32)
        if with_residual
        else None
    )
    found = ops.product(
        ops.pack(weights, scales, bias),
        ops.prepare(x, INT8, positive=positive),
        relu=relu,
        residual=residual,
    )
    np.testing.assert_array_equal(
        found, int8_product(weights, scales, bias, *quantised(x, positive), residual, relu)
    )
    assert ops.check_guards()


@SETTINGS
@given(
    st.integers(1, 70), st.sampled_from([61, 64, 120, 128, 320]), st.integers(1, 200),
    st.integers(0, 99), st.booleans(),
)  # fmt: skip
def test_many_rows_fill_tiles(ops, rows, inputs, outputs, seed, positive):
    """Of 16 rows by 64 inputs, where there are tiles."""
    weights, scales, bias, x = int8_case(rows, inputs, outputs, seed)
    x = np.maximum(x, 0) if positive else x
    matrix, ready = ops.pack(weights, scales, bias), ops.prepare(x, INT8, positive=positive)
    expected = int8_product(weights, scales, bias, *quantised(x, positive))
    np.testing.assert_array_equal(ops.product(matrix, ready), expected)
    tokens, values, _ = ops.best(matrix, ready)
    np.testing.assert_array_equal(tokens, expected.argmax(1))
    np.testing.assert_array_equal(values, expected.max(1))
    assert ops.check_guards()


def quantised_16(x):
    """As :func:`quantised`, with as many steps as leave room for the sums."""
    steps = np.float32(min(32767, (2**31 - 1) // 127 // x.shape[1]))
    largest = np.abs(x).max(1)
    factor = (steps / largest).astype(np.float32)
    return np.rint(x * factor[:, None]).astype(np.int64), largest / steps


@SETTINGS
@given(sizes, st.booleans(), st.booleans())
def test_products_with_inputs_of_16_bits_are_exact(ops, shape, relu, with_residual):
    rows, _, outputs, seed = shape
    weights, scales, bias, x = int8_case(*shape)
    residual = (
        np.random.default_rng(seed).standard_normal((rows, outputs)).astype(np.float32)
        if with_residual
        else None
    )
    matrix, ready = ops.pack(weights, scales, bias, int8=INT8_16), ops.prepare(x, INT8_16)
    expected = int8_product(weights, scales, bias, *quantised_16(x))
    found = ops.product(matrix, ready, relu=relu, residual=residual)
    wanted = int8_product(weights, scales, bias, *quantised_16(x), residual, relu)
    np.testing.assert_array_equal(found, wanted)
    tokens, values, sums = ops.best(matrix, ready, with_sum=True)
    np.testing.assert_array_equal(tokens, expected.argmax(1))
    np.testing.assert_array_equal(values, expected.max(1))
    top = expected.max(1, keepdims=True).astype(np.float64)
    whole = top[:, 0] + np.log(np.exp(expected - top).sum(1))
    np.testing.assert_allclose(sums, whole, rtol=1e-5, atol=1e-5)
    assert ops.check_guards()


@pytest.mark.parametrize("inputs", [1, 4100, 65536])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_of_16_bits_fit(ops, inputs, sign):
    weights = np.full((70, inputs), 127 * sign, np.int8)
    x = np.array([[1.0], [-1.0], [0.5]], np.float32) * np.ones((3, inputs), np.float32)
    x[:, 0] = 1
    ones, zeros = np.ones(70, np.float32), np.zeros(70, np.float32)
    found = ops.product(ops.pack(weights, ones, zeros, int8=INT8_16), ops.prepare(x, INT8_16))
    np.testing.assert_array_equal(found, int8_product(weights, ones, zeros, *quantised_16(x)))


def test_rows_of_16_bits_that_cannot_be_quantised(ops):
    x = np.array([[0, 0, -0.0], [1, np.nan, 2], [np.inf, 1, 2], [1e-37, 0, 0]], np.float32)
    weights, scales, bias, _ = int8_case(1, 3, 70, 5)
    matrix = ops.pack(weights, scales, bias, int8=INT8_16)
    found = ops.product(matrix, ops.prepare(x, INT8_16))
    np.testing.assert_array_equal(found[[0, 3]], np.array([bias, bias]))
    assert np.isnan(found[1:3]).all() and ops.best(matrix, ops.prepare(x, INT8_16))[0][1] == NAN


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_do_not_saturate(ops, positive, sign):
    inputs = 4100
    weights = np.full((70, inputs), 127 * sign, np.int8)
    x = (
        np.ones((3, inputs), np.float32)
        if positive
        else np.array([[1.0], [-1.0], [0.5]], np.float32) * np.ones((3, inputs), np.float32)
    )
    x[:, 0] = 1  # the third row is not all of one size
    ones, zeros = np.ones(70, np.float32), np.zeros(70, np.float32)
    found = ops.product(ops.pack(weights, ones, zeros), ops.prepare(x, INT8, positive=positive))
    np.testing.assert_array_equal(
        found, int8_product(weights, ones, zeros, *quantised(x, positive))
    )


def test_not_a_number_stays_visible(ops):
    weights, scales, bias, x = int8_case(3, 10, 70, 5)
    x[1, 4] = np.nan
    found = ops.product(ops.pack(weights, scales, bias), ops.prepare(x, INT8), relu=True)
    assert np.isnan(found[1]).all() and np.isfinite(found[[0, 2]]).all()


def test_a_weight_of_minus_128_is_refused(ops):
    with pytest.raises(ValueError, match="-2"):
        ops.pack(np.array([[1, -128]], np.int8), np.ones(1, np.float32), np.zeros(1, np.float32))


@pytest.mark.parametrize("outputs, inputs", [(0, 1), (1, 0), (-1, 1), (1, 65537), (2**28 + 1, 1)])
def test_sizes_out_of_range_are_refused(kernel, outputs, inputs):
    ops = Operations("plain", library=kernel)
    assert ops.library.fh_matrix_size(INT8, outputs, inputs) == 0
    assert ops.library.fh_matrix_size(FLOAT32, outputs, inputs) == 0


def test_parts_of_a_matrix(every):
    ops = every[0]
    weights, scales, bias, x = int8_case(4, 37, 200, 7)
    whole = ops.pack(weights, scales, bias)
    expected = ops.product(whole, ops.prepare(x, INT8)).copy()
    for kind, matrix in (
        (INT8, whole),
        (FLOAT32, ops.pack(weights.astype(np.float32) * scales[:, None], None, bias)),
    ):
        ready = ops.prepare(x, kind)
        full = ops.product(matrix, ready).copy()
        ids = [199, 0, 64, 63, 5, 5]
        np.testing.assert_array_equal(ops.product(ops.select(matrix, ids), ready), full[:, ids])
        np.testing.assert_array_equal(
            ops.product(ops.slice(matrix, 64, 100), ready), full[:, 64:164]
        )
        np.testing.assert_array_equal(
            ops.row(matrix, 130), weights[130].astype(np.float32) * scales[130]
        )
        tokens, _, _ = ops.best(ops.slice(matrix, 128, 50), ready)
        np.testing.assert_array_equal(tokens, full[:, 128:178].argmax(1))
        with pytest.raises(ValueError):
            ops.select(matrix, [200])
    for other in every[1:]:
        # packed once, used by every instruction set
        np.testing.assert_array_equal(other.product(whole, other.prepare(x, INT8)), expected)


# ---------------------------------------------------------------------- float32


@SETTINGS
@given(sizes, st.booleans(), st.booleans())
def test_float_product(ops, shape, relu, with_residual):
    rows, inputs, outputs, seed = shape
    random = np.random.default_rng(seed)
    weights, bias, x = (
        random.standard_normal(size).astype(np.float32)
        for size in ((outputs, inputs), outputs, (rows, inputs))
    )
    residual = random.standard_normal((rows, outputs)).astype(np.float32) if with_residual else None
    found = ops.product(
        ops.pack(weights, None, bias), ops.prepare(x, FLOAT32), relu=relu, residual=residual
    )
    expected = (
        x.astype(np.float64) @ weights.T.astype(np.float64)
        + bias
        + (0 if residual is None else residual)
    )
    np.testing.assert_allclose(
        found, np.maximum(expected, 0) if relu else expected, rtol=1e-5, atol=1e-5 * np.sqrt(inputs)
    )
    assert ops.check_guards()


@pytest.mark.parametrize("kind", [INT8, FLOAT32])
@pytest.mark.parametrize("outputs", [150, 330])
def test_a_row_does_not_depend_on_its_neighbours(ops, kind, outputs):
    random = np.random.default_rng(outputs)
    weights, scales, bias, x = int8_case(20, 77, outputs, 3)
    matrix = (
        ops.pack(weights, scales, bias)
        if kind == INT8
        else ops.pack(random.standard_normal((outputs, 77)).astype(np.float32), None, bias)
    )
    gain = random.standard_normal(77).astype(np.float32)
    one_by_one = np.concatenate(
        [ops.product(matrix, ops.prepare(x[[r]], kind)).copy() for r in range(20)]
    )
    chosen = [
        [part[0] for part in ops.best(matrix, ops.prepare(x[[r]], kind), with_sum=True)]
        for r in range(20)
    ]
    normed = np.concatenate([ops.norm(x[[r]], gain, gain, 1e-5).copy() for r in range(20)])
    for rows in range(2, 21):
        ready = ops.prepare(x[:rows], kind)
        np.testing.assert_array_equal(ops.product(matrix, ready), one_by_one[:rows])
        for found, expected in zip(ops.best(matrix, ready, with_sum=True), zip(*chosen)):
            np.testing.assert_array_equal(found, expected[:rows])
        np.testing.assert_array_equal(ops.norm(x[:rows], gain, gain, 1e-5), normed[:rows])


def test_rows_may_stand_apart_and_results_may_replace_the_residual(ops):
    weights, scales, bias, _ = int8_case(1, 33, 70, 11)
    wider = np.random.default_rng(1).standard_normal((9, 50)).astype(np.float32)
    x = wider[:, 10:43]
    expected = int8_product(weights, scales, bias, *quantised(x))
    wide = np.zeros((9, 90), np.float32)
    out = wide[:, 5:75]
    out[:] = residual = np.arange(70, dtype=np.float32)
    ops.product(ops.pack(weights, scales, bias), ops.prepare(x, INT8), residual=out, out=out)
    np.testing.assert_array_equal(out, expected + residual)
    assert not wide[:, :5].any() and not wide[:, 75:].any()


# ---------------------------------------------------------------------- choosing


def logits_of(ops, kind, shape):
    """(matrix, prepared rows, the values that they give)."""
    weights, scales, bias, x = int8_case(*shape)
    matrix = (
        ops.pack(weights, scales, bias)
        if kind == INT8
        else ops.pack(weights.astype(np.float32) * scales[:, None], None, bias)
    )
    ready = ops.prepare(x, kind)
    return matrix, ready, ops.product(matrix, ready).copy()


def reference_best(row, rule):
    row = row.copy()
    if 0 <= rule.unk < len(row):
        row[rule.unk] -= np.float32(rule.unk_penalty)
    allowed = [i for i in range(len(row)) if i not in rule.banned]
    return max(allowed, key=lambda i: (row[i], -i)) if allowed else NONE, row


@SETTINGS
@given(sizes, st.sampled_from([INT8, FLOAT32]), st.data())
def test_best(ops, shape, kind, data):
    rows, _, outputs, _ = shape
    matrix, ready, values = logits_of(ops, kind, shape)
    ids = st.lists(st.integers(-2, outputs + 2), max_size=6)
    rules = [
        Rule(
            data.draw(ids) + ([int(values[r].argmax())] if r % 2 else []),
            data.draw(st.integers(-1, outputs)),
            data.draw(st.sampled_from([0.0, 3.5, -2.0])),
        )
        for r in range(rows)
    ]
    tokens, best, sums = ops.best(matrix, ready, rules, with_sum=True)
    again, _, _ = ops.best(matrix, ready, rules)
    np.testing.assert_array_equal(tokens, again)
    for r, rule in enumerate(rules):
        expected, row = reference_best(values[r], rule)
        assert tokens[r] == expected
        assert best[r] == (row[expected] if expected >= 0 else -np.inf)
    largest = values.max(1).astype(np.float64)
    np.testing.assert_allclose(
        sums, largest + np.log(np.exp(values - largest[:, None]).sum(1)), rtol=1e-5, atol=1e-5
    )
    assert ops.check_guards()


def test_the_lowest_of_equals_is_best(ops):
    for first, second in [(0, 1), (3, 64), (17, 130), (63, 64), (15, 16), (129, 130)]:
        weights = np.zeros((131, 8), np.float32)
        weights[[first, second]] = 1
        matrix, ready = ops.pack(weights), ops.prepare(np.ones((3, 8), np.float32), FLOAT32)
        assert ops.best(matrix, ready)[0].tolist() == [first] * 3
        assert ops.best(matrix, ready, [Rule([first])] * 3)[0].tolist() == [second] * 3
        row = ops.product(matrix, ready)[0]
        assert ops.top(row, 3)[1].tolist() == [
            first,
            second,
            0 if first else 2 if second == 1 else 1,
        ]


def test_everything_banned_and_everything_impossible(ops):
    matrix = ops.pack(np.zeros((5, 3), np.float32), None, np.full(5, -np.inf, np.float32))
    ready = ops.prepare(np.ones((2, 3), np.float32), FLOAT32)
    tokens, values, sums = ops.best(matrix, ready, [Rule([0, 1]), Rule(range(5))], with_sum=True)
    assert tokens.tolist() == [2, NONE]
    assert values.tolist() == [-np.inf] * 2 and sums.tolist() == [-np.inf] * 2


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 15, 16, 63, 64, 129])
def test_values_that_are_no_numbers_are_reported(ops, value, place):
    bias = np.zeros(130, np.float32)
    bias[place] = value
    matrix, ready = (
        ops.pack(np.ones((130, 4), np.float32), None, bias),
        ops.prepare(np.ones((2, 4), np.float32), FLOAT32),
    )
    tokens, values, sums = ops.best(matrix, ready, [Rule([place])] * 2, with_sum=True)
    assert tokens.tolist() == [NAN] * 2 and np.isnan(values).all() and np.isnan(sums).all()
    assert ops.top(bias, 3)[0] == NAN


def test_large_finite_values_are_values(ops):
    bias = np.full(130, 3e38, np.float32)
    bias[100] = 3.2e38
    matrix, ready = (
        ops.pack(np.zeros((130, 4), np.float32), None, bias),
        ops.prepare(np.ones((2, 4), np.float32), FLOAT32),
    )
    assert ops.best(matrix, ready)[0].tolist() == [100] * 2
    assert ops.top(bias, 2)[1].tolist() == [100, 0]


def test_one_bad_row_does_not_spoil_the_others(ops):
    weights, scales, bias, x = int8_case(5, 20, 90, 1)
    x[2, 7] = np.inf
    tokens = ops.best(ops.pack(weights, scales, bias), ops.prepare(x, INT8))[0]
    assert tokens[2] == NAN and (np.delete(tokens, 2) >= 0).all()


def test_best_of_many_rows(ops):
    matrix, ready, values = logits_of(ops, INT8, (211, 24, 130, 9))
    np.testing.assert_array_equal(ops.best(matrix, ready)[0], values.argmax(1))


@SETTINGS
@given(st.integers(1, 300), st.integers(1, 12), st.integers(0, 2**32 - 1), st.data())
def test_top(ops, count, n, seed, data):
    random = np.random.default_rng(seed)
    row = random.integers(-20, 20, count).astype(np.float32)  # many equals
    row[random.random(count) < 0.1] = -np.inf
    rule = Rule(
        data.draw(st.lists(st.integers(-1, count), max_size=5)),
        data.draw(st.integers(-1, count)),
        data.draw(st.sampled_from([0.0, 2.0, -30.0])),
    )
    found, tokens, values = ops.top(row, n, rule)
    after = reference_best(row, rule)[1]
    expected = sorted(
        (i for i in range(count) if i not in rule.banned), key=lambda i: (-after[i], i)
    )[:n]
    assert found == len(expected) and tokens.tolist() == expected
    np.testing.assert_array_equal(values, after[expected])
    assert ops.check_guards()


# ---------------------------------------------------------------------- rows


def test_exponential(ops):
    x = np.concatenate([np.linspace(-87.3, 88.7, 200001), [0.0, -0.0, 1e-30]]).astype(np.float32)
    found = ops.in_place("exponential", x)
    expected = np.exp(x.astype(np.float64))
    assert (np.abs(found - expected) <= 2 * np.spacing(expected.astype(np.float32))).all()
    special = np.array([np.nan, np.inf, -np.inf, 89.0, 1e30, -110.0, -1e30], np.float32)
    np.testing.assert_array_equal(
        ops.in_place("exponential", special),
        np.array([np.nan, np.inf, 0, np.inf, np.inf, 0, 0], np.float32),
    )


@SETTINGS
@given(st.integers(1, 300), st.floats(0.01, 50), st.integers(0, 2**32 - 1), st.floats(0, 0.9))
def test_softmax(ops, count, size, seed, missing):
    random = np.random.default_rng(seed)
    row = (random.standard_normal(count) * size).astype(np.float32)
    row[random.random(count) < missing] = -np.inf
    row[random.integers(count)] = 1.5
    wide = row.astype(np.float64)
    log_sum = wide.max() + np.log(np.exp(wide - wide.max()).sum())
    np.testing.assert_allclose(
        ops.in_place("softmax", row), np.exp(wide - log_sum), rtol=2e-5, atol=1e-30
    )
    assert ops.logsumexp(row) == pytest.approx(log_sum, rel=1e-5, abs=1e-5)
    assert ops.check_guards()


@pytest.mark.parametrize("count", [1, 7, 16, 17, 40])
def test_softmax_of_what_is_no_number(ops, count):
    nothing = np.full(count, -np.inf, np.float32)
    assert np.isnan(ops.in_place("softmax", nothing)).all()
    assert ops.logsumexp(nothing) == -np.inf
    for place in {0, count // 2, count - 1}:
        row = np.linspace(-1, 1, count).astype(np.float32)
        row[place] = np.nan
        assert np.isnan(ops.in_place("softmax", row)).all()
        assert np.isnan(ops.logsumexp(row))
        row[place] = np.inf
        assert ops.logsumexp(row) == np.inf


@SETTINGS
@given(st.integers(1, 20), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_layer_norm(ops, rows, width, seed):
    random = np.random.default_rng(seed)
    x = (random.standard_normal((rows, width)) * 5 + 100).astype(np.float32)
    gain, bias = (random.standard_normal(width).astype(np.float32) for _ in range(2))
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(
        wide.var(1, keepdims=True) + 1e-5
    ) * gain + bias
    found = ops.norm(x, gain, bias, 1e-5)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-3)
    # In place, where rows are shorter than their distance.
    wider = np.full((rows, width + 3), 7, np.float32)
    wider[:, :width] = x
    np.testing.assert_array_equal(
        ops.norm(wider[:, :width], gain, bias, 1e-5, out=wider[:, :width]), found
    )
    assert (wider[:, width:] == 7).all() and ops.check_guards()


def test_layer_norm_shows_not_a_number(ops):
    x = np.ones((2, 40), np.float32)
    x[1, 39] = np.nan
    found = ops.norm(x, np.ones(40, np.float32), np.zeros(40, np.float32), 1e-5)
    assert np.isnan(found[1]).all() and not np.isnan(found[0]).any()


# ---------------------------------------------------------------------- attention


def reference_attention(queries, keys, values, heads, seen, table=None, distances=None):
    """seen: bool ``[rows, T]``; distances: rows of the table ``[rows, T]``."""
    rows, dimension = queries.shape
    width = dimension // heads
    q, k, v = (x.astype(np.float64).reshape(len(x), heads, width) for x in (queries, keys, values))
    scores = np.einsum("rhc,thc->hrt", q, k)
    if table is not None:
        scores += np.einsum("rhc,rtc->hrt", q, table.astype(np.float64)[distances])
    scores = np.where(seen, scores / np.sqrt(width), -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = np.nan_to_num(weights / weights.sum(-1, keepdims=True))
    return np.einsum("hrt,thc->rhc", weights, v).reshape(rows, dimension), weights.mean(0)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9), st.sampled_from([1, 2, 15, 16, 17, 33, 100, 300]), st.integers(1, 3),
    st.sampled_from([1, 3, 4, 16, 20, 32, 64, 70, 130]),
    st.sampled_from(["all", "causal", "mask", "one mask", "both"]), st.integers(0, 20),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_attention(ops, rows, tokens, heads, width, kind, window, seed):
    random = np.random.default_rng(seed)
    queries, keys, values = (
        random.standard_normal((n, heads * width)).astype(np.float32)
        for n in (rows, tokens, tokens)
    )
    cache = ops.cache(heads, width, tokens)
    step = (7, 16, tokens)[seed % 3]
    for at in range(0, tokens, step):
        ops.put(cache, at, keys[at : at + step], values[at : at + step])
    seen = np.ones((rows, tokens), bool)
    call = {}
    if kind in ("causal", "both"):
        call["visible"] = random.integers(-1, tokens + 2, rows).astype(np.int32)
        seen &= np.arange(tokens) < call["visible"][:, None]
    if kind in ("mask", "both"):
        call["mask"] = (random.random((rows, tokens)) < 0.7).astype(np.uint8)
        seen &= call["mask"] > 0
    if kind == "one mask":
        call["mask"] = (random.random(tokens) < 0.7).astype(np.uint8)
        seen &= call["mask"] > 0
    table = distances = None
    if window:
        table = random.standard_normal((2 * window + 1, width)).astype(np.float32)
        here, there = (
            random.integers(0, 40, rows).astype(np.int32),
            np.sort(random.integers(0, 40, tokens)).astype(np.int32),
        )
        distances = np.clip(there[None] - here[:, None], -window, window) + window
        call.update(relative=ops.relative(table), query_positions=here, key_positions=there)
    expected, expected_weights = reference_attention(
        queries, keys, values, heads, seen, table, distances
    )
    found, weights = ops.attend(cache, tokens, queries, with_weights=True, **call)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(weights, expected_weights, rtol=1e-4, atol=1e-6)
    # Each query on its own gives the same bits, and the result may replace the queries.
    for r in range(rows):
        part = {
            name: (
                value[[r]]
                if name in ("visible", "query_positions") or (name == "mask" and value.ndim == 2)
                else value
            )
            for name, value in call.items()
        }
        own = queries[[r]].copy()
        ops.attend(cache, tokens, own, out=own, **part)
        np.testing.assert_array_equal(own[0], found[r])
    together = queries.copy()
    ops.attend(cache, tokens, together, out=together, **call)
    np.testing.assert_array_equal(together, found)
    head = heads - 1
    alone = ops.scores(cache, head, np.ascontiguousarray(queries[0, head * width :]), tokens)
    np.testing.assert_allclose(
        alone,
        keys[:, head * width :].astype(np.float64) @ queries[0, head * width :] / np.sqrt(width),
        rtol=1e-4,
        atol=1e-4,
    )
    assert ops.check_guards()


def test_hidden_tokens_may_hold_anything(ops):
    random = np.random.default_rng(2)
    queries, keys, values = (
        random.standard_normal((n, 24)).astype(np.float32) for n in (2, 21, 21)
    )
    expected = None
    for junk in (0, np.nan, np.inf):
        cache = ops.cache(2, 12, 21)
        cache.keep[:] = 0xFF  # NaN behind the last token
        keys[[3, 20]] = values[[3, 20]] = junk
        ops.put(cache, 0, keys, values)
        mask = np.ones(21, np.uint8)
        mask[[3, 20]] = 0
        found = ops.attend(cache, 21, queries, mask=mask)[0].copy()
        fewer = ops.attend(cache, 3, queries)[0]
        assert np.isfinite(found).all() and np.isfinite(fewer).all()
        expected = found if expected is None else expected
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("step", (1, 3, 16))
def test_squares_of_keys_are_initialised_when_they_are_begun(ops, step):
    """They are multiplied as wholes, and what is left in memory may be slow numbers."""
    for tokens in (1, 6, 16, 19):
        cache = ops.cache(1, 16, tokens)
        cache.keep[:] = 0xFF  # NaN
        for at in range(0, tokens, step):
            rows = np.ones((min(step, tokens - at), 16), np.float32)
            ops.put(cache, at, rows, rows)
        blocks = cache.keep.view(np.float32)[: -(-tokens // 16) * 512].reshape(-1, 2, 4, 64)
        squares = blocks[:, 0].reshape(-1, 64)[: -(-tokens // 4)]
        assert np.isfinite(squares).all() and squares.sum() >= 16 * tokens


def test_not_a_number_in_a_query_stays_visible(ops):
    queries = np.ones((2, 16), np.float32)
    queries[1, 5] = np.nan
    cache = ops.cache(1, 16, 4)
    ops.put(cache, 0, np.ones((4, 16), np.float32), np.ones((4, 16), np.float32))
    found = ops.attend(cache, 4, queries)[0]
    assert np.isnan(found[1]).all() and np.isfinite(found[0]).all()
