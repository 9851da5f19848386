"""The decoder of graphs, its length head, and the checkpoints that it takes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_hrt.dag.decoder import LengthHead


def test_other_transformers_can_be_fine_tuned(family):
    plain, model = family.model(), family.dag(upsample_base="predict")
    state = plain.state_dict()
    kept = model.decoder.links.query.weight.detach().clone()
    model.load_state_dict(state, strict=True)
    assert torch.equal(model.decoder.links.query.weight, kept)
    assert torch.equal(model.encoder.layers[0].fc1.weight, plain.encoder.layers[0].fc1.weight)


@pytest.mark.parametrize(
    "options, named",
    [
        (dict(adaptive_softmax_cutoff="5,10"), "--adaptive-softmax-cutoff"),
        (dict(upsample_scale="x"), "--dag-upsample-scale"),
        (dict(upsample_base="predict", length_classes=1), "--dag-length-classes 1"),
    ],
)
def test_models_that_cannot_be_built(family, options, named):
    with pytest.raises(ValueError, match=named):
        family.dag(**options)


def test_stock_decoding_is_refused(family):
    model = family.dag()
    with pytest.raises(ValueError, match="--task translation_dag"):
        model.decoder(torch.tensor([[2]]), encoder_out=None, incremental_state={})


def test_no_layer_returns_its_attention(family):
    """It would be computed for nothing, without PyTorch's attention kernels."""
    model, inputs = family.dag(), torch.tensor([[0, 3, 3, 2]])
    encoded = model.encoder(torch.tensor([[5, 6, 2]]), src_lengths=torch.tensor([3]))
    assert model.decoder(inputs, encoder_out=encoded)[1]["attn"] == [None]


@given(words=st.integers(0, 30), source=st.integers(1, 30), classes=st.integers(2, 20))
def test_the_length_head_says_what_it_was_taught(words, source, classes):
    """Differences of length outside of its classes are the nearest of them; a sentence has a word
    at least."""
    head, lengths = LengthHead(4, classes), torch.tensor([source])
    label = head.label(torch.tensor([words]), lengths)
    differences = range(-(classes // 2), classes - classes // 2)
    nearest = min(differences, key=lambda difference: abs(difference - (words - source)))
    logits = torch.nn.functional.one_hot(label, classes)
    assert head.words(logits, lengths).tolist() == [max(source + nearest, 1)]
    head = LengthHead(4, classes, absolute=True)
    label = head.label(torch.tensor([words]), lengths)
    logits = torch.nn.functional.one_hot(label, classes)
    assert head.words(logits, lengths).tolist() == [min(words, classes - 1)]


@pytest.mark.parametrize("left", [True, False])
def test_the_length_head_sees_the_mean_of_the_words(left):
    head, encoded = LengthHead(4, 6), torch.randn(2, 5, 4)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, :2] = left
    padding[1, 3:] = not left
    found = head(encoded, padding)
    own = encoded[1, 2:] if left else encoded[1, :3]
    torch.testing.assert_close(found, head.output(torch.stack([encoded[0].mean(0), own.mean(0)])))


@torch.no_grad()
def test_every_vertex_attends_all_vertices(family):
    """No causal mask: a change of the last vertex reaches the first, and padding reaches
    nothing."""
    model = family.dag()
    encoder_out = model.encoder(**family.sample([4])["net_input"])
    inputs = model.decoder.vertex_inputs(torch.tensor([6]))
    assert inputs.tolist() == [[family.BOS, *[family.UNK] * 4, family.EOS]]
    logits, _ = model.decoder(inputs, encoder_out=encoder_out)
    features, _ = model.decoder(inputs, encoder_out=encoder_out, features_only=True)
    torch.testing.assert_close(logits, model.decoder.output_layer(features))
    inputs[0, -1] = 7
    changed, _ = model.decoder(inputs, encoder_out=encoder_out, features_only=True)
    assert ((changed - features).abs().amax(2) > 1e-9).all()
    padded = torch.cat([inputs, torch.full((1, 3), family.PAD)], 1)
    longer, _ = model.decoder(padded, encoder_out=encoder_out, features_only=True)
    torch.testing.assert_close(longer[:, :6], changed, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("base", ["source", "predict"])
def test_what_is_added_to_the_checkpoint_of_another_transformer(family, base):
    """Links and length head as they were initialised; what the checkpoint has of them stays."""
    model, state = family.dag(upsample_base=base, seed=2), family.model().state_dict()
    state["decoder.links.key.bias"] = torch.full_like(model.decoder.links.key.bias, 3.0)
    before = set(state)
    model.upgrade_state_dict(state)
    added, own = set(state) - before, dict(model.state_dict())
    assert any("length_head" in name for name in added) == (base == "predict")
    assert added == {name for name in own if ".links." in name or ".length_head." in name} - before
    assert all(torch.equal(state[name], own[name]) for name in added)
    assert (state["decoder.links.key.bias"] == 3).all()
