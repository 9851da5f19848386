"""Folders as fairseq publishes them: ensembles, Moses, codes with counts."""

import pytest
from tiny_models import write_checkpoint, write_dictionaries

from fairseq_hrt.bundles.pretrained import from_pretrained
from fairseq_hrt.conversion import Wishes, import_model


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "wmt19.de-en.joined-dict.ensemble"
    write_dictionaries(place)
    (place / "bpecodes").write_text("a b 12\nc d</w> 7\n")
    write_checkpoint(place / "model1.pt", place, "autoregressive")
    return place


def test_a_model_with_codes_of_fastbpe(folder, tmp_path):
    bundle = import_model(folder, tmp_path / "bundle")
    assert (bundle.tokenizer, bundle.subwords, bundle.models) == ("moses", "subword-nmt", ["model.pt"])
    assert bundle.card["imported from"] == "fairseq: model1.pt"
    model = from_pretrained(tmp_path / "bundle", device="cpu", engine="torch", max_len_b=5)
    assert model.pipeline.words("abcd") == ["ab@@", "cd"] and isinstance(model.translate("a b"), str)


def test_an_ensemble_in_the_order_of_its_numbers(folder, tmp_path):
    for number in (2, 10):
        write_checkpoint(folder / f"model{number}.pt", folder, "autoregressive", seed=number)
    bundle = import_model(folder, tmp_path / "bundle")
    assert bundle.models == ["model.pt", "model_2.pt", "model_3.pt"]
    assert bundle.card["imported from"] == "fairseq: model1.pt, model2.pt, model10.pt"
    assert import_model(folder / "model2.pt", tmp_path / "one").models == ["model.pt"]


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match="fairseq's checkpoints know their languages"):
        import_model(folder, tmp_path / "bundle", Wishes("de", "en"))
    (folder / "bpecodes").unlink()
    with pytest.raises(ValueError, match="holds no subword codes"):
        import_model(folder, tmp_path / "bundle")
    assert import_model(folder, tmp_path / "bundle", Wishes(tokenizer="space", subwords="none")).codes is None
    for number in (1, 2):
        (folder / "model1.pt").rename(folder / "checkpoint1.pt") if number == 1 else (folder / "checkpoint2.pt").write_bytes(
            b""
        )
    with pytest.raises(ValueError, match="has 2 checkpoints"):
        import_model(folder, tmp_path / "other", Wishes(subwords="none"))
