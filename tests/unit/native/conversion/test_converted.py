"""What is written is a checkpoint of fairseq, and a bundle of both engines."""

import json

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_hrt.loading.checkpoints import read_checkpoint
from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.conversion.converted import Wishes, write_bundle
from fairseq_hrt.native.conversion.marian import read_marian
from fairseq_hrt.training import smoothed_cross_entropy

NATIVE_ONLY = Wishes(runtime="int8", checkpoint=False)


def test_the_checkpoint_is_loaded_by_fairseq(marian_folder, tmp_path):
    write_bundle(read_marian(marian_folder().path, (None, None)), tmp_path / "bundle")
    models, config, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "bundle" / "model.pt")], arg_overrides={"data": str(tmp_path / "bundle")}
    )
    assert config.task._name == "translation" and (
        config.task.source_lang,
        config.task.target_lang,
    ) == ("en", "de")
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "bundle" / "model.pt"))
    # Nothing of the folder where it was written.
    assert state["cfg"].task.data is None and state["cfg"].model.data is None
    assert state["cfg"].model.dropout == 0.1
    assert models[0].decoder.cell == "ssru" and task.source_dictionary == task.target_dictionary
    assert models[0].encoder.embed_tokens.weight is models[0].decoder.output_projection.weight
    document = json.loads((tmp_path / "bundle" / "bundle.json").read_text())
    assert document["card"] == {
        "architecture": "marian_transformer",
        "imported from": "Marian: model.ende.bin",
    }


def test_both_engines(marian_folder, tmp_path):
    converted = read_marian(marian_folder(int8=True).path, (None, None))
    converted.shortlist = ["\ta", *(f"{word}\t{word}" for word in converted.source.words[:5])]
    lines = ["a man in red", "two dogs", "water"]
    made = write_bundle(converted, tmp_path / "bundle", Wishes(runtime="float32", lines=lines))
    assert made.runtime and made.shortlist
    found = [
        from_pretrained(tmp_path / "bundle", device="cpu", engine=name).translate(lines)
        for name in ("torch", "native")
    ]
    assert found[0] == found[1]


def test_words_that_a_model_does_not_have_cost_training_nothing(marian_folder, tmp_path):
    """Label smoothing is a mean over all words, these too; in half precision they stay finite."""
    write_bundle(read_marian(marian_folder().path, (None, None)), tmp_path / "bundle")
    bias = read_checkpoint(tmp_path / "bundle" / "model.pt")["model"][
        "decoder.output_projection.bias"
    ]
    assert bias.half().isfinite().all() and torch.softmax(bias.double(), 0)[1] == 0
    loss, nll = smoothed_cross_entropy(
        bias.half().unsqueeze(0), torch.tensor([5]), 0.1 * len(bias) / 32000
    )
    assert abs(loss - nll) < 0.1


def test_bundles_that_are_not_made(marian_folder, tmp_path):
    converted = read_marian(marian_folder().path, (None, None))
    with pytest.raises(ValueError, match="exists already"):
        write_bundle(converted, tmp_path)
    converted.languages = ("a/b", "c")
    with pytest.raises(ValueError, match="names the language 'a/b'"):
        write_bundle(converted, tmp_path / "bundle")
    converted.languages = ("en", "de")
    del converted.models[0].parameters["encoder.layers.0.fc1.bias"]
    with pytest.raises(
        ValueError, match="has encoder.layers.0.fc1.bias, which the imported model does not have"
    ):
        write_bundle(converted, tmp_path / "bundle")
    converted.models[0].parameters["x"] = converted.models[0].parameters[
        "encoder.layers.0.fc2.bias"
    ]
    with pytest.raises(ValueError, match="x: the imported model has .*, .* has nothing"):
        write_bundle(converted, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"no_repeat_ngram_size": "2"}, "--no-repeat-ngram-size"),
        ({"beam": "none"}, "beam"),
        ({"lm_path": "x"}, "lm_path"),
    ],
)
def test_nothing_stays_of_what_the_native_engine_cannot_decode(
    marian_folder, tmp_path, options, message
):
    converted = read_marian(marian_folder().path, (None, None))
    converted.decoding.update(options)
    with pytest.raises(ValueError, match=message):
        write_bundle(converted, tmp_path / "made" / "bundle", NATIVE_ONLY)
    assert not (tmp_path / "made").exists() or list((tmp_path / "made").iterdir()) == []


def test_the_card_of_a_bundle_without_a_checkpoint(marian_folder, tmp_path):
    made = write_bundle(
        read_marian(marian_folder().path, (None, None)),
        tmp_path / "bundle",
        NATIVE_ONLY,
    )
    assert made.card == {
        "architecture": "marian_transformer", "imported from": "Marian: model.ende.bin",
        "checkpoint": "none: imported without PyTorch"
    }  # fmt: skip
    assert (
        "| checkpoint | none: imported without PyTorch |" in (made.folder / "README.md").read_text()
    )
