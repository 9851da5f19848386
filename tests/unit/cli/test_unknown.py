"""Lines that a model does not know are named, a few of them, and counted; the verb's own test is in
test_translate.py."""

import logging
from types import SimpleNamespace

import pytest

from fairseq_hrt.cli.unknown import LONGEST, NAMED, UnknownWords


@pytest.mark.parametrize(
    "lines, told", [(0, 0), (1, 1), (NAMED, NAMED), (NAMED + 1, NAMED + 1), (100, NAMED + 1)]
)
def test_how_much_is_told(lines, told, caplog):
    bundle = SimpleNamespace(source_lang="de", target_lang="en")
    found = UnknownWords(SimpleNamespace(mostly_unknown=lambda text: [text], bundle=bundle), "x")
    with caplog.at_level(logging.WARNING):
        for start in range(0, lines, 7):
            found.look(["q"] * min(7, lines - start), start)
        found.sum_up()
    assert len(caplog.messages) == told


def test_long_words_are_cut(caplog):
    model = SimpleNamespace(mostly_unknown=lambda text: [text, "short"])
    UnknownWords(model, "x").look(["q" * 3000], 0)
    assert caplog.messages[0].endswith(f" {'q' * LONGEST}…, short")
