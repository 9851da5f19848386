"""Training samples, loss, both decoding stages and the scorer on a device that is not the host."""

import pytest
import torch
from simulated_device import SimulatedDevice, assert_decodes_there

from fairseq_hrt.hrt.config import HRTTaskConfig
from fairseq_hrt.hrt.criterion import HRTLoss
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.hrt.task import HRTTranslationTask
from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.training import with_drawn_targets

RULES = dict(unkpen=2.0, min_len=3, max_len_a=1.0, max_len_b=3)


# All pairs of values.
@pytest.mark.parametrize(
    "beam, chunk, options",
    [
        (1, "2", dict(max_len_b=7)),
        (3, "2", RULES),
        (1, "auto", RULES),
        (3, "auto", dict(max_len_b=7)),
    ],
)
def test_decoding_happens_on_the_device(tiny, beam, chunk, options):
    model = tiny.model("hrt_transformer", hrt_chunk_sizes=[2, 3], hrt_relative_window=3)
    sample = tiny.sample([5, 3, 6, 9])

    own = dict(
        hrt_decode_chunk=chunk, hrt_chunk_table="3:1,5:2,inf:3", hrt_eos_last_chunk=len(options) > 1
    )
    decoding = DecodingOptions(beam=beam, **own, **options)
    assert_decodes_there(
        lambda model: HRTGenerator([model], tiny.dictionary(), decoding), model, sample
    )


@pytest.mark.parametrize("beam", [1, 5])
def test_the_host_looks_once_a_step(tiny, beam):
    """Besides a handful of looks at each batch: its padding, its limits, and in beam search the
    chain of parents."""
    model = tiny.model("hrt_transformer", hrt_chunk_sizes=[2, 3], hrt_relative_window=3)
    with SimulatedDevice() as device:
        moved = device.move(model)
        options = DecodingOptions(beam=beam, max_len_b=12, hrt_decode_chunk="2")
        generator = HRTGenerator([moved], tiny.dictionary(), options)
        generator.generate([moved], device.send(tiny.sample([5, 3, 6, 4, 7, 2, 8, 5])))
        assert generator.counters.decoder_calls > 5
        assert device.reads - generator.counters.decoder_calls <= (2 if beam == 1 else 4), (
            device.waits
        )


def test_training_happens_on_the_device(tiny):
    model = tiny.model("hrt_transformer", hrt_chunk_sizes=[2, 3])
    task = HRTTranslationTask(
        HRTTaskConfig(max_update=10, seed=5, raw_probability=0.5),
        tiny.dictionary(),
        tiny.dictionary(),
    )
    sample = tiny.sample([5, 3, 6])
    sample["target"] = torch.tensor([[5, 6, 7, 2], [8, 2, 1, 1], [9, 5, 2, 1]])
    sample["distilled_target"] = torch.tensor([[6, 2, 1], [8, 9, 2], [2, 1, 1]])

    def train(model, sample):
        task.decoder = model.decoder
        sample = with_drawn_targets(sample, task.cfg, 3, pad=1)
        loss, size, _ = HRTLoss(task, 0.1)(model, task.add_views(sample, 3, 0.5))
        loss.backward()
        return (
            float(loss),
            size,
            [parameter.grad for parameter in model.parameters() if parameter.requires_grad],
        )

    loss, size, gradients = train(model, sample)
    with SimulatedDevice() as device:
        found = train(device.move(model), device.send(sample))
        assert found[0] == pytest.approx(loss, rel=1e-6) and found[1] == size
        for own, expected in zip(found[2], gradients):
            torch.testing.assert_close(own.held, expected)
        # fairseq looks for padding twice. Widths; targets of each view; the loss, which this test
        # reads.
        assert device.reads == 2 + 1 + 2 + 1, device.waits
