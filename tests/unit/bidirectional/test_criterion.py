"""The loss of the slots, against words predicted step by step and against fairseq."""

import math

import pytest
import torch
from fairseq.logging import metrics
from walking import order_by_walking

from fairseq_hrt.bidirectional.criterion import BidirectionalLoss

PAD, EOS = 1, 2


def slot_by_slot(family, model, sample, row):
    """Log-probability of each written word and ``</s>`` of one sentence, each predicted from the
    words before its block."""
    target = sample["target"][row]
    count = int(target.ne(PAD).sum()) - 1
    order = order_by_walking(count, model.decoder.directions)
    written = [int(target[index]) for index in order] + [EOS]
    tokens = sample["net_input"]["src_tokens"][row]
    tokens = tokens[tokens.ne(PAD)].unsqueeze(0)
    oracle = family.oracle(
        model,
        {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.size(1)])},
        limit=10**6,
        min_length=0,
    )
    scores = []
    for first in range(0, len(written), oracle.block):
        rows = oracle.log_probs(written[:first])
        scores += [
            rows[place][word] for place, word in enumerate(written[first : first + oracle.block])
        ]
    return scores


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1), (2, 2), (4, 1)])
def test_the_loss_is_that_of_words_predicted_step_by_step(family, shape):
    task, model = family.task(model=dict(directions=shape[0], tokens_per_step=shape[1]))
    sample = task.add_slots(family.batch([5, 1, 8, 2]))
    loss, size, log = BidirectionalLoss(task, 0.0)(model, sample)
    expected = [score for row in range(4) for score in slot_by_slot(family, model, sample, row)]
    assert size == log["ntokens"] == len(expected) == 5 + 1 + 8 + 2 + 4
    assert float(loss) == float(log["nll_loss"]) == pytest.approx(-sum(expected), rel=1e-4)


def test_sentence_avg_divides_by_sentences(family):
    task, model = family.task()
    sample = task.add_slots(family.batch([5, 1, 8]))
    loss, size, log = BidirectionalLoss(task, 0.1, sentence_avg=True)(model, sample)
    by_token, tokens, _ = BidirectionalLoss(task, 0.1)(model, sample)
    assert loss == by_token and size == log["sample_size"] == 3 < tokens == log["ntokens"]


def test_label_smoothing_is_that_of_fairseq(family):
    from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

    task, model = family.task()
    sample = task.add_slots(family.batch([5, 3]))
    loss, _, log = BidirectionalLoss(task, 0.1)(model, sample)
    net_input = sample["net_input"]
    logits = model(**net_input, prev_output_tokens=sample["slots"].input)[0]
    expected, nll = label_smoothed_nll_loss(
        logits.log_softmax(-1).flatten(0, 1),
        sample["slots"].target.flatten().unsqueeze(1),
        0.1,
        ignore_index=PAD,
    )
    assert float(loss) == pytest.approx(float(expected), rel=1e-4)
    assert float(log["nll_loss"]) == pytest.approx(float(nll), rel=1e-4)
    with pytest.raises(ValueError, match="--label-smoothing 1.5"):
        BidirectionalLoss(task, 1.5)


def test_half_precision_stays_finite(family):
    task, model = family.task()
    model = model.bfloat16()
    loss, _, _ = BidirectionalLoss(task, 0.1)(model, task.add_slots(family.batch([5, 3])))
    loss.backward()
    assert torch.isfinite(loss) and all(
        torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None
    )


def test_figures_of_several_batches_are_bits_per_slot():
    """Summed over workers and updates before they are divided."""
    logs = [{"loss": 6.0, "nll_loss": 3.0, "ntokens": 4, "sample_size": 4, "nsentences": 1},
            {"loss": 2.0, "nll_loss": 1.0, "ntokens": 1, "sample_size": 1,
             "nsentences": 1}]  # fmt: skip
    with metrics.aggregate() as found:
        BidirectionalLoss.reduce_metrics(logs)
    values = found.get_smoothed_values()
    assert (values["loss"], values["nll_loss"]) == (
        round(8 / 5 / math.log(2), 3),
        round(4 / 5 / math.log(2), 3),
    )
    assert values["ppl"] == pytest.approx(2 ** (4 / 5 / math.log(2)), abs=0.01)
    assert BidirectionalLoss.logging_outputs_can_be_summed()


def test_with_sentence_avg_only_the_loss_is_by_sentence():
    logs = [{"loss": 6.0, "nll_loss": 3.0, "ntokens": 4, "sample_size": 2, "nsentences": 2}]
    with metrics.aggregate() as found:
        BidirectionalLoss.reduce_metrics(logs)
    values = found.get_smoothed_values()
    assert values["loss"] == round(6 / 2 / math.log(2), 3)
    assert values["nll_loss"] == round(3 / 4 / math.log(2), 3)
