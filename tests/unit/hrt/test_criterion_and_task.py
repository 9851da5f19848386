"""The loss of the four tasks, and the task that decides which of them a sentence is trained for."""

import pytest
import torch

from fairseq_hrt.hrt.criterion import HRTLoss


def test_bfloat16_stays_finite_with_ragged_rows(hrt):
    task, model = hrt.task()
    loss, *_ = HRTLoss(task, 0.1)(model.bfloat16(), task.add_views(hrt.batch([9, 1, 4]), 1, 0.5))
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert loss.isfinite() and all(gradient.isfinite().all() for gradient in gradients)


def test_every_trainable_parameter_is_trained_in_every_update(hrt):
    """Otherwise distributed training would wait for gradients that never come."""
    task, model = hrt.task()
    for share in (0.0, 1.0):
        model.zero_grad()
        HRTLoss(task, 0.1)(model, task.add_views(hrt.batch([5, 3]), 1, share))[0].backward()
        assert [
            name for name, p in model.named_parameters() if p.requires_grad and p.grad is None
        ] == []


def test_validation_reports_chunk_size_1_and_selects_by_the_others(hrt):
    """The AT loss is that of the model as an ordinary Transformer; ``loss`` is what it is without
    it."""
    task, model = hrt.task()
    model.eval()
    sample, criterion = hrt.batch([9, 1, 4]), HRTLoss(task, 0.1)
    loss, size, log = task.valid_step(sample, model, criterion)
    expected, tokens, chunked = criterion(model, task.add_views(sample, 0, 1.0))
    assert (
        loss.item() == expected.item()
        and size == tokens == log["sample_size"]
        and not loss.requires_grad
    )
    assert {name: log[name] for name in chunked if not name.startswith(("at_", "cmlm_"))} == {
        name: value for name, value in chunked.items() if not name.startswith(("at_", "cmlm_"))
    }
    assert chunked["at_ntokens"] == chunked["cmlm_ntokens"] == 0
    targets = sample["target"]
    inputs = torch.cat([torch.full_like(targets[:, :1], 2), targets[:, :-1]], 1).masked_fill(
        targets.eq(1), 1
    )
    source = sample["net_input"]
    logits = model(source["src_tokens"], source["src_lengths"], inputs)[0]
    nll = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=1, reduction="sum"
    )
    assert log["at_nll_loss"].item() == pytest.approx(nll.item(), rel=1e-6)
    assert log["at_ntokens"] == targets.ne(1).sum() and log["cmlm_ntokens"] > 0


def test_a_curriculum_without_an_end_is_refused_with_the_criterion(hrt):
    """Before anything is loaded or trained; decoding needs none."""
    from argparse import Namespace

    task, _ = hrt.task(max_update=0)
    with pytest.raises(
        ValueError,
        match=(
            "in updates, which --max-epoch does not give: give --max-update, or"
            " --hrt-curriculum-steps"
        ),
    ):
        task.build_criterion(Namespace(_name="hrt_loss", criterion="hrt_loss", label_smoothing=0.1))
    task, _ = hrt.task(max_update=0, hrt_curriculum_steps=5)
    assert isinstance(
        task.build_criterion(
            Namespace(_name="hrt_loss", criterion="hrt_loss", label_smoothing=0.1)
        ),
        HRTLoss,
    )
