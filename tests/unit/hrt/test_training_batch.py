"""What the samples of a batch depend on: update, seed, sentence and settings, each of them and nothing else."""

from argparse import Namespace
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset
from fairseq.models import ARCH_CONFIG_REGISTRY

from fairseq_hrt.hrt.config import HRTTaskConfig
from fairseq_hrt.hrt.curriculum import draw_chunk_sizes, draw_masks
from fairseq_hrt.hrt.task import HRTTranslationTask
from fairseq_hrt.hrt.training_batch import ViewSettings, draw_views
from fairseq_hrt.training.distillation import draw_raw

PAD, EOS, MASK, BOS2, BOS3 = 1, 2, 16, 17, 18
SETTINGS = ViewSettings(seed=5, chunk_sizes=(2, 3), starts=(BOS2, BOS3), eos=EOS, mask=MASK, pad=PAD)
COUNT = 40


def make_batch(distilled=False):
    """40 sentences of 7 words; the distilled ones say another word."""
    targets = torch.full((COUNT, 8), 5)
    targets[:, -1] = EOS
    sample = {"id": 3 * torch.arange(COUNT), "target": targets}
    return {**sample, "distilled_target": targets.where(targets == EOS, 9)} if distilled else sample


def same(one, other):
    return all(a.equal(b) for a, b in zip((*one.causal, *one.parallel), (*other.causal, *other.parallel)))


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_samples_change_with_the_update_and_the_seed_and_only_with_them(share):
    batch = make_batch()
    views = draw_views(batch, 7, share, SETTINGS)
    assert same(views, draw_views(batch, 7, share, SETTINGS))
    for other in (draw_views(batch, 8, share, SETTINGS), draw_views(batch, 7, share, replace(SETTINGS, seed=6))):
        assert not views.parallel.input.equal(other.parallel.input)
        assert share == 0 or not views.chunk_sizes.equal(other.chunk_sizes)


@pytest.mark.parametrize("update", [0, 1, 12_345])
def test_each_draw_is_the_one_of_its_update(update):
    batch, ids = make_batch(distilled=True), 3 * torch.arange(COUNT)
    views = draw_views(batch, update, 0.5, replace(SETTINGS, raw_probability=0.3))
    assert views.chunk_sizes.equal(draw_chunk_sizes(5, update, ids, 0.5, (2, 3)))
    raw = draw_raw(5, update, ids, 0.3)
    words = torch.where(raw, 5, 9)
    at = views.chunk_sizes == 1
    assert views.causal.target[at, 0].equal(words[at]) and 3 < raw.sum() < 25
    masked = draw_masks(5, update, ids, torch.full((COUNT,), 8), 8)
    assert (views.parallel.input[:, :8] == MASK)[at].equal(masked[at])


def test_start_symbols_are_those_of_the_chunk_size():
    views = draw_views(make_batch(), 3, 0.7, SETTINGS)
    expected = {1: EOS, 2: BOS2, 3: BOS3}
    assert views.causal.input[:, 0].tolist() == [expected[size] for size in views.chunk_sizes.tolist()]
    assert {1, 2, 3} == set(views.chunk_sizes.tolist())


@pytest.mark.parametrize("learn_tail", [True, False])
def test_the_tail_is_learnt_if_the_settings_say_so(learn_tail):
    # 3 words and </s> in chunks of 3: positions 5 and 6 are filled up; 6 belongs to the first stage.
    batch = {"id": torch.arange(2), "target": torch.tensor([[5, 6, 7, EOS]] * 2)}
    views = draw_views(batch, 0, 1.0, replace(SETTINGS, chunk_sizes=(3,), starts=(BOS3,), learn_tail=learn_tail))
    tail = EOS if learn_tail else PAD
    assert views.parallel.target.tolist() == [[5, 6, PAD, EOS, tail, PAD]] * 2


# ---------------------------------------------------------------- the task around it


def build(hrt, model=None, **overrides):
    task = HRTTranslationTask(
        HRTTaskConfig(**{"max_update": 100, "seed": 5, **overrides}), hrt.dictionary(12), hrt.dictionary(12)
    )
    task.decoder = hrt.model(symbols=12, **(model or {})).decoder
    return task


def test_the_task_hands_over_what_it_was_given(hrt):
    settings = build(hrt, dict(hrt_chunk_sizes=[3, 2], hrt_tail_target="pad"), seed=9, raw_probability=0.25).view_settings()
    assert settings == ViewSettings(
        seed=9, chunk_sizes=(3, 2), starts=(17, 18), eos=EOS, mask=16, pad=PAD, learn_tail=False, raw_probability=0.25
    )
    assert build(hrt).view_settings().learn_tail


def test_training_draws_anew_in_every_update_and_validation_never(hrt):
    task, seen = build(hrt, hrt_curriculum_steps=10), []

    def criterion(_, sample):
        seen.append(sample["views"])
        return torch.zeros((), requires_grad=True), 1, {}

    model, sample = SimpleNamespace(train=lambda: None, eval=lambda: None, set_num_updates=lambda _: None), make_batch()
    optimizer = SimpleNamespace(backward=lambda loss: None)
    for update in (3, 4):
        task.train_step(sample, model, criterion, optimizer, update)
        expected = draw_views(sample, update, update / 10, task.view_settings())
        assert same(seen[-1], expected) and seen[-1].chunk_sizes.equal(expected.chunk_sizes)
    for _ in range(2):
        task.valid_step(sample, model, criterion)
        assert (seen[-1].chunk_sizes > 1).all(), "validation measures the second half of the curriculum's end"
        assert same(seen[-1], draw_views(sample, 0, 1.0, task.view_settings()))


@pytest.mark.parametrize("choice", ["1", "2", "auto"])
def test_options_of_decoding_reach_the_generator(hrt, choice):
    task = build(hrt, hrt_decode_chunk=choice, hrt_nat_beam=2, hrt_eos_last_chunk=True, hrt_chunk_table="7:3,inf:2")
    generator = task.build_generator([hrt.model(symbols=12)], SimpleNamespace(beam=4))
    assert generator.eos_last_chunk and generator.chooser.sizes == {"1": {1}, "2": {2}, "auto": {2, 3}}[choice]
    # Autoregressive decoding has no second stage, and all its hypotheses may be asked for.
    assert generator.nat_beam == (4 if choice == "1" else 2)
    task.cfg.hrt_eos_last_chunk = False
    assert not task.build_generator([hrt.model(symbols=12)], SimpleNamespace(beam=4)).eos_last_chunk


def test_a_second_stage_beam_does_not_stand_in_the_way_of_autoregressive_decoding(hrt):
    task = build(hrt, hrt_decode_chunk="1", hrt_nat_beam=3)
    assert task.build_generator([hrt.model(symbols=12)], SimpleNamespace(beam=2)).nat_beam == 2


def test_validation_measures_autoregressive_decoding_if_asked(hrt):
    task = build(hrt, eval_bleu=True, hrt_eval_autoregressive=True, hrt_nat_beam=1, hrt_decode_chunk="3")
    args = Namespace(**hrt.TINY, arch="hrt_transformer", hrt_chunk_sizes=[2, 3])
    ARCH_CONFIG_REGISTRY["hrt_transformer"](args)
    task.build_model(args)
    assert task.autoregressive_generator.chooser.sizes == {1}
    assert task.sequence_generator.chooser.sizes == {3}
    for options in (dict(eval_bleu=True), dict(hrt_eval_autoregressive=True)):
        task = build(hrt, **options)
        task.build_model(args)
        assert not hasattr(task, "autoregressive_generator")


@pytest.mark.parametrize("truncate", [True, False])
def test_targets_are_cut_if_asked(hrt, monkeypatch, truncate):
    """At L, the largest number of target positions; otherwise fairseq leaves the sentence out."""
    rows, sizes = [torch.tensor([*[5] * 8, EOS]), torch.tensor([6, EOS])], [9, 2]
    dictionary = hrt.dictionary(12)

    def load(self, split, epoch=1, combine=False, **_):
        self.datasets[split] = LanguagePairDataset(
            ListDataset(rows, sizes), torch.tensor(sizes).numpy(), dictionary, ListDataset(rows, sizes),
            torch.tensor(sizes).numpy(), dictionary, left_pad_target=False,
        )  # fmt: skip

    monkeypatch.setattr("fairseq_hrt.task.TranslationTask.load_dataset", load)
    task = build(hrt, hrt_truncate_target=truncate, max_target_positions=6)
    task.load_dataset("train")
    expected = [[5] * 5 + [EOS], [6, EOS]] if truncate else [row.tolist() for row in rows]
    assert [task.datasets["train"][i]["target"].tolist() for i in range(2)] == expected
