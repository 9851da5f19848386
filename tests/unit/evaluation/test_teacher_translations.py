"""Blocks of translations: the merged text is the same whatever happened on the way."""

import json
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairseq_hrt.evaluation.teacher_translations import (
    Plan,
    block_path,
    check_settings,
    make_batches,
    merge,
    missing,
    translate_blocks,
)

LENGTHS = [random.Random(5).randint(1, 30) for _ in range(103)]


def make_plan(**changes):
    values = dict(
        sentences=103,
        lengths=LENGTHS,
        block=10,
        max_tokens=60,
        shards=1,
        shard=0,
        settings={"beam": "5"},
    )
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
    statistics = merge(folder, plan, lambda sentence: f"s{sentence}", ("de", "en"))
    return (folder / "train.de").read_bytes(), (folder / "train.en").read_bytes(), statistics


def test_everything_is_written_once_and_in_order(tmp_path):
    plan = make_plan()
    done = []
    translate_blocks(tmp_path, plan, decode, done.append)
    assert sum(done) == 103 and missing(tmp_path, plan) == 0
    source, target, statistics = merged(tmp_path, plan)
    assert source.decode().split("\n") == [f"s{n}" for n in range(103) for _ in range(2)] + [""]
    assert target.decode().split("\n") == [text for n in range(103) for text in decode([n])[0]] + [
        ""
    ]
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
            # A killed process leaves this half written.
            block_path(tmp_path / "disturbed", 3).parent.mkdir(parents=True, exist_ok=True)
            block_path(tmp_path / "disturbed", 3).with_name(
                "000003.json.hrt-0123abcd.partial"
            ).write_text("half a l")
    check_settings(tmp_path / "disturbed", plan)
    translate_blocks(tmp_path / "disturbed", plan, decode)
    assert not list((tmp_path / "disturbed").rglob("*.partial"))
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
    assert all(
        len(batch) * max(LENGTHS[n] for n in batch) <= 60 for batch in batches if len(batch) > 1
    )
    assert make_batches([0], [500], 60) == [[0]] and make_batches([], [], 60) == []


def test_settings_are_not_mixed(tmp_path):
    check_settings(tmp_path, make_plan())
    check_settings(tmp_path, make_plan(shards=2, shard=1))
    assert '"beam": "5"' in (tmp_path / "settings.json").read_text()
    with pytest.raises(ValueError, match="beam: '5' then, '1' now"):
        check_settings(tmp_path, make_plan(settings={"beam": "1"}))
    with pytest.raises(ValueError, match="block: 10 then, 20 now"):
        check_settings(tmp_path, make_plan(block=20))
    check_settings(tmp_path / "new", make_plan(settings={"teacher": "für später"}))
    assert "für später" in (tmp_path / "new" / "settings.json").read_text(encoding="utf-8"), (
        "people read it"
    )


def test_damaged_blocks_are_named(tmp_path):
    plan = make_plan()
    translate_blocks(tmp_path, plan, decode)
    block_path(tmp_path, 4).write_text("[]\n")
    with pytest.raises(ValueError, match="000004.json has 1 lines instead of 10"):
        merged(tmp_path, plan)
    for line in (
        "5",
        "null",
        '"x"',
        "[1]",
        "{",
        '{"a": 1}',
        "",
        '["x\\ny"]',
        '["x\\ry"]',
        "[" * 100_000,
    ):
        block_path(tmp_path, 4).write_text(f"{line}\n" * 10)
        with pytest.raises(ValueError, match=r"000004.json is damaged: .*remove the file"):
            merged(tmp_path, plan)


@pytest.mark.parametrize(
    "changes", [dict(block=0), dict(max_tokens=0), dict(shards=2, shard=2), dict(shard=-1)]
)
def test_impossible_plans(changes):
    with pytest.raises(ValueError, match="--"):
        make_plan(**changes)


def test_progress_moves_with_every_batch(tmp_path):
    plan, done = make_plan(block=100), []
    translate_blocks(tmp_path, plan, decode, done.append)
    assert done == [
        len(batch)
        for first in (range(100), range(100, 103))
        for batch in make_batches(first, LENGTHS, 60)
    ]
    done.clear()
    translate_blocks(tmp_path, plan, decode, done.append)
    assert done == [100, 3]


def test_processes_that_begin_together_agree(tmp_path):
    def check(beam):
        try:
            check_settings(tmp_path, make_plan(settings={"beam": str(beam)}))
        except ValueError as error:
            assert "other settings (beam: " in str(error)
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(check, range(8))) == 1
    for text in ("[1]", "[" * 100_000):
        (tmp_path / "settings.json").write_text(text)
        with pytest.raises(ValueError, match="settings.json is damaged"):
            check_settings(tmp_path, make_plan())


def test_two_processes_on_the_same_blocks(tmp_path):
    plan = make_plan()
    translate_blocks(tmp_path / "one", plan, decode)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: translate_blocks(tmp_path / "two", plan, decode), range(4)))
        results = list(
            pool.map(
                lambda _: merge(tmp_path / "two", plan, lambda n: f"s{n}", ("de", "en")),
                range(4),
            )
        )
    assert results == [results[0]] * 4 and not list((tmp_path / "two").rglob("*.partial"))
    merged(tmp_path / "one", plan)
    for name in ("train.de", "train.en", "statistics.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
