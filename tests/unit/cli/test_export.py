"""``fairseq-hrt export``: which checkpoint, with which dictionaries."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_models import write_bundle

from fairseq_hrt.cli import export as verb
from fairseq_hrt.hub import ctranslate2_model
from fairseq_hrt.hub.bundle import Bundle


def parse(*arguments):
    return verb.build_parser().parse_args([*map(str, arguments), "--output", "out"])


def test_a_checkpoint_with_its_data():
    assert verb.what_to_load(parse("a.pt", "--data", "bin")) == (Path("a.pt"), ["bin"], None)
    given = parse("a.pt", "--data", "bin", "-s", "de", "-t", "en")
    assert verb.what_to_load(given)[1] == ["bin", "--source-lang", "de", "--target-lang", "en"]
    with pytest.raises(ValueError, match=r"a\.pt is no folder of a bundle; for a checkpoint give --data"):
        verb.what_to_load(parse("a.pt"))


def test_a_bundle_of_one_model(tmp_path, monkeypatch):
    bundle = Bundle(tmp_path, "translation", "de", "en", "space", "subword-nmt", codes="codes")
    monkeypatch.setattr(verb, "load_bundle", lambda folder: bundle)
    arguments = [str(tmp_path), "--source-lang", "de", "--target-lang", "en"]
    assert verb.what_to_load(parse(tmp_path)) == (tmp_path / "model.pt", arguments, tmp_path / "codes")
    bundle.models = ["model.pt", "model_2.pt"]
    with pytest.raises(ValueError, match="is an ensemble of 2 models; CTranslate2 decodes one: export each"):
        verb.what_to_load(parse(tmp_path))


def test_the_model_is_loaded_and_handed_on(tmp_path, monkeypatch, capsys):
    write_bundle(tmp_path / "bundle", "autoregressive")
    seen = []

    def export(model, source, target, folder, *, quantization):
        seen.append((type(model).__name__, source.index("a"), target.index("A"), folder, quantization))
        folder.mkdir()
        return SimpleNamespace(folder=folder, size=2_500_000, difference=1.4e-6)

    monkeypatch.setattr(ctranslate2_model, "export", export)
    verb.main([str(tmp_path / "bundle"), "--quantization", "int8", "--output", str(tmp_path / "out")])
    assert seen == [("TransformerModel", 4, 4, tmp_path / "out", "int8")]
    said = capsys.readouterr().out
    assert "out: 2.5 MB, weights int8; " in said and said.endswith("differ from fairseq's by at most 1e-06\n")
    assert not (tmp_path / "out" / "codes").exists()
    with pytest.raises(SystemExit) as end:
        verb.main([str(tmp_path / "none.pt"), "--data", str(tmp_path / "bundle"), "--output", str(tmp_path / "x")])
    assert end.value.code == 2 and "none.pt" in capsys.readouterr().err.splitlines()[-1] and len(seen) == 1
