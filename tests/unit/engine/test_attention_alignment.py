"""Alignment by attention against fairseq's modules."""

import pytest
import torch

from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.native.options.values import DecodingOptions


@pytest.mark.parametrize("arch", ["transformer", "marian_transformer"])
@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("pre_norm", [True, False])
@torch.no_grad()
def test_words_are_aligned_by_the_last_layers_attention(tiny, left_pad, pre_norm, arch):
    """fairseq's decoder gives that attention when it is asked for an alignment."""
    options = dict(decoder_normalize_before=pre_norm, encoder_normalize_before=pre_norm)
    if arch == "marian_transformer":
        options["marian_cell"] = "ssru"
    models = [tiny.model(arch, seed=seed, **options) for seed in (1, 2)]
    sample = tiny.sample([5, 3, 1, 7], left_pad=left_pad)
    generator = AutoregressiveGenerator(
        models, tiny.dictionary(), DecodingOptions(beam=3, max_len_b=8)
    )
    assert generator.find(sample)[0][0].alignment == []
    generator.align_words()
    source = sample["net_input"]
    for row, best in enumerate(generator.find(sample)):
        words = source["src_tokens"][row][source["src_tokens"][row].ne(tiny.PAD)][None]
        for hypothesis in best:
            tokens = torch.tensor(hypothesis.tokens)
            inputs = torch.cat([tokens.new_tensor([tiny.EOS]), tokens[:-1]])[None]
            attention = 0
            for model in models:
                out = model.encoder(words, src_lengths=torch.tensor([words.numel()]))
                attention = (
                    attention
                    + model.decoder.extract_features(inputs, encoder_out=out)[1]["attn"][0][0]
                )
            expected = attention[:, : max(words.numel() - 1, 1)].argmax(1)
            assert hypothesis.alignment == expected.tolist()
