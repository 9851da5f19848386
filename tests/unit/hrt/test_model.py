"""The model in training, and its presets."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY

from fairseq_hrt.hrt.sample import training_views


@pytest.mark.parametrize(
    "name, layers",
    [("e6d1", (6, 1)), ("e12d1", (12, 1)), ("e20d1", (20, 1)), ("wmt_en_de", (6, 6))],
)
def test_the_presets(name, layers):
    args = Namespace()
    ARCH_CONFIG_REGISTRY[f"hrt_transformer_{name}"](args)
    assert (args.encoder_layers, args.decoder_layers) == layers
    sizes = (
        args.encoder_embed_dim,
        args.decoder_embed_dim,
        args.decoder_ffn_embed_dim,
        args.decoder_attention_heads,
    )
    assert sizes == (512, 512, 2048, 8)
    # Deep encoders are trained with the normalisation in front.
    deep = layers[1] == 1
    given = vars(args)
    assert (
        given.get("encoder_normalize_before", False)
        == given.get("decoder_normalize_before", False)
        == deep
    )


def test_both_views_with_one_encoder_pass_and_few_rows_in_the_projection(hrt):
    """The model's training call = full projection of both views, then the selection of the loss
    positions."""
    model = hrt.model(hrt_relative_window=3)
    net_input = hrt.sample(hrt.sources([5, 3, 4], 12))["net_input"]
    targets = torch.tensor([[5, 6, 7, 8, 2], [9, 2, 1, 1, 1], [9, 6, 10, 2, 1]])
    sizes = torch.tensor([2, 3, 1])
    masked = torch.tensor([[0] * 5, [0] * 5, [0, 1, 0, 1, 0]]).bool()
    views = training_views(
        targets,
        sizes,
        starts=model.decoder.start_symbols(sizes),
        masked=masked,
        eos=2,
        mask=model.decoder.mask,
        pad=1,
    )
    calls, rows = [], []
    handles = [
        model.encoder.register_forward_hook(lambda *_: calls.append(1)),
        model.decoder.output_projection.register_forward_hook(
            lambda m, i, o: rows.append(o.shape[:-1].numel())
        ),
    ]
    got = model(**net_input, views=views)
    for handle in handles:
        handle.remove()
    learnt = int(views.causal.target.ne(1).sum() + views.parallel.target.ne(1).sum())
    assert calls == [1] and rows == [learnt]
    out = model.encoder(**net_input)
    expected = [
        model.decoder.output_layer(model.decoder.view_features(view, out, causal=causal))[
            view.target.ne(1)
        ]
        for view, causal in ((views.causal, True), (views.parallel, False))
    ]
    torch.testing.assert_close(got, torch.cat(expected), rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_without_views_it_is_fairseqs_transformer(hrt):
    """With the weights of a stock model: the same logits, attention and states from the same
    call."""
    stock, model = hrt.model("transformer"), hrt.model(seed=5)
    model.load_state_dict(dict(stock.state_dict()))
    net_input = hrt.sample(hrt.sources([5, 3], 12))["net_input"]
    tokens = torch.tensor([[2, 5, 6, 7], [2, 8, 1, 1]])
    found, expected = (each(**net_input, prev_output_tokens=tokens)[0] for each in (model, stock))
    torch.testing.assert_close(found[0], expected[0], rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(found[1, :2], expected[1, :2], rtol=2e-5, atol=2e-5)
