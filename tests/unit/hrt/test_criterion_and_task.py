"""The loss of the four tasks, and the task that decides which of them a sentence is trained for."""

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
        assert [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None] == []
