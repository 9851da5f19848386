"""Decoding options on the command line."""

import argparse

import pytest

from fairseq_hrt.cli import settings
from fairseq_hrt.cli.settings import (
    COMMON,
    add_decoding_arguments,
    fairseq_options,
    given_settings,
    read_settings,
)
from fairseq_hrt.native.options.conditions import flag
from fairseq_hrt.native.options.values import KINDS, SCHEMA
from fairseq_hrt.native.server.requests import DECODING


@pytest.fixture
def read():
    parser = argparse.ArgumentParser()
    add_decoding_arguments(parser)
    return lambda *words: given_settings(parser.parse_args(words))


def test_flags_are_those_that_a_request_may_choose(read):
    assert set(COMMON) == set(DECODING) - {"replace_unk"} and all(
        SCHEMA[name].help for name in COMMON
    )
    for name in COMMON:
        if KINDS[name][0] is bool:
            assert read(flag(name)) == {name: "true"}
        else:
            assert read(flag(name), (SCHEMA[name].choices or "2")[0]) == {
                name: (SCHEMA[name].choices or "2")[0]
            }
    assert read() == {} and read("--beam", "3", "--set", "no-repeat-ngram-size=2") == {
        "beam": "3",
        "no_repeat_ngram_size": "2",
    }


@pytest.mark.parametrize("words, message", [
    (["--set", "baem=5"], "--set baem=5: there is no such option; did you mean beam?"),
    (["--set", "hrt-decode-chnk=2"], "; did you mean hrt_decode_chunk?"),
    (["--set", "xyzzy=2"], "; fairseq-hrt --options explains all"),
    (["--set", "beam"], "--set beam: give OPTION=VALUE"),
    (["--set", "beam=x"], "--beam 'x' is not an integer"),
    (["--beam", "x"], "--beam 'x' is not an integer"),
    (["--beam", "0"], "--beam 0: give a number from 1"),
    (["--beam=2", "--set", "beam=3"], "--beam 2 and --set beam=3: give one of them"),
    (["--dag-decode-strategy", "best"], "choose one of greedy"),
    (["--set", "threads=2"], "is not an option of decoding: give --threads"),
    (["--set", "max_tokens=100"], "is not an option of decoding: give --batch-size"),
    (["--set", "quiet=true"], "--set quiet=true is not an option of decoding: leave it out"),
    (["--set", "static_weights=1"], "is not an option of decoding: leave it out"),
    (["--set", "beam=1", "--set", "beam=2"], "--set beam=1 and --set beam=2: give one of them"),
    (["--set", "no_repeat_ngram_size=2", "--set", "no-repeat-ngram-size=2"], "give one of them"),
])  # fmt: skip
def test_what_is_refused(read, words, message):
    with pytest.raises(ValueError) as refused:
        read(*words)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_options_of_fairseq_are_known_without_loading_it(monkeypatch):
    from fairseq import options

    parser = options.get_generation_parser(default_task="translation")
    known = {action.dest for action in parser._actions} - {"help"}
    # Options that argparse adds itself, and fairseq for its registries.
    missing = known - set(fairseq_options())
    assert missing <= {
        "data",
        "task",
        "scoring",
        "bpe",
        "tokenizer",
        "optimizer",
        "lr_scheduler",
        "criterion",
        "simul_type",
    }
    pairs = [
        "match_source_len=true",
        "sampling_topk=3",
        "left_pad_source=false",
        "replace_unk=true",
        "task=translation",
    ]
    assert len(read_settings(pairs)) == 5
    monkeypatch.setattr(settings.importlib.util, "find_spec", lambda name: None)
    # Without fairseq the native engine refuses those of its searches by name.
    assert read_settings(["sampling_topk=3"]) == {"sampling_topk": "3"}
    for given, hint in (
        ("baem=2", r"; did you mean beam\?"),
        ("samplng_topk=3", r"; did you mean sampling_topk\?"),
        ("thread=3", r"; did you mean threads\?"),
        ("xyzzy=1", "; fairseq-hrt translate --help lists the common ones"),
    ):
        with pytest.raises(ValueError, match=f"^--set {given}: there is no such option{hint}$"):
            read_settings([given])
