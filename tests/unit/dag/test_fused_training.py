"""An update of dag by Triton's kernels, beside PyTorch's programs."""

import pytest
import torch
from torch.utils._pytree import tree_map_only
from triton_devices import DEVICES, use_kernels

from fairseq_hrt.dag.config import DagTaskConfig
from fairseq_hrt.dag.criterion import DagFuzzyLoss, DagNllLoss
from fairseq_hrt.dag.task import DagTranslationTask

pytest.importorskip("triton", reason="Triton, which PyTorch brings for CUDA, is not installed")

from fairseq_hrt.ops.fused import dag, vocabulary


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize(
    "criterion, options",
    [(DagNllLoss, dict(dag_glance_forcing="vertex")), (DagFuzzyLoss, dict(dag_ngram_order=2))],
)
def test_loss_log_and_gradients(family, device, dtype, tolerance, criterion, options, monkeypatch):
    model = family.dag().to(device, dtype)
    sample = family.sample([5, 3, 6])
    sample["target"], sample["ntokens"] = (
        torch.tensor([[5, 6, 7, 2], [8, 2, 1, 1], [9, 5, 2, 1]]),
        9,
    )
    sample = tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), sample)
    task = DagTranslationTask(DagTaskConfig(seed=5), family.dictionary(), family.dictionary())
    task.decoder = model.decoder
    loss = criterion(
        task,
        dag_glance_schedule="0.5",
        dag_glance_strategy="number-random",
        dag_length_loss_factor=0.0,
        **options,
    )

    def train():
        model.train().zero_grad()
        value, size, log = loss(model, {**sample, "graph": task.graph(sample, 1)})
        value.backward()
        gradients = [
            (name, parameter.grad.float())
            for name, parameter in model.named_parameters()
            if parameter.grad is not None
        ]
        return float(value.detach()), size, log, gradients

    monkeypatch.setattr("fairseq_hrt.ops.fused.available", lambda device: False)
    expected = train()
    use_kernels(monkeypatch)
    for name, tile in (("SUMMED", (4, 4, 4)), ("BEST", (4, 4, 4)), ("USED", (4, 4, 4))):
        monkeypatch.setattr(dag, name, tile)
    monkeypatch.setattr(vocabulary, "BLOCK", 8)
    found = train()
    assert found[0] == pytest.approx(expected[0], rel=tolerance) and found[1] == expected[1]
    for name in ("shown", "path_vertices", "sample_size", "ntokens"):
        assert found[2][name] == expected[2][name]
    assert [name for name, _ in found[3]] == [name for name, _ in expected[3]]
    # Some gradients are 0 but for rounding, e.g. that of the keys' bias.
    least = 0.05 * max(float(exact.abs().amax()) for _, exact in expected[3])
    for (name, own), (_, exact) in zip(found[3], expected[3]):
        scale = max(float(exact.abs().amax()), least)
        assert float((own - exact).abs().amax()) <= tolerance * scale, name
