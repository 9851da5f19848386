"""What the samples of a batch depend on: update, seed, sentence and settings, each of them and
nothing else."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_hrt.hrt.training_batch import draw_chunk_sizes, draw_masks, draw_views

PAD, EOS, MASK, BOS2, BOS3 = 1, 2, 16, 17, 18
COUNT = 40


def drawn(batch, update, share, *, seed=5, sizes=(2, 3), learn_tail=True):
    """The views for a decoder with these chunk sizes."""
    starts = {1: EOS, 2: BOS2, 3: BOS3}
    decoder = SimpleNamespace(
        padding_idx=PAD, eos=EOS, mask=MASK, chunk_sizes=sizes, learn_tail=learn_tail,
        start_symbols=lambda given: torch.tensor([starts[size] for size in given.tolist()]),
    )  # fmt: skip
    return draw_views(batch, update, share, decoder, seed=seed)


def make_batch():
    """40 sentences of 7 words."""
    targets = torch.full((COUNT, 8), 5)
    targets[:, -1] = EOS
    return {"id": 3 * torch.arange(COUNT), "target": targets}


def same(one, other):
    return all(
        a.equal(b) for a, b in zip((*one.causal, *one.parallel), (*other.causal, *other.parallel))
    )


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_samples_change_with_the_update_and_the_seed_and_only_with_them(share):
    batch = make_batch()
    views = drawn(batch, 7, share)
    assert same(views, drawn(batch, 7, share))
    for other in (
        drawn(batch, 8, share),
        drawn(batch, 7, share, seed=6),
    ):
        assert not views.parallel.input.equal(other.parallel.input)
        assert share == 0 or not views.chunk_sizes.equal(other.chunk_sizes)


@pytest.mark.parametrize("update", [0, 1, 12_345])
def test_each_draw_is_the_one_of_its_update(update):
    batch, ids = make_batch(), 3 * torch.arange(COUNT)
    views = drawn(batch, update, 0.5)
    assert views.chunk_sizes.equal(draw_chunk_sizes(5, update, ids, 0.5, (2, 3)))
    at = views.chunk_sizes == 1
    masked = draw_masks(5, update, ids, torch.full((COUNT,), 8), 8)
    assert (views.parallel.input[:, :8] == MASK)[at].equal(masked[at])


def test_start_symbols_are_those_of_the_chunk_size():
    views = drawn(make_batch(), 3, 0.7)
    expected = {1: EOS, 2: BOS2, 3: BOS3}
    assert views.causal.input[:, 0].tolist() == [
        expected[size] for size in views.chunk_sizes.tolist()
    ]
    assert {1, 2, 3} == set(views.chunk_sizes.tolist())


@pytest.mark.parametrize("learn_tail", [True, False])
def test_the_tail_is_learnt_if_the_settings_say_so(learn_tail):
    # 3 words and </s> in chunks of 3: positions 5 and 6 are filled up; 6 belongs to the first
    # stage.
    batch = {"id": torch.arange(2), "target": torch.tensor([[5, 6, 7, EOS]] * 2)}
    views = drawn(batch, 0, 1.0, sizes=(3,), learn_tail=learn_tail)
    tail = EOS if learn_tail else PAD
    assert views.parallel.target.tolist() == [[5, 6, PAD, EOS, tail, PAD]] * 2


def test_training_draws_anew_in_every_update_and_validation_never(hrt):
    task, seen = hrt.task(hrt_curriculum_steps=10)[0], []

    def criterion(_, sample):
        seen.append(sample["views"])
        return (
            torch.zeros((), requires_grad=True),
            1,
            {f"{name}_{what}": 0 for name in ("at", "cmlm") for what in ("nll_loss", "ntokens")},
        )

    model, sample = (
        SimpleNamespace(train=lambda: None, eval=lambda: None, set_num_updates=lambda _: None),
        make_batch(),
    )
    optimizer = SimpleNamespace(backward=lambda loss: None)
    for update in (3, 4):
        task.train_step(sample, model, criterion, optimizer, update)
        expected = draw_views(sample, update, update / 10, task.decoder, seed=task.cfg.seed)
        assert same(seen[-1], expected) and seen[-1].chunk_sizes.equal(expected.chunk_sizes)
    for _ in range(2):
        task.valid_step(sample, model, criterion)
        assert (seen[-2].chunk_sizes > 1).all(), (
            "validation measures the second half of the curriculum's end"
        )
        assert same(seen[-2], draw_views(sample, 0, 1.0, task.decoder, seed=task.cfg.seed))
        # And chunk size 1 beside it.
        assert (
            same(seen[-1], draw_views(sample, 0, 0.0, task.decoder, seed=task.cfg.seed))
            and (seen[-1].chunk_sizes == 1).all()
        )
