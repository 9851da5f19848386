"""The model in training: what is computed for the learnt slots of a batch."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY

from fairseq_hrt.bidirectional.sample import slot_sample


def test_gradients_reach_every_parameter(family):
    model = family.bidirectional(directions=4, share_all_embeddings=True)
    targets = torch.tensor([[5, 6, 7, 8, 9, 2], [5, 6, 2, 1, 1, 1]])
    slots = slot_sample(targets, 4, 4, start=2, pad=1, eos=2)
    model(**family.sample([3, 4])["net_input"], slots=slots).logsumexp(-1).sum().backward()
    unused = [
        name
        for name, p in model.named_parameters()
        if p.requires_grad and (p.grad is None or not p.grad.any())
    ]
    # fairseq's encoder layers hold duplicate projections that nothing uses.
    assert not [name for name in unused if not name.startswith("encoder.layers")]


def test_dead_slots_and_padding_change_nothing(family):
    """The loss of a sentence does not depend on how far its batch is padded."""
    model = family.bidirectional(directions=2, tokens_per_step=2)
    targets = torch.tensor([[5, 6, 7, 2, 1, 1, 1, 1, 1], [5, 6, 7, 8, 9, 10, 11, 12, 2]])
    sample = family.sample([4, 4])["net_input"]
    both = model(**sample, slots=slot_sample(targets, 2, 4, start=2, pad=1, eos=2))
    alone = model(
        src_tokens=sample["src_tokens"][:1], src_lengths=sample["src_lengths"][:1],
        slots=slot_sample(targets[:1, :4], 2, 4, start=2, pad=1, eos=2),
    )  # fmt: skip
    torch.testing.assert_close(both[:4], alone, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (4, 1)])
@torch.no_grad()
def test_only_learnt_slots_reach_the_output_projection(family, shape):
    """Their logits are those of fairseq's call over the same inputs, row by row; the encoder runs
    once."""
    model, net_input = (
        family.bidirectional(directions=shape[0], tokens_per_step=shape[1]),
        family.sample([4, 3])["net_input"],
    )
    targets = torch.tensor([[5, 6, 7, 8, 9, 2], [5, 6, 2, 1, 1, 1]])
    slots = slot_sample(targets, shape[0], shape[0] * shape[1], start=2, pad=1, eos=2)
    rows, encoded = [], []
    hooks = [
        model.decoder.output_projection.register_forward_hook(
            lambda module, given, out: rows.append(out.shape[:-1].numel())
        ),
        model.encoder.register_forward_hook(lambda *given: encoded.append(1)),
    ]
    found = model(**net_input, slots=slots)
    for hook in hooks:
        hook.remove()
    assert rows == [6 + 3] and encoded == [1]
    everywhere = model(**net_input, prev_output_tokens=slots.input)[0]
    expected = [everywhere[row, slot] for row, slot in slots.target.ne(1).nonzero().tolist()]
    torch.testing.assert_close(found, torch.stack(expected))


@pytest.mark.parametrize("preset", ["", "_wmt_en_de"])
def test_the_presets_are_known(preset):
    args = Namespace()
    ARCH_CONFIG_REGISTRY[f"bidirectional_transformer{preset}"](args)
    assert (
        args.encoder_embed_dim == args.decoder_embed_dim == 512
        and args.encoder_layers == args.decoder_layers == 6
    )
