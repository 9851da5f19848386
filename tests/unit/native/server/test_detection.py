"""Languages of texts, among those that are served."""

import functools
import os
import threading

import pytest

from fairseq_hrt.native.server import detection
from fairseq_hrt.native.server.detection import LanguageDetector
from fairseq_hrt.native.text import languages
from fairseq_hrt.native.text.languages import language_of


@pytest.mark.parametrize(
    ("languages", "expected"), [(["en", "de"], "de"), (["en"], "en"), (["xx-YY"], "xx-YY")]
)
def test_a_language_that_is_not_served_is_found_with_little_confidence(languages, expected):
    first, *_ = LanguageDetector(languages).detect(
        "Ein Mann geht mit seinem Hund durch den Park und lacht."
    )
    assert first["language"] == expected
    assert first["confidence"] > 90 if expected == "de" else first["confidence"] < 10


class Ranking:
    """Answers of py3langid, made up."""

    def rank(self, text):
        return [("fr", 0.6), ("de", 0.302), ("xx", 0.05), ("en", 0.012), ("it", 0.004)]


def test_the_served_ones_by_their_probability(monkeypatch):
    monkeypatch.setattr(detection, "_model", Ranking)
    found = LanguageDetector(["en", "de", "it", "en"]).detect("whatever")
    # Less than one in a hundred is not worth saying, unless there is nothing else.
    assert found == [{"confidence": 30.2, "language": "de"}, {"confidence": 1.2, "language": "en"}]
    assert LanguageDetector(["it"]).detect("whatever") == [{"confidence": 0.4, "language": "it"}]
    # None that is supported is likely: those that are not supported come first, and none is sure.
    assert LanguageDetector(["ita", "nl", "cs"]).detect("whatever") == [
        {"confidence": 0.0, "language": code} for code in ("nl", "cs", "ita")
    ]
    # Answers have the codes that are served.
    assert LanguageDetector(["nl", "deu_Latn", "en", "de_DE"]).detect("whatever") == [
        {"confidence": 30.2, "language": "deu_Latn"},
        {"confidence": 30.2, "language": "de_DE"},
        {"confidence": 1.2, "language": "en"},
    ]


def test_two_letter_codes_are_those_of_the_detector():
    """Each language that py3langid supports has itself as its code."""
    labels = set(detection._model().labels)
    assert {language_of(label) for label in labels} == labels
    codes = set(languages._SHORT.values())
    assert codes <= labels, codes - labels


@pytest.mark.parametrize("text", ["", " 12.5 %", "?!"])
def test_without_letters_no_model_is_asked(monkeypatch, text):
    monkeypatch.setattr(detection, "_model", lambda: pytest.fail("asked"))
    assert LanguageDetector(["en", "de"]).detect(text) == [{"confidence": 0.0, "language": "en"}]


def test_the_model_is_read_once_and_before_it_is_needed(monkeypatch):
    from py3langid.langid import LanguageIdentifier

    # As in a process that has just begun.
    unread = functools.cache(detection._model.__wrapped__)
    monkeypatch.setattr(detection, "_model", unread)
    reads, read = [], threading.Event()
    monkeypatch.setattr(
        LanguageIdentifier,
        "from_model_file",
        lambda *given, **more: (reads.append(given), read.set(), Ranking())[2],
    )
    detector = LanguageDetector(["en"])
    detector.prepare()
    assert read.wait(10)
    assert detector.detect("a")[0]["language"] == "en" and len(reads) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_does_not_wait_for_a_thread_of_its_parent():
    with detection._TURNS.lock:
        child = os.fork()
        if child == 0:
            os._exit(detection._TURNS.lock.locked())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
