"""Help that fits, and hints for misspelt options."""

from types import SimpleNamespace

import pytest

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
    assert capsys.readouterr().err.endswith(f"error: unrecognized arguments: {given}{hint}\n")


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
