"""Folders of Marian: which files belong together, and what is said of one that is incomplete."""

import re
import shutil

import pytest
from imported_models import pieces, train_pieces, write_bin, write_shortlist, yaml

from fairseq_hrt.native.bundles.bundle import load_bundle
from fairseq_hrt.native.conversion import Wishes, import_model
from fairseq_hrt.native.conversion.marian import is_marian, read_marian
from fairseq_hrt.native.conversion.vocabularies import load_sentencepiece

BOTH = ("en", "de")


def test_a_folder_as_firefox_has_it(marian_folder):
    decoder = (
        "models:\n  - model.ende.bin\nvocabs:\n  - vocab.ende.spm\n  - vocab.ende.spm\nshortlist:\n"
        "  - lex.s2t.bin\n  - false\n"
    )
    made = marian_folder(
        int8=True, decoder=decoder + "beam-size: 1\nnormalize: 1.0\nmax-length-factor: 2.5\n"
    )
    write_shortlist(made.path / "lex.s2t.bin", [[5]] * made.rows)
    found = read_marian(made.path, (None, None))
    assert (
        is_marian(made.path)
        and found.languages == ("en", "de")
        and found.subwords == "sentencepiece"
    )
    assert found.decoding == {
        "beam": "1",
        "max_len_a": "2.5",
        "max_len_b": "0",
        "min_len": "0",
        "lenpen": "1",
    }
    assert (
        found.codes == made.path / "vocab.ende.spm"
        and found.target_codes is None
        and len(found.models) == 1
    )
    assert (
        len(found.shortlist) == 1 + made.rows - 3
        and found.shortlist[2].count(" ") == 1
        and found.models[0].options["share_all_embeddings"]
    )
    # The file by itself, and languages of the user's choice.
    assert read_marian(made.path / "model.ende.bin", ("xx", None)).languages == ("xx", "de")


def test_vocabularies_of_yaml_and_a_description_beside_the_model(
    marian_folder, sentencepiece_model
):
    made = marian_folder()
    (made.path / "vocab.ende.spm").unlink()
    names = ["</s>", "<unk>", *pieces(sentencepiece_model)[3:], "extra"]
    (made.path / "vocab.yml").write_text(
        "".join(f'"{name}": {number}\n' for number, name in enumerate(names))
    )
    write_bin(made.path / "model.ende.bin", made.tensors, "")
    with pytest.raises(ValueError, match=r"put this description beside it as model.ende.bin.yml"):
        read_marian(made.path, BOTH)
    (made.path / "model.ende.bin.yml").write_text(yaml(made.config))
    found = read_marian(made.path, BOTH)
    assert found.subwords == "none" and found.codes is None and found.source == found.target
    for side in ("source.spm", "target.spm"):
        shutil.copy(sentencepiece_model, made.path / side)
    found = read_marian(made.path, BOTH)
    assert (found.codes, found.target_codes) == (made.path / "source.spm", made.path / "target.spm")
    (made.path / "target.spm").unlink()
    with pytest.raises(ValueError, match="for one language only"):
        read_marian(made.path, BOTH)


def test_an_ensemble(marian_folder):
    made = marian_folder(
        decoder="models: [one.bin, two.bin]\nvocabs: [vocab.ende.spm, vocab.ende.spm]\n"
    )
    for name in ("one.bin", "two.bin"):
        shutil.copy(made.path / "model.ende.bin", made.path / name)
    found = read_marian(made.path, (None, None))
    assert (
        len(found.models) == 2
        and found.decoding["beam"] == "12"
        and found.decoding["lenpen"] == "0"
    )


def test_unknown_words_where_they_are_allowed(marian_folder):
    assert (
        read_marian(marian_folder(decoder="allow-unk: true\n").path, BOTH).decoding["unkpen"] == "0"
    )


def test_a_vocabulary_with_more_pieces_than_the_model_has_words(marian_folder):
    made = marian_folder()
    smaller = {
        name: value[:-1] if name == "Wemb" else value for name, value in made.tensors.items()
    }
    smaller["decoder_ff_logit_out_b"] = smaller["decoder_ff_logit_out_b"][:, :-1]
    write_bin(made.path / "model.ende.bin", smaller, yaml(made.config))
    with pytest.raises(
        ValueError, match=f"has {made.rows} pieces, but the model has {made.rows - 1} words"
    ):
        read_marian(made.path, BOTH)


@pytest.mark.parametrize(
    "decoder, message",
    [
        ("models: [none.bin]", "names the file 'none.bin', which is not in"),
        ("models: {a: b}", "must be a list of files"),
        ("models: [model.ende.bin, model.ende.bin]", "names a model twice"),
        ("vocabs: [vocab.ende.spm, vocab.ende.spm, vocab.ende.spm]", "names 3 vocabularies"),
        ("max-length-factor: -1", "max-length-factor: -1"),
        ("max-length-factor: nan", "max-length-factor: 'nan'"),
        ("beam-size: 0", "beam-size: 0"),
        ("word-penalty: 0.5", "word-penalty"),
        ("output-sampling: true", "has 'output-sampling': 'true', which this package does not"),
        ("output-sampling: [topk, 10]", "'output-sampling'"),
        ("weights: [0.7, 0.3]", "'weights'"),
        ("force-decode: true", "'force-decode'"),
        ("allow-special: yes", "'allow-special'"),
        ("max-length: 100\nmax-length-crop: true", "'max-length-crop': 'true'"),
        ("ignore-model-config: true", "'ignore-model-config'"),
        ("beam-sise: 4", "'beam-sise': '4'"),
        ("train-sets: [a, b]\nlearn-rate: 0.1", "configures a training"),
        ("beam-size: 4\nskip-cost: true", "skip-cost with a beam-size of 4"),
        ("[1]", "not a configuration of Marian"),
        ("shortlist: [none.bin]", "names the file 'none.bin'"),
    ],
)
def test_configurations_that_do_not_fit(marian_folder, decoder, message):
    made = marian_folder(decoder=decoder)
    with pytest.raises(ValueError) as caught:
        read_marian(made.path, (None, None))
    assert message in str(caught.value)


# As published: Bergamot's, translateLocally's, that of Firefox on other systems; OPUS-MT's; what
# Marian writes beside a model in training; and some that say what counts anyway.
PUBLISHED = [
    """
beam-size: 1
normalize: 1.0
word-penalty: 0
max-length-break: 128
mini-batch-words: 1024
workspace: 128
max-length-factor: 2.0
skip-cost: true
cpu-threads: 0
quiet: true
quiet-translation: true
gemm-precision: int8shiftAlphaAll
alignment: soft
""",
    """
relative-paths: true
beam-size: 1
normalize: 1.0
word-penalty: 0
mini-batch: 64
maxi-batch: 1000
maxi-batch-sort: src
workspace: 2000
max-length-factor: 2.5
gemm-precision: int8shiftAlphaAll
""",
    """
relative-paths: true
beam-size: 4
normalize: 1
word-penalty: 0
mini-batch: 1
maxi-batch: 1
maxi-batch-sort: src
ssplit-mode: sentence
max-length-break: 128
mini-batch-words: 1024
alignment: soft
max-length-factor: 2.0
gemm-precision: int8Alpha
""",
    """
models: [/there/model.ende.bin]
vocabs: [/there/vocab.ende.spm, /there/vocab.ende.spm]
relative-paths: false
beam-size: 6
normalize: 0.6
word-penalty: 0
mini-batch: 32
maxi-batch: 100
maxi-batch-sort: src
""",
    """
weights: [0.5, 0.5]
output-sampling: []
output-approx-knn:
  []
allow-special: False
force-decode:
tsv: off
max-length: 1000
max-length-crop: false
devices: [0]
log:
transformer-heads: 8
dim-vocabs: [0, 0]
type: amun
skip: false
""",
]


@pytest.mark.parametrize("decoder", PUBLISHED)
def test_published_configurations(marian_folder, decoder):
    found = read_marian(marian_folder(decoder=decoder).path, (None, None))
    assert found.decoding["beam"] == (re.search(r"beam-size: (\d+)", decoder) or [0, "12"])[1]


def test_folders_that_are_incomplete(marian_folder):
    made = marian_folder()
    shutil.copy(made.path / "model.ende.bin", made.path / "other.npz")
    with pytest.raises(ValueError, match="has 2 models"):
        read_marian(made.path, BOTH)
    (made.path / "other.npz").unlink()
    shutil.copy(made.path / "vocab.ende.spm", made.path / "vocab.x.spm")
    with pytest.raises(ValueError, match="say which is the source's"):
        read_marian(made.path, BOTH)
    for name in ("vocab.x.spm", "vocab.ende.spm"):
        (made.path / name).rename(made.path / f"{name}.gone")
    with pytest.raises(ValueError, match="has 0 vocabularies"):
        read_marian(made.path, BOTH)
    (made.path / "vocab.ende.spm.gone").rename(made.path / "vocab.spm")
    (made.path / "model.ende.bin").rename(made.path / "model.bin")
    (made.path / "model_info.json").unlink()
    with pytest.raises(ValueError, match="give --source-language and --target-language"):
        read_marian(made.path, (None, "de"))


def test_lexical_tables_are_taken(marian_folder):
    """With the numbers of the configuration: frequent words, the best of a word, a threshold."""
    made = marian_folder(
        decoder="shortlist:\n  - /elsewhere/lex.s2t\n  - 5\n  - 1\n  - 0.2\nmax-length-factor: 2\n"
    )
    words = pieces(made.path / "vocab.ende.spm")
    (made.path / "lex.s2t").write_text(
        f"{words[9]} {words[8]} 0.5\n{words[7]} {words[8]} 0.4\n{words[9]} {words[7]} 0.1\n"
    )
    found = read_marian(made.path, (None, None)).shortlist
    assert found[0] == f"\t{words[3]} {words[4]}" and f"{words[8]}\t{words[9]} {words[8]}" in found
    assert f"{words[7]}\t{words[7]}" in found
    # Without a configuration Marian's defaults count: a hundred of each.
    (made.path / "config.yml").unlink()
    found = read_marian(made.path, (None, None)).shortlist
    assert (
        len(found[0].split()) == made.rows - 3
        and f"{words[8]}\t{words[9]} {words[7]} {words[8]}" in found
    )
    (made.path / "lex.s2t").write_text("no shortlist at all\n")
    with pytest.raises(ValueError, match=r"lex\.s2t: line 1 is not TARGET SOURCE PROBABILITY"):
        read_marian(made.path, (None, None))


@pytest.mark.parametrize("names", [
    ("model.intgemm.alphas.bin", "vocab.pten.spm"), ("model.base.npz", "vocab.spm"),
    ("model.best.npz", "vocab.ende.spm"), ("model.enpt.intgemm.alphas.bin", "vocab.enpt.spm"),
])  # fmt: skip
def test_names_of_files_are_no_languages(marian_folder, names):
    """Nor a part of one: ``alphas`` and ``best`` are none."""
    made = marian_folder(kind=names[0].rpartition(".")[2])
    (made.path / f"model.ende.{names[0].rpartition('.')[2]}").rename(made.path / names[0])
    (made.path / "vocab.ende.spm").rename(made.path / names[1])
    (made.path / "model_info.json").unlink()
    with pytest.raises(ValueError, match="do not name the languages: give --source-language"):
        read_marian(made.path, (None, None))
    with pytest.raises(ValueError, match="do not name the languages"):
        read_marian(made.path, ("en", None))
    assert read_marian(made.path, BOTH).languages == BOTH


@pytest.mark.parametrize("info, languages", [
    ('{"shortName": "en-pt-tiny", "type": "tiny"}', ("en", "pt")),
    ('{"shortName": "nb_NO-en-base", "type": "base"}', ("nb_NO", "en")),
    ('{"srcTags": {"en": "English"}, "trgTag": "pt", "shortName": "x-y"}', ("en", "pt")),
    ('{"srcTags": {"en": "English", "de": "German"}, "trgTag": "pt"}', None),
    ('{"shortName": "english-portuguese-tiny", "type": "tiny"}', None), ("{}", None),
])  # fmt: skip
def test_languages_of_a_description(marian_folder, info, languages):
    made = marian_folder()
    (made.path / "model_info.json").write_text(info)
    if languages:
        assert read_marian(made.path, (None, None)).languages == languages
        assert read_marian(made.path, ("xx", None)).languages == ("xx", languages[1])
    else:
        with pytest.raises(ValueError, match="do not name the languages"):
            read_marian(made.path, (None, None))


def test_multilingual_models_of_opus_mt(marian_folder, sentencepiece_model, tmp_path):
    """In Marian's own files as in Hugging Face's: a token names the target language."""
    made = marian_folder()
    (made.path / "vocab.ende.spm").unlink()
    words = ["</s>", "<unk>", *pieces(sentencepiece_model)[3:-1], ">>deu<<", ">>fra<<"]
    table = "".join(f'"{word}": {number}\n' for number, word in enumerate(words))
    (made.path / "opus.vocab.yml").write_text(table)
    for side in ("source.spm", "target.spm"):
        shutil.copy(sentencepiece_model, made.path / side)
    with pytest.raises(
        ValueError, match="--target-language is needed.* its languages are deu, fra"
    ):
        read_marian(made.path, (None, None))
    found = read_marian(made.path, ("en", "fra"))
    assert (found.source_prefix, found.languages) == (">>fra<<", ("en", "fra"))
    assert (found.tokenizer, found.subwords) == ("moses-punctuation", "sentencepiece")
    import_model(made.path, tmp_path / "bundle", Wishes("en", "fra", tokenizer="space"))
    pipeline = load_bundle(tmp_path / "bundle").pipeline()
    assert pipeline.words("a man")[0] == ">>fra<<" and pipeline.words(">>deu<< a")[0] == ">>deu<<"
    # Other tokens are text.
    assert pipeline.words(">>xyz<< a")[0] == ">>fra<<" and len(pipeline.words(">>xyz<< a")) > 2
    assert pipeline.recipe.tokenizer == "space"


def test_tokens_that_are_pieces_of_marians_own_vocabulary(marian_folder, tmp_path):
    """Marian segments them together with the text."""
    made = marian_folder()
    model = made.path / "vocab.ende.spm"
    model.unlink()
    tokens = [">>deu<<", ">>fra<<"]
    # As many pieces as the model has words.
    train_pieces(tmp_path, user_defined_symbols=tokens, vocab_size=made.rows).rename(model)
    import_model(made.path, tmp_path / "bundle", Wishes("en", "fra"))
    bundle = load_bundle(tmp_path / "bundle")
    words, marian = bundle.pipeline().words, load_sentencepiece(model).encode
    assert bundle.source_prefix == "▁ >>fra<<"
    assert words("a man") == marian(">>fra<< a man", out_type=str)
    assert words(">>deu<< a man") == marian(">>deu<< a man", out_type=str)


def test_signs_that_yaml_does_not_allow(marian_folder, sentencepiece_model):
    """Marian writes them into its vocabularies as they are."""
    made = marian_folder()
    (made.path / "vocab.ende.spm").unlink()
    odd = ["a\x7fb", "c\x85d", "e\u2028f", "g\x9bh"]
    words = ["</s>", "<unk>", *pieces(sentencepiece_model)[3:-3], *odd]
    table = "".join(f'"{word}": {number}\n' for number, word in enumerate(words))
    (made.path / "vocab.yml").write_text(table, encoding="utf-8", newline="")
    found = read_marian(made.path, BOTH).source.words
    # Two of them cannot stand in a dictionary, whose lines they would end.
    assert (
        "a\x7fb" in found and "g\x9bh" in found and sum("madeupword" in one for one in found) == 2
    )
