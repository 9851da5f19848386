"""Detects the language of a text, among the languages of a server's systems."""

import functools
import threading
from typing import Any, Dict, List, Sequence

from ..io.forks import renew_in_forks
from ..text.languages import language_of


class _Turns:
    """A lock by which threads take turns with the one model of a process, which all detectors
    share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_TURNS = _Turns()
renew_in_forks(_TURNS, _Turns.__init__)


@functools.cache
def _model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class LanguageDetector:
    """Detects languages by py3langid, whose model is part of that package.

    Args:
        languages: codes of the languages that may be found, in the form in which answers have
            them; see :func:`..text.languages.language_of`. A text without letters counts as a text
            in the first one of the list.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = list(dict.fromkeys(languages))
        # {py3langid's code: those of the list}
        self._codes: Dict[str, List[str]] = {}
        for code in self.languages:
            self._codes.setdefault(language_of(code), []).append(code)

    def detect(self, text: str) -> List[Dict[str, Any]]:
        """The languages that a text may be in, in the form of LibreTranslate's answers:
        ``[{"confidence": 0 … 100, "language": code}]``, the most probable first.

        The confidence is the probability in per cent among all languages that py3langid has, so it
        is low for a text in a language that is not served. Codes of one language, such as zho_Hans
        and zho_Hant, have the same confidence. Languages with a confidence below 1 are left out,
        except the most probable one.

        In two cases confidences are 0. For a text without letters the result has only the first
        language of the list. If no language reaches 1, the text may be in a language of the list
        that py3langid does not support: all of these are in the result, then the most probable one.
        """
        kept = [(self.languages[0], 0.0)]
        if any(sign.isalpha() for sign in text):
            with _TURNS.lock:
                ranked = _model().rank(text)
            found = [
                (code, round(100 * float(share), 1))
                for language, share in ranked
                for code in self._codes.get(language, ())
            ]
            supported = [code for code, _ in found]
            others = [(code, 0.0) for code in self.languages if code not in supported]
            kept = [one for one in found if one[1] >= 1]
            if not kept and others:
                kept = [*others, *((code, 0.0) for code in supported[:1])]
            # At least the best one, however improbable.
            kept = kept or found[:1]
        return [{"confidence": confidence, "language": code} for code, confidence in kept]

    def prepare(self) -> None:
        """Starts to read the detector's model, which takes a moment, in a thread of its own: most
        requests name their language and need not wait for the model."""
        threading.Thread(
            target=self.detect, args=("a",), name="language detection", daemon=True
        ).start()
