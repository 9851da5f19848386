"""Products with weights in another order give what the plain ones give, and are used only where
they may be."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_hrt.engine.linear import HUGE, LARGE, MUCH_WORK, PackedLinear, has_blocked_products
from fairseq_hrt.engine.transformer import TransformerEngine

needs_blocked = pytest.mark.skipif(
    not has_blocked_products(), reason="this PyTorch has no oneDNN products"
)


def linear(outputs, inputs=64, reorder=True, bias=True, dtype=torch.float32):
    torch.manual_seed(0)
    weight = torch.randn(outputs, inputs, dtype=dtype)
    return PackedLinear(
        weight, torch.randn(outputs, dtype=dtype) if bias else None, reorder=reorder
    )


@pytest.mark.parametrize("outputs", [100, LARGE // 64, HUGE // 64])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 5), (7,)])
@torch.no_grad()
def test_equals_the_plain_product(outputs, bias, shape):
    packed = linear(outputs, bias=bias)
    x = torch.randn(*shape, 64)
    torch.testing.assert_close(
        packed(x), F.linear(x, packed.weight, packed.bias), rtol=1e-4, atol=1e-4
    )
    # A slice, as the engine hands over the last column of its features.
    x = torch.randn(4, 3, 64)[:, -1]
    torch.testing.assert_close(
        packed(x), F.linear(x, packed.weight, packed.bias), rtol=1e-4, atol=1e-4
    )


@needs_blocked
@pytest.mark.parametrize(
    "outputs, inputs, rows, copies",
    [
        (100, 64, 9, ""), (LARGE // 64, 64, 1, "turned"),
        (LARGE // 64, 64, MUCH_WORK // LARGE - 1, "turned"),
        (LARGE // 64, 64, MUCH_WORK // LARGE, "blocked"), (64, LARGE // 64, 1, ""),
        (64, LARGE // 64, 32, "blocked"), (HUGE // 64, 64, 1, "blocked"),
    ],
)  # fmt: skip
def test_only_large_weights_are_copied(outputs, inputs, rows, copies):
    packed = linear(outputs, inputs)
    x = torch.randn(1, rows, inputs)
    torch.testing.assert_close(
        packed(x), F.linear(x, packed.weight, packed.bias), rtol=1e-4, atol=1e-3
    )
    made = [name for name in ("turned", "blocked") if getattr(packed, f"_{name}") is not None]
    assert " ".join(made) == copies


@pytest.mark.parametrize(
    "options", [dict(reorder=False), dict(dtype=torch.float64), dict(dtype=torch.bfloat16)]
)
@torch.no_grad()
def test_changing_or_other_weights_are_used_as_they_are(options):
    packed = linear(HUGE // 64, **options)
    x = torch.ones(2, 64, dtype=packed.weight.dtype)
    packed(x)
    packed.weight.add_(1)
    torch.testing.assert_close(packed(x), F.linear(x, packed.weight, packed.bias))


@needs_blocked
@torch.no_grad()
def test_the_engine_copies_only_static_weights(tiny, monkeypatch):
    for limit in ("LARGE", "HUGE"):
        monkeypatch.setattr(f"fairseq_hrt.engine.linear.{limit}", 1)
    model, sample = tiny.model().float(), tiny.sample([4, 6])
    tokens = torch.tensor([[2, 5, 6], [2, 7, 8]])
    logits = {}
    for static in (False, True):
        engine = TransformerEngine(model, static_weights=static)
        state = engine.start(engine.encode(sample["net_input"]))
        logits[static] = engine.logits(engine.step(state, tokens, torch.arange(3)))
        assert (engine.output._blocked is not None) == static
        assert (engine.layers[0].attention.all._blocked is not None) == static
    torch.testing.assert_close(logits[True], logits[False], rtol=1e-4, atol=1e-4)
