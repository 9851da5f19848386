"""Help that fits, and hints for misspelt options."""

import importlib
from types import SimpleNamespace

import pytest

from fairseq_hrt.cli.main import VERBS, module_of
from fairseq_hrt.cli.parser import did_you_mean, require_positive, verb_parser

TEXT = """First   line of
a paragraph.

    fairseq-hrt look --at  something \\
        --that-goes-on

A second paragraph that is long enough to be wrapped at the narrower of two terminals.
"""


def test_paragraphs_are_filled_and_commands_stay(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    narrow = verb_parser("look", TEXT).format_help()
    assert (
        "\nFirst line of a paragraph.\n\n    fairseq-hrt look --at  something \\\n       "
        " --that-goes-on\n\nA second" in narrow
    )
    monkeypatch.setenv("COLUMNS", "300")
    wide = verb_parser("look", TEXT).format_help()
    assert (
        "\nA second paragraph that is long enough to be wrapped at the narrower of two terminals.\n"
        in wide
    )
    assert "wrapped at the narrower of two terminals." not in narrow


@pytest.mark.parametrize("parse", ["parse_args", "parse_intermixed_args"])
@pytest.mark.parametrize(
    "given, hint",
    [("--beem", "; did you mean --beam?"), ("--beem=5", "; did you mean --beam?"), ("--xyz", "")],
)
def test_misspelt_options(parse, given, hint, capsys):
    parser = verb_parser("look", TEXT)
    parser.add_argument("--beam", type=int)
    assert getattr(parser, parse)(["--beam", "5"]).beam == 5
    with pytest.raises(SystemExit) as end:
        getattr(parser, parse)([given])
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        f"error: unrecognized arguments: {given}{hint} (see fairseq-hrt look --help)\n"
    )


@pytest.mark.parametrize("verb", VERBS)
def test_errors_of_every_verb_are_one_line(verb, capsys):
    parser = importlib.import_module(f"fairseq_hrt.cli.{module_of(verb)}").build_parser()
    parse = parser.parse_intermixed_args if verb == "translate" else parser.parse_args
    for given in (["--no-such-option"], ["--hlep"]):
        with pytest.raises(SystemExit) as end:
            parse(given)
        shown = capsys.readouterr().err
        assert end.value.code == 2 and shown.startswith("error: ") and shown.count("\n") == 1
        assert shown.endswith(f" (see fairseq-hrt {verb} --help)\n")
    # Whatever else is missing.
    assert shown.startswith("error: unrecognized arguments: --hlep; did you mean --help?")


def test_what_is_missing_is_named(capsys):
    parser = verb_parser("look", TEXT)
    parser.add_argument("place")
    parser.add_argument("--output", required=True)
    for given, missing in (
        ([], "place, --output"),
        # Neither a value nor an abbreviation is a misspelt option.
        (["there"], "--output"),
        (["--out=--hlep"], "place"),
    ):
        with pytest.raises(SystemExit):
            parser.parse_args(given)
        assert capsys.readouterr().err == (
            f"error: the following arguments are required: {missing} (see fairseq-hrt look"
            " --help)\n"
        )


def test_usage_names_what_has_to_be_given():
    parser = verb_parser("look", TEXT)
    parser.add_argument("place")
    parser.add_argument("file", nargs="*", metavar="FILE")
    for name in ("--first", "--second"):
        parser.add_argument(name)
    parser.add_argument("--output", required=True, metavar="NEW")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last", action="store_true")
    which.add_argument("--best", action="store_true")
    assert " ".join(parser.format_usage().split()) == (
        "usage: fairseq-hrt look --output NEW (--last | --best) [OPTIONS] place [FILE ...]"
    )
    assert all(f"  {name} " in parser.format_help() for name in ("--first", "--second"))


def test_names_that_resemble_none():
    assert (
        did_you_mean("baem", ["beam", "lenpen"]) == "; did you mean beam?"
        and did_you_mean("zzz", ["beam"]) == ""
    )


def test_numbers_that_must_be_positive():
    options = SimpleNamespace(threads=None, batch_size=1, repeats=0)
    require_positive(options, "threads", "batch_size")
    with pytest.raises(ValueError, match="^--repeats 0 must be at least 1$"):
        require_positive(options, "batch_size", "repeats")
