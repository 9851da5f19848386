"""Blocks of translations: the merged text is the same whatever happened on the way."""

import json
import random
from argparse import Namespace

import pytest

from fairseq_hrt.cli.distill import gpu_of, shard_of
from fairseq_hrt.hub.distill import Plan, block_path, check_settings, make_batches, merge, missing, translate_blocks

LENGTHS = [random.Random(5).randint(1, 30) for _ in range(103)]


def make_plan(**changes):
    values = dict(sentences=103, lengths=LENGTHS, block=10, max_tokens=60, shards=1, shard=0, settings={"beam": "5"})
    return Plan(**{**values, **changes})


class Interrupted(BaseException):
    """As sudden as a signal."""


def decode(batch):
    return [[f"t{sentence} " * (sentence % 4), f"u{sentence}"] for sentence in batch]


def decode_until(count):
    left = [count]

    def interrupted(batch):
        left[0] -= 1
        if left[0] < 0:
            raise Interrupted
        return decode(batch)

    return interrupted


def merged(folder, plan):
    statistics = merge(folder, plan, lambda sentence: f"s{sentence}", ("de", "en"), "train")
    return (folder / "train.de").read_bytes(), (folder / "train.en").read_bytes(), statistics


def test_everything_is_written_once_and_in_order(tmp_path):
    plan = make_plan()
    done = []
    translate_blocks(tmp_path, plan, decode, done.append)
    assert sum(done) == 103 and missing(tmp_path, plan) == 0
    source, target, statistics = merged(tmp_path, plan)
    assert source.decode().split("\n") == [f"s{n}" for n in range(103) for _ in range(2)] + [""]
    assert target.decode().split("\n") == [text for n in range(103) for text in decode([n])[0]] + [""]
    assert statistics["pairs"] == 206 and statistics["empty"] == sum(n % 4 == 0 for n in range(103))
    assert json.loads((tmp_path / "statistics.json").read_text()) == statistics


@pytest.mark.parametrize("seed", range(20))
def test_interrupted_at_any_moment(tmp_path, seed):
    plan = make_plan()
    translate_blocks(tmp_path / "undisturbed", plan, decode)
    random.seed(seed)
    for _ in range(5):
        try:
            translate_blocks(tmp_path / "disturbed", plan, decode_until(random.randint(0, 20)))
        except Interrupted:
            # What a killed process leaves half written.
            block_path(tmp_path / "disturbed", 3).parent.mkdir(parents=True, exist_ok=True)
            block_path(tmp_path / "disturbed", 3).with_suffix(".partial").write_text("half a l")
    translate_blocks(tmp_path / "disturbed", plan, decode)
    assert merged(tmp_path / "disturbed", plan) == merged(tmp_path / "undisturbed", plan)


def test_shards_do_the_work_of_one(tmp_path):
    translate_blocks(tmp_path / "one", make_plan(), decode)
    for shard in (2, 0, 1):
        plan = make_plan(shards=3, shard=shard)
        assert missing(tmp_path / "three", plan) > 0
        translate_blocks(tmp_path / "three", plan, decode)
    assert missing(tmp_path / "three", plan) == 0
    assert merged(tmp_path / "three", plan) == merged(tmp_path / "one", make_plan())


def test_batches():
    batches = make_batches(range(103), LENGTHS, 60)
    assert sorted(sentence for batch in batches for sentence in batch) == list(range(103))
    assert all(len(batch) * max(LENGTHS[n] for n in batch) <= 60 for batch in batches if len(batch) > 1)
    assert make_batches([0], [500], 60) == [[0]] and make_batches([], [], 60) == []


def test_settings_are_not_mixed(tmp_path):
    check_settings(tmp_path, make_plan())
    check_settings(tmp_path, make_plan(shards=2, shard=1))
    with pytest.raises(ValueError, match="beam: '5' then, '1' now"):
        check_settings(tmp_path, make_plan(settings={"beam": "1"}))
    with pytest.raises(ValueError, match="block: 10 then, 20 now"):
        check_settings(tmp_path, make_plan(block=20))


def test_damaged_blocks_are_named(tmp_path):
    plan = make_plan()
    translate_blocks(tmp_path, plan, decode)
    block_path(tmp_path, 4).write_text("[]\n")
    with pytest.raises(ValueError, match="000004.json has 1 lines instead of 10"):
        merged(tmp_path, plan)


@pytest.mark.parametrize("changes", [dict(block=0), dict(max_tokens=0), dict(shards=2, shard=2), dict(shard=-1)])
def test_impossible_plans(changes):
    with pytest.raises(ValueError, match="--"):
        make_plan(**changes)


def test_launchers_choose_shard_and_gpu():
    given, silent = Namespace(num_shards=4, shard_id=3), Namespace(num_shards=None, shard_id=None)
    torchrun = {"WORLD_SIZE": "8", "RANK": "5", "LOCAL_RANK": "1"}
    slurm = {"SLURM_NTASKS": "6", "SLURM_PROCID": "4", "SLURM_LOCALID": "3"}
    assert shard_of(silent, torchrun) == (8, 5) and shard_of(silent, slurm) == (6, 4)
    assert shard_of(given, torchrun) == (4, 3) and shard_of(silent, {}) == (1, 0)
    assert gpu_of(torchrun, 2) == 1 and gpu_of(slurm, 2) == 1 and gpu_of(slurm, 8) == 3
    assert gpu_of(torchrun, 0) is None and gpu_of({}, 8) is None
