"""The loss of the four tasks, and the task that decides which of them a sentence is trained for."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_hrt.hrt.config import HRTTaskConfig
from fairseq_hrt.hrt.criterion import TASKS, HRTLoss
from fairseq_hrt.hrt.task import HRTTranslationTask

SYMBOLS = 12


def build(hrt, **overrides):
    """(task, model) with the configuration that the command line would resolve."""
    cfg = HRTTaskConfig(max_update=100, seed=5)
    for name, value in overrides.items():
        setattr(cfg, name, value)
    task = HRTTranslationTask(cfg, hrt.dictionary(SYMBOLS), hrt.dictionary(SYMBOLS))
    model = hrt.model(symbols=SYMBOLS)
    task.decoder = model.decoder
    return task, model


def batch(hrt, lengths, seed=0):
    """Sources and right-padded targets of these lengths, ``</s>`` included."""
    sample = hrt.sample(hrt.sources(lengths, SYMBOLS, seed), ids=[10 + 3 * n for n in range(len(lengths))])
    target = torch.full((len(lengths), max(lengths)), hrt.PAD)
    for row, line in zip(target, hrt.sources(lengths, SYMBOLS, seed + 1)):
        row[: len(line)] = torch.tensor(line)
    return {**sample, "target": target}


def naive_losses(hrt, model, sample, smoothing):
    """(smoothed loss, {task: (nll, tokens)}) token by token, from the plain reference decoder."""
    reference = hrt.Reference(model)
    views, total = sample["views"], 0.0
    tasks = {name: [0.0, 0] for name, _, _ in TASKS}
    for row in range(len(sample["id"])):
        source = sample["net_input"]["src_tokens"][row]
        memory = reference.encode(source[source.ne(hrt.PAD)].tolist())
        for view, causal in ((views.causal, True), (views.parallel, False)):
            inside = view.input[row].ne(hrt.PAD)
            logits = reference(view.input[row][inside].tolist(), view.positions[row][inside].tolist(), memory, causal=causal)
            name = ("skip_" if views.chunk_sizes[row] > 1 else "") + ("at" if causal else "cmlm")
            for scores, word in zip(logits.log_softmax(-1), view.target[row][inside].tolist()):
                if word == hrt.PAD:
                    continue
                wrong = -(scores.sum() - scores[word]) / (scores.numel() - 1)
                total += float((1 - smoothing) * -scores[word] + smoothing * wrong)
                tasks[name][0] -= float(scores[word])
                tasks[name][1] += 1
    return total, tasks


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_loss_is_that_of_its_tokens(hrt, smoothing, share):
    task, model = build(hrt)
    sample = task.add_views(batch(hrt, [6, 2, 5, 1, 4]), update=3, share=share)
    loss, size, log = HRTLoss(task, smoothing)(model, sample)
    expected, tasks = naive_losses(hrt, model, sample, smoothing)
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    assert size == log["ntokens"] == log["sample_size"] == sum(count for _, count in tasks.values())
    for name, (nll, count) in tasks.items():
        assert float(log[f"{name}_nll_loss"]) == pytest.approx(nll, rel=1e-4, abs=1e-6)
        assert int(log[f"{name}_ntokens"]) == count


def test_logging_keys_do_not_depend_on_the_batch(hrt):
    task, model = build(hrt)
    keys = [
        HRTLoss(task, 0.1)(model, task.add_views(batch(hrt, lengths), 1, share))[2].keys()
        for lengths, share in (([3, 4], 0.0), ([3, 4], 1.0), ([1], 1.0), ([1], 0.0))
    ]
    assert all(own == keys[0] for own in keys)


def test_bfloat16_stays_finite_with_ragged_rows(hrt):
    task, model = build(hrt)
    loss, *_ = HRTLoss(task, 0.1)(model.bfloat16(), task.add_views(batch(hrt, [9, 1, 4]), 1, 0.5))
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert loss.isfinite() and all(gradient.isfinite().all() for gradient in gradients)


def test_every_trainable_parameter_is_trained_in_every_update(hrt):
    """Otherwise distributed training would wait for gradients that never come."""
    task, model = build(hrt)
    for share in (0.0, 1.0):
        model.zero_grad()
        HRTLoss(task, 0.1)(model, task.add_views(batch(hrt, [5, 3]), 1, share))[0].backward()
        assert [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None] == []


def test_views_belong_to_their_sentence(hrt):
    """Whatever batch a sentence is in, its samples are the same."""
    task, _ = build(hrt)
    whole = batch(hrt, [6, 2, 5, 1, 4])
    together = task.add_views(whole, 7, 0.5)["views"]
    for row in range(5):
        alone = {"id": whole["id"][row : row + 1], "target": whole["target"][row : row + 1], "net_input": {}}
        alone["target"] = alone["target"][:, alone["target"][0].ne(hrt.PAD)]
        single = task.add_views(alone, 7, 0.5)["views"]
        assert single.chunk_sizes[0] == together.chunk_sizes[row]
        for mine, theirs in zip((single.causal, single.parallel), (together.causal, together.parallel)):
            for own, other in zip(mine, theirs):
                width = own.size(1)
                assert own[0].equal(other[row, :width])


def test_mixed_targets(hrt):
    sample = batch(hrt, [6, 2, 5, 1, 4])
    sample["distilled_target"] = batch(hrt, [3, 4, 2, 2, 5], seed=9)["target"]
    targets = {}
    for probability in (0.0, 1.0):
        task, _ = build(hrt, raw_probability=probability)
        views = task.add_views(sample, 1, 0.0)["views"]
        targets[probability] = [row[row.ne(hrt.PAD)].tolist() for row in views.causal.target]
    expected = [[row[row.ne(hrt.PAD)].tolist() for row in sample[key]] for key in ("distilled_target", "target")]
    assert targets[0.0] == expected[0] and targets[1.0] == expected[1]


def test_an_empty_batch_stays_empty(hrt):
    task, _ = build(hrt)
    assert task.add_views({}, 1, 0.5) == {}


def test_the_curriculum_follows_the_given_update_number(hrt):
    task, model = build(hrt, hrt_curriculum_steps=10)
    seen = []

    def criterion(_, sample):
        seen.append(float((sample["views"].chunk_sizes > 1).double().mean()))
        return torch.zeros((), requires_grad=True), 1, {}

    optimizer = SimpleNamespace(backward=lambda loss: None)
    # A parent's number of updates, as fairseq stores it in the model when it loads a checkpoint.
    model.set_num_updates(300_000)
    sample = batch(hrt, [3] * 400)
    for update in (0, 5, 10, 99):
        task.train_step(sample, model, criterion, optimizer, update)
    assert seen[0] == 0 and abs(seen[1] - 0.5) < 0.1 and seen[2:] == [1, 1]


@pytest.mark.parametrize(
    "overrides, share",
    [
        (dict(), 0.25),
        (dict(hrt_curriculum_steps=50), 0.5),
        (dict(hrt_curriculum_power=2.0), 0.0625),
        (dict(hrt_curriculum_power=0.0, max_update=0), 1.0),
    ],
)
def test_the_length_of_the_curriculum(hrt, overrides, share):
    assert build(hrt, **overrides)[0].curriculum_share(25) == pytest.approx(share)


def test_a_curriculum_without_length_is_named(hrt):
    with pytest.raises(ValueError, match="--max-update, or --hrt-curriculum-steps"):
        build(hrt, max_update=0)[0].curriculum_share(1)


def test_the_loss_needs_its_task(hrt):
    task, model = build(hrt)
    with pytest.raises(ValueError, match="--task translation_hrt"):
        HRTLoss(task, 0.1)(model, batch(hrt, [3]))
    with pytest.raises(ValueError, match="--label-smoothing 1.5"):
        HRTLoss(task, 1.5)
