"""Decoding options on the command line."""

import argparse
from dataclasses import fields

import pytest
from fairseq.tasks.translation import TranslationConfig

from fairseq_hrt.cli.settings import (
    COMMON,
    add_decoding_arguments,
    given_settings,
    read_settings,
)
from fairseq_hrt.native.options import misplaced
from fairseq_hrt.native.options.conditions import flag
from fairseq_hrt.native.options.schema import FAIRSEQ
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
    (["--set", "baem=5"], "--set baem=5: there is no such option of decoding; did you mean beam?"),
    (["--set", "hrt-decode-chnk=2"], "; did you mean hrt_decode_chunk?"),
    (["--set", "xyzzy=2"], "; fairseq-hrt translate --help lists the common ones"),
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


def test_of_fairseqs_options_those_of_decoding_are_known():
    from fairseq import options

    known = misplaced.DECODING
    parser = options.get_generation_parser(default_task="translation")
    theirs = {action.dest for action in parser._actions}
    theirs |= {own.name for own in fields(TranslationConfig)}
    # All others belong to this package's tasks.
    for name in known - theirs:
        assert name in SCHEMA and SCHEMA[name].origin != FAIRSEQ, name
    assert len(read_settings([f"{name}=false" for name in known])) == len(known)
    for name in sorted(theirs - known):
        with pytest.raises(ValueError, match=f"--set {name}=1(:| is not an option of decoding)"):
            read_settings([f"{name}=1"])
    for ignored in (
        "num_shards",
        "lm_path",
        "constraints",
        "quiet",
        "truncate_source",
        "ddp_backend",
    ):
        assert ignored in theirs - known


@pytest.mark.parametrize(
    "given, hint",
    [
        ("baem=2", "; did you mean beam?"),
        ("samplng_topk=3", "; did you mean sampling_topk?"),
        ("thread=3", "; did you mean threads?"),
        ("num_shards=2", "; fairseq-hrt translate --help lists the common ones"),
    ],
)
def test_what_may_be_meant(given, hint):
    with pytest.raises(ValueError) as refused:
        read_settings([given])
    assert str(refused.value) == f"--set {given}: there is no such option of decoding{hint}"
