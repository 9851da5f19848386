"""Models written for CTranslate2 compute what fairseq computes, and whatever it cannot decode is
refused by name."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_REGISTRY

from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.export.ctranslate2_model import (
    PADDING,
    check_exportable,
    export,
    largest_difference,
)
from fairseq_hrt.native.options.values import DecodingOptions

ctranslate2 = pytest.importorskip("ctranslate2")

VARIANTS = {
    "plain": {},
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True),
    "one side pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=False),
    "no final norm": dict(
        encoder_normalize_before=True, decoder_normalize_before=True, no_decoder_final_norm=True
    ),
    "gelu, embedding norm": dict(activation_fn="gelu", layernorm_embedding=True),
    "gelu_accurate": dict(activation_fn="gelu_accurate"),
    "learned positions": dict(encoder_learned_pos=True, decoder_learned_pos=True),
    "shared embeddings": dict(share_decoder_input_output_embed=True, no_scale_embedding=True),
    "few positions": dict(max_source_positions=14, max_target_positions=14),
    "unequal depth and width": dict(
        encoder_layers=3, decoder_layers=1, decoder_embed_dim=24, decoder_attention_heads=3
    ),
    "hrt without relative positions": dict(arch="hrt_transformer", hrt_relative_window=0),
}


def greedy(model, sample, dictionary, longest):
    options = DecodingOptions(beam=1, max_len_a=0, max_len_b=longest)
    found = AutoregressiveGenerator([model], dictionary, options).generate([model], sample)
    return [best[0]["tokens"].tolist()[:-1] for best in found]


@pytest.mark.parametrize("name", VARIANTS)
def test_log_probabilities_and_translations_are_fairseqs(tiny, tmp_path, name):
    options = dict(VARIANTS[name])
    model, dictionary = tiny.model(options.pop("arch", "transformer"), **options), tiny.dictionary()
    done = export(model, dictionary, dictionary, tmp_path / "model")
    assert done.difference < 1e-4 and done.size == sum(
        path.stat().st_size for path in done.folder.iterdir()
    )
    translator = ctranslate2.Translator(str(done.folder), compute_type="float32", intra_threads=1)
    sample = tiny.sample([5, 9, 3], seed=3)
    sources = [
        [dictionary[token] for token in row.tolist() if token not in (tiny.PAD, tiny.EOS)]
        for row in sample["net_input"]["src_tokens"]
    ]
    results = translator.translate_batch(
        sources, beam_size=1, max_decoding_length=12, suppress_sequences=[[PADDING]]
    )
    expected = greedy(model, sample, dictionary, 12)
    assert [
        [dictionary.index(word) for word in result.hypotheses[0]] for result in results
    ] == expected
    assert any(expected)


def test_the_comparison_sees_a_difference(tiny, tmp_path):
    model, dictionary = tiny.model(), tiny.dictionary()
    done = export(model, dictionary, dictionary, tmp_path / "model")
    translator = ctranslate2.Translator(str(done.folder), compute_type="float32", intra_threads=1)
    with torch.no_grad():
        model.decoder.layers[0].fc2.bias[3] += 1
    assert largest_difference(model, dictionary, dictionary, translator) > 0.01


def test_quantised(tiny, tmp_path):
    model, dictionary = tiny.model(), tiny.dictionary()
    before = {name: weight.clone() for name, weight in model.float().state_dict().items()}
    threads = torch.get_num_threads()
    sizes = [
        export(model, dictionary, dictionary, tmp_path / (kind or "none"), quantization=kind).size
        for kind in (None, "int8")
    ]
    assert sizes[1] < 0.6 * sizes[0]
    # The converter quantises arrays in place: they must not be the model's own.
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    assert torch.get_num_threads() == threads
    with pytest.raises(ValueError, match="'int3' is unknown.*int8"):
        export(model, dictionary, dictionary, tmp_path / "wrong", quantization="int3")


def test_nothing_is_overwritten_or_left_half_written(tiny, tmp_path, monkeypatch):
    model, dictionary = tiny.model(), tiny.dictionary()
    (tmp_path / "model").mkdir()
    with pytest.raises(ValueError, match="exists already"):
        export(model, dictionary, dictionary, tmp_path / "model")
    with pytest.raises(FileNotFoundError, match="no codes"):
        export(model, dictionary, dictionary, tmp_path / "other", codes=tmp_path / "no codes")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    (tmp_path / "codes").write_text("a b\n")
    assert (
        export(model, dictionary, dictionary, tmp_path / "with", codes=tmp_path / "codes").folder
        / "codes"
    ).read_text() == "a b\n"
    monkeypatch.setattr(
        "fairseq_hrt.export.ctranslate2_model.largest_difference", lambda *rest: float("nan")
    )
    with pytest.raises(ValueError, match="differs from fairseq's by nan"):
        export(model, dictionary, dictionary, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codes", "model", "with"]


def parallel_model(tiny, arch):
    args = Namespace(
        encoder_embed_dim=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, max_source_positions=64, max_target_positions=64,
    )  # fmt: skip
    ARCH_CONFIG_REGISTRY[arch](args)
    task = Namespace(
        source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary(), cfg=Namespace()
    )
    return MODEL_REGISTRY[arch].build_model(args, task)


@pytest.mark.parametrize(
    "arch, task",
    [
        ("bidirectional_transformer", "translation_bidirectional"),
        ("dag_transformer", "translation_dag"),
    ],
)
def test_parallel_models_are_refused(tiny, arch, task):
    with pytest.raises(ValueError, match=f"does not write one word after another.*--task {task}"):
        check_exportable(parallel_model(tiny, arch))


def test_what_else_is_refused(tiny):
    for message, options in {
        "relative positions beside the absolute.*--hrt-relative-window 0": dict(
            arch="hrt_transformer", hrt_relative_window=4
        ),
        "--no-token-positional-embeddings": dict(no_token_positional_embeddings=True),
        "--adaptive-softmax-cutoff": dict(adaptive_softmax_cutoff="6,9", symbols=14),
        "--decoder-output-dim": dict(decoder_output_dim=8),
        "--no-cross-attention": dict(no_cross_attention=True),
        "--marian-zero-start yes, which CTranslate2 does not support": dict(
            arch="marian_transformer"
        ),
        "--marian-cell ssru": dict(arch="marian_transformer", marian_cell="ssru"),
    }.items():
        with pytest.raises(ValueError, match=message):
            check_exportable(tiny.model(options.pop("arch", "transformer"), **options))
    with pytest.raises(ValueError, match="a Linear cannot be converted"):
        check_exportable(torch.nn.Linear(1, 1))


def test_fairseqs_own_parallel_model_is_refused(tiny):
    args = Namespace(
        encoder_embed_dim=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, max_source_positions=64, max_target_positions=64,
        apply_bert_init=False, src_embedding_copy=False, pred_length_offset=False,
        sg_length_pred=False, length_loss_factor=0.1,
    )  # fmt: skip
    arch = "nonautoregressive_transformer"
    ARCH_CONFIG_REGISTRY[arch](args)
    dictionary = tiny.dictionary()
    model = MODEL_REGISTRY[arch].build_model(
        args, Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    )
    with pytest.raises(ValueError, match="does not write one word after another"):
        check_exportable(model)
