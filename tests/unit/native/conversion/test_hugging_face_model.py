"""The weights of Hugging Face's models under fairseq's names; where transformers is installed, its
own translations."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from imported_models import WIDTH
from safetensors.numpy import save_file

from fairseq_hrt.loading.checkpoints import read_checkpoint
from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.conversion import Wishes, import_model
from fairseq_hrt.native.conversion.hugging_face_model import frequencies
from fairseq_hrt.native.runtime.sinusoids import fairseq_frequencies, sinusoids

LINES = ["a man in red shirt", "two dogs play with ball on green grass near water", "water"]
KINDS = [
    ("marian", Wishes()), ("mbart", Wishes("en", "de_DE")), ("m2m_100", Wishes("en", "fr")),
    ("nllb", Wishes("eng", "fra")),
]  # fmt: skip
# Written by the test itself, with transformers 5.24, where RECORD_TRANSLATIONS is set.
RECORDED = Path(__file__).with_name("transformers_translations.json")


@pytest.mark.parametrize("kind, wishes", KINDS)
def test_weights_go_by_fairseqs_names_and_words_by_its_order(
    hugging_face_folder, tmp_path, kind, wishes
):
    made = hugging_face_folder(kind)
    import_model(made.path, tmp_path / "bundle", wishes)
    state = read_checkpoint(tmp_path / "bundle" / "model.pt")
    marian = kind == "marian"
    assert state["cfg"]["model"].arch == ("marian_transformer" if marian else "transformer")
    shared = torch.from_numpy(made.tensors["model.shared.weight"])
    # </s>, <unk> and <pad> of Marian's vocabulary have other places.
    order = (
        [0, len(shared) - 1, 0, 1, *range(2, len(shared) - 1)] if marian else [*range(len(shared))]
    )
    for side in ("encoder", "decoder"):
        found = state["model"][f"{side}.embed_tokens.weight"]
        assert torch.equal(found[1:], shared[order][1:]) and (not marian or not found[0].any())
        for name in ("fc1.weight", "self_attn.q_proj.bias", "final_layer_norm.weight"):
            theirs = made.tensors[f"model.{side}.layers.0.{name}"]
            assert np.array_equal(state["model"][f"{side}.layers.0.{name}"].numpy(), theirs)
    if marian:
        bias = state["model"]["decoder.output_projection.bias"]
        assert bias[0] == -1e4 and np.array_equal(
            bias[1:].numpy(), made.tensors["final_logits_bias"][0][order[1:]]
        )
        table = state["model"]["decoder.embed_positions.weight"]
        assert (
            np.allclose(table[2:].numpy(), sinusoids(np.arange(24), frequencies(16)))
            and table.shape[0] == 26
        )


@pytest.mark.parametrize("tied", [True, False])
def test_each_side_may_have_its_own_words(hugging_face_folder, tmp_path, tied):
    """Marian's separate vocabularies, and an output matrix of its own."""
    made = hugging_face_folder("marian")
    words = made.words[:2] + made.words[-2:1:-1] + ["öl", made.words[-1]]
    (made.path / "target_vocab.json").write_text(
        json.dumps({word: row for row, word in enumerate(words)})
    )
    tokenizer = {"source_lang": "en", "target_lang": "de", "separate_vocabs": True}
    (made.path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    changes = {
        "share_encoder_decoder_embeddings": False,
        "decoder_vocab_size": len(words),
        "tie_word_embeddings": tied,
    }
    (made.path / "config.json").write_text(
        json.dumps({**made.config, **changes, "decoder_start_token_id": len(words) - 1})
    )
    tensors = dict(made.tensors)
    tensors["model.encoder.embed_tokens.weight"] = tensors.pop("model.shared.weight")
    generator = np.random.default_rng(1)
    own, output = (generator.normal(0, 1, (len(words), 16)).astype(np.float32) for _ in range(2))
    own[-1] = 0
    tensors["model.decoder.embed_tokens.weight"] = own
    tensors["lm_head.weight"] = own if tied else output
    tensors["final_logits_bias"] = generator.normal(0, 1, (1, len(words))).astype(np.float32)
    save_file(tensors, str(made.path / "model.safetensors"))
    import_model(made.path, tmp_path / "bundle")
    state = read_checkpoint(tmp_path / "bundle" / "model.pt")["model"]
    order = [len(words) - 1, 0, 1, *range(2, len(words) - 1)]
    assert (tmp_path / "bundle" / "dict.de.txt").read_text().split()[-2] == "öl"
    assert np.array_equal(state["decoder.embed_tokens.weight"].numpy()[1:], own[order])
    assert np.array_equal(
        state["decoder.output_projection.weight"].numpy()[1:], (own if tied else output)[order]
    )
    assert np.array_equal(
        state["decoder.output_projection.bias"].numpy()[1:], tensors["final_logits_bias"][0][order]
    )
    first = [*range(len(made.words))][-1:] + [*range(len(made.words) - 1)]
    assert np.array_equal(
        state["encoder.embed_tokens.weight"].numpy()[1:],
        tensors["model.encoder.embed_tokens.weight"][first],
    )
    assert (
        from_pretrained(tmp_path / "bundle", device="cpu", engine="torch").translate("a man")
        is not None
    )


def test_positions_are_those_of_hugging_face():
    table = sinusoids(np.arange(5), frequencies(8))
    assert np.allclose(table[3, :4], np.sin(3 / 10000 ** (np.arange(4) * 2 / 8))) and np.allclose(
        table[0], [0] * 4 + [1] * 4
    )
    assert np.allclose(table[3, 4:], np.cos(3 / 10000 ** (np.arange(4) * 2 / 8)))


def translations_of_transformers(made, sources, search, start, longest=16):
    """What Hugging Face's ``generate`` finds for rows of numbers: ``[[numbers, score], …]``;
    recorded where it is not installed."""
    recorded = json.loads(RECORDED.read_text())
    name = f"{made.path.name} {search}"
    try:
        import transformers
    except ImportError:
        # The numbers are those of the pieces that SentencePiece found then.
        assert recorded["words"][made.path.name] == made.words
        return recorded[name]
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(made.path).eval()
    bad = (
        {"bad_words_ids": [[theirs.config.pad_token_id]]}
        if start is None
        else {"forced_bos_token_id": start}
    )
    found = []
    for source in sources:
        made_there = theirs.generate(
            torch.tensor([source]), num_beams=search[0], length_penalty=float(search[1]),
            early_stopping=search[0] > 1, max_length=longest, do_sample=False,
            return_dict_in_generate=True, output_scores=True, **bad,
        )  # fmt: skip
        score = round(float(made_there.sequences_scores[0]), 6) if search[0] > 1 else None
        found.append([made_there.sequences[0].tolist()[1:], score])
    if os.environ.get("RECORD_TRANSLATIONS"):
        recorded.setdefault("words", {})[made.path.name] = made.words
        RECORDED.write_text(json.dumps({**recorded, name: found}) + "\n")
    else:
        assert [row for row, _ in found] == [row for row, _ in recorded[name]]
    return found


@pytest.mark.parametrize("kind, wishes, searches", [
    (*kind, ((4, 1), ((1, 1), (4, 0))[number % 2])) for number, kind in enumerate(KINDS)
])  # fmt: skip
def test_translations_and_scores_are_those_of_transformers(
    hugging_face_folder, tmp_path, kind, wishes, searches
):
    """Of translations that end by themselves; of the others the words are the same in greedy
    search. Both divide by the number of words with ``</s>`` and the forced first one, whose
    log-probability counts as 0."""
    made = hugging_face_folder(kind)
    native = dataclasses.replace(wishes, runtime="float32", lines=LINES)
    import_model(made.path, tmp_path / "bundle", native)
    models = [
        from_pretrained(tmp_path / "bundle", device="cpu", engine=engine, unkpen=0, max_len_b=15)
        for engine in ("torch", "native")
    ]
    numbers = {word: number for number, word in enumerate(made.words)}
    start = None if kind == "marian" else numbers[models[0].bundle.target_prefix]
    lines = [
        *LINES,
        *(
            f"{first} {second}"
            for first in ("red", "dogs", "woman")
            for second in ("park", "ball reads", "a")
        ),
    ]
    sources = [
        [numbers[word] for word in [*models[0].pipeline.words(line), "</s>"]] for line in lines
    ]
    for search in searches:
        theirs = translations_of_transformers(made, sources, search, start)
        beam, lenpen = search
        for model in models:
            ended = rated = 0
            found = model.translate(lines, details=True, beam=beam, lenpen=lenpen)
            texts = [one.text for one in found]
            scored = model.score(lines, texts)
            for (expected, score), one, given in zip(theirs, found, scored):
                words = [numbers[word] for word in one.tokens]
                if expected[-1] != numbers["</s>"]:
                    # Cut there; here </s> follows.
                    assert beam > 1 or words == [*expected, numbers["</s>"]]
                    assert beam > 1 or len(expected) == 15
                    continue
                ended += 1
                assert words == expected
                assert score is None or one.score == pytest.approx(score, abs=1e-4)
                if score is not None and lenpen and given.tokens == one.tokens:
                    rated += 1
                    assert given.score == pytest.approx(score, abs=1e-4)
            assert ended > (0 if beam == 1 else 10)
            # Of the others no text is cut into the pieces that it was made of.
            assert rated > 0 or not (lenpen and beam > 1 and kind in ("marian", "mbart"))


def test_a_start_that_training_has_moved(hugging_face_folder, tmp_path):
    """Fine-tuning by transformers moves the embedding of ``<pad>``, from which decoders start."""
    made = hugging_face_folder("marian", "marian_tuned", start=0.7)
    import_model(made.path, tmp_path / "bundle", Wishes(runtime="float32", lines=LINES))
    numbers = {word: number for number, word in enumerate(made.words)}
    for engine in ("torch", "native"):
        model = from_pretrained(
            tmp_path / "bundle", device="cpu", engine=engine, unkpen=0, max_len_b=15
        )
        sources = [
            [numbers[word] for word in [*model.pipeline.words(line), "</s>"]] for line in LINES
        ]
        for search in ((1, 1), (4, 1)):
            theirs = translations_of_transformers(made, sources, search, None)
            ended = 0
            found = model.translate(LINES, details=True, beam=search[0])
            for (expected, score), one in zip(theirs, found):
                if expected[-1] == numbers["</s>"]:
                    ended += 1
                    assert [numbers[word] for word in one.tokens] == expected
                    assert score is None or one.score == pytest.approx(score, abs=1e-4)
            assert ended


@pytest.mark.parametrize("kind, wishes", KINDS[:2])
def test_the_end_at_the_longest_length(hugging_face_folder, tmp_path, kind, wishes):
    """There it is forced and counts as certain; here it has its log-probability."""
    end = 0 if kind == "marian" else 2
    limits = dict(min_length=5, max_length=6, forced_eos_token_id=end)
    made = hugging_face_folder(kind, f"{kind}_forced", **limits)
    native = dataclasses.replace(wishes, runtime="float32", checkpoint=False)
    import_model(made.path, tmp_path / "bundle", native)
    model = from_pretrained(tmp_path / "bundle", engine="native", beam=4, unkpen=0)
    numbers = {word: number for number, word in enumerate(made.words)}
    sources = [[numbers[word] for word in [*model.pipeline.words(line), "</s>"]] for line in LINES]
    start = None if kind == "marian" else numbers[model.bundle.target_prefix]
    for lenpen in (0, 1):
        theirs = translations_of_transformers(made, sources, (4, lenpen), start, longest=6)
        translated = model.translate(LINES, details=True, lenpen=lenpen)
        for (expected, score), found in zip(theirs, translated):
            assert [numbers[word] for word in found.tokens] == expected and expected[4:] == [end]
            *parts, last = found.positional_scores
            assert last < -0.01
            assert found.score == pytest.approx((sum(parts) + last) / 5**lenpen, abs=1e-4)
            assert score == pytest.approx(sum(parts) / 5**lenpen, abs=1e-4)


@pytest.mark.parametrize("changed", [False, True])
def test_stored_positions_of_marian_are_read(hugging_face_folder, tmp_path, changed):
    """As transformers reads them, whatever they are."""
    made, tables = hugging_face_folder("marian"), {}
    for side in ("encoder", "decoder"):
        table = sinusoids(np.arange(24), frequencies(WIDTH)).astype(np.float32)
        tables[f"model.{side}.embed_positions.weight"] = table + np.float32(0.1 * changed)
    save_file({**made.tensors, **tables}, str(made.path / "model.safetensors"))
    bundle = import_model(made.path, tmp_path / "bundle")
    found = torch.load(bundle.paths[0], weights_only=False)["model"]
    for name, table in tables.items():
        stored = found[name.removeprefix("model.")].numpy()
        assert not stored[:2].any() and np.array_equal(stored[2:], table)


def test_stored_sinusoids_of_m2m_must_be_those(hugging_face_folder, tmp_path):
    """transformers does not read them."""
    made, name = hugging_face_folder("m2m_100"), "model.encoder.embed_positions.weights"
    table = np.zeros((26, WIDTH), np.float32)
    table[2:] = sinusoids(np.arange(2, 26), fairseq_frequencies(WIDTH))
    for stored, message in (
        (table.astype(np.float16).astype(np.float32), None),
        (table + np.float32(0.1), "embed_positions.weights' holds other position vectors"),
        (table[:, ::-1], "embed_positions.weights' holds other position vectors"),
        (table[:, 1:], "embed_positions.weights' has the shape"),
    ):
        save_file(
            {**made.tensors, name: np.ascontiguousarray(stored)},
            str(made.path / "model.safetensors"),
        )
        if message is None:
            import_model(made.path, tmp_path / "bundle", Wishes("en", "de"))
            continue
        with pytest.raises(ValueError, match=message):
            import_model(made.path, tmp_path / "other", Wishes("en", "de"))


def test_an_output_bias_where_there_is_none_here(hugging_face_folder, tmp_path):
    """One of zeros, as MBart's files have it, means nothing."""
    made = hugging_face_folder("mbart")
    for value, refused in ((0.0, False), (0.5, True)):
        bias = np.full((1, len(made.words)), value, np.float32)
        save_file({**made.tensors, "final_logits_bias": bias}, str(made.path / "model.safetensors"))
        if refused:
            with pytest.raises(ValueError, match="final_logits_bias that is not zero"):
                import_model(made.path, tmp_path / "other", Wishes("en", "de"))
        else:
            import_model(made.path, tmp_path / "bundle", Wishes("en", "de"))


@pytest.mark.parametrize(
    "kind, change, message",
    [
        ("marian", {"activation_function": "gelu_new"}, "activation_function: 'gelu_new'"),
        ("marian", {"normalize_before": True}, "normalize_before: True"),
        ("marian", {"static_position_embeddings": False}, "static_position_embeddings: False"),
        ("marian", {"decoder_start_token_id": 3000}, "decoder_start_token_id: 3000, but"),
        ("marian", {"d_model": 1 << 40}, "d_model"),
        ("marian", {"d_model": 32}, "has the shape"),
        ("marian", {"encoder_layers": 2}, "has no 'model.encoder.layers.1"),
        ("marian", {"encoder_attention_heads": 3}, "multiple of twice"),
        ("marian", {"max_position_embeddings": 1 << 30}, "max_position_embeddings"),
        ("marian", {"tie_word_embeddings": False}, "has no 'lm_head.weight'"),
        ("mbart", {"max_position_embeddings": 25}, "embed_positions"),
        ("mbart", {"decoder_start_token_id": 0}, "decoder_start_token_id: 0"),
        ("m2m_100", {"activation_function": "swish"}, "activation_function: 'swish'"),
        ("m2m_100", {"model_type": "mbart"}, "has no 'model.encoder.layernorm_embedding.weight'"),
        (
            "mbart",
            {"model_type": "m2m_100"},
            "cannot be imported, among them 'model.decoder.embed_positions.weight'",
        ),
    ],
)
def test_what_cannot_be_represented_is_named(hugging_face_folder, tmp_path, kind, change, message):
    made = hugging_face_folder(kind)
    (made.path / "config.json").write_text(json.dumps({**made.config, **change}))
    wishes = Wishes("en", "de") if kind != "marian" else Wishes()
    with pytest.raises(ValueError) as caught:
        import_model(made.path, tmp_path / "bundle", wishes)
    assert (
        message in str(caught.value)
        and "\n" not in str(caught.value)
        and not (tmp_path / "bundle").exists()
    )
