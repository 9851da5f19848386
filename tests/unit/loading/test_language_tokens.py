"""The language tokens of fairseq's multilingual task; that its models are decoded as it does is an
integration test."""

from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset, ListDataset

from fairseq_hrt.loading.language_tokens import TASK, LanguageTokens, language_tokens

OPTIONS = dict(
    task=TASK, langs=["de", "en", "fr"], lang_dict=None, lang_pairs=["de-en"], langtoks=None,
    langtoks_specs=["main"], extra_data=None, lang_tok_style="multilingual", encoder_langtok="src",
    decoder_langtok=True, lang_tok_replacing_bos_eos=False,
)  # fmt: skip


def dictionary():
    found = Dictionary()
    for word in "abc":
        found.add_symbol(word)
    return found


def found(languages=("de", "en"), source=None, target=None, **options):
    return language_tokens(
        Namespace(**{**OPTIONS, **options}),
        list(languages),
        source or dictionary(),
        target or dictionary(),
    )


def test_tokens_are_added_in_the_order_of_the_training():
    source, target = dictionary(), dictionary()
    tokens = found(source=source, target=target)
    assert source.symbols[-3:] == target.symbols[-3:] == ["__de__", "__en__", "__fr__"]
    assert tokens == LanguageTokens(source.index("__de__"), target.index("__en__"), False)
    # Another model of an ensemble.
    assert found(source=source, target=target) == tokens and len(source) == 4 + 3 + 3


@pytest.mark.parametrize(
    "options, symbols, expected",
    [
        (dict(encoder_langtok="tgt"), ("__en__", "__en__"), False),
        (dict(encoder_langtok=None), (None, "__en__"), False),
        (dict(decoder_langtok=False), ("__de__", None), False),
        (dict(lang_tok_style="mbart"), ("[de]", "[en]"), False),
        (dict(lang_tok_replacing_bos_eos=True), ("__de__", "__en__"), True),
        (dict(langs="en,de"), ("__de__", "__en__"), False),
        (dict(langs=None, lang_pairs="fr-de,de-en"), ("__de__", "__en__"), False),
    ],
)
def test_ways_of_training(options, symbols, expected):
    words = dictionary()
    tokens = found(source=words, target=words, **options)
    assert [None if one is None else words[one] for one in tokens[:2]] == list(symbols)
    assert tokens.at_ends is expected
    assert ("<mask>" in words.symbols) == (options.get("lang_tok_style") == "mbart")


def test_other_tasks_have_none():
    words = dictionary()
    assert found(source=words, task="translation") is None and len(words) == 7


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(languages=("de", "xx")), "the model translates de, en, fr: .*, not xx"),
        (dict(languages=(None, "en")), "not None"),
        (dict(lang_dict="x.txt"), "the file x.txt of its training, .* --model-overrides"),
        (dict(langtoks={"main": ("src", "tgt")}), "--langtoks"),
        (dict(langtoks_specs=["main", "mono_dae"]), "--langtoks-specs"),
        (
            dict(task="translation_from_pretrained_bart"),
            "trained by the task translation_from_pretrained_bart, .* --task translation_from_p",
        ),
        (dict(task="multilingual_translation"), "trained by the task multilingual_translation"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        found(**options)


@pytest.mark.parametrize(
    "tokens, marked",
    [
        (LanguageTokens(8, 9, False), [8, 4, 5, 2]),
        (LanguageTokens(8, 9, True), [4, 5, 8]),
        (LanguageTokens(None, 9, False), [4, 5, 2]),
    ],
)
def test_sources_are_marked(tokens, marked):
    rows = [torch.tensor([4, 5, 2]), torch.tensor([6, 2])]
    sizes, words = np.array([3, 2]), dictionary()
    for target in ((), (ListDataset(rows, sizes), sizes, words)):
        dataset = LanguagePairDataset(ListDataset(rows, sizes), sizes, words, *target)
        tokens.mark_sources(dataset)
        assert dataset[0]["source"].tolist() == marked
        assert dataset.src_sizes.tolist() == [len(marked), len(marked) - 1]
        assert dataset.num_tokens(0) == max(len(marked), 3 if target else 0)
        assert dataset.ordered_indices().tolist() == [1, 0]
