"""Detects the language of a text, among the languages of a server's systems."""

import functools
import os
import threading
from typing import Any, Dict, List, Sequence

# Of the one model of a process, which all detectors share.
_LOCK = threading.Lock()


def _renew() -> None:
    """Makes the lock anew in a forked process: a thread that exists only in the parent may have
    held it."""
    global _LOCK
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@functools.cache
def _model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class LanguageDetector:
    """Detects languages by py3langid, whose model is part of that package.

    Args:
        languages: ISO 639-1 codes of the languages that may be found; languages that py3langid
            does not support are never found. A text without letters counts as a text in the first
            one of the list.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = list(dict.fromkeys(languages))

    def detect(self, text: str) -> List[Dict[str, Any]]:
        """The languages that a text may be in, in the form of LibreTranslate's answers:
        ``[{"confidence": 0 … 100, "language": code}]``, the most probable first.

        The confidence is the probability in per cent among all languages that py3langid has, so it
        is low for a text in a language that is not served. Languages with a confidence below 1 are
        left out, except the most probable one. A text without letters can be in any language: the
        result has the first language of the list, with the confidence 0.
        """
        found = []
        if any(sign.isalpha() for sign in text):
            with _LOCK:
                ranked = _model().rank(text)
            found = [
                (code, round(100 * float(share), 1))
                for code, share in ranked
                if code in self.languages
            ]
        # At least the best one, however improbable.
        kept = [one for one in found if one[1] >= 1] or found[:1] or [(self.languages[0], 0.0)]
        return [{"confidence": confidence, "language": code} for code, confidence in kept]

    def prepare(self) -> None:
        """Starts to read the detector's model, which takes a moment, in a thread of its own: most
        requests name their language and need not wait for the model."""
        threading.Thread(
            target=self.detect, args=("a",), name="language detection", daemon=True
        ).start()
