"""The loss of the four tasks, token by token."""

import math

import pytest
from fairseq.logging import metrics

from fairseq_hrt.hrt.criterion import TASKS, HRTLoss


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
            logits = reference(
                view.input[row][inside].tolist(),
                view.positions[row][inside].tolist(),
                memory,
                causal=causal,
            )
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
    task, model = hrt.task()
    sample = task.add_views(hrt.batch([6, 2, 5, 1, 4]), update=3, share=share)
    loss, size, log = HRTLoss(task, smoothing)(model, sample)
    expected, tasks = naive_losses(hrt, model, sample, smoothing)
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    assert size == log["ntokens"] == log["sample_size"] == sum(count for _, count in tasks.values())
    for name, (nll, count) in tasks.items():
        assert float(log[f"{name}_nll_loss"]) == pytest.approx(nll, rel=1e-4, abs=1e-6)
        assert int(log[f"{name}_ntokens"]) == count


def test_sentence_avg_divides_by_sentences(hrt):
    task, model = hrt.task()
    sample = task.add_views(hrt.batch([6, 2, 5]), update=3, share=0.5)
    loss, size, log = HRTLoss(task, 0.1, sentence_avg=True)(model, sample)
    by_token, tokens, _ = HRTLoss(task, 0.1)(model, sample)
    assert loss == by_token and size == log["sample_size"] == 3 < tokens == log["ntokens"]


def test_logging_keys_do_not_depend_on_the_batch(hrt):
    task, model = hrt.task()
    keys = [
        HRTLoss(task, 0.1)(model, task.add_views(hrt.batch(lengths), 1, share))[2].keys()
        for lengths, share in (([3, 4], 0.0), ([3, 4], 1.0), ([1], 1.0), ([1], 0.0))
    ]
    assert all(own == keys[0] for own in keys)


def test_label_smoothing_has_a_range(hrt):
    with pytest.raises(ValueError, match="--label-smoothing 1.5"):
        HRTLoss(hrt.task()[0], 1.5)


def test_figures_are_bits_per_token_of_each_task():
    """Summed over batches before they are divided; 0 where a task had no tokens."""
    logs = [
        {"loss": 8.0, "nll_loss": 6.0, "ntokens": 6, "sample_size": 6, "nsentences": 3,
         "chunked_sentences": 1,
         "at_nll_loss": 4.0, "at_ntokens": 5, "skip_at_nll_loss": 2.0, "skip_at_ntokens": 1},
        {"loss": 4.0, "nll_loss": 3.0, "ntokens": 4, "sample_size": 4, "nsentences": 1,
         "chunked_sentences": 1,
         "at_nll_loss": 0.0, "at_ntokens": 0, "skip_at_nll_loss": 3.0, "skip_at_ntokens": 4},
    ]  # fmt: skip
    without = dict.fromkeys(
        (f"{name}_{value}" for name, _, _ in TASKS for value in ("nll_loss", "ntokens")), 0
    )
    with metrics.aggregate() as found:
        HRTLoss.reduce_metrics([{**without, **log} for log in logs])
    values = found.get_smoothed_values()

    def bits(nats):
        return pytest.approx(nats / math.log(2), abs=5e-4)

    assert (values["loss"], values["nll_loss"]) == (bits(12 / 10), bits(9 / 10)) and values[
        "chunked"
    ] == 0.5
    assert (values["at_loss"], values["skip_at_loss"]) == (bits(4 / 5), bits(5 / 5))
    assert values["cmlm_loss"] == values["skip_cmlm_loss"] == 0
    assert HRTLoss.logging_outputs_can_be_summed()


@pytest.mark.parametrize("share, chunked", [(0.0, 0), (1.0, 4)])
def test_sentences_with_chunks_are_counted(hrt, share, chunked):
    task, model = hrt.task()
    _, _, log = HRTLoss(task, 0.1)(model, task.add_views(hrt.batch([6, 2, 5, 4]), 1, share))
    assert (int(log["chunked_sentences"]), log["nsentences"]) == (chunked, 4)
