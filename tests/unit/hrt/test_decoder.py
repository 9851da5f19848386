"""The decoder's forward pass against a second implementation, and against stock fairseq where both
must agree."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer.transformer_base import TransformerModelBase
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.hrt.model import HRTTransformerModel
from fairseq_hrt.hrt.sample import SampleView

SYMBOLS = 12
VOCABULARY = SYMBOLS + 4
# fairseq computes its table of sinusoids in single precision, the oracle in double.
SINGLE = 3e-6


def logits(model, rows, places, sources, *, causal):
    """[B, T, V] of padded decoder rows."""
    width = max(map(len, rows))
    tokens = torch.tensor([row + [1] * (width - len(row)) for row in rows])
    positions = torch.tensor([row + [0] * (width - len(row)) for row in places])
    out = model.encoder(sources["src_tokens"], src_lengths=sources["src_lengths"])
    features = model.decoder.view_features(
        SampleView(tokens, positions, tokens), out, causal=causal
    )
    return model.decoder.output_layer(features)


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("left_pad", [False, True])
def test_equals_the_reference_decoder_with_padding(hrt, window, pre_norm, left_pad):
    model = hrt.model(
        symbols=SYMBOLS,
        hrt_relative_window=window,
        decoder_normalize_before=pre_norm,
        encoder_normalize_before=pre_norm,
    )
    sources = hrt.sources([6, 3, 5], SYMBOLS)
    batch = hrt.sample(sources, extra=2, left_pad=left_pad)["net_input"]
    mask = model.decoder.mask
    for causal, rows, places in (
        (True,
         [[model.decoder.start_symbol(3), 5, 6], [2, 7, 8, 9, 4], [model.decoder.start_symbol(2)]],
         [[0, 3, 6], [0, 1, 2, 3, 4], [0]]),
        (False, [[mask, mask, 5, mask, mask, 2], [mask, 7, 2], [mask, 2]],
         [[1, 2, 3, 4, 5, 6], [1, 2, 3], [1, 2]]),
    ):  # fmt: skip
        got = logits(model, rows, places, batch, causal=causal)
        assert got.size(-1) == VOCABULARY
        reference = hrt.Reference(model)
        for b, (row, place) in enumerate(zip(rows, places)):
            expected = reference(row, place, reference.encode(sources[b]), causal=causal)
            torch.testing.assert_close(got[b, : len(row)], expected, rtol=SINGLE, atol=SINGLE)


@pytest.mark.parametrize("chunk", [2, 3])
def test_skip_at_equals_a_full_length_decoder_that_sees_only_every_kth_key(hrt, chunk):
    model = hrt.model(symbols=SYMBOLS, hrt_relative_window=4)
    source = hrt.sources([5], SYMBOLS)
    start = model.decoder.start_symbol(chunk)
    kept = [5, 6, 7]
    strided = logits(
        model,
        [[start, *kept]],
        [[chunk * i for i in range(4)]],
        hrt.sample(source)["net_input"],
        causal=True,
    )[0]
    reference = hrt.Reference(model)
    # The tokens between the kept ones are never seen.
    full = [start] + [token for z in kept for token in [9] * (chunk - 1) + [z]]
    expected = reference(
        full,
        list(range(len(full))),
        reference.encode(source[0]),
        causal=True,
        visible=lambda i, j: (j <= i and j % chunk == 0) or i == j,
    )
    torch.testing.assert_close(strided, expected[::chunk], rtol=SINGLE, atol=SINGLE)


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("window", [0, 16])
def test_chunk_size_one_without_relative_positions_is_the_stock_transformer(hrt, pre_norm, window):
    settings = dict(
        symbols=SYMBOLS, decoder_normalize_before=pre_norm, encoder_normalize_before=pre_norm
    )
    stock = hrt.model("transformer", **settings)
    model = hrt.model(seed=9, hrt_relative_window=window, **settings)
    state = dict(stock.state_dict())
    model.upgrade_state_dict(state)
    model.load_state_dict(state, strict=True)
    # The fused encoder path of evaluation differs in the last digits; it is not what is compared
    # here.
    stock.train(), model.train()
    net_input = hrt.sample(hrt.sources([6, 3, 4], SYMBOLS), extra=1)["net_input"]
    previous = torch.tensor([[2, 5, 6, 7], [2, 8, 9, 1], [2, 4, 1, 1]])
    expected, _ = stock(**net_input, prev_output_tokens=previous)
    # As fairseq's Transformer runs it; another task does not train it.
    got, _ = TransformerModelBase.forward(model, **net_input, prev_output_tokens=previous)
    real = previous.ne(1)
    torch.testing.assert_close(got[real], expected[real], rtol=1e-9, atol=1e-9)
    normalised = model.get_normalized_probs((got, None), log_probs=True)
    assert normalised.size(-1) == VOCABULARY
    assert normalised.exp().sum(-1)[real].allclose(torch.ones(()))
    # The bidirectional mode is fairseq's full-context alignment.
    out = stock.encoder(**net_input)
    expected, _ = stock.decoder(previous, out, full_context_alignment=True)
    got, _ = model.decoder(previous, model.encoder(**net_input), full_context_alignment=True)
    torch.testing.assert_close(got[real], expected[real], rtol=1e-9, atol=1e-9)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 4), st.integers(4, VOCABULARY - 1), st.booleans())
def test_who_sees_whom(hrt, tiny, place, token, causal):
    source = hrt.sample(hrt.sources([4], SYMBOLS))["net_input"]
    row, changed = [5, 6, 7, 8, 9], [5, 6, 7, 8, 9]
    changed[place] = token
    places = [list(range(5))]
    before, after = (logits(tiny, [r], places, source, causal=causal)[0] for r in (row, changed))
    differs = (before - after).abs().amax(1).gt(1e-9).tolist()
    if token == row[place]:
        assert differs == [False] * 5
    else:
        assert differs == [not causal or i >= place for i in range(5)]


@pytest.fixture(scope="module")
def tiny(hrt):
    return hrt.model(symbols=SYMBOLS, hrt_relative_window=3)


def test_a_masked_slot_does_not_know_its_token(hrt, tiny):
    """Skip-CMLM input carries no gold token of a masked position, whatever the target."""
    from fairseq_hrt.hrt.sample import training_views

    source = hrt.sample(hrt.sources([4, 4], SYMBOLS)[:1] * 2)["net_input"]
    # The two targets differ at positions 1 and 3, which chunk size 2 masks.
    targets = torch.tensor([[5, 6, 7, 8, 2], [9, 6, 10, 8, 2]])
    views = training_views(
        targets,
        torch.tensor([2, 2]),
        starts=tiny.decoder.start_symbols(torch.tensor([2, 2])),
        masked=torch.zeros_like(targets, dtype=torch.bool),
        eos=2,
        mask=tiny.decoder.mask,
        pad=1,
    )
    out = tiny.encoder(**source)
    for view, causal in ((views.causal, True), (views.parallel, False)):
        features = tiny.decoder.view_features(view, out, causal=causal)
        torch.testing.assert_close(features[0], features[1], rtol=1e-10, atol=1e-10)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(2, 6)), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_padding_and_company_change_nothing(hrt, tiny, sizes, causal, left_pad):
    sources = hrt.sources([s for _, s in sizes], SYMBOLS)
    rows = [list(range(5, 5 + n)) for n, _ in sizes]
    places = [[2 * i for i in range(n)] for n, _ in sizes]
    together = logits(
        tiny,
        rows,
        places,
        hrt.sample(sources, extra=1, left_pad=left_pad)["net_input"],
        causal=causal,
    )
    for b, (n, _) in enumerate(sizes):
        alone = logits(
            tiny,
            rows[b : b + 1],
            places[b : b + 1],
            hrt.sample(sources[b : b + 1])["net_input"],
            causal=causal,
        )
        torch.testing.assert_close(together[b, :n], alone[0], rtol=1e-9, atol=1e-9)


def test_training_mode_equals_evaluation_without_dropout(hrt, tiny):
    batch = hrt.sample(hrt.sources([5, 3], SYMBOLS))["net_input"]
    rows, places = [[5, 6, 7], [8, 9]], [[0, 2, 4], [0, 2]]
    evaluated = logits(tiny, rows, places, batch, causal=True)
    try:
        trained = logits(tiny.train(), rows, places, batch, causal=True)
    finally:
        tiny.eval()
    for b, row in enumerate(rows):
        torch.testing.assert_close(
            trained[b, : len(row)], evaluated[b, : len(row)], rtol=1e-9, atol=1e-9
        )


def test_dropout_acts_in_training(hrt):
    model = hrt.model(symbols=SYMBOLS, dropout=0.5).train()
    batch = hrt.sample(hrt.sources([5], SYMBOLS))["net_input"]
    a, b = (logits(model, [[5, 6]], [[0, 2]], batch, causal=True) for _ in range(2))
    assert not torch.equal(a, b)


def test_special_symbols_live_beside_the_dictionary(hrt, tiny):
    decoder = tiny.decoder
    assert decoder.mask == VOCABULARY
    assert [decoder.start_symbol(k) for k in (1, 2, 3)] == [2, VOCABULARY + 1, VOCABULARY + 2]
    sizes = torch.tensor([[3, 1], [2, 3]])
    assert decoder.start_symbols(sizes).tolist() == [
        [VOCABULARY + 2, 2],
        [VOCABULARY + 1, VOCABULARY + 2],
    ]
    embedded = decoder.embed(torch.tensor([[VOCABULARY, VOCABULARY + 2, 5, VOCABULARY - 1]]))[0]
    expected = torch.stack(
        [
            decoder.embed_special.weight[0],
            decoder.embed_special.weight[2],
            decoder.embed_tokens.weight[5],
            decoder.embed_tokens.weight[-1],
        ]
    )
    assert torch.equal(embedded, expected)
    assert decoder.embed_special.weight.shape == (3, 16)
    assert decoder.output_projection.weight.shape == (VOCABULARY, 16)


def test_start_symbols_begin_as_the_ordinary_one(hrt):
    args = Namespace(**hrt.TINY, hrt_chunk_sizes=[2, 4])
    ARCH_CONFIG_REGISTRY["hrt_transformer"](args)
    dictionary = hrt.dictionary(SYMBOLS)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    decoder = HRTTransformerModel.build_model(args, task).decoder
    ordinary = decoder.embed_tokens.weight[2]
    assert torch.equal(decoder.embed_special.weight[1], ordinary) and torch.equal(
        decoder.embed_special.weight[2], ordinary
    )
    assert not torch.equal(decoder.embed_special.weight[0], ordinary)
    for layer in decoder.layers:
        assert (
            layer.self_attn.relative_keys.shape == (33, 8)
            and not layer.self_attn.relative_keys.any()
        )


def test_an_untrained_chunk_size_is_named(tiny):
    with pytest.raises(ValueError, match="chunk size 4 .*2, 3"):
        tiny.decoder.start_symbol(4)


@pytest.mark.parametrize(
    "overrides, message",
    [
        (dict(hrt_chunk_sizes=[]), r"--hrt-chunk-sizes \[\].*at least one"),
        (dict(hrt_chunk_sizes=[1, 2]), r"--hrt-chunk-sizes \[1, 2\].*2 or more"),
        (dict(hrt_chunk_sizes=[2, 2]), r"--hrt-chunk-sizes \[2, 2\].*once"),
        (dict(hrt_chunk_sizes=[0]), r"--hrt-chunk-sizes \[0\].*2 or more"),
        (dict(hrt_relative_window=-1), "--hrt-relative-window -1"),
        (dict(decoder_learned_pos=True), "--decoder-learned-pos"),
        (dict(no_token_positional_embeddings=True), "--no-token-positional-embeddings"),
        (dict(adaptive_softmax_cutoff="4,8"), "--adaptive-softmax-cutoff"),
        (dict(cross_self_attention=True), "--cross-self-attention: only fairseq's own"),
        (dict(no_cross_attention=True), "--no-cross-attention: only fairseq's own"),
        (
            dict(decoder_xformers_att_config="{}"),
            "--decoder-xformers-att-config: only fairseq's own",
        ),
        (dict(checkpoint_activations=True), "--checkpoint-activations"),
    ],
)
def test_unsupported_models_are_named(hrt, overrides, message):
    with pytest.raises(ValueError, match=message):
        hrt.model(symbols=SYMBOLS, **overrides)


# ---------------------------------------------------------------- fine-tuning


def test_an_autoregressive_checkpoint_gains_exactly_the_new_parameters(hrt):
    stock = hrt.model("transformer", symbols=SYMBOLS)
    model = hrt.model(symbols=SYMBOLS, seed=5)
    parent = stock.state_dict()
    state = dict(parent)
    model.upgrade_state_dict(state)
    new = set(state) - set(parent)
    assert new == {"decoder.embed_special.weight", "decoder.special_chunk_sizes"} | {
        f"decoder.layers.{i}.self_attn.relative_keys" for i in (0, 1)
    }
    mask_before = model.decoder.embed_special.weight[0].clone()
    model.load_state_dict(state, strict=True)
    for name, value in model.named_parameters():
        if name not in new:
            assert torch.equal(value, parent[name]), name
    eos = parent["decoder.embed_tokens.weight"][2]
    assert all(torch.equal(row, eos) for row in model.decoder.embed_special.weight[1:])
    assert torch.equal(model.decoder.embed_special.weight[0], mask_before)
    assert not any(layer.self_attn.relative_keys.any() for layer in model.decoder.layers)


def test_an_hrt_checkpoint_loads_as_it_is(hrt):
    parent, model = hrt.model(symbols=SYMBOLS), hrt.model(symbols=SYMBOLS, seed=5)
    state = dict(parent.state_dict())
    model.upgrade_state_dict(state)
    model.load_state_dict(state, strict=True)
    assert all(
        torch.equal(value, parent.state_dict()[name]) for name, value in model.named_parameters()
    )


def symbols_by_size(model):
    """{chunk size: its start symbol's vector}."""
    decoder = model.decoder
    return {
        size: decoder.embed(torch.tensor(decoder.start_symbol(size)))
        for size in decoder.chunk_sizes
    }


@pytest.mark.parametrize("sizes", [[3, 2], [3, 4], [4, 3, 2, 5], [2]])
def test_start_symbols_belong_to_their_chunk_sizes(hrt, sizes):
    parent, model = (
        hrt.model(symbols=SYMBOLS),
        hrt.model(symbols=SYMBOLS, seed=5, hrt_chunk_sizes=sizes),
    )
    state = dict(parent.state_dict())
    model.load_state_dict(state, strict=True)
    trained, loaded = symbols_by_size(parent), symbols_by_size(model)
    ordinary = parent.decoder.embed(torch.tensor(2))
    for size in sizes:
        assert torch.equal(loaded[size], trained.get(size, ordinary)), size
    assert torch.equal(
        model.decoder.embed_special.weight[0], parent.decoder.embed_special.weight[0]
    )
    # What is stored now names the new order.
    assert model.state_dict()["decoder.special_chunk_sizes"].tolist() == sizes


def test_a_decoded_checkpoint_gains_no_untrained_size(hrt):
    state = dict(hrt.model(symbols=SYMBOLS).state_dict())
    model = hrt.model(symbols=SYMBOLS, hrt_chunk_sizes=[3, 4])
    model.decoder.may_gain_sizes = False
    with pytest.raises(ValueError, match="--hrt-chunk-sizes 3,4.*trained for 2,3.* 4 cannot"):
        model.upgrade_state_dict(state)


def test_a_checkpoint_from_before_the_sizes_were_stored(hrt, caplog):
    parent = hrt.model(symbols=SYMBOLS)
    state = dict(parent.state_dict())
    del state["decoder.special_chunk_sizes"]
    model = hrt.model(symbols=SYMBOLS, seed=5)
    model.load_state_dict(dict(state), strict=True)
    assert torch.equal(model.decoder.embed_special.weight, parent.decoder.embed_special.weight)
    assert "taken for those of the sizes 2,3: correct" in caplog.text
    with pytest.raises(ValueError, match="2 chunk sizes.*for 1 .*--hrt-chunk-sizes 2\\)"):
        hrt.model(symbols=SYMBOLS, hrt_chunk_sizes=[2]).upgrade_state_dict(state)


def test_half_precision_keeps_the_sizes(hrt):
    assert hrt.model(symbols=SYMBOLS).half().decoder.special_chunk_sizes.tolist() == [2, 3]


@pytest.mark.parametrize("lost", ["decoder.layers.1.fc1.weight", "encoder.layers.0.fc2.bias"])
def test_anything_else_missing_is_an_error(hrt, lost):
    state = dict(hrt.model("transformer", symbols=SYMBOLS).state_dict())
    del state[lost]
    model = hrt.model(symbols=SYMBOLS, seed=5)
    with pytest.raises(Exception, match=lost):
        model.load_state_dict(state, strict=True)


def test_a_half_upgraded_checkpoint_is_an_error(hrt):
    state = dict(hrt.model(symbols=SYMBOLS).state_dict())
    del state["decoder.layers.1.self_attn.relative_keys"]
    with pytest.raises(Exception, match="relative_keys"):
        hrt.model(symbols=SYMBOLS, seed=5).load_state_dict(state, strict=True)


def test_a_parent_of_another_width_is_an_error(hrt):
    state = dict(
        hrt.model(
            "transformer", symbols=SYMBOLS, encoder_ffn_embed_dim=64, decoder_ffn_embed_dim=64
        ).state_dict()
    )
    with pytest.raises(RuntimeError, match="--encoder-ffn-embed-dim 64 \\(this model 32\\)"):
        hrt.model(symbols=SYMBOLS).load_state_dict(state, strict=True)


def test_positions_reach_the_end_of_the_longest_second_stage(hrt):
    """L = k ceil((N + 1) / k) is up to k - 1 longer than the longest target."""
    model = hrt.model(symbols=SYMBOLS, max_target_positions=7, hrt_chunk_sizes=[5])
    assert model.max_decoder_positions() == 7
    length = 10
    row = [[model.decoder.mask] * (length - 1) + [2]]
    source = hrt.sources([4], SYMBOLS)
    got = logits(
        model, row, [list(range(1, length + 1))], hrt.sample(source)["net_input"], causal=False
    )[0]
    reference = hrt.Reference(model)
    expected = reference(
        row[0], list(range(1, length + 1)), reference.encode(source[0]), causal=False
    )
    torch.testing.assert_close(got, expected, rtol=SINGLE, atol=SINGLE)
