"""Counting the calls of stock fairseq models."""

import torch
from torch import nn

from fairseq_hrt.evaluation.systems.fairseq_system import count_calls


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(2, 2)
        self.decoder = nn.Linear(2, 2)


def test_direct_calls_of_forward_are_counted():
    models = [Model(), Model()]
    counters = count_calls(models)
    x = torch.ones(1, 2)
    expected = nn.functional.linear(x, models[0].decoder.weight, models[0].decoder.bias)
    # fairseq's ensemble calls forward itself; others call the module.
    assert torch.equal(models[0].decoder.forward(x), expected)
    models[0].decoder(x)
    models[1].decoder(x)
    models[1].encoder(x)
    assert (counters.encoder_calls, counters.decoder_calls) == (1, 3)
    counters.reset()
    assert (counters.encoder_calls, counters.decoder_calls) == (0, 0)
