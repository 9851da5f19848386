"""A linear layer in one kernel against PyTorch's functions, and these against the engine's."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from fairseq.modules import TransformerDecoderLayer  # noqa: F401  (registers fairseq's modules)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fairseq_hrt.engine.fused import fused_linear, support
from fairseq_hrt.engine.fused.linear import _split, linear_reference
from fairseq_hrt.engine.fused.support import constant_parameters
from fairseq_hrt.engine.graphs import GraphStore
from fairseq_hrt.engine.layers import PackedNorm
from fairseq_hrt.engine.linear import PackedLinear

TOLERANCE = {torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}
TYPES = st.sampled_from([torch.float32, torch.float16])


def make(rows, width, outputs, dtype, device, *, bias, norm, activation, residual):
    """Arguments of ``fused_linear``; ``residual``: 0 none, 1 plain, 2 normalised."""

    def normal(*shape):
        return torch.randn(shape).to(device, dtype)

    def norm_of(size):
        return (1 + normal(size) / 4, normal(size) / 4, 1e-5)

    return (
        normal(rows, width),
        normal(outputs, width) / width**0.5,
        normal(outputs) if bias else None,
    ), dict(
        norm=norm_of(width) if norm else None,
        activation=activation,
        residual=normal(rows, outputs) if residual else None,
        residual_norm=norm_of(outputs) if residual == 2 else None,
    )


def exact(value):
    """The same numbers in float64."""
    if isinstance(value, torch.Tensor):
        return value.double()
    return tuple(map(exact, value)) if isinstance(value, tuple) else value


def check(args, options):
    found = fused_linear(*args, **options)
    expected = linear_reference(
        *map(exact, args), **{name: exact(value) for name, value in options.items()}
    )
    tolerance = TOLERANCE[args[0].dtype]
    assert found.dtype == args[0].dtype
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    return found


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 16),
    width=st.integers(1, 150),
    outputs=st.integers(1, 40),
    dtype=TYPES,
    bias=st.booleans(),
    norm=st.booleans(),
    activation=st.sampled_from([None, "relu", "gelu"]),
    residual=st.integers(0, 2),
)
def test_any_shape(device, rows, width, outputs, dtype, bias, norm, activation, residual):
    options = dict(bias=bias, norm=norm, activation=activation, residual=residual)
    check(*make(rows, width, outputs, dtype, device, **options))


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("norm", [False, True])
def test_more_than_one_block_of_the_inner_dimension(device, rows, dtype, norm):
    """And more than one of the normalised residual."""
    width = 4096 if dtype == torch.float16 else 700
    assert rows == 1 or not _split(width, dtype.itemsize, 227 * 1024)[2]
    options = dict(bias=True, norm=norm, activation=None, residual=2)
    check(*make(rows, width, 17, dtype, device, **options))
    if norm:
        check(*make(rows, 20, 530, dtype, device, **options))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("rows", [1, 2, 8, 16])
@pytest.mark.parametrize("width, outputs", [(512, 512), (512, 2048), (2048, 512), (1024, 4096)])
def test_sizes_of_real_models(device, dtype, rows, width, outputs):
    if device.type != "cuda":
        pytest.skip("too large for the interpreter")
    for residual in (0, 1, 2):
        options = dict(bias=True, norm=True, activation="relu", residual=residual)
        check(*make(rows, width, outputs, dtype, device, **options))
        check(*make(rows, width, outputs, dtype, device, **{**options, "norm": False}))


@pytest.mark.gpu
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("rows", [1, 4, 8])
def test_captured(device, rows, constant):
    """A graph that is replayed sees new numbers at the same addresses, and each layer of a chain
    those of the layer before it, even if its kernel starts early."""
    if device.type != "cuda":
        pytest.skip("graphs need a GPU")
    chain = [
        make(rows, 512, 512, torch.float16, device, bias=True, norm=True, activation=None,
             residual=1)
        for _ in range(20)
    ]  # fmt: skip
    start = chain[0][0][0]

    def run():
        x = start
        for (_, weight, bias), options in chain:
            x = fused_linear(x, weight, bias, **options)
        return x

    with constant_parameters() if constant else nullcontext():
        run()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = run()
        for _ in range(20):
            start.copy_(torch.randn_like(start))
            graph.replay()
            assert torch.equal(out, run())


def test_kernels_start_early_only_with_constant_parameters(monkeypatch):
    on_gpu = SimpleNamespace(is_cuda=True, device=None)
    monkeypatch.setattr(support, "_starts_early", lambda device: True)
    assert support.early(on_gpu) == {"EARLY": False}
    with constant_parameters():
        assert support.early(on_gpu) == {"EARLY": True, "launch_pdl": True}
        assert support.early(torch.zeros(1)) == {"EARLY": False}
    with pytest.raises(KeyError), constant_parameters():
        raise KeyError
    assert support.early(on_gpu) == {"EARLY": False}


@pytest.mark.gpu
def test_recordings_have_constant_parameters(device):
    """While they are recorded, and before that, when their kernels are compiled."""
    if device.type != "cuda":
        pytest.skip("graphs need a GPU")
    seen = []

    def function():
        seen.append(support.early(x)["EARLY"])
        return x + 1

    x = torch.zeros(1, device=device)
    GraphStore(device).record(function)
    assert len(set(seen)) == 1
    assert seen[0] == (torch.cuda.get_device_capability(device) >= (9, 0))
    assert not support.early(x)["EARLY"]


@pytest.mark.parametrize("rows", [1, 5])
def test_rows_of_a_wider_tensor(device, rows):
    args, options = make(
        rows, 32, 24, torch.float32, device, bias=True, norm=True, activation=None, residual=1
    )
    wide = torch.randn(rows, 3, 32, device=device)
    wide[:, 1] = args[0]
    kept = torch.randn(rows, 2, 24, device=device)
    kept[:, 0] = options["residual"]
    options["residual"] = kept[:, 0]
    check((wide[:, 1], *args[1:]), options)


@pytest.mark.parametrize("rows", [1, 5])
def test_a_nan_is_not_lost(device, rows):
    args, options = make(
        rows, 32, 24, torch.float32, device, bias=True, norm=True, activation="relu", residual=0
    )
    args[0][-1, 5] = float("nan")
    found = fused_linear(*args, **options)
    assert found[-1].isnan().all() and not found[:-1].isnan().any()


@pytest.mark.parametrize("before", [True, False])
def test_reference_is_a_feed_forward_block_of_the_engine(before):
    torch.manual_seed(1)
    norm, first, second = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)
    nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    packed = PackedNorm(norm)
    parts = (norm.weight, norm.bias, norm.eps)
    x = torch.randn(3, 8)
    inner, outer = (PackedLinear(part.weight, part.bias, reorder=False) for part in (first, second))

    @torch.no_grad()
    def blocks(asked):
        hidden = fused_linear(
            x, first.weight, first.bias, norm=parts if asked else None, activation="relu"
        )
        return fused_linear(hidden, second.weight, second.bias, residual=x)

    with torch.no_grad():
        if before:
            expected = x + outer(torch.relu(inner(packed(x))))
            torch.testing.assert_close(blocks(True), expected)
        else:
            # With post-norm the row is normalised where it is used: as input and as residual.
            expected = packed(x) + outer(torch.relu(inner(packed(x))))
            hidden = fused_linear(x, first.weight, first.bias, norm=parts, activation="relu")
            found = fused_linear(
                hidden, second.weight, second.bias, residual=x, residual_norm=parts
            )
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("memory", [227 * 1024, 163 * 1024, 99 * 1024])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_operands_fit_shared_memory(memory, itemsize):
    for width in (1, 16, 100, 512, 1000, 1024, 2048, 3000, 4096):
        warps, block, held = _split(width, itemsize, memory)
        assert warps * block * 32 * itemsize * (1 if held else 2) <= memory
        assert held == (warps * block >= width) and block >= 16


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(activation="tanh"), "unknown activation 'tanh'"),
        (dict(residual=torch.zeros(1, 3)), r"residual is \(1, 3\); give \(2, 4\)"),
        (
            dict(residual_norm=(torch.ones(4), torch.ones(4), 1e-5)),
            "residual_norm without a residual",
        ),
    ],
)
def test_bad_input(changes, message):
    with pytest.raises(ValueError, match=message):
        fused_linear(torch.zeros(2, 8), torch.zeros(4, 8), **changes)


def test_bad_weights():
    with pytest.raises(ValueError, match="does not fit weight"):
        fused_linear(torch.zeros(2, 8), torch.zeros(4, 7))
    with pytest.raises(ValueError, match="is not contiguous"):
        fused_linear(torch.zeros(2, 8), torch.zeros(8, 4).t())
