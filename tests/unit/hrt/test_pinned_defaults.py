"""First values of parameters, rules that hold in both stages, and single precision where half
precision would lose too much."""

from argparse import Namespace
from dataclasses import replace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_hrt.hrt.attention import RelativeSelfAttention
from fairseq_hrt.hrt.config import HRTTaskConfig
from fairseq_hrt.hrt.criterion import HRTLoss
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.hrt.model import HRTTransformerModel
from fairseq_hrt.hrt.sample import SampleView
from fairseq_hrt.hrt.task import HRTTranslationTask
from fairseq_hrt.native.options.values import DecodingOptions

SYMBOLS, EOS, UNK = 12, 2, 3


def test_first_values_of_the_attention():
    """As fairseq's: queries, keys and values are parts of one matrix."""
    torch.manual_seed(0)
    attention = RelativeSelfAttention(64, 4, dropout=0.0, window=3)
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        bound = (6 / (64 + 64) / 2) ** 0.5
        assert 0.95 * bound < projection.weight.abs().max() <= bound
    bound = (6 / (64 + 64)) ** 0.5
    assert 0.95 * bound < attention.out_proj.weight.abs().max() <= bound
    assert not attention.out_proj.bias.any() and not attention.relative_keys.any()
    assert attention.relative_keys.shape == (7, 16)


def test_first_value_of_the_mask(hrt):
    args = Namespace(decoder_embed_dim=1024, encoder_embed_dim=1024, encoder_layers=1,
                     decoder_layers=1, encoder_ffn_embed_dim=8,
                     decoder_ffn_embed_dim=8, max_source_positions=8, max_target_positions=8,
                     hrt_chunk_sizes=[2])  # fmt: skip
    ARCH_CONFIG_REGISTRY["hrt_transformer"](args)
    task = Namespace(source_dictionary=hrt.dictionary(4), target_dictionary=hrt.dictionary(4))
    mask = HRTTransformerModel.build_model(args, task).decoder.embed_special.weight[0]
    assert (
        float(mask.std()) == pytest.approx(1024**-0.5, rel=0.1) and abs(float(mask.mean())) < 0.005
    )


def test_dropout_falls_on_the_embeddings(hrt):
    """All of it: then nothing is left of the words, wherever they stand; in evaluation nothing is
    dropped."""
    model = hrt.model(symbols=SYMBOLS)
    decoder, out = (
        model.decoder,
        model.encoder(**hrt.sample(hrt.sources([4], SYMBOLS))["net_input"]),
    )

    def features(word):
        tokens = torch.tensor([[EOS, word]])
        return decoder.view_features(
            SampleView(tokens, torch.tensor([[0, 1]]), tokens), out, causal=True
        )

    assert not features(5).equal(features(6))
    decoder.dropout_module.train()
    decoder.dropout_module.p = 1.0
    assert features(5).equal(features(6))


@pytest.mark.parametrize("chunk", [2, 3])
def test_the_penalty_of_unknown_words_holds_at_every_mask(hrt, chunk):
    """A model that writes nothing but <unk>: forbidden in both stages, and its price is paid at
    every place."""
    model = hrt.model(symbols=SYMBOLS, share_decoder_input_output_embed=False)
    with torch.no_grad():
        model.decoder.output_projection.weight[UNK] = 0
        model.decoder.output_projection.weight.mul_(0.01)
    sample = hrt.sample(hrt.sources([4], SYMBOLS))

    def decode(penalty):
        options = DecodingOptions(beam=1, max_len_b=11, min_len=9, unkpen=penalty, lenpen=0.0)
        generator = HRTGenerator(
            [model], hrt.dictionary(SYMBOLS), replace(options, hrt_decode_chunk=str(chunk))
        )
        ((best,),) = generator.generate([model], sample)
        return best

    eager = decode(-50.0)
    # The last chunk is ended.
    unknown = [token == UNK for token in eager["tokens"].tolist()]
    assert all(unknown[:-1]) and not unknown[-1]
    plain = torch.full((len(unknown) - 1,), 50.0)
    assert (eager["positional_scores"][:-1] > plain - 5).all(), "each <unk> was given the bonus"
    for penalty in (50.0, float("inf")):
        assert UNK not in decode(penalty)["tokens"].tolist()


class _Softmaxes(TorchDispatchMode):
    """The types that softmaxes are computed in."""

    def __init__(self):
        super().__init__()
        self.types = []

    @classmethod
    def _should_skip_dynamo(cls):
        # Nothing is compiled here; to make sure of that, PyTorch would import its compiler for
        # seconds.
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.name().split("::")[1].split(".")[0] in (
            "_softmax",
            "_log_softmax",
            "softmax",
            "log_softmax",
        ):
            self.types.append(result.dtype)
        return result


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_softmax_of_half_precision_is_in_single_precision(hrt, dtype):
    """Attention in training and in the engine, the probabilities of decoding, and those of the
    loss."""
    model, dictionary = hrt.model(symbols=SYMBOLS).to(dtype), hrt.dictionary(SYMBOLS)
    sample = hrt.sample(hrt.sources([5, 3], SYMBOLS))
    sample["target"] = torch.tensor([[5, 6, 7, EOS], [8, EOS, 1, 1]])
    task = HRTTranslationTask(HRTTaskConfig(max_update=10, seed=5), dictionary, dictionary)
    task.decoder = model.decoder
    counts = []
    with _Softmaxes() as seen:
        out = model.encoder(**sample["net_input"])
        counts.append(len(seen.types))
        tokens = torch.tensor([[EOS, 5], [EOS, 6]])
        model.decoder.view_features(
            SampleView(tokens, torch.arange(2).expand(2, 2), tokens), out, causal=True
        )
        counts.append(len(seen.types))
        HRTLoss(task, 0.1)(model, task.add_views(sample, 1, 0.5))
        counts.append(len(seen.types))
        options = DecodingOptions(beam=2, max_len_b=5, hrt_decode_chunk="2")
        generator = HRTGenerator([model], dictionary, options)
        generator.generate([model], sample)
        counts.append(len(seen.types))
    assert all(more > fewer for fewer, more in zip([-1, *counts], counts)), (
        "each of them has been seen"
    )
    # fairseq's own modules are not ours to change: its attention asks for float32 as well.
    assert set(seen.types) == {torch.float32}
