"""The repair `attention-kernels`."""

import os
import subprocess
import sys

import pytest

ENABLED = "import fairseq.modules, torch; print(torch.backends.cuda.cudnn_sdp_enabled())"


@pytest.mark.parametrize("disabled, expected", [("", "False"), ("attention-kernels", "True")])
def test_cudnn_computes_no_attention(disabled, expected):
    found = subprocess.run(
        [sys.executable, "-c", ENABLED], capture_output=True, text=True, check=True,
        env={**os.environ, "FAIRSEQ_HRT_DISABLE_REPAIRS": disabled},
    )  # fmt: skip
    assert found.stdout.strip() == expected
