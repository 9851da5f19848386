"""Graph decoders and losses on a device that is not the host."""

import pytest
import torch
from simulated_device import SimulatedDevice, assert_decodes_there
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_hrt.dag.config import DagTaskConfig
from fairseq_hrt.dag.criterion import DagFuzzyLoss, DagNllLoss
from fairseq_hrt.dag.generator import DagGenerator
from fairseq_hrt.dag.task import DagTranslationTask
from fairseq_hrt.native.options.values import DecodingOptions


@pytest.mark.parametrize(
    "strategy", ["greedy", "lookahead", "viterbi", "joint-viterbi", "beam", "sample"]
)
def test_decoding_happens_on_the_device(family, strategy):
    model, sample = family.dag(), family.sample([5, 3, 6])

    options = DecodingOptions(
        beam=3 if strategy == "beam" else 1, unkpen=float("inf"), dag_decode_strategy=strategy,
        dag_decode_upsample_scale=2.0,
    )  # fmt: skip
    assert_decodes_there(
        lambda model: DagGenerator([model], family.dictionary(), options), model, sample
    )


@pytest.mark.parametrize("strategy", ["greedy", "lookahead", "viterbi", "joint-viterbi"])
def test_more_sentences_take_no_more_waits_and_no_more_launches(family, strategy, monkeypatch):
    model = family.dag()
    # Pruning, which takes steps for each vertex of each sentence, would be chosen everywhere.
    monkeypatch.setattr("fairseq_hrt.ops.viterbi._MANY", 0)
    options = DecodingOptions(
        unkpen=float("inf"), dag_decode_strategy=strategy, dag_decode_upsample_scale=2.0
    )
    counts = []
    for sentences in (2, 8):
        with SimulatedDevice() as device:
            moved, sample = device.move(model), device.send(family.sample([5] * sentences))
            generator, launched = DagGenerator([moved], family.dictionary(), options), Launches()
            with launched:
                generator.generate([moved], sample)
            counts.append((device.reads, launched.count))
    (waits, few), (again, more) = counts
    # A hypothesis is cut out of its batch by a few views, which launch nothing.
    assert waits == again and more - few <= 6 * 6


class Launches(TorchDispatchMode):
    """Counts operations."""

    count = 0

    @classmethod
    def _should_skip_dynamo(cls):
        # Otherwise PyTorch imports its compiler.
        return False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("base", ["source", "predict"])
@pytest.mark.parametrize(
    "criterion, options",
    [(DagNllLoss, dict(dag_glance_forcing="vertex")), (DagFuzzyLoss, dict(dag_ngram_order=2))],
)
def test_training_happens_on_the_device(family, base, criterion, options):
    model, sample = family.dag(upsample_base=base), family.sample([5, 3, 6])
    sample["target"], sample["ntokens"] = (
        torch.tensor([[5, 6, 7, 2], [8, 2, 1, 1], [9, 5, 2, 1]]),
        9,
    )
    task = DagTranslationTask(DagTaskConfig(seed=5), family.dictionary(), family.dictionary())
    loss = criterion(
        task,
        dag_glance_schedule="0.5:0.1@100",
        dag_glance_strategy="number-random",
        dag_length_loss_factor=0.1,
        **options,
    )

    def train(model, sample):
        task.decoder = model.decoder
        value = loss(model, {**sample, "graph": task.graph(sample, 1)})[0]
        value.backward()
        return float(value)

    expected = train(model, sample)
    with SimulatedDevice() as device:
        assert train(device.move(model), device.send(sample)) == pytest.approx(expected, abs=1e-6)
        # fairseq looks for padding three times; a transfer of all counts; the loss, which this test
        # reads. The likelihood's reference, but no kernel, asks whether it has to be redone.
        assert device.reads == 5 + (criterion is DagNllLoss), device.waits
        model.decoder.links.query.bias.data.fill_(float("nan"))
        with pytest.raises(ValueError, match="links holds NaN"):
            train(device.move(model), device.send(sample))
