"""``fairseq-hrt export``: which checkpoint, with which dictionaries."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq import tasks

from fairseq_hrt.cli import export as verb
from fairseq_hrt.engine import models
from fairseq_hrt.export import ctranslate2_model
from fairseq_hrt.native.bundles.bundle import Bundle


def parse(*arguments):
    return verb.build_parser().parse_args([*map(str, arguments), "--output", "out"])


def test_a_checkpoint_with_its_data():
    assert verb.what_to_load(parse("a.pt", "--data", "bin")) == (Path("a.pt"), ["bin"], None)
    given = parse("a.pt", "--data", "bin", "-s", "de", "-t", "en")
    assert verb.what_to_load(given)[1] == ["bin", "--source-lang", "de", "--target-lang", "en"]
    with pytest.raises(
        ValueError, match=r"a\.pt is not the folder of a bundle; if it is a checkpoint, give --data"
    ):
        verb.what_to_load(parse("a.pt"))


def test_a_bundle_of_one_model(tmp_path, monkeypatch):
    bundle = Bundle(tmp_path, "translation", "de", "en", "space", "subword-nmt", codes="codes")
    monkeypatch.setattr(verb, "load_bundle", lambda folder: bundle)
    arguments = [str(tmp_path), "--source-lang", "de", "--target-lang", "en"]
    assert verb.what_to_load(parse(tmp_path)) == (
        tmp_path / "model.pt",
        arguments,
        tmp_path / "codes",
    )
    with pytest.raises(ValueError, match="--data bin: .* is a bundle, which has dictionaries"):
        verb.what_to_load(parse(tmp_path, "--data", "bin"))
    bundle.models = ["model.pt", "model_2.pt"]
    with pytest.raises(
        ValueError, match="is an ensemble of 2 models; CTranslate2 decodes with a single one"
    ):
        verb.what_to_load(parse(tmp_path))


def test_the_model_is_loaded_and_handed_on(tmp_path, monkeypatch, capsys, works):
    asked, exported, out = [], [], tmp_path / "out"

    def export(*given, quantization, codes):
        exported.append((*given, quantization, codes))
        return SimpleNamespace(folder=out, size=2_500_000, difference=1.4e-6)

    def config(arguments, subject):
        asked.append(arguments)
        return SimpleNamespace(task="of the model")

    task = SimpleNamespace(source_dictionary="source", target_dictionary="target")
    monkeypatch.setattr(models, "generation_config", config)
    monkeypatch.setattr(
        models,
        "load_models",
        lambda paths, *rest: SimpleNamespace(models=[f"model of {paths[0].name}"]),
    )
    monkeypatch.setattr(tasks, "setup_task", lambda config: task)
    monkeypatch.setattr(ctranslate2_model, "export", export)
    bundle = Bundle(tmp_path, "translation", "de", "en", "space", "subword-nmt", codes="codes")
    monkeypatch.setattr(verb, "load_bundle", lambda folder: bundle)
    verb.main([str(tmp_path), "--quantization", "int8", "--output", str(out)])
    said = capsys.readouterr().out
    assert "out: 2.5 MB, weights int8; " in said and said.endswith(
        "differ from fairseq's by at most 1e-06\n"
    )
    assert works == ["loading the model", "converting and comparing"]
    verb.main([str(tmp_path / "a.pt"), "--data", "bin", "--output", str(out)])
    assert "weights float32" in capsys.readouterr().out
    assert exported == [
        # With its subwords' codes the result is complete.
        ("model of model.pt", "source", "target", out, "int8", tmp_path / "codes"),
        ("model of a.pt", "source", "target", out, None, None),
    ]  # fmt: skip
    # Whatever the task of the training was: it is decoded one word after another.
    assert asked[1] == ["bin", "--path", str(tmp_path / "a.pt"), "--cpu", "--task", "translation"]
