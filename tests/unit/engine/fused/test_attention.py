"""Attention to a cache and to the source against references, and these against the engine's."""

from argparse import Namespace

import pytest
import torch
from fairseq.modules import MultiheadAttention
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine.fused import attention_block, cross_attention
from fairseq_hrt.engine.fused.attention import block_reference, cross_reference
from fairseq_hrt.engine.layers import PackedCrossAttention, PackedSelfAttention
from fairseq_hrt.engine.relative_positions import relative_index

TOLERANCE = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
TYPES = st.sampled_from([torch.float32, torch.float16])


def normal(*shape, dtype=torch.float32, device="cpu"):
    return torch.randn(shape).to(device, dtype)


def compare_block(device, rows, count, heads, width, capacity, places, dtype, **options):
    """A kernel and the reference in float64 from the same cache; slots that hold no token yet hold
    NaN."""
    qkv = normal(rows, count, 3 * heads * width, dtype=dtype, device=device)
    position = torch.tensor(places, device=device)
    cache = normal(2, rows * heads, capacity, width, dtype=dtype, device=device)
    unused = torch.arange(capacity, device=device) >= position.view(-1, 1)  # [1 or R, C]
    unused = unused.expand(rows, -1).repeat_interleave(heads, 0)  # [R * H, C]
    clean = cache.double().masked_fill(unused.unsqueeze(2), 0.0)
    cache = cache.masked_fill(unused.unsqueeze(2), float("nan"))
    common = dict(heads=heads, scale=width**-0.5, **options)
    found = attention_block(qkv, cache[0], cache[1], position, **common)
    if options.get("relative") is not None:
        common["relative"] = options["relative"].double()
    expected = block_reference(qkv.double(), clean[0], clean[1], position, **common)
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    # The cache: new tokens in their slots, the rest as it was.
    ends = position.view(-1, 1) + count
    used = torch.arange(capacity, device=device) < ends  # [1 or R, C]
    used = used.expand(rows, -1).repeat_interleave(heads, 0)
    assert torch.equal(cache[:, used].double(), clean[:, used])
    assert cache[:, ~used].isnan().all()


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_block(device, data):
    draw = data.draw
    rows, heads = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    count, width = draw(st.integers(1, 8)), draw(st.integers(1, 20))
    capacity = draw(st.integers(count, 90))
    dtype = draw(TYPES)
    places = draw(
        st.lists(
            st.integers(0, capacity - count),
            min_size=(own := draw(st.sampled_from([1, rows]))),
            max_size=own,
        )
    )
    options = dict(causal=draw(st.booleans()))
    if draw(st.booleans()):
        window = draw(st.integers(0, 4))
        options["relative"] = normal(2 * window + 1, width, dtype=dtype, device=device)
        options["stride"] = draw(st.integers(1, 3))
    if draw(st.booleans()):
        visible = torch.rand(count, capacity, device=device) < 0.6
        for number in range(count):
            for place in places:
                # A token sees itself.
                visible[number, place + number] = True
        options["visible"] = visible
    compare_block(device, rows, count, heads, width, capacity, places, dtype, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("count", [1, 3])
def test_more_than_one_block_of_slots(device, count, dtype):
    compare_block(device, 1, count, 2, 16, 300, [290], dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_sizes_of_real_models(device, dtype, width, count):
    if device.type != "cuda":
        pytest.skip("too large for the interpreter")
    for rows, capacity, places in ((1, 64, [40]), (8, 256, [0, 3, 17, 31, 32, 100, 128, 240])):
        for relative in (None, normal(33, width, dtype=dtype, device=device)):
            compare_block(device, rows, count, 8, width, capacity, places, dtype, relative=relative)


@pytest.mark.parametrize("count", [1, 2])
def test_what_lies_behind_the_capacity_is_not_written(device, count):
    """A step that ran past the end touches no other row."""
    # Whatever is written too far lands in the second half.
    whole = torch.zeros(2, 8, 4, 8, device=device)
    cache = whole[:, :4]
    qkv = normal(2, count, 3 * 16, device=device)
    position = torch.tensor([4, 9], device=device)
    found = attention_block(qkv, *cache, position, heads=2, scale=1.0)
    assert not whole.any() and found.isfinite().all()


@pytest.mark.gpu
def test_captured(device):
    """The position of a replayed graph is read from the device."""
    if device.type != "cuda":
        pytest.skip("graphs need a GPU")
    cache = torch.zeros(2, 8, 64, 64, device=device, dtype=torch.float16)
    other = cache.clone()
    qkv = normal(1, 1, 3 * 512, dtype=torch.float16, device=device)
    position = torch.zeros(1, dtype=torch.long, device=device)
    attention_block(qkv, *cache, position, heads=8, scale=0.125)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention_block(qkv, *cache, position, heads=8, scale=0.125)
        position.add_(1)
    for number in range(40):
        qkv.normal_()
        graph.replay()
        slot = torch.tensor([number], device=device)
        expected = block_reference(qkv, *other, slot, heads=8, scale=0.125)
        torch.testing.assert_close(out, expected, rtol=5e-3, atol=5e-3)


def make_engine(relative=None, heads=2, width=8):
    attention = MultiheadAttention(width, heads, self_attention=True).eval()
    for part in (attention.q_proj, attention.k_proj, attention.v_proj):
        torch.nn.init.normal_(part.bias)
    if relative is not None:
        attention.relative_keys = torch.nn.Parameter(relative)
    return PackedSelfAttention(attention, reorder=False)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("related", [True, False])
def test_reference_is_the_self_attention_of_the_engine(causal, related):
    """Tokens in blocks of 1, 3 and 2, against all of them at once with a mask."""
    rows, total, stride = 2, 6, 2
    packed = make_engine(torch.randn(5, 4) if related else None)
    x = torch.randn(rows, total, 8)
    ends = torch.arange(1, total + 1) if causal else torch.tensor([1, 4, 4, 4, 6, 6])
    bias = torch.zeros(1, 1, total, total)
    bias.masked_fill_(torch.arange(total) >= ends[:, None], float("-inf"))
    with torch.no_grad():
        if related:
            queries, _ = packed.project(x)
            places = stride * torch.arange(total)[None]
            bias = bias + packed.relative_bias(queries, relative_index(places, places, 2))
        expected = packed(x, bias)
        cache, parts = torch.zeros(2, rows * 2, 9, 4), []
        for start, end in ((0, 1), (1, 4), (4, 6)):
            mixed = attention_block(
                packed.all(x[:, start:end]), *cache, torch.tensor([start]), heads=2,
                scale=packed.scale, causal=causal, relative=packed.relative_keys, stride=stride,
            )  # fmt: skip
            parts.append(packed.output(mixed))
    torch.testing.assert_close(torch.cat(parts, 1), expected)


def compare_cross(device, batch, beams, count, heads, width, source, dtype, *, padded):
    queries = normal(batch * beams, count * heads * width, dtype=dtype, device=device)
    keys, values = normal(2, batch * heads, source, width, dtype=dtype, device=device)
    lengths = torch.randint(1, source + 1, (batch,)).to(device)
    bias = torch.zeros(batch, source, dtype=dtype, device=device).masked_fill(
        torch.arange(source, device=device) >= lengths[:, None], float("-inf")
    )
    options = dict(heads=heads, scale=width**-0.5, beams=beams)
    padding = dict(bias=bias) if padded else {}
    found = cross_attention(queries, keys, values, **options, **padding)
    padding = {} if not padded else dict(bias=bias.double())
    expected = cross_reference(
        queries.double(), keys.double(), values.double(), **options, **padding
    )
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@settings(max_examples=30, deadline=None)
@given(
    batch=st.integers(1, 3),
    beams=st.integers(1, 3),
    count=st.integers(1, 3),
    heads=st.integers(1, 2),
    width=st.integers(1, 20),
    source=st.integers(1, 150),
    dtype=TYPES,
    padded=st.booleans(),
)
def test_any_source(device, batch, beams, count, heads, width, source, dtype, padded):
    compare_cross(device, batch, beams, count, heads, width, source, dtype, padded=padded)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("width", [64, 128])
def test_sources_of_real_models(device, dtype, padded, width):
    if device.type != "cuda":
        pytest.skip("too large for the interpreter")
    for batch, beams, count, source in ((1, 1, 1, 26), (8, 1, 2, 128), (2, 5, 1, 300)):
        compare_cross(device, batch, beams, count, 8, width, source, dtype, padded=padded)


def test_a_sentence_without_tokens_gives_zeros(device):
    queries, keys = normal(2, 8, device=device), normal(4, 5, 4, device=device)
    bias = torch.tensor([[float("-inf")] * 5, [0.0] * 5], device=device)
    found = cross_attention(queries, keys, keys, heads=2, scale=1.0, bias=bias)
    assert not found[0].any() and found[1].any() and found.isfinite().all()


def test_a_nan_of_the_source_is_not_lost(device):
    keys = normal(2, 5, 4, device=device)
    keys[0, 3, 1] = float("nan")
    found = cross_attention(normal(1, 8, device=device), keys, keys, heads=2, scale=1.0)
    assert found[0, :4].isnan().all() and found[0, 4:].isfinite().all()


def test_reference_is_the_cross_attention_of_the_engine():
    attention = MultiheadAttention(
        8, 2, kdim=8, vdim=8, encoder_decoder_attention=True
    ).eval()  # fmt: skip
    packed = PackedCrossAttention(attention, reorder=False)
    x = torch.randn(6, 2, 8)  # two sentences, three beams, two tokens each
    bias = torch.zeros(2, 1, 1, 5)
    bias[1, ..., 3:] = float("-inf")
    with torch.no_grad():
        keys, values = (part.flatten(0, 1) for part in packed.remember(torch.randn(2, 5, 8)))
        expected = packed(x, keys, values, bias)
        mixed = cross_attention(
            packed.query(x), keys, values, heads=2, scale=packed.scale, beams=3, bias=bias
        )
        torch.testing.assert_close(packed.output(mixed), expected)


GOOD = Namespace(qkv=(2, 1, 24), cache=(4, 5, 4), position=[0])


@pytest.mark.parametrize(
    "changes, options, message",
    [
        (dict(qkv=(2, 1, 20)), {}, "does not fit 2 heads of 4 numbers"),
        (dict(cache=(3, 5, 4)), {}, r"give \[4, C, 4\] twice"),
        (dict(position=[0, 1, 2]), {}, r"give a LongTensor \[1\] or \[2\]"),
        ({}, dict(relative=torch.zeros(4, 4)), r"give \[2 \* w \+ 1, 4\]"),
        ({}, dict(visible=torch.ones(1, 4, dtype=torch.bool)), r"give a BoolTensor \(1, 5\)"),
    ],
)
def test_bad_input(changes, options, message):
    given = Namespace(**{**vars(GOOD), **changes})
    cache = torch.zeros(given.cache)
    with pytest.raises(ValueError, match=message):
        attention_block(
            torch.zeros(given.qkv), cache, cache.clone(), torch.tensor(given.position), heads=2,
            scale=1.0, **options,
        )  # fmt: skip


def test_bad_sources():
    queries, keys = torch.zeros(2, 8), torch.zeros(4, 5, 4)
    with pytest.raises(ValueError, match="do not fit 2 sentences with 3 rows"):
        cross_attention(queries, keys, keys, heads=2, scale=1.0, beams=3)
    with pytest.raises(ValueError, match="keys with strides"):
        gaps = keys.transpose(0, 1).contiguous().transpose(0, 1)
        cross_attention(queries, gaps, keys, heads=2, scale=1.0)
