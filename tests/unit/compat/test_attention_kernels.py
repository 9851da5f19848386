"""The repair `attention-kernels`: cuDNN computes no attention where there is CUDA."""

import pytest
import torch

from fairseq_hrt.compat.attention_kernels import REPAIR


@pytest.fixture
def enabled(monkeypatch):
    """PyTorch's switch, as the rest of the process does not see it."""
    state = {"enabled": True}
    monkeypatch.setattr(torch.backends.cuda, "cudnn_sdp_enabled", lambda: state["enabled"])
    monkeypatch.setattr(
        torch.backends.cuda, "enable_cudnn_sdp", lambda value: state.update(enabled=value)
    )
    return state


def test_cudnn_computes_no_attention(enabled, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert "plans its attention anew" in REPAIR.reason()
    REPAIR.apply(None)
    assert enabled == {"enabled": False} and REPAIR.reason() is None


def test_builds_for_cpus_need_no_repair(enabled, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    assert REPAIR.reason() is None


def test_fairseqs_attention_asks_for_it():
    assert REPAIR.modules == ("fairseq.modules.multihead_attention",)


def test_pytorch_has_the_switch():
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        for value in (False, True):
            torch.backends.cuda.enable_cudnn_sdp(value)
            assert torch.backends.cuda.cudnn_sdp_enabled() is value
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
