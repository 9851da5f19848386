"""Which of a server's systems translates a request, and between which languages they translate."""

from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

from ..io.escaping import shown
from ..text.languages import language_of, standard
from .errors import RequestError, invalid
from .requests import TranslationRequest, unsupported_language
from .systems import ServedSystem

# Confidence, in per cent, from which the most probable language is believed: single words are often
# taken for words of another language.
SURE = 50
# Names of the languages of our recipes; another one is shown by its code.
LANGUAGES = {
    "ar": "Arabic", "cs": "Czech", "de": "German", "en": "English", "es": "Spanish",
    "et": "Estonian", "fi": "Finnish", "fr": "French", "it": "Italian", "ja": "Japanese",
    "lv": "Latvian", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "tr": "Turkish", "uk": "Ukrainian", "zh": "Chinese",
}  # fmt: skip


class Catalogue:
    """Finds a server's systems by languages and names.

    Args:
        systems: all systems; the first one for a pair of languages is the default for that pair.
    """

    def __init__(self, systems: Sequence[ServedSystem]) -> None:
        self.systems = list(systems)

    @property
    def codes(self) -> List[str]:
        """The codes of all source and target languages, source languages first."""
        bundles = [system.bundle for system in self.systems]
        sources = [bundle.source_lang for bundle in bundles]
        return list(dict.fromkeys([*sources, *(bundle.target_lang for bundle in bundles)]))

    def in_own_codes(self, request: TranslationRequest) -> TranslationRequest:
        """Returns the request with each language's code replaced by the one that the systems have
        for it, in lower case: ``zh-Hans`` by ``zh``, ``pt-BR`` by ``pt_br``; see
        :func:`..text.languages.standard`. A code without country and script (``de``) is replaced by
        the first one of this language (``deu_latn``). A language that no system has stays."""
        own = [code.lower() for code in self.codes]

        def known(code: str) -> str:
            same = [other for other in own if standard(other) == standard(code)]
            if language_of(code) == standard(code):
                same += [other for other in own if language_of(other) == standard(code)]
            return code if code in own else next(iter(same), code)

        return replace(request, source=known(request.source), target=known(request.target))

    def gives_back(self, source: str, target: str) -> bool:
        """Whether a text is returned untranslated, as LibreTranslate does: source and target are
        the same language, and no system translates between them."""
        wanted = source.lower(), target.lower()
        codes = [code.lower() for code in self.codes]
        return wanted[0] == wanted[1] and wanted[0] in codes and wanted not in self._pairs

    def detected(
        self, ranked: Sequence[Dict[str, Any]], target: str, *, itself: bool
    ) -> Dict[str, Any]:
        """Chooses among the languages that a text may be in: the most probable one from which a
        system translates to the target; if there is no such language, the most probable of all.

        Args:
            ranked: the result of :meth:`.detection.LanguageDetector.detect`.
            target: code of the target language, in lower case.
            itself: whether the target language itself may be chosen, too.

        Returns:
            The entry of ``ranked`` for the language. If none fits and the most probable one has the
            confidence 0, such an entry for the source language of the first system that translates
            to the target. If no language reaches the confidence :data:`SURE`, a source language
            with at least a tenth of the highest confidence precedes the target language itself.
        """
        bundles = [system.bundle for system in self.systems]
        sources = {
            one.source_lang.lower(): one.source_lang
            for one in bundles
            if one.target_lang.lower() == target
        }
        allowed = [*sources, *[target] * itself]
        surest = ranked[0]["confidence"]
        # Without a clear language, a text is rather translated than given back.
        close = [one for one in ranked if surest < SURE and 10 * one["confidence"] >= surest]
        for codes, found in ((list(sources), close), (allowed, ranked)):
            for one in found:
                if one["language"].lower() in codes:
                    return one
        if sources and not surest:
            return {"confidence": 0.0, "language": next(iter(sources.values()))}
        return ranked[0]

    @property
    def _pairs(self) -> List[Tuple[str, str]]:
        """(source, target) of each system, in lower case as in checked requests; the codes in a
        bundle may have capitals (de_DE, zho_Hans)."""
        bundles = [system.bundle for system in self.systems]
        return [(one.source_lang.lower(), one.target_lang.lower()) for one in bundles]

    def languages(self) -> List[Dict[str, Any]]:
        """The answer of LibreTranslate's route ``/languages``: code, name and target languages of
        each language. A language is also a target of itself, see :meth:`gives_back`. If several
        codes have the same name, each name is followed by its code."""
        codes = sorted(self.codes)
        names = [language_name(code) for code in codes]
        targets = {
            code: {code}.union(
                system.bundle.target_lang
                for system in self.systems
                if system.bundle.source_lang == code
            )
            for code in codes
        }
        return [
            {
                "code": code,
                "name": name if names.count(name) == 1 else f"{name} ({code})",
                "targets": sorted(targets[code]),
            }
            for code, name in zip(codes, names)
        ]

    def choose(self, request: TranslationRequest, source: str) -> ServedSystem:
        """The system that translates a request: the one that it names, else the default for its
        languages. ``source`` is the source language, detected if necessary.

        Raises:
            RequestError: (status 400) no system translates between these languages; or the request
                names a system that does not, or that does not exist.
        """
        pairs = self._pairs
        wanted = source.lower(), request.target.lower()
        for code in wanted:
            if not any(code in pair for pair in pairs):
                raise unsupported_language(code)
        fitting = [system for system, pair in zip(self.systems, pairs) if pair == wanted]
        if not fitting:
            names = [f"{language_name(code)} ({code})" for code in (request.target, source)]
            raise RequestError(
                400, f"{names[0]} is not available as a target language from {names[1]}"
            )
        if request.system is None:
            return fitting[0]
        for system in fitting:
            if system.name == request.system:
                return system
        raise invalid(
            f"system {shown(request.system)} does not translate from {source} to"
            f" {request.target}; these do: {', '.join(s.name for s in fitting)}"
        )


def language_name(code: str) -> str:
    """The English name of a language, without country and script, or its code if the name is not
    listed here."""
    return LANGUAGES.get(language_of(code), code)
