"""What a server is told: bounds, systems, options."""

from pathlib import Path

import pytest

from fairseq_hrt.native.server.settings import (
    Settings,
    parse_glossary,
    parse_option,
    parse_served,
)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"time_limit": float("nan")}, "--time-limit nan must be greater than 0"),
        ({"time_limit": float("inf")}, "--time-limit inf"),
        ({"threads": 0}, "--threads 0"),
        ({"batch_wait": -1.0}, "--batch-wait -1.0"),
        ({"max_sentences": 10, "max_queue": 5}, "--max-sentences 10 do not fit"),
        ({"systems": ()}, "at least one bundle"),
        ({"systems": (("a", "x"), ("a", "y"))}, "two systems are called 'a'"),
        (
            {"allow_hosts": ("a", "http://b")},
            "--allow-host 'http://b' is not a name or address: leave out scheme and port",
        ),
        *(
            ({"allow_origin": origin}, "is not one origin: write \\* or SCHEME://HOST")
            for origin in ("", "x.org", "http://x.org/", "http://x.org, http://y.org", "http://x:y")
        ),
        (
            {"glossaries": (("", "x"), ("a", "y"), ("a", "z"))},
            "--glossary: two files of a, y and z: put their terms into one",
        ),
        ({"options": (("b", "beam", "1"),)}, "--set b:beam: there is no such system; there are: a"),
    ],
)
def test_settings_that_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        Settings(**{"systems": (("a", "x"),), **changed})


def test_settings_reach_the_workers_as_they_are(tmp_path):
    chosen = (parse_option("a:--hrt-decode-chunk=3"), parse_option("a: dag_keep_repeats"))
    settings = Settings(
        systems=(parse_served(f"a={tmp_path}"),),
        options=chosen,
        key_file=tmp_path / "keys",
        time_limit=1.5,
    )
    assert (
        settings.options_of("a") == {"hrt_decode_chunk": "3", "dag_keep_repeats": "true"}
        and settings.options_of("b") == {}
    )
    for wrong in ("beam=1", ":beam=1", "a:", "a:=1"):
        with pytest.raises(ValueError, match="write NAME:OPTION=VALUE"):
            parse_option(wrong)
    with pytest.raises(ValueError, match="write BUNDLE or NAME=BUNDLE"):
        parse_served("=x")


def test_names_of_systems(tmp_path, monkeypatch):
    assert parse_served("fast = /some/bundle") == ("fast", Path(" /some/bundle"))
    assert parse_served("/some/bundle/") == ("bundle", Path("/some/bundle"))
    # A folder may have the sign in its name.
    odd = tmp_path / "beam=5"
    odd.mkdir()
    assert parse_served(str(odd)) == ("beam=5", odd)
    monkeypatch.chdir(odd)
    assert parse_served(".") == ("beam=5", Path("."))
    for wrong in ("name=", " =x"):
        with pytest.raises(ValueError, match="write BUNDLE or NAME=BUNDLE"):
            parse_served(wrong)


def test_glossaries_of_systems():
    found = [parse_glossary(text, ["a", "b"]) for text in ("a:x", "c:x", "x.tsv")]
    assert found == [("a", Path("x")), ("", Path("c:x")), ("", Path("x.tsv"))]
    systems = (("a", Path("x")), ("b", Path("x")))
    settings = Settings(systems=systems, glossaries=(found[0], found[2]))
    assert [settings.glossary_of(name) for name in "ab"] == [Path("x"), Path("x.tsv")]
    assert Settings(systems=systems, glossaries=(found[0],)).glossary_of("b") is None


@pytest.mark.parametrize(
    "name",
    [
        "max_body",
        "max_texts",
        "max_queue",
        "max_connections",
        "max_batch",
        "max_characters",
        "max_sentences",
        "max_terms",
    ],
)
def test_limits_are_positive(name):
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(
            ValueError,
            match=f"--{name.replace('_', '-')} {wrong} must be greater than 0, and finite",
        ):
            Settings(systems=(("a", Path("x")),), **{name: wrong})
    assert (
        Settings(systems=(("a", Path("x")),), max_alternatives=0, batch_wait=0.0).max_alternatives
        == 0
    )
