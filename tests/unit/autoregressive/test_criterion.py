"""``autoregressive_loss`` is ``label_smoothed_cross_entropy``: sums, gradients and log."""

from argparse import Namespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from torch import nn

from fairseq_hrt.autoregressive.criterion import AutoregressiveLoss

PAD, SYMBOLS = 1, 9
TASK = Namespace(target_dictionary=Namespace(pad=lambda: PAD))


class Logits(nn.Module):
    """Stands for a Transformer: its logits are its parameters."""

    def __init__(self, adaptive_softmax=None):
        super().__init__()
        self.logits = nn.Parameter(
            torch.randn(3, 4, SYMBOLS, generator=torch.Generator().manual_seed(1))
        )
        self.decoder = Namespace(adaptive_softmax=adaptive_softmax)

    def forward(self):
        return self.logits, {}

    def get_targets(self, sample, net_output):
        return sample["target"]

    def get_normalized_probs(self, net_output, log_probs):
        return net_output[0].log_softmax(-1)


def sample():
    target = torch.tensor([[4, 5, 6, 2], [7, 8, 2, PAD], [2, PAD, PAD, PAD]])
    return {"target": target, "net_input": {}, "ntokens": int(target.ne(PAD).sum())}


@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("prefix", [0, 1])
@pytest.mark.parametrize("sentence_avg", [True, False])
def test_it_is_the_loss_of_fairseq(reduce, prefix, sentence_avg):
    results = []
    for criterion in (AutoregressiveLoss, LabelSmoothedCrossEntropyCriterion):
        model = Logits()
        loss, size, log = criterion(TASK, sentence_avg, 0.1, prefix, True)(
            model, sample(), reduce=reduce
        )
        loss.sum().backward()
        results.append((loss, size, log, model.logits.grad))
    torch.testing.assert_close(*results)


def test_an_adaptive_softmax_has_probabilities_of_its_own():
    model = Logits(adaptive_softmax=object())
    model.get_normalized_probs = lambda net_output, log_probs: torch.zeros_like(net_output[0])
    loss, _, _ = AutoregressiveLoss(TASK, False, 0.0)(model, sample())
    assert loss == 0


def test_fairseq_builds_it_from_its_options():
    config = LabelSmoothedCrossEntropyCriterionConfig(
        label_smoothing=0.2, ignore_prefix_size=1, report_accuracy=True, sentence_avg=True
    )
    built = AutoregressiveLoss.build_criterion(config, TASK)
    assert (built.eps, built.ignore_prefix_size, built.report_accuracy, built.sentence_avg) == (
        0.2,
        1,
        True,
        True,
    )


def test_label_smoothing_is_checked():
    with pytest.raises(ValueError, match="--label-smoothing 2"):
        AutoregressiveLoss(TASK, False, 2)
