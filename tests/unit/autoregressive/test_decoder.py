"""The decoder of Marian's conventions: its start, and what it does not have."""

import pytest
import torch

from fairseq_hrt.autoregressive.decoder import ZeroStartEmbedding


def test_one_word_is_zeros_and_the_parameter_is_shared():
    shared = torch.nn.Embedding(5, 3, padding_idx=1)
    own = ZeroStartEmbedding(shared, 2)
    assert own.weight is shared.weight and own.padding_idx == 1
    tokens = torch.tensor([[2, 3], [4, 2]])
    vectors = own(tokens)
    assert not vectors[0, 0].any() and not vectors[1, 1].any()
    assert vectors[0, 1].equal(shared.weight[3]) and shared(tokens)[0, 0].equal(shared.weight[2])
    vectors.sum().backward()
    assert not shared.weight.grad[2].any() and shared.weight.grad[3].all()


@pytest.mark.parametrize("start", ["yes", "no"])
def test_the_start(tiny, start):
    """The output row of ``</s>`` stays what it is, where all embeddings are one; the source's end
    is read."""
    model = tiny.model("marian_transformer", share_all_embeddings=True, marian_zero_start=start)
    decoder = model.decoder
    assert decoder.zero_start == (start == "yes")
    assert (
        decoder.output_projection.weight
        is model.encoder.embed_tokens.weight
        is decoder.embed_tokens.weight
    )
    sample = tiny.sample([4])
    with torch.no_grad():
        first = decoder(torch.tensor([[2]]), encoder_out=model.encoder(**sample["net_input"]))[0]
        model.encoder.embed_tokens.weight[2] += 1
        encoder_out = model.encoder(**sample["net_input"])
        assert not encoder_out["encoder_embedding"][0][0, -1].eq(0).any()
        changed = decoder(torch.tensor([[2]]), encoder_out=encoder_out)[0]
    assert not first.equal(changed)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(adaptive_softmax_cutoff=[5]), "--adaptive-softmax-cutoff: only fairseq's own"),
        (dict(cross_self_attention=True), "--cross-self-attention: only fairseq's own"),
        (
            dict(marian_cell="ssru", checkpoint_activations=True),
            "--marian-cell ssru supports neither --checkpoint-activations",
        ),
    ],
)
def test_what_it_does_not_have(tiny, options, message):
    with pytest.raises(ValueError, match=message):
        tiny.model("marian_transformer", **options)
