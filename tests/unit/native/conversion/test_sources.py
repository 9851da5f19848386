"""Any source is imported or refused on one line; nothing in it is run."""

import random
import re
import shutil

import pytest
from imported_models import train_pieces

from fairseq_hrt.native.conversion import Wishes, import_model, sources
from fairseq_hrt.native.conversion.converted import Converted
from fairseq_hrt.native.conversion.vocabularies import Vocabulary


def test_sources_that_are_none(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("x")
    for name, message in (
        ("none", "does not exist"),
        ("empty", "it has nothing"),
        ("text", "holds no model that can be imported"),
    ):
        with pytest.raises(ValueError, match=message):
            import_model(tmp_path / name, tmp_path / "bundle")


def test_links_to_other_files(marian_folder, tmp_path):
    """The lines of a file that somebody else's folder links to would be the words of a
    dictionary."""
    made = marian_folder()
    (made.path / "vocab.ende.spm").unlink()
    (tmp_path / "secret").write_text("".join(f"word{number}\n" for number in range(made.rows)))
    (made.path / "vocab.ende.txt").symlink_to(tmp_path / "secret")
    for source in (made.path, made.path / "model.ende.bin"):
        with pytest.raises(ValueError, match="is a link to .*secret, outside its folder"):
            import_model(source, tmp_path / "bundle")


def test_text_that_the_model_brings_itself(marian_folder, tmp_path):
    folder = marian_folder().path
    for wish in (Wishes(subwords="none"), Wishes(target_codes=tmp_path / "codes")):
        with pytest.raises(ValueError, match="the model brings its own"):
            import_model(folder, tmp_path / "bundle", wish)


def vocabulary(words):
    return Vocabulary(tuple(words), (), 0)


PIECES, UNITS, WHOLE_WORDS = ["▁a", "b"], ["a@@", "b"], ["a", "b"]


def prepared(words, wishes, folder):
    converted = Converted([], ("en", "de"), vocabulary(words), vocabulary(words))
    return sources._prepared(converted, wishes, folder)


def test_codes_are_of_the_kind_that_the_vocabulary_shows(tmp_path, sentencepiece_model):
    """Of a model that brings a plain vocabulary only."""
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b</w>\n")
    for words, own, kind in (
        (PIECES, sentencepiece_model, "sentencepiece"),
        (UNITS, codes, "subword-nmt"),
        (WHOLE_WORDS, codes, "subword-nmt"),
    ):
        made = prepared(words, Wishes(codes=own, target_codes=own, tokenizer="moses"), tmp_path)
        assert (made.tokenizer, made.subwords) == ("moses", kind)
        assert (made.codes, made.target_codes) == (own, own)
    assert prepared(WHOLE_WORDS, Wishes(tokenizer="moses"), tmp_path).subwords == "none"
    assert prepared(UNITS, Wishes(subwords="none"), tmp_path).subwords == "none"


def test_subwords_without_their_codes(tmp_path, sentencepiece_model):
    for words, wishes, message in (
        (PIECES, Wishes(), "of subwords (sentencepiece): give their file by --codes, or"),
        (UNITS, Wishes(tokenizer="moses"), f"{tmp_path} holds no codes for its vocabulary of"),
        (WHOLE_WORDS, Wishes(codes=sentencepiece_model), f"{sentencepiece_model} cannot be read"),
        (
            WHOLE_WORDS,
            Wishes(target_codes=sentencepiece_model),
            f"--target-codes '{sentencepiece_model}': give the source language's codes",
        ),
        (
            UNITS,
            Wishes(codes=tmp_path / "none", target_codes=sentencepiece_model),
            f"{tmp_path / 'none'} cannot be read as codes",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            prepared(words, wishes, tmp_path)


def test_pieces_of_another_vocabulary(hugging_face_folder, tmp_path):
    other = train_pieces(tmp_path, words="человек в красной рубашке бежит".split())
    for kind, name in (("marian", "source.spm"), ("m2m_100", "sentencepiece.bpe.model")):
        folder = hugging_face_folder(kind).path
        shutil.copy(other, folder / name)
        with pytest.raises(ValueError, match=f"{name}: .* are not in the model's vocabulary"):
            import_model(folder, tmp_path / "bundle", Wishes("en", "de"))


@pytest.mark.parametrize(
    "kind, names",
    [
        ("marian", ["vocab.ende.spm", "model.ende.bin", "config.yml"]),
        (
            "mbart",
            [
                "config.json",
                "special_tokens_map.json",
                "sentencepiece.bpe.model",
                "model.safetensors",
            ],
        ),
    ],
)
def test_damaged_folders_are_imported_or_refused(
    marian_folder, hugging_face_folder, tmp_path, kind, names, monkeypatch
):
    """The readers are what damage reaches; bundles of what they let pass are written elsewhere."""
    monkeypatch.setattr(sources, "write_bundle", lambda *_, **__: None)
    monkeypatch.setattr(sources, "_sample", lambda *_: [])
    decoder = "models: [model.ende.bin]\nvocabs: [vocab.ende.spm, vocab.ende.spm]\nbeam-size: 2\n"
    made = (
        marian_folder(int8=True, decoder=decoder) if kind == "marian" else hugging_face_folder(kind)
    )
    wishes = Wishes() if kind == "marian" else Wishes("en", "de")
    generator, refused = random.Random(1), 0
    for number in range(150):
        path = made.path / names[number % len(names)]
        sound = path.read_bytes()
        damaged = bytearray(sound)
        for _ in range(generator.choice([1, 1, 2, 8])):
            # Most are in the heads, which say how long everything is.
            damaged[int(generator.random() ** 3 * len(damaged))] = generator.choice(
                [0, 255, 127, generator.randrange(256)]
            )
        path.write_bytes(
            damaged if generator.random() < 0.8 else damaged[: generator.randrange(len(damaged))]
        )
        try:
            import_model(made.path, tmp_path / "bundle", wishes)
        except ValueError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 1000
        path.write_bytes(sound)
    assert refused > 50
    import_model(made.path, tmp_path / "bundle", wishes)


@pytest.mark.parametrize("kind", ["m2m_100", "mbart"])
def test_languages_by_their_tokens(hugging_face_folder, tmp_path, kind):
    folder = hugging_face_folder(kind).path
    tokens = {"m2m_100": ("__en__", "__de__"), "mbart": ("en_XX", "de_DE")}[kind]
    bundle = import_model(folder, tmp_path / "bundle", Wishes(*tokens))
    assert (bundle.source_lang, bundle.target_lang) == tuple(name.strip("_") for name in tokens)
    assert (bundle.source_prefix, bundle.target_prefix) == tokens
    # A mistake in an option is that option's.
    for wishes, message in (
        (Wishes("__en", "de"), "--source-language names the language '__en'"),
        (Wishes("it", "de"), "--source-language 'it' is not a language of this model"),
        (Wishes("a/b", "de"), "--source-language names the language 'a/b'"),
        (Wishes("en", ">>de"), "--target-language names the language '>>de'"),
    ):
        with pytest.raises(ValueError, match=message):
            import_model(folder, tmp_path / "other", wishes)


def test_an_option_that_the_native_engine_lacks(hugging_face_folder, tmp_path):
    """No flag is advised that ``import`` does not have."""
    folder = hugging_face_folder("marian").path
    (folder / "generation_config.json").write_text('{"no_repeat_ngram_size": 3}')
    for wishes, advice in (
        (Wishes(runtime="int8"), "leave --runtime out, or set no_repeat_ngram_size to 0 in"),
        (Wishes(checkpoint=False), "leave --runtime out and import the model with the whole"),
    ):
        with pytest.raises(ValueError, match=f"no_repeat_ngram_size to 3, .*: {advice}"):
            import_model(folder, tmp_path / "bundle", wishes)
    bundle = import_model(folder, tmp_path / "bundle")
    assert bundle.options["no_repeat_ngram_size"] == "3" and bundle.runtime is None
