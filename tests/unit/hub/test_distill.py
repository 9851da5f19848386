"""Blocks of translations: the merged text is the same whatever happened on the way."""

import json
import random
import os
import sys
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fairseq_hrt import systems
from fairseq_hrt.cli import distill as verb
from fairseq_hrt.cli.distill import binarise, data_files, gpu_of, preprocess_command, shard_of, teacher_files
from fairseq_hrt.files import content_hash
from fairseq_hrt.hub.resume import identified_options
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
            block_path(tmp_path / "disturbed", 3).with_name("000003.json.hrt-0123abcd.partial").write_text("half a l")
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


def test_progress_moves_with_every_batch(tmp_path):
    plan, done = make_plan(block=100), []
    translate_blocks(tmp_path, plan, decode, done.append)
    assert done == [len(batch) for first in (range(100), range(100, 103)) for batch in make_batches(first, LENGTHS, 60)]
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
    (tmp_path / "settings.json").write_text("[1]")
    with pytest.raises(ValueError, match="settings.json is damaged"):
        check_settings(tmp_path, make_plan())


def test_two_processes_on_the_same_blocks(tmp_path):
    plan = make_plan()
    translate_blocks(tmp_path / "one", plan, decode)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: translate_blocks(tmp_path / "two", plan, decode), range(4)))
        results = list(pool.map(lambda _: merge(tmp_path / "two", plan, lambda n: f"s{n}", ("de", "en"), "train"), range(4)))
    assert results == [results[0]] * 4 and not list((tmp_path / "two").rglob("*.partial"))
    merged(tmp_path / "one", plan)
    for name in ("train.de", "train.en", "statistics.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_teacher_and_data_are_their_contents(tmp_path):
    files = {"a/checkpoint.pt": "1", "b/moved.pt": "1", "b/checkpoint.pt": "2", "ct2/model.bin": "3", "ct2/config.json": "4"}
    data = ["train.de-en.de.bin", "train.de-en.en.idx", "train1.de-en.de.bin", "dict.de.txt", "dict.en.txt"]
    others = ["train.de-fr.de.bin", "dict.fr.txt", "test.de-en.de.bin", "preprocess.log", "trainer.de-en.de.bin"]
    for name, text in {**files, **{f"data/{name}": name for name in data + others}}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    hashed = lambda *paths: content_hash(teacher_files(os.pathsep.join(str(tmp_path / path) for path in paths)))  # noqa: E731
    assert hashed("a/checkpoint.pt") == hashed("b/moved.pt") != hashed("b/checkpoint.pt")
    assert hashed("a/checkpoint.pt", "b/checkpoint.pt") != hashed("a/checkpoint.pt")
    assert len(teacher_files(str(tmp_path / "ct2"))) == 2
    for languages in (("de", "en"), ("en", "de")):
        assert {path.name for path in data_files(str(tmp_path / "data"), "train", languages)} == set(data)
    options = {"beam": "5", "jacobi_draft_path": str(tmp_path / "a/checkpoint.pt"), "lm_path": "none"}
    assert identified_options({"replace_unk": str(tmp_path / "b/moved.pt")})["replace_unk"].startswith("sha256 ")
    before = identified_options(options)
    assert before["beam"] == "5" and before["lm_path"] == "none" and before["jacobi_draft_path"].startswith("sha256 ")
    (tmp_path / "a/checkpoint.pt").write_text("retrained")
    assert identified_options(options) != before


def test_preprocess_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert preprocess_command() == [str(tmp_path / "python"), "-m", "fairseq_cli.preprocess"]
    monkeypatch.setattr(verb.importlib.util, "find_spec", lambda name: None)
    script = tmp_path / "bin" / "fairseq-preprocess"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent))
    assert preprocess_command() == [str(script)]
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match="fairseq-preprocess is not found"):
        preprocess_command()
    script.rename(tmp_path / "fairseq-preprocess")
    assert preprocess_command() == [str(tmp_path / "fairseq-preprocess")]


def test_binarised_data_appear_when_they_are_complete(tmp_path):
    program = tmp_path / "preprocess.py"
    program.write_text(
        "import pathlib, sys\n"
        "folder = next(argument for argument in sys.argv if argument.startswith('--destdir=')).split('=', 1)[1]\n"
        "pathlib.Path(folder, 'train.bin').write_text('bin')\n"
        "sys.exit(sys.argv[1] or 0)\n"
    )
    for fails, expected in (("no room", set()), ("", {"train.bin"}), ("no room", {"train.bin"}), ("", {"train.bin"})):
        try:
            binarise(tmp_path / "out", "data", ("de", "en"), 1, [sys.executable, str(program), fails])
        except ValueError as error:
            assert fails and str(error) == "fairseq-preprocess failed: no room"
        else:
            assert not fails
        assert {path.name for path in (tmp_path / "out" / "data-bin").glob("*")} == expected
        assert not list(tmp_path.rglob("*.partial"))


def test_a_teacher_of_the_same_name_is_not_mixed_in(tmp_path, monkeypatch, capsys):
    checkpoint, data = tmp_path / "checkpoint_best.pt", tmp_path / "data"
    data.mkdir()
    for name in ("train.de-en.de.bin", "dict.de.txt", "dict.en.txt"):
        (data / name).write_text(name)
    checkpoint.write_text("first")
    dictionary = Namespace(string=lambda tokens: "word")
    system = Namespace(
        task=Namespace(cfg=Namespace(source_lang="de", target_lang="en"), source_dictionary=dictionary, target_dictionary=dictionary),
        dataset=[{"source": 0}] * 5, models=[], task_name="translation", collate=lambda batch: {"id": torch.tensor(batch)},
        decode=lambda sample: [[{"tokens": sample["id"]}]] * len(sample["id"]),
    )  # fmt: skip
    system.dataset = type("Dataset", (list,), {"src_sizes": [3] * 5})(system.dataset)
    loads = [lambda spec, data: system]
    monkeypatch.setattr(systems, "load_system", lambda *given: loads[0](*given))
    monkeypatch.setattr(verb, "load_system", lambda *given: loads[0](*given), raising=False)
    monkeypatch.setattr(verb, "binarise", lambda *given: None)

    def run(path=checkpoint, beam=1):
        try:
            verb.main([str(data), "--system", f"name=t,path={path},beam={beam}", "--out", str(tmp_path / "out")])
        except SystemExit as end:
            # Before it stand the log and the progress bar.
            return end.code, capsys.readouterr().err.splitlines()[-1]
        return 0, ""

    assert run() == (0, "") and (tmp_path / "out/train.en").read_text() == "word\n" * 5
    moved = checkpoint.rename(tmp_path / "moved.pt")
    assert run(moved) == (0, "")
    checkpoint.write_text("trained on")
    (status, error), (options, other) = run(), run(moved, beam=2)
    assert status == 2 and "other settings (teacher: 'sha256 " in error
    assert options == 2 and "beam: '1' then, '2' now" in other
    (data / "train.de-en.de.bin").write_text("other sentences")
    assert "other settings (data: 'sha256 " in run(moved)[1]
    # A training that writes its checkpoint while it is being loaded.
    loads[0] = lambda spec, data: checkpoint.write_text("and on") and system
    assert "changed while it was being read" in run()[1]
