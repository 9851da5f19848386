"""What a training step is given: slots of the targets, cut and counted as the options say."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_hrt.bidirectional.criterion import BidirectionalLoss
from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.training.distillation import truncate_targets

PAD, EOS = 1, 2


def test_dead_slots_count_only_when_they_are_trained(family):
    task, _ = family.task(model=dict(directions=2, tokens_per_step=2))
    sample = family.batch([5, 3])
    assert task.add_slots(sample)["slots"].target.ne(PAD).sum() == 10
    assert task.add_slots(sample, train_dead_slots=True)["slots"].target.ne(PAD).sum() == 12


@pytest.mark.parametrize("trained", [False, True])
def test_the_option_for_dead_slots_reaches_the_training_step(family, trained):
    task, model = family.task(model=dict(tokens_per_step=2), bidirectional_train_dead_slots=trained)
    optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
    _, size, _ = task.train_step(
        family.batch([5, 3]), model, BidirectionalLoss(task, 0.1), optimizer, 1
    )
    assert size == (12 if trained else 10)
    _, size, _ = task.valid_step(family.batch([5, 3]), model, BidirectionalLoss(task, 0.1))
    assert size == 10, "perplexities stay comparable"


def test_targets_are_cut_before_they_are_ordered():
    import numpy as np
    from fairseq.data import Dictionary, LanguagePairDataset, ListDataset

    dictionary = Dictionary()
    for number in range(12):
        dictionary.add_symbol(f"w{number}")
    rows = [torch.tensor([*range(4, 4 + length), EOS]) for length in (3, 9)]
    sizes = np.array([4, 10])
    data = LanguagePairDataset(
        ListDataset(rows, sizes),
        sizes,
        dictionary,
        ListDataset(rows, sizes),
        sizes,
        dictionary,
        left_pad_target=False,
    )
    truncate_targets(data, 6, EOS)
    assert [data[i]["target"].tolist() for i in range(2)] == [[4, 5, 6, 2], [4, 5, 6, 7, 8, 2]]
    assert data.tgt_sizes.tolist() == [4, 6]


def test_validation_decodes_with_weights_that_change(family, monkeypatch):
    """The generator made while the model is built sees every later update; others may copy the
    weights."""
    task, model = family.task()
    assert task.make_generator([model], DecodingOptions()).options.static_weights
    assert task.build_generator([model], SimpleNamespace()).options.static_weights
    task._building_model = True
    assert not task.build_generator([model], SimpleNamespace()).options.static_weights


def test_other_criterions_and_models_are_refused(family):
    task, _ = family.task()
    with pytest.raises(ValueError, match="TransformerModel, not a bidirectional_transformer"):
        task.build_generator([family.model()], SimpleNamespace())
    with pytest.raises(ValueError, match="bidirectional_loss, not cross_entropy"):
        task.build_criterion(SimpleNamespace(_name="cross_entropy"))
