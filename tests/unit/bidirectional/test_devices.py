"""Block search and the loss on a device that is not the host."""

import pytest
import torch
from simulated_device import SimulatedDevice, assert_decodes_there

from fairseq_hrt.bidirectional.config import BidirectionalTaskConfig
from fairseq_hrt.bidirectional.criterion import BidirectionalLoss
from fairseq_hrt.bidirectional.generator import BidirectionalGenerator
from fairseq_hrt.bidirectional.task import BidirectionalTranslationTask
from fairseq_hrt.native.options.values import DecodingOptions


@pytest.mark.parametrize("directions, block", [(2, 1), (1, 2), (2, 2), (4, 1)])
@pytest.mark.parametrize("beam", [1, 3])
def test_decoding_happens_on_the_device(family, directions, block, beam):
    model, sample = (
        family.bidirectional(directions=directions, tokens_per_step=block),
        family.sample([5, 3, 6]),
    )

    options = DecodingOptions(beam=beam, max_len_b=9, min_len=3)
    assert_decodes_there(
        lambda model: BidirectionalGenerator([model], family.dictionary(), options), model, sample
    )


@pytest.mark.parametrize("directions, block", [(2, 1), (2, 2), (4, 1)])
def test_training_happens_on_the_device(family, directions, block):
    model, sample = (
        family.bidirectional(directions=directions, tokens_per_step=block),
        family.sample([5, 3, 6]),
    )
    sample["target"] = torch.tensor([[5, 6, 7, 2], [8, 2, 1, 1], [9, 5, 2, 1]])
    task = BidirectionalTranslationTask(
        BidirectionalTaskConfig(seed=5), family.dictionary(), family.dictionary()
    )

    def train(model, sample):
        task.decoder = model.decoder
        value = BidirectionalLoss(task, 0.1)(model, task.add_slots(sample))[0]
        value.backward()
        return float(value)

    expected = train(model, sample)
    with SimulatedDevice() as device:
        assert train(device.move(model), device.send(sample)) == pytest.approx(expected, rel=1e-6)
        # Widths and fairseq's looks for padding; the slots with a loss; the loss, read above.
        assert device.reads == 3 + 1 + 1, device.waits
