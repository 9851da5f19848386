"""What verbs share: data or a bundle in its place, systems, sentences, results and errors."""

import argparse
import io
import logging
import runpy
import sys
from pathlib import Path

import pytest

from fairseq_hrt.cli import command, one_sentence
from fairseq_hrt.cli.command import data_arguments, language_arguments
from fairseq_hrt.cli.one_sentence import add_sentence_arguments, given_systems, given_text
from fairseq_hrt.cli.parser import verb_parser
from fairseq_hrt.cli.settings import add_set_argument
from fairseq_hrt.evaluation.systems import SystemSpec
from fairseq_hrt.native.bundles.bundle import Bundle


@pytest.fixture
def options():
    """Parses as a verb does that looks at sentences of data."""
    parser = verb_parser("look", "What it does.")
    command.add_data_arguments(parser, "test")
    add_sentence_arguments(parser)
    parser.add_argument("--system", action="append")
    add_set_argument(parser)
    return lambda *arguments: parser.parse_args(list(map(str, arguments)))


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    """A folder that claims to be a bundle."""
    folder = tmp_path / "packed"
    folder.mkdir()
    (folder / "bundle.json").write_text("{}")
    found = Bundle(
        folder,
        "translation_hrt",
        "de",
        "en",
        "space",
        "none",
        models=["model.pt", "model_2.pt"],
        options={"beam": "1"},
    )
    monkeypatch.setattr(
        command, "load_bundle", lambda given: found if given == folder else pytest.fail(str(given))
    )
    return folder


def test_defaults(options):
    found = options("data")
    assert (found.data, found.gen_subset, found.sentence, found.text) == ("data", "test", 0, None)
    assert (found.source_lang, found.target_lang) == (None, None)
    with pytest.raises(SystemExit):
        options("data", "--sentence", "1", "--text", "a")


def test_data_are_chosen_as_fairseq_chooses_them(options, bundle):
    assert language_arguments(None, None) == [] and language_arguments("de", None) == [
        "--source-lang",
        "de",
    ]
    assert data_arguments(options("a:b")) == ["a:b", "--gen-subset", "test"]
    given = options("data", "-s", "de", "-t", "fr", "--gen-subset", "test")
    assert data_arguments(given) == [
        "data",
        "--gen-subset",
        "test",
        "--source-lang",
        "de",
        "--target-lang",
        "fr",
    ]
    # A bundle brings its languages.
    with pytest.raises(ValueError, match="-s fr: .* translates from de to en; leave the option"):
        data_arguments(options(bundle, "-s", "fr"))
    assert data_arguments(options(bundle, "-s", "de"))[-4:] == [
        "--source-lang",
        "de",
        "--target-lang",
        "en",
    ]


def test_a_bundle_whose_path_fairseq_would_take_apart(options, tmp_path):
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "bundle.json").write_text("{}")
    with pytest.raises(ValueError, match="reads as a path separator"):
        data_arguments(options(folder))


def test_systems_are_those_named_or_the_bundle(options, bundle, monkeypatch):
    monkeypatch.setattr(one_sentence, "_trained_options", lambda bundle: {})
    paths = f"{bundle / 'model.pt'}:{bundle / 'model_2.pt'}"
    assert given_systems(options(bundle)) == [
        SystemSpec("packed", paths, "translation_hrt", {"beam": "1"}, defaults=frozenset(("beam",)))
    ]
    named = options(bundle, "--system", "name=a,path=x.pt", "--system", "name=b,path=x.pt")
    assert [spec.name for spec in given_systems(named)] == ["a", "b"]
    single = argparse.Namespace(data="data", system="name=a,path=x.pt", set=[])
    assert given_systems(single) == [SystemSpec("a", "x.pt", None, {})]
    chosen = given_systems(options(bundle, "--set", "cpu=true", "--set", "beam=2"))
    assert chosen == [SystemSpec("packed", paths, "translation_hrt", {"beam": "2", "cpu": "true"})]
    for where in ((bundle, "--system", "name=a,path=x.pt"), ("data",)):
        with pytest.raises(ValueError, match=r"^--set cpu=true is for a bundle .*\.,cpu=true$"):
            given_systems(options(*where, "--set", "cpu=true"))
    with pytest.raises(ValueError, match="device=cuda:1 is not .* give cpu=true, or choose a GPU"):
        given_systems(options(bundle, "--set", "device=cuda:1"))
    with pytest.raises(ValueError, match="no system is given; add --system"):
        given_systems(options("data"))
    with pytest.raises(ValueError, match=r"two systems share a name: \['a', 'a'\]"):
        given_systems(
            options("data", "--system", "name=a,path=x.pt", "--system", "name=a,path=y.pt")
        )


def test_a_sentence_of_ones_own(options, bundle, monkeypatch):
    assert (
        given_text(options("data")) is None
        and given_text(options("data", "--text", " a  b ")) == " a  b "
    )
    # Raw text is prepared by the bundle's recipe.
    assert given_text(options(bundle, "--text", " a  b ")) == "a b"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa b\nnext\n")))
    assert given_text(options("data", "--text", "-")) == "a b"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a \xff\n")))
    with pytest.raises(ValueError, match="^the standard input, line 1 is not UTF-8"):
        given_text(options("data", "--text", "-"))
    for wrong in (("data", "--text", " "), (bundle, "--text", "")):
        with pytest.raises(ValueError, match="--text has no words"):
            given_text(options(*wrong))
    with pytest.raises(
        ValueError, match="is a bundle, which holds no sentences: give a sentence by --text"
    ):
        given_text(options(bundle))


def test_a_verb_is_run_with_its_options_and_log(capsys):
    parser = verb_parser("look", "First line.\n\n    as it is")
    assert "\n    as it is\n" in parser.format_help() and parser.prog == "fairseq-hrt look"
    parser.add_argument("file", type=Path)
    seen = []

    def run(options):
        seen.append(options.file)
        logging.getLogger("fairseq_hrt.x").info("told")
        logging.getLogger("fairseq.x").info("kept quiet")
        raise ValueError("bad\nvalue")

    before = logging.getLogger("fairseq").level
    try:
        with pytest.raises(SystemExit) as end:
            command.command(lambda: parser, run)(["x"])
    finally:
        logging.getLogger("fairseq").setLevel(before)
    told, error = capsys.readouterr().err.splitlines()
    assert (
        end.value.code == 2
        and seen == [Path("x")]
        and told.endswith(" told")
        and error == "error: bad value"
    )


@pytest.mark.parametrize("verb", ["completion", "translate"])
def test_a_verb_is_a_program_too(verb, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["verb", "--help"])
    monkeypatch.delitem(sys.modules, f"fairseq_hrt.cli.{verb}", raising=False)
    with pytest.raises(SystemExit):
        runpy.run_module(f"fairseq_hrt.cli.{verb}", run_name="__main__")
    assert capsys.readouterr().out.startswith(f"usage: fairseq-hrt {verb}")
