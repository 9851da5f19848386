"""``marian_transformer`` computes what Marian's formulas say, in fairseq's modules, in its search
and in the engine."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st
from marian_oracle import MarianOracle

from fairseq_hrt.autoregressive.model import MarianTransformerModel
from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.native.options.values import DecodingOptions

CELLS = ("attention", "ssru")
# Sinusoids are in single precision, and so is fairseq's softmax.
TOLERANCE = dict(rtol=0, atol=1e-4)


def marian(tiny, cell, *, seed=1, lively=True, **options):
    make = tiny.lively if lively else tiny.model
    return make("marian_transformer", seed=seed, marian_cell=cell, **options)


@pytest.mark.parametrize("activation", ["swish", "relu"])
@pytest.mark.parametrize("cell", CELLS)
@torch.no_grad()
def test_the_formulas(tiny, cell, activation):
    """Padding on either side changes nothing; the bias, the zero start and the epsilon matter."""
    model = marian(tiny, cell, lively=False, activation_fn=activation)
    oracle = MarianOracle(model, cell=cell, heads=(2, 4), activation=activation)
    words = [7, 9, 4, 15, 7, 5]
    for left_pad in (True, False):
        sample = tiny.sample([5, 1, 7], left_pad=left_pad)
        tokens = torch.tensor([[2, *words]] * 3)
        found = model.decoder(tokens, encoder_out=model.encoder(**sample["net_input"]))[
            0
        ].log_softmax(-1)
        for row, source in enumerate(sample["net_input"]["src_tokens"].tolist()):
            memory = oracle.encode([token for token in source if token != tiny.PAD])
            expected = torch.from_numpy(oracle.log_probabilities(memory, words))
            torch.testing.assert_close(found[row], expected, **TOLERANCE)


@settings(max_examples=15, deadline=None)
@given(
    cell=st.sampled_from(CELLS),
    lengths=st.lists(st.integers(1, 8), min_size=1, max_size=4),
    seed=st.integers(1, 5),
)
def test_greedy_translations(tiny, cell, lengths, seed):
    model, sample = marian(tiny, cell, seed=seed), tiny.sample(lengths, seed=seed)
    oracle = MarianOracle(model, cell=cell, heads=(2, 4))
    found = AutoregressiveGenerator(
        [model], tiny.dictionary(), DecodingOptions(beam=1, max_len_b=6)
    ).generate(None, sample)
    stock = SequenceGenerator([model], tiny.dictionary(), beam_size=1, max_len_b=6).generate(
        [model], sample
    )
    for row, source in enumerate(sample["net_input"]["src_tokens"].tolist()):
        words, scores = oracle.greedy([token for token in source if token != tiny.PAD], 6)
        for one in (found[row][0], stock[row][0]):
            assert one["tokens"].tolist() == words
            torch.testing.assert_close(
                one["positional_scores"].double(), torch.tensor(scores).double(), **TOLERANCE
            )


@settings(max_examples=15, deadline=None)
@given(
    cell=st.sampled_from(CELLS), beam=st.integers(2, 6), lenpen=st.sampled_from([0.0, 0.6, 1.0]),
    seed=st.integers(1, 5), ensemble=st.booleans(),
)  # fmt: skip
def test_beams_are_fairseqs(tiny, cell, beam, lenpen, seed, ensemble):
    """Its search reorders the cells' states with the beams; so does the engine."""
    models = [marian(tiny, cell, seed=seed)]
    if ensemble:
        models.append(marian(tiny, "ssru", seed=seed + 7))
    sample = tiny.sample([5, 3, 6, 1], seed=seed)
    options = DecodingOptions(beam=beam, nbest=beam, lenpen=lenpen, max_len_b=6)
    found = AutoregressiveGenerator(models, tiny.dictionary(), options).generate(None, sample)
    stock = SequenceGenerator(
        models, tiny.dictionary(), beam_size=beam, len_penalty=lenpen, max_len_b=6
    )
    for mine, theirs in zip(found, stock.generate(models, sample)):
        assert [one["tokens"].tolist() for one in mine] == [
            one["tokens"].tolist() for one in theirs
        ]
        for one, other in zip(mine, theirs):
            torch.testing.assert_close(
                one["positional_scores"], other["positional_scores"], rtol=0, atol=2e-5
            )


def test_lively_models_have_something_to_say(tiny):
    """What the tests above compare does not repeat endlessly."""
    for cell, words in (("attention", 3), ("ssru", 6)):
        found = AutoregressiveGenerator(
            [marian(tiny, cell, seed=1)], tiny.dictionary(), DecodingOptions(beam=1, max_len_b=9)
        ).generate(None, tiny.sample([5, 3, 6, 8]))
        texts = [tuple(best[0]["tokens"].tolist()) for best in found]
        assert len(set(texts)) == 4 and max(len(set(text)) for text in texts) >= words


PRESETS = {
    "marian_transformer": (512, 2048, 8, 6, "attention", "swish"),
    "marian_transformer_tiny": (128, 512, 4, 2, "attention", "swish"),
    "marian_transformer_wmt_en_de": (512, 2048, 8, 6, "attention", "swish"),
    "marian_transformer_student": (256, 1536, 8, 2, "ssru", "relu"),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets(tiny, name):
    width, inner, heads, layers, cell, activation = PRESETS[name]
    args = Namespace()
    ARCH_CONFIG_REGISTRY[name](args)
    task = Namespace(source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary())
    with torch.device("meta"):
        model = ARCH_MODEL_REGISTRY[name].build_model(args, task)
    assert isinstance(model, MarianTransformerModel)
    decoder = model.decoder
    assert (decoder.cell, decoder.zero_start, str(model.cfg.activation_fn)) == (
        cell,
        True,
        activation,
    )
    assert (decoder.embed_dim, decoder.layers[0].fc1.out_features, len(decoder.layers)) == (
        width,
        inner,
        layers,
    )
    assert (
        decoder.layers[0].encoder_attn.num_heads == heads
        and model.encoder.layers[0].self_attn_layer_norm.eps == 1e-6
    )
    assert decoder.output_projection.bias is not None


def test_what_fairseq_has_can_be_chosen(tiny):
    """With fairseq's conventions the model is fairseq's own, parameter by parameter."""
    fairseqs = dict(
        activation_fn="relu",
        marian_first_position=2,
        marian_epsilon=1e-5,
        marian_output_bias="no",
        marian_zero_start="no",
    )
    stock, own = tiny.model(), tiny.model("marian_transformer", seed=2, **fairseqs)
    assert own.state_dict().keys() == stock.state_dict().keys()
    own.load_state_dict(stock.state_dict())
    sample, tokens = tiny.sample([5, 3]), torch.tensor([[2, 7, 8], [2, 4, 4]])
    with torch.no_grad():
        for side in (True, False):
            found, expected = (
                model.decoder(
                    tokens, encoder_out=model.encoder(**sample["net_input"]), features_only=side
                )[0]
                for model in (own, stock)
            )
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
