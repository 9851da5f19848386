"""The simulated device itself, and the autoregressive generator on it."""

import pytest
import torch
from simulated_device import OnDevice, SimulatedDevice, WrongDevice

from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.native.options.values import DecodingOptions


@pytest.mark.parametrize(
    "mixture",
    [
        lambda x, host: x + host,
        lambda x, host: torch.cat([x, host]),
        lambda x, host: x.gather(0, host.long()),
        lambda x, host: x.index_select(0, host[0].long()),
        lambda x, host: torch.where(host > 0, x, x),
        lambda x, host: host[x.long()],
        lambda x, host: torch.nn.functional.linear(x, host),
        lambda x, host: x.masked_fill_(host > 0, 0.0),
        lambda x, host: x.__setitem__(slice(0, 2), host + 0 * x[0]),
        lambda x, host: x.numpy(),
    ],
)
def test_mixtures_are_found(mixture):
    with SimulatedDevice() as device, pytest.raises(WrongDevice):
        mixture(device.send(torch.zeros(2, 2)), torch.zeros(2, 2))


def test_what_cuda_allows_is_allowed():
    with SimulatedDevice() as device:
        x = device.send(torch.tensor([[1.0, -2.0], [3.0, 4.0]]))
        found = [
            x + torch.tensor(1.0), x * 2, x[torch.tensor([1, 0])], torch.zeros_like(x),
            x.new_tensor([1.0]), torch.tensor([1, 2], device=x.device),
            torch.arange(3, device=x.device), torch.ones(2).to(x),
        ]  # fmt: skip
        assert all(isinstance(value, OnDevice) for value in found)
        assert found[2].tolist() == [[3.0, 4.0], [1.0, -2.0]] and found[5].tolist() == [1, 2]
        x[0] = torch.zeros(2)
        assert x.cpu().tolist() == [[0.0, 0.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    "reads, look",
    [
        (1, lambda x: x.tolist()),
        (1, lambda x: float(x.sum())),
        (1, lambda x: bool((x > 0).any())),
        (1, lambda x: x.nonzero()),
        (1, lambda x: x[x > 0]),
        (1, lambda x: x.cpu()),
        (1, lambda x: torch.zeros(2, 2).copy_(x)),
        (0, lambda x: x.__setitem__(x > 0, 0.0)),
        (0, lambda x: torch.where(x > 0, x, 0.0).argmax(1).unsqueeze(1)),
        (0, lambda x: torch.tensor([1.0], device=x.device) + x.shape[0]),
    ],
)
def test_reads_of_the_host_are_counted(reads, look):
    with SimulatedDevice() as device:
        x = device.send(torch.eye(2))
        look(x)
        assert device.reads == reads


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize(
    "options",
    [
        dict(max_len_b=7),
        dict(no_repeat_ngram_size=2, unkpen=2.0, min_len=3, max_len_a=1.0, max_len_b=3),
    ],
    ids=["plain", "rules"],
)
def test_decoding_happens_on_the_device(tiny, beam, options):
    model, sample = tiny.model(max_target_positions=16), tiny.sample([5, 3, 6])
    prefix = torch.tensor([[5], [6], [tiny.PAD]]) if len(options) > 1 else None

    def decode(model, sample, prefix):
        generator = AutoregressiveGenerator(
            [model], tiny.dictionary(), DecodingOptions(beam=beam, **options)
        )
        found = generator.generate([model], sample, prefix_tokens=prefix)
        return [[hypothesis["tokens"].tolist() for hypothesis in best] for best in found]

    expected = decode(model, sample, prefix)
    with SimulatedDevice() as device:
        assert decode(device.move(model), device.send(sample), device.send(prefix)) == expected


@pytest.mark.parametrize(
    "rules", [{}, dict(no_repeat_ngram_size=2, min_len=3, unkpen=2.0)], ids=["plain", "rules"]
)
@pytest.mark.parametrize("beam", [1, 5])
def test_the_host_looks_once_a_step(tiny, beam, rules):
    """Besides a handful of looks at each batch: its padding, its limits, and in beam search the
    chain of parents."""
    model, sample = tiny.lively(seed=3), tiny.sample([5, 3, 6, 4, 7, 2, 8, 5])
    with SimulatedDevice() as device:
        moved = device.move(model)
        generator = AutoregressiveGenerator(
            [moved], tiny.dictionary(), DecodingOptions(beam=beam, max_len_b=12, **rules)
        )
        generator.generate([moved], device.send(sample))
        assert generator.counters.decoder_calls > 10
        assert device.reads - generator.counters.decoder_calls <= (2 if beam == 1 else 4), (
            device.waits
        )
