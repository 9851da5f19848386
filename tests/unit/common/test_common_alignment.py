"""Alignment by attention against fairseq's modules, and words for <unk>."""

import pytest
import torch

from fairseq_hrt.common.alignment import read_lexicon, replace_unknown
from fairseq_hrt.common.generator import AutoregressiveGenerator
from fairseq_hrt.common.options import DecodingOptions


@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("pre_norm", [True, False])
@torch.no_grad()
def test_words_are_aligned_by_the_last_layers_attention(tiny, left_pad, pre_norm):
    """fairseq's decoder gives that attention when it is asked for an alignment."""
    models = [tiny.model(seed=seed, decoder_normalize_before=pre_norm, encoder_normalize_before=pre_norm) for seed in (1, 2)]
    sample = tiny.sample([5, 3, 1, 7], left_pad=left_pad)
    generator = AutoregressiveGenerator(models, tiny.dictionary(), DecodingOptions(beam=3, max_len_b=8))
    assert generator.generate(models, sample)[0][0]["alignment"].numel() == 0
    generator.align_words({})
    source = sample["net_input"]
    for row, best in enumerate(generator.generate(models, sample)):
        words = source["src_tokens"][row][source["src_tokens"][row].ne(tiny.PAD)][None]
        for hypothesis in best:
            tokens = hypothesis["tokens"]
            inputs = torch.cat([tokens.new_tensor([tiny.EOS]), tokens[:-1]])[None]
            attention = 0
            for model in models:
                out = model.encoder(words, src_lengths=torch.tensor([words.numel()]))
                attention = attention + model.decoder.extract_features(inputs, encoder_out=out)[1]["attn"][0][0]
            expected = attention[:, : max(words.numel() - 1, 1)].argmax(1)
            assert hypothesis["alignment"].tolist() == expected.tolist()


def test_models_that_do_not_write_from_left_to_right_are_refused(tiny):
    model = tiny.model()
    model.decoder.only_task = "translation_dag"
    with pytest.raises(ValueError, match="--replace-unk: .*TransformerModel.*--unkpen inf"):
        AutoregressiveGenerator([model], tiny.dictionary(), DecodingOptions()).align_words({})


def test_words_for_unknown_ones():
    source, lexicon = "the big zebra".split(), {"zebra": "Zebra", "big": "gross"}

    def replaced(text, alignment):
        return " ".join(replace_unknown(text.split(), alignment, source, lexicon, "<unk>"))

    assert replaced("das <unk> <unk>", [0, 1, 2]) == "das gross Zebra"
    assert replaced("<unk> grosse <unk>", [0, 1, 2]) == "the grosse Zebra"
    # Two for one word, and one that looks at the end of the source.
    assert replaced("<unk> <unk> x <unk>", [2, 2, 0, 2]) == "Zebra x Zebra"
    assert replaced("<unk> </s>", [3, 3]) == "<unk> </s>"


def test_lexicons(tmp_path):
    path = tmp_path / "lexicon"
    path.write_text("zebra Zebra 0.9\n\nä ö\n", encoding="utf-8")
    assert read_lexicon(str(path)) == {"zebra": "Zebra", "ä": "ö"} and read_lexicon("") == {}
    path.write_text("a b\nalone\n")
    with pytest.raises(ValueError, match="--replace-unk .* line 2: 'alone'"):
        read_lexicon(str(path))
    with pytest.raises(ValueError, match="--replace-unk .*cannot be read"):
        read_lexicon(str(tmp_path / "missing"))
