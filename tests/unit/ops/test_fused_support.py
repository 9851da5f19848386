"""Where Triton's kernels run."""

import pytest
import torch

from fairseq_hrt.ops import fused


@pytest.mark.parametrize(
    "capability, told", [((7, 5), "capability 7.5, they need 8.0"), (None, "")]
)
def test_where_kernels_do_not_run_the_log_tells_why(monkeypatch, caplog, capability, told):
    def get(index):
        if capability is None:
            raise AssertionError("no GPU\nand a traceback")
        return capability

    monkeypatch.setattr(torch.cuda, "get_device_capability", get)
    fused._runs.cache_clear()
    try:
        with caplog.at_level("WARNING"):
            assert [fused.available(torch.device("cuda", 0)) for _ in range(2)] == [False, False]
    finally:
        fused._runs.cache_clear()
    (line,) = caplog.messages
    assert "PyTorch's slower ones are used" in line and line.endswith(told or "no GPU")
