"""The runtime's part of a bundle: converted, proved against PyTorch, described; and what is not
made."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from native_bundles import LINES, with_runtime
from tiny_models import LETTERS, write_dictionaries

import fairseq_hrt
from fairseq_hrt.export import runtime_bundle
from fairseq_hrt.export.runtime_bundle import (
    Agreement,
    add_runtime,
    agreement,
    data_sentences,
    require_equal,
)
from fairseq_hrt.export.torch_decoder import TorchDecoder
from fairseq_hrt.native.bundles.bundle import load_bundle
from fairseq_hrt.native.decoding import Hypothesis


def test_options_of_the_training_hold_where_none_are_given(bundles):
    decoder = TorchDecoder(load_bundle(bundles / "hrt"), device="cpu")
    decoder.trained_task.hrt_decode_chunk, decoder.trained_task.hrt_eos_last_chunk = "1", True
    decoder.trained_task.hrt_curriculum_power = 3.0
    assert runtime_bundle.trained_options(decoder.trained_task, decoder.bundle.task) == {
        "hrt_decode_chunk": "1",
        "hrt_eos_last_chunk": "true",
    }
    decoder.trained_task.forced_start = "a"
    assert (
        runtime_bundle.trained_options(decoder.trained_task, decoder.bundle.task)["forced_start"]
        == "a"
    )
    decoder.bundle.task = "translation_autoregressive"
    assert runtime_bundle.trained_options(decoder.trained_task, decoder.bundle.task) == {}


def test_int8_and_its_card(tmp_path):
    bundle = with_runtime(tmp_path / "int8", "hrt", "int8", compared=None)
    assert "of 100 translations identical" in bundle.card["runtime, int8"]
    assert "| runtime, int8 |" in (bundle.folder / "README.md").read_text()
    assert load_bundle(bundle.folder).runtime == "runtime.safetensors"
    assert (bundle.folder / "runtime.safetensors").stat().st_mode == (
        bundle.folder / "dict.de.txt"
    ).stat().st_mode
    assert fairseq_hrt.from_pretrained(bundle.folder).decoder.engine.header.weights == "int8"


def test_a_shortlist_in_a_bundle(tmp_path):
    table = tmp_path / "lex"
    # Every letter may become its own capital only.
    table.write_text("".join(f"{letter.upper()} {letter} 0.9\n" for letter in LETTERS))
    folder = with_runtime(tmp_path / "short", "autoregressive", shortlist=table).folder
    everything = fairseq_hrt.from_pretrained(folder, engine="native")
    model = fairseq_hrt.from_pretrained(folder, use_shortlist=True)
    # With the hundred most frequent words it is the whole dictionary.
    assert model.translate(LINES) == everything.translate(LINES)
    assert "words a sentence on average" in load_bundle(folder).card["runtime, float32, shortlist"]
    assert model.identity() != everything.identity()
    # PyTorch, which has the option, would translate without the shortlist.
    with pytest.raises(ValueError, match="--no-repeat-ngram-size 2: the native engine has no such"):
        model.translate(LINES, no_repeat_ngram_size=2)


def test_what_cannot_be_made(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="--runtime int4: choose one of"):
        with_runtime(tmp_path / "a", "autoregressive", "int4")
    with pytest.raises(ValueError, match="--jacobi-draft ngram.*--engine torch"):
        with_runtime(tmp_path / "b", "jacobi", options={"jacobi_draft": "ngram", "beam": "1"})
    with pytest.raises(ValueError, match="--jacobi-mode hgj.*--engine torch"):
        with_runtime(tmp_path / "b", "jacobi", options={"jacobi_mode": "hgj", "beam": "1"})
    with pytest.raises(ValueError, match="--no-repeat-ngram-size.*--engine torch"):
        with_runtime(
            tmp_path / "c", "autoregressive", options={"no_repeat_ngram_size": "2", "beam": "1"}
        )
    # A conversion that went wrong is found by translating.
    original = runtime_bundle.convert

    def wrong(*arguments, **options):
        header, tensors = original(*arguments, **options)
        tensors["decoder.layers.0.final.norm.weight"] = -np.asarray(
            tensors["decoder.layers.0.final.norm.weight"]
        )
        return header, tensors

    monkeypatch.setattr(runtime_bundle, "convert", wrong)
    for weights in ("float32", "int8"):
        with pytest.raises(ValueError, match="does not translate as PyTorch's engine does"):
            with_runtime(tmp_path / f"d{weights}", "autoregressive", weights)
    assert not [
        path for path in tmp_path.iterdir() if path.suffix == "" and not path.name.endswith("_data")
    ]


def test_agreement():
    assert "3 of 4 translations identical" in str(Agreement(4, 3, 0.001))
    require_equal(Agreement(4, 3, 0.001))
    for bad in (Agreement(4, 1, 0.0), Agreement(4, 4, 0.02), Agreement(4, 4, float("nan"))):
        with pytest.raises(ValueError, match="leave --runtime out"):
            require_equal(bad)


def test_the_best_hypotheses_are_compared():
    def found(tokens, *scores):
        return [Hypothesis(tokens, None, list(scores)), Hypothesis([9, 2], None, [0.0, 0.0])]

    theirs = [found([4, 2], -1.0, -0.5), found([5, 2], -1.0, -1.0), found([2], -0.25)]
    same = agreement(
        [found([4, 2], -1.0, -0.25), found([6, 2], 0.0, 0.0), found([2], -0.25)], theirs
    )
    assert (same.sentences, same.identical, same.difference) == (3, 2, 0.25)
    assert np.isnan(
        agreement(
            [found([4, 2], -1.0, float("nan")), found([2], -1.0), found([2], -0.25)], theirs
        ).difference
    )


@pytest.fixture
def data(tmp_path):
    """(folder of binarised data, a bundle of its dictionaries, a function that writes a subset)."""
    write_dictionaries(tmp_path)

    def write(subset, rows):
        prefix = tmp_path / f"{subset}.de-en.de"
        builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32)
        for row in rows:
            builder.add_item(torch.tensor(row))
        builder.finalize(f"{prefix}.idx")

    return tmp_path, SimpleNamespace(folder=tmp_path, source_lang="de", target_lang="en"), write


def test_sentences_are_spread_over_the_first_subset(data):
    folder, bundle, write = data
    write("train", [[4, 2]] * 5)
    write("test", [[4 + n % 10, *[5] * (n % 4), 2] for n in range(300)])
    found = data_sentences(folder, bundle, 4)
    # Those that are too long for the model are passed over.
    expected = [[4 + n % 10, *[5] * (n % 4), 2] for n in (int(299 * k / 99) for k in range(100))]
    assert found == [row for row in expected if len(row) <= 4] and 50 < len(found) < 100
    write("valid", [[7, 2], [2], [8, 9, 2]])
    assert data_sentences(folder, bundle, 4) == [[7, 2], [8, 9, 2]]


def test_random_words_where_there_is_no_text(data, caplog):
    folder, bundle, write = data
    write("valid", [[99, 2]])
    # Data of another dictionary are none.
    found = data_sentences(folder, bundle, 6)
    assert "compared with PyTorch on random words" in caplog.text and len(found) == 100
    assert all(
        row[-1] == 2 and 2 <= len(row) <= 6 and all(4 <= word < 14 for word in row[:-1])
        for row in found
    )


def test_ensembles_are_refused():
    with pytest.raises(ValueError, match="an ensemble of 2 models is decoded by PyTorch only"):
        add_runtime(SimpleNamespace(models=["a", "b"]), "int8", data=None)
