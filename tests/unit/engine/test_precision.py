"""What half precision must not compute, and the average of an ensemble."""

import pytest
import torch

from fairseq_hrt.engine.precision import log_mean, log_softmax


@pytest.mark.parametrize("kept, dtype",
                         [(torch.float16, torch.float32), (torch.bfloat16, torch.float32),
                          (torch.float32, torch.float32),
                          (torch.float64, torch.float64)])  # fmt: skip
def test_log_probabilities_are_at_least_single(kept, dtype):
    logits = torch.randn(3, 7).to(kept)
    found = log_softmax(logits)
    assert found.dtype == dtype
    torch.testing.assert_close(found.exp(), logits.double().softmax(1).to(dtype))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_mean_is_that_of_probabilities(count):
    parts = [torch.randn(4, 5, dtype=torch.float64).log_softmax(1) for _ in range(count)]
    torch.testing.assert_close(log_mean(parts).exp(), torch.stack(parts).exp().mean(0))


def test_there_is_something_to_average():
    with pytest.raises(ValueError, match="at least one model"):
        log_mean([])
