"""``fairseq-hrt distill``: who takes which shard, what identifies teacher and data, and when the
result appears."""

import json
import os
from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_hrt.cli import distill as verb
from fairseq_hrt.cli.distill import (
    binarise,
    data_files,
    gpu_of,
    other_sets,
    require_preprocess,
    shard_of,
)
from fairseq_hrt.evaluation import systems
from fairseq_hrt.native.decoding import Hypothesis
from fairseq_hrt.native.io.files import content_hash
from fairseq_hrt.native.io.resuming import identified_options, model_files


def test_launchers_choose_shard_and_gpu():
    given, silent = Namespace(num_shards=4, shard_id=3), Namespace(num_shards=None, shard_id=None)
    torchrun = {"WORLD_SIZE": "8", "RANK": "5", "LOCAL_RANK": "1"}
    slurm = {"SLURM_NTASKS": "6", "SLURM_PROCID": "4", "SLURM_LOCALID": "3"}
    assert shard_of(silent, torchrun) == (8, 5) and shard_of(silent, slurm) == (6, 4)
    assert shard_of(given, torchrun) == (4, 3) and shard_of(silent, {}) == (1, 0)
    script = {"SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    assert [gpu_of(script, 4, shard) for shard in range(5)] == [0, 1, 2, 3, 0]
    assert gpu_of(slurm, 8, 1) == 3 and gpu_of({**torchrun, **script}, 2, 0) == 1
    assert gpu_of(torchrun, 2) == 1 and gpu_of(slurm, 2) == 1 and gpu_of(slurm, 8) == 3
    assert gpu_of(torchrun, 0) is None and gpu_of({}, 8) is None
    # Shards that a loop starts take the GPUs in turn; a launcher's choice comes first.
    assert [gpu_of({}, 2, shard) for shard in (0, 1, 2, 5)] == [0, 1, 0, 1]
    assert gpu_of(torchrun, 8, 3) == 1 and gpu_of({}, 0, 3) is None
    assert shard_of(Namespace(num_shards=0, shard_id=0), torchrun) == (0, 0), "a plan refuses it"
    for half, message in (
        (Namespace(num_shards=None, shard_id=0), "--shard-id 0 needs --num-shards"),
        (Namespace(num_shards=4, shard_id=None), "--num-shards 4 needs --shard-id"),
    ):
        for environment in ({}, torchrun):
            with pytest.raises(ValueError, match=f"^{message}; give both, or neither$"):
                shard_of(half, environment)


@pytest.mark.parametrize("option", ["--threads", "--workers"])
def test_no_threads_are_refused_before_the_work(option, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        verb.main(
            [
                "data",
                "--system",
                "name=t,path=missing.pt",
                "--out",
                str(tmp_path / "out"),
                option,
                "0",
            ]
        )
    assert (
        end.value.code == 2 and capsys.readouterr().err == f"error: {option} 0 must be at least 1\n"
    )


def test_teacher_and_data_are_their_contents(tmp_path):
    files = {
        "a/checkpoint.pt": "1",
        "b/moved.pt": "1",
        "b/checkpoint.pt": "2",
        "ct2/model.bin": "3",
        "ct2/config.json": "4",
    }
    data = [
        "train.de-en.de.bin",
        "train.de-en.en.idx",
        "train1.de-en.de.bin",
        "dict.de.txt",
        "dict.en.txt",
    ]
    others = [
        "train.de-fr.de.bin",
        "dict.fr.txt",
        "test.de-en.de.bin",
        "preprocess.log",
        "trainer.de-en.de.bin",
    ]
    for name, text in {**files, **{f"data/{name}": name for name in data + others}}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def hashed(*paths):
        return content_hash(model_files(os.pathsep.join(str(tmp_path / path) for path in paths)))

    assert hashed("a/checkpoint.pt") == hashed("b/moved.pt") != hashed("b/checkpoint.pt")
    assert hashed("a/checkpoint.pt", "b/checkpoint.pt") != hashed("a/checkpoint.pt")
    assert len(model_files(str(tmp_path / "ct2"))) == 2
    for languages in (("de", "en"), ("en", "de")):
        assert {
            path.name for path in data_files(str(tmp_path / "data"), "train", languages)
        } == set(data)
    options = {
        "beam": "5",
        "jacobi_draft_path": str(tmp_path / "a/checkpoint.pt"),
        "lm_path": "none",
    }
    assert identified_options({"replace_unk": str(tmp_path / "b/moved.pt")})[
        "replace_unk"
    ].startswith("sha256 ")
    before = identified_options(options)
    assert (
        before["beam"] == "5"
        and before["lm_path"] == "none"
        and before["jacobi_draft_path"].startswith("sha256 ")
    )
    (tmp_path / "a/checkpoint.pt").write_text("retrained")
    assert identified_options(options) != before


@pytest.mark.parametrize("module", ("no_such_package.preprocess", "fairseq_cli.no_such_module"))
def test_preprocess_is_looked_for(monkeypatch, module):
    require_preprocess()
    monkeypatch.setattr(verb, "PREPROCESS", module)
    with pytest.raises(ValueError, match=f"{module}, .* is not installed"):
        require_preprocess()


def test_binarised_data_appear_when_they_are_complete(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(verb, "PREPROCESS", "own_preprocess")
    (tmp_path / "own_preprocess.py").write_text(
        "import os, pathlib, sys\nfolder = next(argument for argument in sys.argv if"
        " argument.startswith('--destdir=')).split('=', 1)[1]\npathlib.Path(folder,"
        " 'train.bin').write_text('bin')\nsys.exit(os.environ['FAILS'] or 0)\n"
    )
    data = tmp_path / "data"
    data.mkdir()
    kept = {"valid.de-en.de.bin", "valid1.de-en.en.idx", "test.de-en.de.bin"}
    for name in (
        *kept,
        "dict.de.txt",
        "train.de-en.de.bin",
        "valid.de-fr.de.bin",
        "preprocess.log",
    ):
        (data / name).write_text(name)
    complete = {"train.bin", *kept}
    for fails, expected in (
        ("no room", set()),
        ("", complete),
        ("no room", complete),
        ("", complete),
    ):
        monkeypatch.setenv("FAILS", fails)
        try:
            binarise(tmp_path / "out", os.pathsep.join((str(data), "elsewhere")), ("de", "en"), 1)
        except ValueError as error:
            assert fails and str(error) == "fairseq-preprocess failed: no room"
        else:
            assert not fails
        assert {path.name for path in (tmp_path / "out" / "data-bin").glob("*")} == expected
        assert not list(tmp_path.rglob("*.partial"))


def test_sets_of_the_other_direction_get_the_names_of_this_one(tmp_path):
    """fairseq takes the languages from the first file that it finds."""
    for name in ("valid.en-de.en.bin", "valid.en-de.de.bin", "test.de-en.de.bin",
                 "test.en-de.de.bin", "train.en-de.de.bin", "dict.de.txt"):  # fmt: skip
        (tmp_path / name).write_text(name)
    found = {name: file.name for name, file in other_sets(tmp_path, ("de", "en")).items()}
    assert found == {
        "valid.de-en.en.bin": "valid.en-de.en.bin",
        "valid.de-en.de.bin": "valid.en-de.de.bin",
        "test.de-en.de.bin": "test.de-en.de.bin",
    }


def test_a_teacher_of_the_same_name_is_not_mixed_in(tmp_path, monkeypatch, capsys, works):
    checkpoint, data = tmp_path / "checkpoint_best.pt", tmp_path / "data"
    data.mkdir()
    for name in ("train.de-en.de.bin", "dict.de.txt", "dict.en.txt"):
        (data / name).write_text(name)
    checkpoint.write_text("first")
    dictionary = Dictionary()
    dictionary.add_symbol("word")
    asked = []
    system = Namespace(
        task=Namespace(cfg=Namespace(source_lang="de", target_lang="en"),
                       source_dictionary=dictionary, target_dictionary=dictionary),
        dataset=[{"source": torch.tensor([4, 2])}] * 5, models=[], longest_source=3, task_name="translation",
        engine="native", dtype="float32",
        collate=lambda batch: {"id": torch.tensor(batch)},
        decode=lambda sample: [[Hypothesis([4, 4, 2], 0.0, [])]] * len(sample["id"]),
        without_scores=lambda: asked.append(1),
    )  # fmt: skip
    system.dataset = type("Dataset", (list,), {"src_sizes": [3] * 5})(system.dataset)
    loads = [lambda spec, data: system]
    monkeypatch.setattr(systems, "load_system", lambda *given: loads[0](*given))
    monkeypatch.setattr(verb, "load_system", lambda *given: loads[0](*given), raising=False)
    monkeypatch.setattr(verb, "binarise", lambda *given: None)

    def run(path=checkpoint, beam=1):
        try:
            verb.main(
                [
                    str(data),
                    "--system",
                    f"name=t,path={path},beam={beam}",
                    "--out",
                    str(tmp_path / "out"),
                ]
            )
        except SystemExit as end:
            # Before it stand the log and the progress bar.
            return end.code, capsys.readouterr().err.splitlines()[-1]
        return 0, ""

    assert run() == (0, "") and (tmp_path / "out/train.en").read_text() == "word word\n" * 5
    assert asked == [1], "nobody reads scores"
    assert works == ["merging the translations", "binarising the translations"]
    settings = json.loads((tmp_path / "out/settings.json").read_text())
    assert (settings["engine"], settings["weights"]) == ("native", "float32")
    system.dtype = "int8"
    assert "other settings (weights: 'float32' then, 'int8' now)" in run()[1]
    system.dtype = "float32"
    assert (tmp_path / "out/train.de").read_text() == "word\n" * 5
    moved = checkpoint.rename(tmp_path / "moved.pt")
    assert run(moved) == (0, "")
    checkpoint.write_text("trained on")
    (status, error), (options, other) = run(), run(moved, beam=2)
    assert status == 2 and "other settings (teacher: 'sha256 " in error
    assert options == 2 and "beam: '1' then, '2' now" in other
    (data / "train.de-en.de.bin").write_text("other sentences")
    assert "other settings (data: 'sha256 " in run(moved)[1]
    # Nothing is translated where a sentence will be too long, for the teacher or for who chooses
    # among its translations.
    system.longest_source = 2
    assert run(moved) == (
        2,
        "error: sentence 0 (from 0) has 3 tokens, system 't' reads at most 2: shorten the sentence or remove it"
        " from the data",
    )
    # A training that writes its checkpoint while it is being loaded.
    loads[0] = lambda spec, data: checkpoint.write_text("and on") and system
    assert "changed while it was being read" in run()[1]
