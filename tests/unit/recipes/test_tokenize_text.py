"""examples/common/tokenize_text.py: Chinese, which has no spaces (other languages: tests/integration/test_recipes.py)."""

import sys

import pytest


@pytest.fixture(scope="module")
def program(load_example):
    return load_example("common/tokenize_text.py")


def test_words_of_chinese_text(program):
    pytest.importorskip("jieba")
    lines = ["我们骑自行车去公园，天气很好。", "", " It is 3.5% ."]
    assert list(program.tokenize(iter(lines), "zh")) == ["我们 骑 自行车 去 公园 ， 天气 很 好 。", "", "It is 3.5% ."]


def test_without_the_package_it_says_what_to_do(program, tmp_path, monkeypatch):
    (tmp_path / "text").write_text("我们\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(SystemExit, match=r"fairseq_hrt\[chinese\].*TOKENISED=1"):
        program.main([str(tmp_path / "text"), "--language", "zh"])


@pytest.mark.parametrize("content, name, message", [
    (b"a\xe4\n", "text", "text is not UTF-8"), (b"no gzip", "text.gz", "text.gz: Not a gzipped file"), (b"\x1f\x8b\x08\x00", "text.gz", "text.gz: "),
    (None, "missing", "missing: .*No such file"),
])  # fmt: skip
def test_what_cannot_be_read_is_named(program, tmp_path, content, name, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit, match=message):
        program.main([str(tmp_path / name), "--tokenised"])


def test_words_are_copied_and_carriage_returns_end_no_line(program, tmp_path, capsys):
    (tmp_path / "text").write_bytes(b"a b\r\nc\rd , e\n\nf")
    program.main([str(tmp_path / "text"), "--tokenised"])
    assert capsys.readouterr().out == "a b\nc d , e\n\nf\n"
