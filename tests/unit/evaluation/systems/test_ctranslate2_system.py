"""CTranslate2 as a system of the comparison: the translations and limits of fairseq, and what it
cannot do is refused by name."""

import json
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from tiny_models import write_checkpoint, write_dictionaries

from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.evaluation.systems import SystemSpec, load_system, parse_system
from fairseq_hrt.evaluation.systems.ctranslate2_system import CTranslate2System, check_dictionaries
from fairseq_hrt.export.ctranslate2_model import PADDING, export
from fairseq_hrt.native.options.values import DecodingOptions

ctranslate2 = pytest.importorskip("ctranslate2")

LINES = ["a b c", "j i", "zzz a b c d e"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Dictionaries and a checkpoint."""
    place = tmp_path_factory.mktemp("systems")
    write_dictionaries(place)
    write_checkpoint(place / "at.pt", place, "autoregressive")
    return place


def data_of(folder):
    return [str(folder), "-s", "de", "-t", "en"]


@pytest.fixture
def load(folder):
    return lambda text: load_system(
        parse_system(text.replace("FOLDER", str(folder))), data_of(folder)
    )


def translations(system):
    sample = system.collate_text(LINES)
    found = zip(sample["id"].tolist(), system.decode(sample))
    return sorted((number, [one.tokens for one in hypotheses]) for number, hypotheses in found)


def test_it_translates_what_the_others_translate(load, folder):
    at = "path=FOLDER/at.pt,beam=1,max_len_b=9"
    eager, native = (
        load(f"name=a,{at},task=translation_autoregressive"),
        load(f"name=b,{at},engine=ctranslate2"),
    )
    assert isinstance(native, CTranslate2System) and translations(native) == translations(eager)
    best = native.decode(native.collate_text(LINES[:1]))[0]
    assert len(best) == 1 and native.text(best[0].tokens) == eager.text(best[0].tokens)
    # It does not tell how often its decoder ran, nor are there models of PyTorch.
    assert not native.counters.known and native.models == () and native.model_bytes > 1000
    assert native.signature() == {
        "task": "ctranslate2", "engine": f"ctranslate2 {ctranslate2.__version__}",
        "checkpoint": "at.pt", "beam": "1", "max_len_b": "9", "dtype": "float32", "device": "cpu",
    }  # fmt: skip
    # The converted model serves another process, and whoever exports it.
    again = load_system(native.reloadable, data_of(folder))
    assert again.folder == native.folder and translations(again) == translations(eager)


def test_batches_are_words_without_their_end(tiny):
    dictionary = tiny.dictionary()
    system = object.__new__(CTranslate2System)
    dataset = [{"source": torch.tensor([4, 5, tiny.EOS])}, {"source": torch.tensor([6, tiny.EOS])}]
    system.task = SimpleNamespace(
        source_dictionary=dictionary, datasets={"test": dataset}, dataset=lambda name: dataset
    )
    system.subset = "test"
    found = system.collate([1, 0])
    assert found["id"].tolist() == [1, 0] and found["words"] == [["w2"], ["w0", "w1"]]
    assert system.collate_text(["w1  w2 ", "x"])["words"] == [["w1", "w2"], ["<unk>"]]


def test_limits_are_those_of_fairseq(tiny):
    asked = []

    def translate(rows, **options):
        asked.append(options)
        if len(rows) > 2:
            raise RuntimeError("no position 1024")
        return [SimpleNamespace(hypotheses=[["w0", "w3"], []], scores=[-1.0, -2.0]) for _ in rows]

    system = object.__new__(CTranslate2System)
    system.spec = SystemSpec("ct2", "a.pt", None, {})
    system.task = SimpleNamespace(target_dictionary=tiny.dictionary())
    system.translator, system.positions = SimpleNamespace(translate_batch=translate), 64
    system.options = Namespace(
        beam=3, lenpen=0.5, max_len_a=1.5, max_len_b=4, min_len=2, no_repeat_ngram_size=6
    )
    found = system.decode({"words": [["a"], ["a", "b", "c", "d"]]})
    # 1.5 * 5 + 4, for </s> counts; the longest of the batch decides.
    assert asked[0]["max_decoding_length"] == 11 and asked[0]["min_decoding_length"] == 2
    assert (
        asked[0]["beam_size"],
        asked[0]["length_penalty"],
        asked[0]["no_repeat_ngram_size"],
    ) == (3, 0.5, 6)
    assert asked[0]["max_input_length"] == 0, "nothing of a source is cut off"
    assert [[(one.tokens, one.score) for one in row] for row in found] == [
        [([4, 7, tiny.EOS], -1.0), ([tiny.EOS], -2.0)]
    ] * 2
    with pytest.raises(
        ValueError, match="system 'ct2' cannot decode a sentence of 2 tokens: no position 1024"
    ):
        system.decode({"words": [["a"], ["a", "b"], ["c"]]})


def test_padding_is_never_written(tiny, tmp_path):
    """This model would write it: fairseq forbids it, CTranslate2 does so when it is told."""
    model, dictionary = tiny.model(encoder_normalize_before=True), tiny.dictionary()
    done = export(model, dictionary, dictionary, tmp_path / "model")
    translator = ctranslate2.Translator(str(done.folder), compute_type="float32", intra_threads=1)
    sample = tiny.sample([5, 9, 3], seed=3)
    words = [
        [dictionary[token] for token in row.tolist() if token not in (tiny.PAD, tiny.EOS)]
        for row in sample["net_input"]["src_tokens"]
    ]
    free = translator.translate_batch(words, beam_size=1, max_decoding_length=12)
    assert any(PADDING in result.hypotheses[0] for result in free)
    system = object.__new__(CTranslate2System)
    system.translator, system.task = translator, Namespace(target_dictionary=dictionary)
    system.positions = 64
    system.options = Namespace(
        beam=1, lenpen=1, max_len_a=0, max_len_b=12, min_len=1, no_repeat_ngram_size=0
    )
    greedy = DecodingOptions(beam=1, max_len_a=0, max_len_b=12)
    expected = AutoregressiveGenerator([model], dictionary, greedy).generate([model], sample)
    found = [best[0].tokens[:-1] for best in system.decode({"words": words})]
    assert found == [best[0]["tokens"].tolist()[:-1] for best in expected]


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "sampling=true,diverse=1",
            "system 'a': CTranslate2 does not support diverse, sampling; it takes beam, compute_type",
        ),
        ("task=translation", "engine=ctranslate2 always writes word by word"),
    ],
)
def test_what_is_refused(load, text, message):
    with pytest.raises(ValueError, match=message):
        load(f"name=a,path=FOLDER/at.pt,engine=ctranslate2,{text}")


def test_models_of_other_words(tiny, tmp_path):
    dictionary = tiny.dictionary()
    with pytest.raises(
        ValueError, match=r"holds no model of fairseq-hrt export \(no source_vocabulary.json\)"
    ):
        check_dictionaries(tmp_path, dictionary, dictionary)
    words = ["<s>", "<blank>", "</s>", "<unk>", *dictionary.symbols[4:]]
    for name in ("source", "target"):
        (tmp_path / f"{name}_vocabulary.json").write_text(json.dumps(words))
    # The special symbols may have other names.
    check_dictionaries(tmp_path, dictionary, dictionary)
    with pytest.raises(
        ValueError, match="target_vocabulary.json differs from the data's target dictionary"
    ):
        check_dictionaries(tmp_path, dictionary, tiny.dictionary(11))
    (tmp_path / "shared_vocabulary.json").write_text(json.dumps(words))
    for name in ("source", "target"):
        (tmp_path / f"{name}_vocabulary.json").unlink()
    check_dictionaries(tmp_path, dictionary, dictionary)
    for wrong in (
        [*words[:-1], "other"],
        [*words[:5], words[6], words[5], *words[7:]],
        {"words": words},
    ):
        (tmp_path / "shared_vocabulary.json").write_text(json.dumps(wrong))
        with pytest.raises(
            ValueError,
            match="shared_vocabulary.json differs from the data's source dictionary",
        ):
            check_dictionaries(tmp_path, dictionary, dictionary)
    for damaged in (b'["a', b"\xff"):
        (tmp_path / "shared_vocabulary.json").write_bytes(damaged)
        with pytest.raises(
            ValueError, match="shared_vocabulary.json is damaged .*: export the model again"
        ):
            check_dictionaries(tmp_path, dictionary, dictionary)
