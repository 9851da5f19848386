"""examples/measure/marian_files.py: what it writes is read by the importer, whose formulas are
tested against Marian's."""

import numpy as np
import pytest
import sentencepiece
import torch
from imported_models import marian_folder, sentencepiece_model

from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.conversion import Wishes, import_model
from fairseq_hrt.native.conversion.marian import read_marian
from fairseq_hrt.native.conversion.marian_tensors import read_tensors
from fairseq_hrt.native.options.values import DecodingOptions

__all__ = ["marian_folder", "sentencepiece_model"]
LINES = ["w1 w5 w5 w10", "w0", "w11 w3 w7 w2 w4 w8 w0 w1", "w9 w9 w6"]
SIZES = dict(
    share_all_embeddings=True, encoder_attention_heads=2, decoder_attention_heads=2,
    encoder_ffn_embed_dim=24, decoder_ffn_embed_dim=24,
)  # fmt: skip


@pytest.fixture
def files(load_example):
    return load_example("measure/marian_files.py")


@pytest.fixture
def folder(files, tiny, tmp_path):
    """Writes a model and its words."""

    def write(model, **options):
        place = tmp_path / "marian"
        place.mkdir()
        files.write_model(place / "model.ende.npz", model, **options)
        files.write_vocabulary(place / "vocab.ende.spm", tiny.dictionary())
        return place

    return write


def greedy(tiny, model, lines):
    """The words that a model of fairseq writes, 14 at most, and their scores."""
    dictionary, options = tiny.dictionary(), DecodingOptions(beam=1, max_len_b=14, min_len=0)
    generator, found, scores = AutoregressiveGenerator([model], dictionary, options), [], []
    for line in lines:
        tokens = torch.tensor([[*map(dictionary.index, line.split()), tiny.EOS]])
        batch = {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.shape[1]])}
        best = generator.generate(None, {"net_input": batch})[0][0]
        found.append([dictionary[token] for token in best["tokens"].tolist()])
        scores.append(float(best["score"]))
    return found, scores


def imported(bundle, engine):
    """The same of a bundle."""
    options = dict(beam=1, max_len_a=0, max_len_b=14, unkpen=0)
    found = from_pretrained(bundle, device="cpu", engine=engine, **options)
    found = found.translate(LINES, details=True)
    words = [[word.removeprefix("▁") for word in one.tokens] for one in found]
    return words, [one.score for one in found]


# (A model with attention, tied and normalised after: the test that follows.)
@pytest.mark.parametrize(
    "cell, before, tied", [("attention", True, False), ("ssru", True, True), ("ssru", False, False)]
)
def test_the_importer_makes_the_same_model_of_it(folder, tiny, tmp_path, cell, before, tied):
    options = dict(marian_cell=cell, activation_fn="relu", **SIZES)
    options |= dict(encoder_normalize_before=before, decoder_normalize_before=before)
    model = tiny.model("marian_transformer", **options).float()
    torch.nn.init.normal_(model.decoder.output_projection.bias)
    source = folder(model, tied=tied, alphas=True)
    (read,) = read_marian(source, ("en", "de")).models
    own = dict(model.named_parameters(remove_duplicate=False))
    assert read.parameters.keys() == own.keys()
    for name, value in own.items():
        # The rows of <s> and <pad> go by the same names there.
        np.testing.assert_array_equal(read.parameters[name], value.detach().numpy(), err_msg=name)
    import_model(source, tmp_path / "bundle", Wishes("en", "de", runtime="float32", lines=LINES))
    words, scores = greedy(tiny, model, LINES)
    assert len(set(map(tuple, words))) > 1
    for engine in ("torch", "native"):
        found = imported(tmp_path / "bundle", engine)
        assert found[0] == words and found[1] == pytest.approx(scores, abs=1e-4)


def test_a_model_with_fairseqs_conventions_is_read_with_marians(folder, tiny, tmp_path):
    """As Marian computes it: positions from 0, and zeros before the first word."""
    stock = tiny.model("transformer", seed=3, **SIZES).float()
    alike = tiny.model("marian_transformer", activation_fn="relu", marian_epsilon=1e-6, **SIZES)
    alike.float().load_state_dict({**alike.state_dict(), **stock.state_dict()})
    torch.nn.init.zeros_(alike.decoder.output_projection.bias)
    import_model(
        folder(stock), tmp_path / "bundle", Wishes("en", "de", runtime="float32", lines=LINES)
    )
    words, scores = imported(tmp_path / "bundle", "native")
    expected, other = greedy(tiny, alike, LINES), greedy(tiny, stock, LINES)
    assert words == expected[0] and scores == pytest.approx(expected[1], abs=1e-4)
    assert scores != pytest.approx(other[1], abs=0.01)


def test_words_that_must_not_be_written(folder, tiny, tmp_path):
    source = folder(tiny.model("marian_transformer", **SIZES).float(), never=[0, 1, 2, 7])
    bias = read_tensors(source / "model.ende.npz")[0]["decoder_ff_logit_out_b"][0]
    # </s>, <unk>, w0, …, <s>, <pad>
    assert np.flatnonzero(bias == -9999).tolist() == [0, 5, 14, 15]


def test_text_becomes_the_words_of_the_dictionary(files, tiny, tmp_path):
    dictionary = tiny.dictionary(300)
    files.write_vocabulary(tmp_path / "words.spm", dictionary)
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "words.spm"))
    assert model.get_piece_size() == len(dictionary)
    order = files.row_order(len(dictionary))
    found = model.encode("w1 w11 w299 w29 w9 w111")
    assert [dictionary[order[row]] for row in found] == "w1 w11 w299 w29 w9 w111".split()
    special = [model.bos_id(), model.pad_id(), model.eos_id(), model.unk_id()]
    assert [order[row] for row in special] == [0, 1, 2, 3]
    assert model.decode(found) == "w1 w11 w299 w29 w9 w111"


def test_the_importer_reads_the_shortlist(files, folder, tiny):
    source = folder(tiny.model("marian_transformer", **SIZES).float())
    files.write_shortlist(source / "lex.bin", {4: [15, 9], 6: [10]}, 2, 16)
    always, *lines = read_marian(source, ("en", "de")).shortlist
    assert {"▁w0", "▁w1"} <= set(always.split())
    found = {line.split("\t")[0]: set(line.split("\t")[1].split()) for line in lines}
    # With one vocabulary a word is a candidate of its own.
    assert found["▁w0"] - {"▁w0", "▁w1"} == {"▁w11", "▁w5"}
    assert found["▁w2"] - {"▁w2"} == {"▁w6"} and found["▁w3"] <= {"▁w3"}


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(encoder_normalize_before=True), "one side alone normalises before"),
        (dict(share_all_embeddings=False), "embed_tokens.weight is not the embeddings' matrix"),
        (dict(decoder_learned_pos=True), "decoder.embed_positions.weight cannot be represented"),
        (dict(decoder_attention_heads=4), "layers have different sizes"),
    ],
)
def test_what_cannot_be_represented(files, tiny, tmp_path, options, message):
    model = tiny.model("transformer", **{**SIZES, **options}).float()
    with pytest.raises(ValueError, match=message):
        files.write_model(tmp_path / "model.npz", model)


def test_marians_own_format_becomes_an_npz(files, marian_folder, tmp_path, capsys):
    path = marian_folder(int8=True).path / "model.ende.bin"
    files.main([str(path), str(tmp_path / "model.npz")])
    (theirs, _, text), (own, _, written) = read_tensors(path), read_tensors(tmp_path / "model.npz")
    assert written == text and own.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_array_equal(own[name], value)
    path.write_bytes(b"damaged")
    with pytest.raises(SystemExit, match="2"):
        files.main([str(path), str(tmp_path / "model.npz")])
    assert "cut short" in capsys.readouterr().err.splitlines()[-1]
