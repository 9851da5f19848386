"""examples/common/tokenize_text.py: Chinese, which has no spaces (other languages:
tests/integration/test_recipes.py)."""

import gzip
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from fairseq_hrt.native.text.word_separators import word_separator


@pytest.fixture(scope="module")
def program(load_example):
    return load_example("common/tokenize_text.py")


def test_words_of_chinese_text(program, tmp_path, monkeypatch):
    """With a small dictionary: reading jieba's takes seconds (tests/unit/export/
    test_preparation.py does)."""
    jieba = pytest.importorskip("jieba")
    words = "我们 骑 自行车 去 公园 天气 很 好".split()
    known = "".join(f"{word} 99\n" for word in words) + "很好 1\n"
    (tmp_path / "words").write_text(known, encoding="utf-8")
    monkeypatch.setattr(jieba, "Tokenizer", partial(jieba.Tokenizer, str(tmp_path / "words")))
    word_separator.cache_clear()
    lines = ["我们骑自行车去公园，天气很好。", "", " It is 3.5% ."]
    assert list(program.tokenize(iter(lines), "zh")) == [
        "我们 骑 自行车 去 公园 ， 天气 很 好 。",
        "",
        "It is 3.5% .",
    ]
    word_separator.cache_clear()


def test_without_the_package_it_says_what_to_do(program, tmp_path, monkeypatch):
    (tmp_path / "text").write_text("我们\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "jieba", None)
    word_separator.cache_clear()
    with pytest.raises(SystemExit, match="pip install jieba==0.42.1"):
        program.main([str(tmp_path / "text"), "--language", "zh"])


@pytest.mark.parametrize("content, name, message", [
    (b"a\xe4\n", "text", "text is not UTF-8"),
    (b"\x1f\x8b\x08\x00", "text", "text: damaged gzip data: "),
    (gzip.compress(b"a\n", mtime=0)[:-9], "text.gz", "text.gz: damaged gzip data: "),
    (None, "missing", "missing: .*No such file"),
])  # fmt: skip
def test_what_cannot_be_read_is_named(program, tmp_path, content, name, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit, match=message):
        program.main([str(tmp_path / name), "--tokenised"])


FIRST_LINES = Path(__file__).resolve().parents[3] / "examples/common/first_lines.py"


@pytest.mark.parametrize(
    "name, content", [("text.gz", b"a\nb\n"), ("text", gzip.compress(b"a\nb\n", mtime=0))]
)
def test_gzip_is_known_by_its_content(program, tmp_path, capsys, name, content):
    (tmp_path / name).write_bytes(content)
    program.main([str(tmp_path / name), "--tokenised"])
    assert capsys.readouterr().out == "a\nb\n"
    first = subprocess.run(
        [sys.executable, FIRST_LINES, tmp_path / name, "--lines", "1"],
        capture_output=True,
        check=True,
    )
    assert gzip.decompress(first.stdout) == b"a\n"


def test_first_lines_of_damaged_data_are_refused(tmp_path):
    (tmp_path / "text").write_bytes(gzip.compress(b"a\n" * 9, mtime=0)[:-9])
    refused = subprocess.run([sys.executable, FIRST_LINES, tmp_path / "text"], capture_output=True)
    assert (
        refused.returncode == 1
        and refused.stderr.startswith(b"first_lines.py: ")
        and refused.stderr.count(b"\n") == 1
    )
    assert b"text: damaged gzip data: " in refused.stderr


def test_words_are_copied_and_carriage_returns_end_no_line(program, tmp_path, capsys):
    (tmp_path / "text").write_bytes(b"a b\r\nc\rd , e\n\nf")
    program.main([str(tmp_path / "text"), "--tokenised"])
    assert capsys.readouterr().out == "a b\nc d , e\n\nf\n"
