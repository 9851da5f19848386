"""The weights of Hugging Face's models under fairseq's names; where transformers is installed, its own translations."""

import json

import numpy as np
import pytest
import torch

from fairseq_hrt.bundles.pretrained import from_pretrained
from fairseq_hrt.conversion import Wishes, import_model
from fairseq_hrt.conversion.hugging_face_model import sinusoids
from fairseq_hrt.loading.checkpoints import read_checkpoint

LINES = ["a man in red shirt", "two dogs play with ball on green grass near water", "water"]
KINDS = [("marian", Wishes()), ("mbart", Wishes("en", "de_DE")), ("m2m_100", Wishes("en", "fr"))]


@pytest.mark.parametrize("kind, wishes", KINDS)
def test_weights_go_by_fairseqs_names_and_words_by_its_order(hugging_face_folder, tmp_path, kind, wishes):
    made = hugging_face_folder(kind)
    import_model(made.path, tmp_path / "bundle", wishes)
    state = read_checkpoint(tmp_path / "bundle" / "model.pt")
    marian = kind == "marian"
    assert state["cfg"]["model"].arch == ("marian_transformer" if marian else "transformer")
    shared = torch.from_numpy(made.tensors["model.shared.weight"])
    # </s>, <unk> and <pad> of Marian's vocabulary have other places.
    order = [0, len(shared) - 1, 0, 1, *range(2, len(shared) - 1)] if marian else [*range(len(shared))]
    for side in ("encoder", "decoder"):
        found = state["model"][f"{side}.embed_tokens.weight"]
        assert torch.equal(found[1:], shared[order][1:]) and (not marian or not found[0].any())
        for name in ("fc1.weight", "self_attn.q_proj.bias", "final_layer_norm.weight"):
            theirs = made.tensors[f"model.{side}.layers.0.{name}"]
            assert np.array_equal(state["model"][f"{side}.layers.0.{name}"].numpy(), theirs)
    if marian:
        bias = state["model"]["decoder.output_projection.bias"]
        assert bias[0] == -1e4 and np.array_equal(bias[1:].numpy(), made.tensors["final_logits_bias"][0][order[1:]])
        table = state["model"]["decoder.embed_positions.weight"]
        assert np.allclose(table[2:].numpy(), sinusoids(24, 16)) and table.shape[0] == 26


def test_positions_are_those_of_hugging_face():
    table = sinusoids(5, 8)
    assert np.allclose(table[3, :4], np.sin(3 / 10000 ** (np.arange(4) * 2 / 8))) and np.allclose(
        table[0], [0] * 4 + [1] * 4
    )
    assert np.allclose(table[3, 4:], np.cos(3 / 10000 ** (np.arange(4) * 2 / 8)))


@pytest.mark.parametrize("kind, wishes", KINDS)
@pytest.mark.parametrize("beam", [1, 4])
def test_translations_and_scores_are_those_of_transformers(hugging_face_folder, tmp_path, kind, wishes, beam):
    """Of translations that end by themselves: what is cut at the greatest length has another score there, without </s>.

    Nor does a forced first word count there, as it does here; that changes the order only where scores are divided by lengths.
    """
    transformers = pytest.importorskip("transformers")
    made = hugging_face_folder(kind)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(made.path).eval()
    import_model(made.path, tmp_path / "bundle", wishes)
    model = from_pretrained(tmp_path / "bundle", device="cpu", engine="torch", beam=beam, unkpen=0, min_len=0, lenpen=0)
    numbers = {word: number for number, word in enumerate(made.words)}
    options = {"bad_words_ids": [[theirs.config.pad_token_id]]}
    if kind != "marian":
        options = {"forced_bos_token_id": numbers[model.bundle.target_prefix]}
    compared = 0
    lines = [*LINES, *(f"{first} {second}" for first in ("red", "dogs", "woman") for second in ("park", "ball reads", "a"))]
    for line, found in zip(lines, model.translate(lines, details=True)):
        source = torch.tensor([[*(numbers[word] for word in model.pipeline.words(line)), numbers["</s>"]]])
        made_there = theirs.generate(
            source, num_beams=beam, max_length=16, early_stopping=beam > 1, do_sample=False, length_penalty=0.0,
            return_dict_in_generate=True, output_scores=True, **options,
        )  # fmt: skip
        expected = made_there.sequences[0].tolist()[1:]
        if len(expected) == 15:
            # Cut: the words before are those of greedy search all the same.
            assert beam > 1 or [numbers[word] for word in found.tokens][:14] == expected[:14]
            continue
        compared += 1
        assert [numbers[word] for word in found.tokens] == expected
        if beam > 1:
            scores = found.positional_scores[0 if kind == "marian" else 1 :]
            assert sum(scores) == pytest.approx(float(made_there.sequences_scores[0]), abs=1e-4)
    assert compared > 1


@pytest.mark.parametrize(
    "kind, change, message",
    [
        ("marian", {"activation_function": "gelu_new"}, "activation_function: 'gelu_new'"),
        ("marian", {"normalize_before": True}, "normalize_before: True"),
        ("marian", {"static_position_embeddings": False}, "static_position_embeddings: False"),
        ("marian", {"decoder_start_token_id": 3}, "decoder_start_token_id: 3, whose embedding is not zero"),
        ("marian", {"d_model": 1 << 40}, "d_model"),
        ("marian", {"d_model": 32}, "has the shape"),
        ("marian", {"encoder_layers": 2}, "has no 'model.encoder.layers.1"),
        ("marian", {"encoder_attention_heads": 3}, "multiple of twice"),
        ("marian", {"max_position_embeddings": 1 << 30}, "max_position_embeddings"),
        ("marian", {"tie_word_embeddings": False}, "has no 'lm_head.weight'"),
        ("mbart", {"max_position_embeddings": 25}, "embed_positions"),
        ("mbart", {"decoder_start_token_id": 0}, "decoder_start_token_id: 0"),
        ("m2m_100", {"activation_function": "swish"}, "activation_function: 'swish'"),
        ("m2m_100", {"model_type": "mbart"}, "has no 'model.encoder.layernorm_embedding.weight'"),
        ("mbart", {"model_type": "m2m_100"}, "cannot be represented here, among them 'model.decoder.layernorm_embedding"),
    ],
)
def test_what_cannot_be_represented_is_named(hugging_face_folder, tmp_path, kind, change, message):
    made = hugging_face_folder(kind)
    (made.path / "config.json").write_text(json.dumps({**made.config, **change}))
    wishes = Wishes("en", "de") if kind != "marian" else Wishes()
    with pytest.raises(ValueError) as caught:
        import_model(made.path, tmp_path / "bundle", wishes)
    assert message in str(caught.value) and "\n" not in str(caught.value) and not (tmp_path / "bundle").exists()
