"""The loss of the slots, the task that makes them, and the scorer."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from fairseq_hrt.bidirectional.config import BidirectionalTaskConfig
from fairseq_hrt.bidirectional.criterion import BidirectionalLoss
from fairseq_hrt.bidirectional.generator import BidirectionalGenerator
from fairseq_hrt.bidirectional.sample import ViewConfig, training_view
from fairseq_hrt.bidirectional.task import BidirectionalTranslationTask
from fairseq_hrt.decoding.options import DecodingOptions
from fairseq_hrt.training.distillation import draw_raw, truncate_targets

PAD, EOS = 1, 2


def build(family, *, model=None, **overrides):
    cfg = BidirectionalTaskConfig(seed=5)
    for name, value in overrides.items():
        setattr(cfg, name, value)
    task = BidirectionalTranslationTask(cfg, family.dictionary(), family.dictionary())
    model = family.bidirectional(**(model or {}))
    task.decoder = model.decoder
    return task, model


def batch(family, lengths, seed=0):
    """Sources, and targets of these lengths without ``</s>``."""
    sample = family.sample([length + 2 for length in lengths], seed=seed)
    targets = torch.full((len(lengths), max(lengths) + 1), PAD)
    words = torch.randint(4, 16, targets.shape, generator=torch.Generator().manual_seed(seed))
    for row, length in enumerate(lengths):
        targets[row, :length] = words[row, :length]
        targets[row, length] = EOS
    return {**sample, "target": targets}


def slot_by_slot(family, model, sample, row):
    """Log-probability of each written word and ``</s>`` of one sentence, each predicted from the words before its block."""
    from fairseq_hrt.bidirectional.slots import slot_order

    target = sample["target"][row]
    count = int(target.ne(PAD).sum()) - 1
    written = [int(target[index]) for index in slot_order(count, model.decoder.directions)] + [EOS]
    tokens = sample["net_input"]["src_tokens"][row]
    tokens = tokens[tokens.ne(PAD)].unsqueeze(0)
    oracle = family.oracle(
        model, {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.size(1)])}, limit=10**6, min_length=0
    )
    scores = []
    for first in range(0, len(written), oracle.block):
        rows = oracle.log_probs(written[:first])
        scores += [rows[place][word] for place, word in enumerate(written[first : first + oracle.block])]
    return scores


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (2, 1), (2, 2), (4, 1)])
def test_the_loss_is_that_of_words_predicted_step_by_step(family, shape):
    task, model = build(family, model=dict(directions=shape[0], tokens_per_step=shape[1]))
    sample = task.add_slots(batch(family, [5, 1, 8, 2]), 1)
    loss, size, log = BidirectionalLoss(task, 0.0)(model, sample)
    expected = [score for row in range(4) for score in slot_by_slot(family, model, sample, row)]
    assert size == log["ntokens"] == len(expected) == 5 + 1 + 8 + 2 + 4
    assert float(loss) == float(log["nll_loss"]) == pytest.approx(-sum(expected), rel=1e-4)


def test_label_smoothing_is_that_of_fairseq(family):
    from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

    task, model = build(family)
    sample = task.add_slots(batch(family, [5, 3]), 1)
    loss, _, log = BidirectionalLoss(task, 0.1)(model, sample)
    net_input = sample["net_input"]
    logits = model(**net_input, prev_output_tokens=sample["slots"].input)[0]
    expected, nll = label_smoothed_nll_loss(
        logits.log_softmax(-1).flatten(0, 1), sample["slots"].target.flatten().unsqueeze(1), 0.1, ignore_index=PAD
    )
    assert float(loss) == pytest.approx(float(expected), rel=1e-4)
    assert float(log["nll_loss"]) == pytest.approx(float(nll), rel=1e-4)
    with pytest.raises(ValueError, match="--label-smoothing 1.5"):
        BidirectionalLoss(task, 1.5)


def test_dead_slots_count_only_when_they_are_trained(family):
    task, _ = build(family, model=dict(directions=2, tokens_per_step=2))
    sample = batch(family, [5, 3])
    assert task.add_slots(sample, 1)["slots"].target.ne(PAD).sum() == 10
    assert task.add_slots(sample, 1, train_dead_slots=True)["slots"].target.ne(PAD).sum() == 12


@pytest.mark.parametrize("trained", [False, True])
def test_the_option_for_dead_slots_reaches_the_training_step(family, trained):
    task, model = build(family, model=dict(tokens_per_step=2), bidirectional_train_dead_slots=trained)
    optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
    _, size, _ = task.train_step(batch(family, [5, 3]), model, BidirectionalLoss(task, 0.1), optimizer, 1)
    assert size == (12 if trained else 10)
    _, size, _ = task.valid_step(batch(family, [5, 3]), model, BidirectionalLoss(task, 0.1))
    assert size == 10, "perplexities stay comparable"


def test_raw_and_distilled_targets(family):
    task, _ = build(family, raw_probability=0.5)
    sample = batch(family, [4] * 40)
    sample["distilled_target"] = torch.cat([torch.full((40, 6), 9), torch.full((40, 1), EOS)], 1)
    use_raw = draw_raw(5, 3, sample["id"], 0.5)
    slots = task.add_slots(sample, 3)["slots"]
    assert torch.equal(slots.target.ne(PAD).sum(1) == 5, use_raw) and 8 < use_raw.sum() < 32
    assert torch.equal(sample["target"], task.add_slots(sample, 3)["target"]), "BLEU is computed against this"


def test_an_empty_batch_passes(family):
    task, _ = build(family)
    assert task.add_slots({}, 1) == {}


@pytest.mark.parametrize("directions", [1, 2, 4])
@torch.no_grad()
def test_references_are_scored_like_found_translations(family, directions):
    task, model = build(family, model=dict(directions=directions, tokens_per_step=2))
    sample = family.sample([4, 6, 3])
    generator = BidirectionalGenerator([model], family.dictionary(), DecodingOptions(beam=3, max_len_b=9))
    best = [hypotheses[0] for hypotheses in generator.generate(None, sample)]
    width = max(hypothesis["tokens"].numel() for hypothesis in best)
    sample["target"] = torch.full((3, width), PAD)
    for row, hypothesis in zip(sample["target"], best):
        row[: hypothesis["tokens"].numel()] = hypothesis["tokens"]
    scorer = task.build_generator([model, model], SimpleNamespace(score_reference=True))
    found = scorer.generate([model, model], sample)
    assert len(found) == len(best)
    for hypothesis, (scored,) in zip(best, found):
        assert scored["tokens"].tolist() == hypothesis["tokens"].tolist()
        torch.testing.assert_close(scored["positional_scores"], hypothesis["positional_scores"], rtol=1e-4, atol=1e-4)
        assert float(scored["score"]) == pytest.approx(float(hypothesis["score"]), abs=1e-4)


def test_targets_are_cut_before_they_are_ordered():
    import numpy as np
    from fairseq.data import Dictionary, LanguagePairDataset, ListDataset

    dictionary = Dictionary()
    for number in range(12):
        dictionary.add_symbol(f"w{number}")
    rows = [torch.tensor([*range(4, 4 + length), EOS]) for length in (3, 9)]
    sizes = np.array([4, 10])
    data = LanguagePairDataset(
        ListDataset(rows, sizes), sizes, dictionary, ListDataset(rows, sizes), sizes, dictionary, left_pad_target=False
    )
    truncate_targets(data, 6, EOS)
    assert [data[i]["target"].tolist() for i in range(2)] == [[4, 5, 6, 2], [4, 5, 6, 7, 8, 2]]
    assert data.tgt_sizes.tolist() == [4, 6]


def test_validation_decodes_with_weights_that_change(family, monkeypatch):
    """The generator made while the model is built sees every later update; others may copy the weights."""
    task, model = build(family)
    assert task.make_generator([model], DecodingOptions()).options.static_weights
    assert task.build_generator([model], SimpleNamespace()).options.static_weights
    task._building_model = True
    assert not task.build_generator([model], SimpleNamespace()).options.static_weights


def test_other_criterions_and_models_are_refused(family):
    task, _ = build(family)
    with pytest.raises(ValueError, match="TransformerModel, no bidirectional_transformer"):
        task.build_generator([family.model()], SimpleNamespace())
    with pytest.raises(ValueError, match="bidirectional_loss, not cross_entropy"):
        task.build_criterion(SimpleNamespace(_name="cross_entropy"))
    with pytest.raises(ValueError, match="--task translation_bidirectional"):
        BidirectionalLoss(build(family)[0], 0.1)(None, {"net_input": {}})


def test_the_autoregressive_task_takes_only_what_it_can_decode(family):
    from fairseq_hrt.autoregressive.task import AutoregressiveTranslationConfig, AutoregressiveTranslationTask

    task = AutoregressiveTranslationTask(AutoregressiveTranslationConfig(), family.dictionary(), family.dictionary())
    for options in (dict(directions=2), dict(directions=1, tokens_per_step=2), dict(directions=2, block=1)):
        with pytest.raises(ValueError, match="--task translation_bidirectional"):
            task.build_generator([family.bidirectional(**options)], SimpleNamespace())
    sample = family.sample([4, 3])
    model = family.bidirectional(directions=1)
    found = task.build_generator([model], SimpleNamespace(beam=2, max_len_b=8)).generate(None, sample)
    own, _ = build(family)
    expected = own.build_generator([model], SimpleNamespace(beam=2, max_len_b=8)).generate(None, sample)
    assert [h["tokens"].tolist() for best in found for h in best] == [
        h["tokens"].tolist() for best in expected for h in best
    ]


def test_half_precision_stays_finite(family):
    task, model = build(family)
    model = model.bfloat16()
    loss, _, _ = BidirectionalLoss(task, 0.1)(model, task.add_slots(batch(family, [5, 3]), 1))
    loss.backward()
    assert torch.isfinite(loss) and all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_the_defaults_are_those_of_the_paper():
    """Two directions, one word each, label smoothing 0.1, nothing taught behind </s>, no ablation."""
    from fairseq_hrt.bidirectional.config import BidirectionalLossConfig, BidirectionalModelConfig

    model, task = BidirectionalModelConfig(), BidirectionalTaskConfig()
    assert (model.bidirectional_directions, model.bidirectional_tokens_per_step, model.bidirectional_block) == (2, 1, None)
    for ablation in ("vanilla_mask", "vanilla_positions", "middle_to_side", "independent_directions"):
        assert getattr(model, f"bidirectional_{ablation}") is False
    assert BidirectionalLossConfig().label_smoothing == 0.1
    assert (task.bidirectional_train_dead_slots, task.bidirectional_truncate_target) == (False, False)
    assert (str(task.bidirectional_scoring), str(task.bidirectional_length_penalty)) == ("canonical", "power")
    assert (task.bidirectional_deduplicate, task.distilled_data, task.raw_probability) == (False, None, 0.0)
    # The training's seed, not one of the task's own.
    assert BidirectionalTaskConfig.__dataclass_fields__["seed"].default == "${common.seed}"


CONFIG = ViewConfig(directions=2, block=2, start=EOS, pad=PAD, eos=EOS)


def two_targets(count):
    """Raw targets 4 5 6 7 and distilled ones 9 9 9 9 9 9 of as many sentences."""
    return {
        "id": torch.arange(100, 100 + count),
        "target": torch.tensor([[4, 5, 6, 7, EOS]]).repeat(count, 1),
        "distilled_target": torch.tensor([[9] * 6 + [EOS]]).repeat(count, 1),
    }


def raw(view):
    return view.target[:, 0] == 4


def test_a_view_written_out():
    view = training_view({"target": torch.tensor([[4, 5, 6, 7, EOS]])}, seed=1, update=1, config=CONFIG)
    assert view.input.tolist() == [[EOS, EOS, 4, 7, 5, 6]]
    assert view.target.tolist() == [[4, 7, 5, 6, EOS, PAD]]
    dead = replace(CONFIG, block=4, train_dead_slots=True)
    assert training_view({"target": torch.tensor([[4, 5, 6, 7, EOS]])}, seed=1, update=1, config=dead).target.tolist() == [
        [4, 7, 5, 6, EOS, EOS, EOS, EOS]
    ]
    middle = replace(CONFIG, middle_to_side=True, start=3)
    view = training_view({"target": torch.tensor([[4, 5, 6, 7, EOS]])}, seed=1, update=1, config=middle)
    assert view.target.tolist() == [[5, 6, 4, 7, EOS, PAD]] and view.input[0, :2].tolist() == [3, 3]


def test_which_targets_a_view_teaches():
    """Drawn by seed, update and sentence, and by nothing else; the share is the probability."""
    batch = two_targets(400)

    def drawn(batch=batch, seed=5, update=7, probability=0.3):
        return raw(training_view(batch, seed=seed, update=update, config=replace(CONFIG, raw_probability=probability)))

    base = drawn()
    assert 80 < base.sum() < 160 and torch.equal(base, drawn())
    assert not torch.equal(base, drawn(seed=6)) and not torch.equal(base, drawn(update=8))
    assert not drawn(probability=0.0).any() and drawn(probability=1.0).all()
    part = {name: values[10:30] for name, values in batch.items()}
    assert torch.equal(drawn(part), base[10:30]), "other sentences of the batch decide nothing"
    assert torch.equal(base, draw_raw(5, 7, batch["id"], 0.3))
    del batch["distilled_target"]
    assert drawn(batch, probability=0.0).all()


def test_the_training_step_draws_anew_in_every_update(family):
    """The task hands over its seed and the number of the update."""
    task, model = build(family, raw_probability=0.5, seed=11)
    sample, seen = {**batch(family, [4] * 30), **two_targets(30)}, []

    class Loss(BidirectionalLoss):
        def forward(self, model, sample, reduce=True):
            seen.append(raw(sample["slots"]))
            return super().forward(model, sample, reduce)

    optimizer = SimpleNamespace(backward=lambda loss: None)
    for update in (3, 4):
        task.train_step(sample, model, Loss(task, 0.1), optimizer, update)
    assert torch.equal(seen[0], draw_raw(11, 3, sample["id"], 0.5))
    assert torch.equal(seen[1], draw_raw(11, 4, sample["id"], 0.5)) and not torch.equal(*seen)
