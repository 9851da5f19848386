"""Encoder layers without their unused copies of parameters."""

import os
import tempfile

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase

from fairseq_hrt.compat.encoder_layer import COPIES

USED = 4 * (8 * 8 + 8) + (8 * 16 + 16) + (16 * 8 + 8) + 2 * (8 + 8)


def layer(normalize_before: bool = False) -> TransformerEncoderLayerBase:
    config = TransformerConfig()
    config.encoder.embed_dim = 8
    config.encoder.ffn_embed_dim = 16
    config.encoder.attention_heads = 2
    config.encoder.normalize_before = normalize_before
    return TransformerEncoderLayerBase(config)


def stock_state(own: TransformerEncoderLayerBase) -> dict:
    """The state that stock fairseq saves for the same layer."""
    state = own.state_dict()
    state.update({name: torch.ones(3) for name in COPIES})
    return state


@pytest.mark.parametrize("normalize_before", [False, True])
def test_parameters_are_those_that_are_used(normalize_before):
    own = layer(normalize_before)
    assert sum(parameter.numel() for parameter in own.parameters()) == USED
    assert not set(COPIES) & set(own.state_dict())


def test_every_parameter_gets_a_gradient():
    own = layer()
    own(torch.randn(5, 3, 8), None).square().sum().backward()
    without = [name for name, parameter in own.named_parameters() if parameter.grad is None]
    assert without == []


def test_stock_checkpoint_loads_strictly():
    source, target = layer(), layer()
    target.load_state_dict(stock_state(source), strict=True)
    for name, value in source.state_dict().items():
        assert torch.equal(target.state_dict()[name], value)


def test_stock_checkpoint_loads_strictly_inside_a_larger_module():
    source, target = (
        torch.nn.ModuleList([layer(), layer()]),
        torch.nn.ModuleList([layer(), layer()]),
    )
    state = source.state_dict()
    state.update({f"1.{name}": torch.ones(3) for name in COPIES})
    target.load_state_dict(state, strict=True)
    assert torch.equal(target[1].fc1.weight, source[1].fc1.weight)


def test_missing_and_unknown_keys_are_still_reported():
    own = layer()
    state = stock_state(own)
    del state["fc1.weight"]
    state["surprise"] = torch.ones(1)
    with pytest.raises(RuntimeError, match=r"(?s)fc1\.weight.*surprise|surprise.*fc1\.weight"):
        own.load_state_dict(state, strict=True)


def test_loaded_post_norm_layer_evaluates_as_before():
    own = layer()
    own.eval()
    x = torch.randn(5, 3, 8)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True
    expected = own(x, padding)
    fresh = layer()
    fresh.load_state_dict(own.state_dict())
    fresh.eval()
    with torch.no_grad():
        torch.testing.assert_close(fresh(x, padding), expected)


def test_default_distributed_backend_trains():
    """DistributedDataParallel stops at the second update if a parameter got no gradient."""
    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{os.path.join(folder, 'store')}", rank=0, world_size=1
        )
        try:
            model = torch.nn.parallel.DistributedDataParallel(layer())
            for _ in range(3):
                model(torch.randn(5, 3, 8), None).sum().backward()
        finally:
            torch.distributed.destroy_process_group()
