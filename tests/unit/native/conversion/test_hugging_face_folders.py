"""Folders of Hugging Face's translate raw text: language tokens are put before sources and not
written."""

import json

import pytest
from imported_models import train_pieces

from fairseq_hrt.native.bundles.bundle import load_bundle
from fairseq_hrt.native.bundles.pretrained import from_pretrained
from fairseq_hrt.native.conversion import Wishes, import_model
from fairseq_hrt.native.conversion.hugging_face_folders import read_hugging_face


def test_marians_text(hugging_face_folder, tmp_path):
    made = hugging_face_folder("marian")
    bundle = import_model(made.path, tmp_path / "bundle")
    assert (bundle.source_lang, bundle.target_lang, bundle.tokenizer) == (
        "en",
        "de",
        "moses-punctuation",
    )
    model = from_pretrained(tmp_path / "bundle", device="cpu", engine="torch")
    assert (
        model.pipeline.words("a man  ") == model.pipeline.words("a man")
        and model.bundle.target_codes == "target_codes"
    )
    (found,) = model.translate(["a man in red"], details=True)
    assert found.text == "".join(found.tokens[:-1]).replace("\u2581", " ").strip()


def test_a_multilingual_marian_needs_its_target_language(hugging_face_folder, tmp_path):
    made = hugging_face_folder("marian", multilingual=True)
    with pytest.raises(
        ValueError,
        match="--target-language is needed for a multilingual model; its languages are deu, fra",
    ):
        read_hugging_face(made.path, (None, None))
    import_model(made.path, tmp_path / "bundle", Wishes(target_language="fra"))
    words = from_pretrained(tmp_path / "bundle", device="cpu", engine="torch").pipeline.words
    assert (
        words("a man") == [">>fra<<", *words(">>deu<< a man")[1:]]
        and words(">>deu<< a man")[0] == ">>deu<<"
    )
    assert words("") == [] and words("\t") == []
    # transformers puts the token before the pieces of the text, even where it is a piece itself.
    train_pieces(tmp_path, user_defined_symbols=[">>deu<<", ">>fra<<"], vocab_size=62).replace(
        made.path / "source.spm"
    )
    import_model(made.path, tmp_path / "other", Wishes(target_language="fra"))
    assert load_bundle(tmp_path / "other").pipeline().words("a man") == words("a man")


@pytest.mark.parametrize(
    "kind, names, tokens",
    [
        ("mbart", ("en", "de_DE"), ("en_XX", "de_DE")),
        ("m2m_100", ("en", "fr"), ("__en__", "__fr__")),
        ("nllb", ("eng", "fra_Latn"), ("eng_Latn", "fra_Latn")),
    ],
)
def test_language_tokens_lead_both_sides(hugging_face_folder, tmp_path, kind, names, tokens):
    made = hugging_face_folder(kind)
    import_model(made.path, tmp_path / "bundle", Wishes(*names))
    model = from_pretrained(tmp_path / "bundle", device="cpu", engine="torch")
    assert (
        model.pipeline.words("a man")[0] == tokens[0]
        and (model.bundle.source_lang, model.bundle.target_lang) == names
    )
    (found,) = model.translate(["a man in red"], details=True)
    assert found.tokens[0] == tokens[1] and found.text == model.pipeline.text(
        " ".join(found.tokens[:-1])
    )
    # Also the token of another language than the bundle's, which a call may ask for.
    for token in (tokens[1], "fr_XX", "__de__", "zho_Hans"):
        assert model.pipeline.text(f"{token} \u2581a \u2581man") == "a man"
    # Given translations begin with it, too; nobody has chosen it, so it costs nothing.
    (rated,) = model.score(["a man"], ["a dog"])
    assert rated.tokens[0] == tokens[1] and rated.positional_scores[0] == 0
    assert rated.score == pytest.approx(sum(rated.positional_scores) / len(rated.tokens))
    for given in ((None, names[1]), (names[0], None), (names[0], "xx")):
        with pytest.raises(ValueError, match="--(source|target)-language"):
            read_hugging_face(made.path, given)


@pytest.mark.parametrize(
    "kind, names, first, weights",
    [
        ("marian", (), None, "float32"),
        ("mbart", ("en", "de_DE"), "de_DE", "float32"),
        ("m2m_100", ("en", "fr"), "__fr__", "float32"),
        ("m2m_100", ("en", "fr"), "__fr__", "int8"),
    ],
)
def test_the_native_engine_translates_and_serves_them(
    hugging_face_folder, tmp_path, kind, names, first, weights
):
    testclient = pytest.importorskip(
        "starlette.testclient", reason="the server needs the extra serve"
    )
    from fairseq_hrt.native.server.application import create_application
    from fairseq_hrt.native.server.settings import Settings

    lines = ["a man in red", "two dogs", "water", "woman reads book near the park"]
    made = hugging_face_folder(kind)
    # A beam of random weights would write nothing else.
    (made.path / "config.json").write_text(json.dumps({**made.config, "min_length": 4}))
    import_model(made.path, tmp_path / "bundle", Wishes(*names, runtime=weights, lines=lines))
    native = from_pretrained(tmp_path / "bundle", device="cpu", engine="native")
    found = native.translate(lines, details=True)
    assert all((one.tokens[0] == first) == (first is not None) for one in found)
    if weights == "float32":
        eager = from_pretrained(tmp_path / "bundle", device="cpu", engine="torch")
        assert [one.tokens for one in found] == [
            one.tokens for one in eager.translate(lines, details=True)
        ]
        # Given translations begin with their language's token as well, and nothing else is forced
        # on them.
        rated, expected = (model.score(lines, lines[::-1]) for model in (native, eager))
        assert [one.tokens for one in rated] == [one.tokens for one in expected]
        assert [one.score for one in rated] == pytest.approx(
            [one.score for one in expected], abs=1e-4
        )
        assert all((one.tokens[0] == first) == (first is not None) for one in rated)
    texts = [one.text for one in found]
    assert any(texts) and not any(first in text for text in texts if first)
    with testclient.TestClient(
        create_application(Settings(systems=(("one", tmp_path / "bundle"),), time_limit=300))
    ) as client:
        source, target = native.bundle.source_lang, native.bundle.target_lang
        answer = client.post("/v1/translate", json={"q": lines, "source": source, "target": target})
    assert answer.status_code == 200, answer.text
    assert texts == [one["text"] for one in answer.json()["translations"]]


def test_added_tokens_of_marian(hugging_face_folder):
    """A language that fine-tuning added is kept whole; other tokens would be split."""
    made = hugging_face_folder("marian")
    table = {word: row for row, word in enumerate(made.words) if row != 7}
    (made.path / "vocab.json").write_text(json.dumps(table))
    added = made.path / "added_tokens.json"
    added.write_text(json.dumps({">>tyv<<": 7, "<pad>": len(made.words) - 1, "<mask>": 1000}))
    found = read_hugging_face(made.path, ("en", "tyv"))
    assert found.source_prefix == ">>tyv<<" and found.target is found.source
    assert found.source.rows[4 + found.source.words.index(">>tyv<<")] == 7
    for tokens, message in (
        ({"<ent>": 7}, "has the added token '<ent>' .* would split"),
        ({"<ent>": 1000}, "has the added token '<ent>' .* would split"),
        ({"__de__": 7}, "has the added token '__de__' .* would split"),
        ({">>tyv<<": 8}, "token '>>tyv<<' has the id 8, which another word has"),
        ({">>tyv<<": 1000}, "has the id 1000, which is not below the vocab_size"),
        ({">>tyv<<": "x"}, "number: 'x'; it must be an integer"),
    ):
        added.write_text(json.dumps(tokens))
        with pytest.raises(ValueError, match=message):
            read_hugging_face(made.path, ("en", "tyv"))


def test_added_tokens_of_multilingual_models(hugging_face_folder):
    made = hugging_face_folder("m2m_100")
    size = len(made.words)
    tokens = ["__en__", "__de__", "__fr__", "__kk__"]
    numbered = {str(size - 4 + number): {"content": token} for number, token in enumerate(tokens)}
    numbered["3"] = {"content": "<unk>"}
    tokenizer = made.path / "tokenizer_config.json"
    tokenizer.write_text(json.dumps({"added_tokens_decoder": numbered}))
    found = read_hugging_face(made.path, ("en", "kk"))
    assert (found.source_prefix, found.target_prefix) == ("__en__", "__kk__")
    assert found.source.rows[4 + found.source.words.index("__kk__")] == size - 1
    numbered[str(size - 1)] = {"content": "<ent>"}
    tokenizer.write_text(json.dumps({"added_tokens_decoder": numbered}))
    with pytest.raises(ValueError, match="has the added token '<ent>' .* would split"):
        read_hugging_face(made.path, ("en", "de"))


@pytest.mark.parametrize(
    "file, change, message",
    [
        (
            "config.json",
            {"model_type": "t5"},
            "model_type: 't5', which cannot be imported; models with 'marian' or",
        ),
        ("config.json", {"vocab_size": 9}, "configuration gives '9×"),
        # Before a word is made for each.
        ("config.json", {"vocab_size": 1 << 24}, "configuration gives '16777216×"),
        ("config.json", {"vocab_size": 1 << 40}, "vocab_size"),
        (
            "tokenizer_config.json",
            {"tokenizer_class": "MBartTokenizer"},
            "'MBartTokenizer', whose sources end with their language",
        ),
        (
            "tokenizer_config.json",
            {"tokenizer_class": "SMALL100Tokenizer"},
            "tokens elsewhere than MBart50Tokenizer does",
        ),
        ("adapter_config.json", {"peft_type": "LORA"}, "merge_and_unload"),
        (
            "tokenizer_config.json",
            {"legacy_behaviour": True},
            "legacy_behaviour: True, with which sources end with",
        ),
        ("special_tokens_map.json", {"additional_special_tokens": []}, "names no language tokens"),
        (
            "special_tokens_map.json",
            {"additional_special_tokens": ["en_XX"] + [f"d{chr(97 + n)}_XX" for n in range(26)]},
            "which is not below the vocab_size",
        ),
    ],
)
def test_folders_that_do_not_fit(hugging_face_folder, file, change, message):
    made = hugging_face_folder("mbart")
    path = made.path / file
    path.write_text(
        json.dumps({**(json.loads(path.read_text()) if path.is_file() else {}), **change})
    )
    with pytest.raises(ValueError) as caught:
        read_hugging_face(made.path, ("en", "de"))
    assert message in str(caught.value)
