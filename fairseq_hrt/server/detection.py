"""Which language a text is in, among those that the server translates from."""

import threading
from typing import Any, Dict, List, Optional, Sequence


class LanguageDetector:
    """py3langid (its model is a part of the package), restricted to the languages that are served.

    Args:
        languages: codes of ISO 639-1; those that py3langid does not know are never found.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = sorted(set(languages))
        self._identifier: Optional[Any] = None
        self._lock = threading.Lock()

    def detect(self, text: str) -> List[Dict[str, Any]]:
        """LibreTranslate's answer: ``[{"confidence": 0 … 100, "language": code}]``, the most probable first.

        A text without letters can be in any language: confidence 0.
        """
        if not any(sign.isalpha() for sign in text):
            return [{"confidence": 0.0, "language": self.languages[0]}]
        with self._lock:
            ranked = self._model().rank(text)
        found = [{"confidence": round(100 * float(share), 1), "language": code} for code, share in ranked if share >= 0.005]
        return found or [{"confidence": 0.0, "language": self.languages[0]}]

    def _model(self) -> Any:
        if self._identifier is None:
            from py3langid.langid import MODEL_FILE, LanguageIdentifier

            # Reading the model takes a moment, and most requests name their language.
            identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
            identifier.set_languages([code for code in self.languages if code in set(identifier.labels)])
            self._identifier = identifier
        return self._identifier
