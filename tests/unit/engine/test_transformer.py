"""The engine equals the module's full forward pass, however the tokens are cut into steps."""

import pytest
import torch
from fairseq.modules.quantization.scalar import quantize_model_
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine import cache
from fairseq_hrt.engine.layers import UnsupportedModelError
from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.engine.transformer import TransformerEngine
from fairseq_hrt.hrt.sample import SampleView


def assert_close(found, expected):
    """fairseq's attention takes its softmax in float32, whatever the type of the model."""
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


VARIANTS = {
    "post-norm": {},
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True),
    "embedding norm": dict(layernorm_embedding=True),
    "no embedding scale": dict(no_scale_embedding=True),
    "learned positions": dict(encoder_learned_pos=True, decoder_learned_pos=True),
    "no positions": dict(no_token_positional_embeddings=True),
    "gelu": dict(activation_fn="gelu"),
    "tied": dict(share_all_embeddings=True),
    "other encoder width": dict(encoder_embed_dim=20),
    "projected embeddings": dict(decoder_input_dim=12, decoder_output_dim=12),
    "three layers": dict(decoder_layers=3),
}


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch):
    """Buffers that have to grow within the few steps of a test."""
    monkeypatch.setattr(cache, "INITIAL_CAPACITY", 2)


def module_logits(model, sample, tokens, **options):
    encoder_out = model.encoder(**sample["net_input"])
    return model.decoder(tokens, encoder_out=encoder_out, **options)[0]


def stepwise_logits(engine, sample, tokens, cuts):
    """Logits of all tokens, decoded in steps that end at ``cuts``."""
    state = engine.start(engine.encode(sample["net_input"]))
    parts, done = [], 0
    for end in cuts:
        parts.append(engine.step(state, tokens[:, done:end], torch.arange(done, end)))
        done = end
    return engine.logits(torch.cat(parts, 1))


def random_tokens(rows, length, seed=0):
    tokens = torch.randint(4, 16, (rows, length), generator=torch.Generator().manual_seed(seed))
    tokens[:, 0] = 2
    return tokens


MARIAN = {
    "Marian": {},
    "SSRU": dict(marian_cell="ssru"),
    "SSRU, pre-norm": dict(
        marian_cell="ssru", encoder_normalize_before=True, decoder_normalize_before=True
    ),
    "SSRU, tied": dict(marian_cell="ssru", share_all_embeddings=True),
    "SSRU, projected embeddings": dict(
        marian_cell="ssru", decoder_input_dim=12, decoder_output_dim=12
    ),
    "learned positions of Marian": dict(encoder_learned_pos=True, decoder_learned_pos=True),
}


@pytest.mark.parametrize("variant", [*VARIANTS, *MARIAN])
@torch.no_grad()
def test_steps_equal_the_full_pass(tiny, variant):
    model = (
        tiny.model("marian_transformer", **MARIAN[variant])
        if variant in MARIAN
        else tiny.model(**VARIANTS[variant])
    )
    sample, tokens = tiny.sample([5, 3, 6]), random_tokens(3, 7)
    expected = module_logits(model, sample, tokens)
    for cuts in (range(1, 8), [7], [3, 4, 7]):
        assert_close(stepwise_logits(TransformerEngine(model), sample, tokens, cuts), expected)


@pytest.mark.parametrize("left_pad", [True, False])
@torch.no_grad()
def test_the_encoder_equals_the_module(tiny, left_pad):
    model, sample = tiny.model(), tiny.sample([5, 2, 6], left_pad=left_pad)
    engine = TransformerEngine(model)
    padding = sample["net_input"]["src_tokens"].eq(tiny.PAD)
    bias = torch.zeros(3, 1, 1, 6).double().masked_fill(padding[:, None, None], float("-inf"))
    packed = engine._encode_packed(sample["net_input"]["src_tokens"], padding, bias)
    assert_close(packed[~padding], engine._encode_module(sample["net_input"])[~padding])


@torch.no_grad()
def test_an_unknown_encoder_is_run_as_it_is(tiny):
    model, sample, tokens = tiny.model(), tiny.sample([4, 5]), random_tokens(2, 4)

    class Doubling(type(model.encoder)):
        def forward(self, *arguments, **options):
            out = super().forward(*arguments, **options)
            return {**out, "encoder_out": [2 * out["encoder_out"][0]]}

    model.encoder.__class__ = Doubling
    expected = module_logits(model, sample, tokens)
    assert_close(stepwise_logits(TransformerEngine(model), sample, tokens, [4]), expected)


ROLLED_BACK = (("hrt_transformer", dict(hrt_chunk_sizes=[2], hrt_relative_window=3)), *(
    ("marian_transformer", dict(marian_cell=cell)) for cell in ("attention", "ssru")
))  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_rollback_to_any_lengths(tiny, data):
    """Rows rolled back to different lengths continue as if they had never been longer."""
    with torch.no_grad():
        arch, options = data.draw(st.sampled_from(ROLLED_BACK))
        model = tiny.model(arch, **options)
        sample, tokens = (
            tiny.sample([5, 3, 6]),
            random_tokens(3, 9, seed=data.draw(st.integers(0, 9))),
        )
        engine = TransformerEngine(model)
        state = engine.start(engine.encode(sample["net_input"]))
        wrong = random_tokens(3, 5, seed=77)
        engine.step(state, torch.cat([tokens[:, :1], wrong[:, 1:]], 1), torch.arange(5))
        state.rollback(1)
        engine.step(state, tokens[:, 1:5], torch.arange(1, 5))
        kept = torch.tensor(data.draw(st.lists(st.integers(0, 5), min_size=3, max_size=3)))
        state.rollback(int(kept.max()), lengths=kept)
        count = data.draw(st.integers(1, 3))
        places = kept.unsqueeze(1) + torch.arange(count)
        found = engine.logits(engine.step(state, tokens.gather(1, places), places))
        expected = module_logits(model, sample, tokens)
        assert_close(
            found, expected.gather(1, places.unsqueeze(2).expand(-1, -1, expected.size(2)))
        )
        # A second step after the ragged one.
        following = places[:, -1:] + 1
        found = engine.logits(engine.step(state, tokens.gather(1, following), following))
        assert_close(
            found, expected.gather(1, following.unsqueeze(2).expand(-1, -1, expected.size(2)))
        )


@pytest.mark.parametrize("cell", [None, "attention", "ssru"])
@torch.no_grad()
def test_reordered_rows_and_dropped_sentences(tiny, cell):
    model = tiny.model() if cell is None else tiny.model("marian_transformer", marian_cell=cell)
    sample = tiny.sample([5, 3, 6])
    engine = TransformerEngine(model)
    tokens = random_tokens(6, 4)
    state = engine.start(engine.encode(sample["net_input"]), beams=2)
    engine.step(state, tokens[:, :3], torch.arange(3))
    # Sentences 2 and 0 continue; beam 1 of sentence 2 is doubled.
    rows = torch.tensor([5, 5, 1, 0])
    state.reorder(rows, sentences=torch.tensor([2, 0]))
    found = engine.logits(engine.step(state, tokens[rows, 3:], torch.arange(3, 4)))
    net_input = {key: value[rows // 2] for key, value in sample["net_input"].items()}
    assert_close(found[:, 0], module_logits(model, {"net_input": net_input}, tokens[rows])[:, -1])
    assert state.sentences.tolist() == [2, 0]


@pytest.mark.parametrize("window", [0, 2])
@torch.no_grad()
def test_a_parallel_pass_equals_the_module(tiny, window):
    """No causal mask, ragged rows, special symbols; and only some columns in the last layer."""
    model = tiny.model("hrt_transformer", hrt_chunk_sizes=[2], hrt_relative_window=window)
    sample, tokens = tiny.sample([5, 3, 6]), random_tokens(3, 8)
    tokens[:, ::2] = model.decoder.mask
    lengths = torch.tensor([[8], [6], [4]])
    inside = torch.arange(8) < lengths
    view = SampleView(
        tokens.masked_fill(~inside, tiny.PAD), torch.arange(1, 9).expand(3, 8), tokens
    )
    encoder_out = model.encoder(**sample["net_input"])
    expected = model.decoder.view_features(view, encoder_out, causal=False)
    engine = TransformerEngine(model)
    memory = engine.encode(sample["net_input"])
    for remember in (False, True):
        found = engine.step(
            engine.start(memory),
            tokens,
            torch.arange(1, 9),
            visible=inside.unsqueeze(1),
            causal=False,
            remember=remember,
        )
        assert_close(found[inside], expected[inside])
        only = torch.tensor([0, 3, 6])
        some = engine.step(
            engine.start(memory), tokens, torch.arange(1, 9), visible=inside.unsqueeze(1),
            causal=False, remember=remember, only=only,
        )  # fmt: skip
        assert_close(some[inside[:, only]], expected[:, only][inside[:, only]])


@torch.no_grad()
def test_the_engine_follows_its_model(tiny):
    """Training, loading and casting after the weights were packed."""
    model, sample, tokens = tiny.model(), tiny.sample([4, 6]), random_tokens(2, 5)
    engine = TransformerEngine(model)

    def check():
        engine.refresh()
        assert_close(
            stepwise_logits(engine, sample, tokens, [2, 5]), module_logits(model, sample, tokens)
        )

    with torch.enable_grad():
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        module_logits(model, sample, tokens).sum().backward()
        optimizer.step()
    check()
    for parameter in model.parameters():
        parameter.data.add_(0.01)  # as fairseq's optimizers write, unseen by version counters
    check()
    model.load_state_dict(tiny.model(seed=5).state_dict())
    check()
    model.float()
    check()


@pytest.mark.parametrize("arch", ["transformer", "hrt_transformer"])
@torch.no_grad()
def test_layers_that_a_training_may_drop_are_decoded(tiny, arch):
    """The generator of a validation is built while the model is in training mode."""
    drop = dict(encoder_layerdrop=0.5, decoder_layerdrop=0.5, encoder_layers=8, decoder_layers=8)
    model = tiny.model(arch, **drop).train()
    engine = TransformerEngine(model)
    assert len(engine.encoder_layers) == len(engine.layers) == 8
    header, _ = convert(model, tiny.dictionary(), tiny.dictionary(), weights="float32")
    assert header.decoder_layers == 8
    tables = model.decoder.native_tensors(header) if arch == "hrt_transformer" else {}
    assert sum(name.endswith("self.relative") for name in tables) == (8 if tables else 0)
    model.eval()
    if arch == "transformer":
        sample, tokens = tiny.sample([5, 3]), random_tokens(2, 4)
        assert_close(
            stepwise_logits(engine, sample, tokens, [4]), module_logits(model, sample, tokens)
        )


@torch.no_grad()
def test_a_layer_in_several_places_is_applied_in_each(tiny):
    """As other plugins' models share layers."""
    model = tiny.model(encoder_layers=3, decoder_layers=3)
    for side in (model.encoder, model.decoder):
        side.layers[1] = side.layers[0]
    engine = TransformerEngine(model)
    sample, tokens = tiny.sample([5, 3]), random_tokens(2, 4)
    assert_close(stepwise_logits(engine, sample, tokens, [4]), module_logits(model, sample, tokens))
    header, _ = convert(model, tiny.dictionary(), tiny.dictionary(), weights="float32")
    assert (header.encoder_layers, header.decoder_layers) == (3, 3)


def test_packing_in_inference_mode_leaves_trainable_parameters(tiny):
    model = tiny.model()
    with torch.inference_mode():
        TransformerEngine(model)
    assert not any(parameter.is_inference() for parameter in model.parameters())
    module_logits(model, tiny.sample([3]), random_tokens(1, 3)).sum().backward()


@pytest.mark.parametrize(
    "overrides, message",
    [
        (dict(decoder_layers=0), "no layers"),
        (dict(adaptive_softmax_cutoff="4,8"), "adaptive softmax"),
        (
            dict(cross_self_attention=True, no_cross_attention=True, decoder_attention_heads=2),
            "cross-self-attention",
        ),
    ],
)
def test_unsupported_parts_are_named(tiny, overrides, message):
    with pytest.raises(UnsupportedModelError, match=message):
        TransformerEngine(tiny.model(**overrides))


def test_quantised_layers_are_named(tiny):
    model = tiny.model()
    quantize_model_(model, p=0.1)
    with pytest.raises(UnsupportedModelError, match=r"quantised \(--quant-noise-scalar\)"):
        TransformerEngine(model)


def test_learned_positions_run_out_by_name(tiny):
    engine = TransformerEngine(tiny.model(decoder_learned_pos=True, max_target_positions=10))
    engine.embed.reserve(10)
    with pytest.raises(
        ValueError, match="position 10 is needed but the model has learned 10.*--max-len-b"
    ):
        engine.embed.reserve(11)


@torch.no_grad()
def test_recurrent_cells_see_what_stands_before(tiny):
    """Only some columns of the last layer, nothing remembered, the attention to the source; other
    views are refused."""
    model, sample, tokens = (
        tiny.model("marian_transformer", marian_cell="ssru"),
        tiny.sample([5, 3, 6]),
        random_tokens(3, 7),
    )
    engine, positions = TransformerEngine(model), torch.arange(7)
    memory, looked = engine.encode(sample["net_input"]), []
    logits, extra = model.decoder(
        tokens, encoder_out=model.encoder(**sample["net_input"]), alignment_layer=1
    )
    for remember in (True, False):
        state, chosen = engine.start(memory), torch.tensor([1, 4, 6])
        found = engine.step(state, tokens, positions, remember=remember, only=chosen)
        assert_close(engine.logits(found), logits[:, chosen])
        assert state.length == (7 if remember else 0)
    engine.step(engine.start(memory), tokens, positions, attention=looked)
    assert_close(looked[0], extra["attn"][0])
    for more in (dict(causal=False), dict(visible=torch.ones(7, 7, dtype=torch.bool))):
        with pytest.raises(
            ValueError, match="recurrent cells sees all words before each word and none after it"
        ):
            engine.step(engine.start(memory), tokens, positions, **more)
