"""Two targets for one source."""

from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.training import distillation
from fairseq_hrt.training.distillation import MixedTargetDataset, draw_raw, with_drawn_targets


def pairs(tiny, targets, sources=None):
    sources = sources or [[5] * length + [2] for length in (3, 1, 2, 4)]
    tensors = [[torch.tensor(line) for line in side] for side in (sources, targets)]
    sizes = [[len(line) for line in side] for side in (sources, targets)]
    return LanguagePairDataset(
        ListDataset(tensors[0], sizes[0]),
        sizes[0],
        tiny.dictionary(),
        ListDataset(tensors[1], np.array(sizes[1])),
        sizes[1],
        tiny.dictionary(),
        shuffle=False,
    )


RAW = [[6, 2], [7, 7, 2], [8, 2], [9, 9, 9, 2]]
DISTILLED = [[10, 10, 10, 2], [11, 2], [12, 12, 2], [13, 2]]


def test_both_targets_follow_their_source(tiny):
    mixed = MixedTargetDataset(pairs(tiny, RAW), pairs(tiny, DISTILLED))
    batch = mixed.collater([mixed[i] for i in (1, 3, 0, 2)])
    for row, number in enumerate(batch["id"].tolist()):
        for key, lines in (("target", RAW), ("distilled_target", DISTILLED)):
            line = batch[key][row]
            assert line[line.ne(tiny.PAD)].tolist() == lines[number]
    assert mixed.collater([]) == {}


def test_lengths_are_those_of_the_longer_target(tiny):
    mixed = MixedTargetDataset(pairs(tiny, RAW), pairs(tiny, DISTILLED))
    assert mixed.tgt_sizes.tolist() == [4, 3, 3, 4]
    assert [mixed.num_tokens(i) for i in range(4)] == [4, 3, 3, 5]
    assert mixed.num_tokens_vec(np.arange(4)).tolist() == [4, 3, 3, 5]
    kept, dropped = mixed.filter_indices_by_size(np.arange(4), (10, 3))
    assert kept.tolist() == [1, 2] and sorted(dropped) == [0, 3]


@pytest.mark.parametrize(
    "sources, targets, message",
    [
        (None, DISTILLED[:3], "has 3 sentences but raw has 4"),
        ([[5, 2], [5, 2], [5, 5, 2], [5, 5, 5, 5, 2]], DISTILLED, "source of sentence 0 differs"),
        (
            [[5, 5, 5, 2], [5, 2], [5, 6, 2], [5, 5, 5, 5, 2]],
            DISTILLED,
            "source of sentence 2 differs",
        ),
    ],
)
def test_other_sources_are_refused(tiny, sources, targets, message):
    if sources is None:
        sources = [[5] * length + [2] for length in (3, 1, 2)]
    with pytest.raises(ValueError, match=message):
        distillation._same_sources(
            pairs(tiny, RAW), pairs(tiny, targets, sources), "distilled", "raw"
        )


def test_dictionaries_are_compared(tmp_path):
    for name, words in (("raw", "a 1\n"), ("same", "a 1\n"), ("other", "b 1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dict.de.txt").write_text(words)
    raw = str(tmp_path / "raw")
    distillation._same_dictionary(str(tmp_path / "same"), raw, "dict.de.txt")
    with pytest.raises(ValueError, match="dict.de.txt differs.*--tgtdict"):
        distillation._same_dictionary(str(tmp_path / "other"), raw, "dict.de.txt")
    with pytest.raises(FileNotFoundError, match="dict.en.txt does not exist.*--srcdict"):
        distillation._same_dictionary(str(tmp_path / "same"), raw, "dict.en.txt")


def configured(**changes):
    return Namespace(
        distilled_data="a", data="b", train_subset="train", num_batch_buckets=0,
        load_alignments=False, **{"source_lang": "de", "target_lang": "en", **changes},
    )  # fmt: skip


def test_impossible_combinations_are_named(tiny):
    cfg = configured()
    cfg.num_batch_buckets = 2
    with pytest.raises(ValueError, match="--num-batch-buckets"):
        distillation.with_distilled_targets(pairs(tiny, RAW), cfg, "train", 1, combine=False)
    cfg.distilled_data = "a:c"
    with pytest.raises(ValueError, match="names 2 folders but the data 1: give one for each"):
        distillation.with_distilled_targets(pairs(tiny, RAW), cfg, "train", 1, combine=False)


def test_shards_take_turns_and_other_splits_stay(tiny, monkeypatch):
    raw, asked = pairs(tiny, RAW), []
    monkeypatch.setattr(distillation, "_same_dictionary", lambda *names: asked.append(names[:2]))
    monkeypatch.setattr(distillation, "load_langpair_dataset", lambda *a, **b: 1 / 0)
    cfg = configured()
    cfg.distilled_data, cfg.data = "a:c", "b:d"
    for epoch in (1, 2, 3):
        with pytest.raises(ZeroDivisionError):
            cfg.dataset_impl = cfg.upsample_primary = cfg.left_pad_source = None
            cfg.left_pad_target = cfg.max_source_positions = cfg.max_target_positions = None
            cfg.truncate_source = cfg.required_seq_len_multiple = None
            distillation.with_distilled_targets(raw, cfg, "train", epoch, combine=False)
    assert asked[::2] == [("a", "b"), ("c", "d"), ("a", "b")]
    assert distillation.with_distilled_targets(raw, cfg, "valid", 1, combine=False) is raw
    cfg.distilled_data = None
    assert distillation.with_distilled_targets(raw, cfg, "train", 1, combine=False) is raw


@given(
    raw=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    other=st.integers(1, 7),
    update=st.integers(0, 50),
)
def test_one_of_two_targets_is_chosen_whole(raw, other, update):
    def padded(lengths, filler):
        rows = [[filler] * length + [1] * (max(lengths) - length) for length in lengths]
        return torch.tensor(rows).view(len(lengths), -1)

    first, second = padded(raw, 7), padded([other] * len(raw), 8)
    batch = {"id": torch.arange(len(raw)), "target": first, "distilled_target": second}
    cfg = SimpleNamespace(seed=1, raw_probability=0.5)
    chosen = with_drawn_targets(batch, cfg, update, pad=1)["target"]
    assert chosen.shape == (len(raw), max(first.size(1), other))
    for row, length, mine in zip(chosen, raw, draw_raw(1, update, batch["id"], 0.5)):
        assert row[row.ne(1)].tolist() == ([7] * length if mine else [8] * other)


# The targets on which each family trains in a batch.
LEARNT = {
    "hrt": lambda sample: sample["views"].causal.target,
    "bidirectional": lambda sample: sample["slots"].target,
    "ctc": lambda sample: sample["ctc"].targets,
}


def test_who_takes_distilled_targets():
    """A task with the option and without a test below could ignore it."""
    having = {
        name for name, cfg in TASK_DATACLASS_REGISTRY.items() if hasattr(cfg, "distilled_data")
    }
    assert having == {f"translation_{family}" for family in LEARNT} | {"translation_mask_predict"}


@pytest.mark.parametrize("family", LEARNT)
def test_every_family_learns_what_was_drawn(tiny, family):
    """By seed, update and sentence; validation takes the raw targets."""
    name, count = f"translation_{family}", 40
    cfg = TASK_DATACLASS_REGISTRY[name](seed=11, raw_probability=0.3)
    if family == "hrt":
        cfg.max_update = 10
    task = TASK_REGISTRY[name](cfg, tiny.dictionary(), tiny.dictionary())
    model = tiny.model(f"{family}_transformer")
    task.decoder = model.decoder
    rows = torch.ones(count, 1, dtype=torch.long)
    sample = {
        **tiny.sample([5] * count),
        "id": torch.arange(100, 100 + count),
        "target": rows * torch.tensor([6, 6, 6, 6, 2]),
        "distilled_target": rows * torch.tensor([8, 8, 8, 2, 1, 1]),
    }
    seen = []

    def criterion(model, sample):
        learnt = LEARNT[family](sample)
        seen.append(((learnt == 6).any(1), (learnt == 8).any(1), sample["target"]))
        log = {f"{name}_{what}": 0 for name in ("at", "cmlm") for what in ("nll_loss", "ntokens")}
        return torch.zeros((), requires_grad=True), 1, log

    optimizer = SimpleNamespace(backward=lambda loss: None)
    for update in (3, 4):
        task.train_step(sample, model, criterion, optimizer, update)
        raw, distilled, target = seen[-1]
        assert torch.equal(raw, draw_raw(11, update, sample["id"], 0.3))
        assert torch.equal(distilled, ~raw) and 4 < raw.sum() < 24
        drawn = with_drawn_targets(sample, cfg, update, tiny.PAD)
        assert torch.equal(target, drawn["target"])
    assert not torch.equal(seen[0][0], seen[1][0])
    task.valid_step(sample, model, criterion)
    raw, distilled, target = seen[2]
    assert raw.all() and not distilled.any() and torch.equal(target, sample["target"])


def test_the_shortest_target_decides_what_fits(tiny):
    """A longer one may never be drawn."""
    mixed = MixedTargetDataset(pairs(tiny, RAW), pairs(tiny, DISTILLED))
    expected = {0.0: [4, 2, 3, 2], 0.5: [2, 2, 2, 2], 1.0: [2, 3, 2, 4]}
    for probability, sizes in expected.items():
        assert distillation.shortest_target_sizes(mixed, probability).tolist() == sizes
    distillation.truncate_targets(mixed, 3, 2)
    assert distillation.shortest_target_sizes(mixed, 0.0).tolist() == [3, 2, 3, 2]
    raw = pairs(tiny, RAW)
    assert list(distillation.shortest_target_sizes(raw, 0.0)) == [2, 3, 2, 4]
