"""examples/common/tag_languages.py: several language pairs as one, line by line."""

import pytest


@pytest.fixture(scope="module")
def tag(load_example):
    return load_example("common/tag_languages.py").main


@pytest.fixture
def texts(tmp_path):
    for name, text in {
        "en": "a\n\nc\n",
        "de": "x\ny\u2028y\nz\n",
        "short": "a\nb\n",
        "none": "",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "latin").write_bytes(b"a\n\xe4\nc\n")
    return tmp_path


def test_pairs_alternate_and_the_longer_one_ends_alone(tag, texts):
    pairs = [
        "--pair",
        "de",
        texts / "en",
        texts / "de",
        "--pair",
        "fr",
        texts / "short",
        texts / "short",
    ]
    tag([*map(str, pairs), "--out", str(texts / "all.en"), str(texts / "all.xx")])
    assert (texts / "all.en").read_text() == "__de__ a\n__fr__ a\n__de__ \n__fr__ b\n__de__ c\n"
    assert (texts / "all.xx").read_text() == "x\na\ny\u2028y\nb\nz\n"


@pytest.mark.parametrize("language, source, target, message", [
    ("de", "en", "short", "short ends before line 3"),
    ("de", "short", "en", "short ends before line 3"),
    ("de", "none", "en", "none ends before line 1"), ("de", "en", "missing", "missing"),
    ("de", "latin", "en", "latin: 'utf-8'"), ("de", "en", "latin", "latin: 'utf-8'"),
    ("d", "en", "de", "--pair 'd'"), ("de fr", "en", "de", "--pair 'de fr'"),
])  # fmt: skip
def test_what_does_not_fit_is_named_and_nothing_written(
    tag, texts, capsys, language, source, target, message
):
    pair = ["--pair", language, str(texts / source), str(texts / target)]
    with pytest.raises(SystemExit) as end:
        tag([*pair, "--out", str(texts / "all.en"), str(texts / "all.xx")])
    said = capsys.readouterr().err + str(end.value.code)
    assert message in said and not list(texts.glob("all.*"))


def test_two_outputs_are_two_files(tag, texts, capsys):
    pair = ["--pair", "de", str(texts / "en"), str(texts / "de")]
    with pytest.raises(SystemExit):
        tag([*pair, "--out", str(texts / "all"), str(texts / "." / "all")])
    assert "give two files" in capsys.readouterr().err and not (texts / "all").exists()
