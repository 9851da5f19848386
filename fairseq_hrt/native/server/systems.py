"""The systems of a server: loaded bundles with decoding options and a queue."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ..bundles.batching import Batcher, QueueClosed, QueueFull
from ..bundles.bundle import Bundle, load_bundle
from ..bundles.decoder import OF_LOADING
from ..bundles.translation import LONGEST, PreparedLine, join_pieces, raw_text
from ..families import family_of_task
from ..io.escaping import printable
from ..options.values import SCHEMA, DecodingOptions, UnsupportedOption
from ..runtime.library import LibraryUnavailable
from ..text.glossary import Glossary
from .errors import RequestError, invalid
from .metrics import Metrics
from .settings import Settings

logger = logging.getLogger(__name__)

# (folder of a bundle, settings; as keywords those of the system's options that are in OF_LOADING) →
# the translator, with the members of bundles.translator.Translator that are used here: ``prepare``,
# ``translate``, ``identity``, ``describe``, ``unknown_words``, ``bundle``; where it aligns words,
# ``in_words``; where there are glossaries, ``new_terms`` and ``prepare_terms``.
LoadTranslator = Callable[..., Any]

# The option with which translations have alignments.
ALIGNED = {"print_alignment": "hard"}


@dataclass
class ServedSystem:
    """A loaded bundle with its decoding options and its queue.

    Attributes:
        name: the name by which requests choose the system.
        bundle: the bundle that was loaded.
        translator: translates with the bundle, the result of a :data:`LoadTranslator`.
        batcher: the queue of the system's sentences.
        alternatives: whether the system can find several translations of a sentence.
        aligned: whether the system can find the source subword that each target subword is aligned
            with.
        options: decoding options that override the bundle's, {name: value}.
        glossary: the system's default glossary, over which that of a request takes precedence; or
            None.
    """

    name: str
    bundle: Bundle
    translator: Any
    batcher: Batcher
    alternatives: bool = True
    aligned: bool = False
    options: Dict[str, str] = field(default_factory=dict)
    glossary: Optional[Glossary] = None

    async def submit(self, sentences: Sequence[str], **options: Any) -> List[Any]:
        """Puts sentences into the queue and waits for their translations, one for each, in order;
        see :meth:`..bundles.batching.Batcher.submit`. ``options``: decoding options; ``glossary``,
        a Glossary whose translations to use; ``graph=True`` for graphs instead of translations; or
        only ``terms=True`` to keep translations of terms for later calls, with None as results.

        Raises:
            RequestError: the queue is full (status 429) or closed (503).
        """
        try:
            return await self.batcher.submit(sentences, **options)
        except QueueFull:
            raise RequestError(
                429, "Too many requests: the queue is full, try again later", {"Retry-After": "1"}
            ) from None
        except QueueClosed:
            raise RequestError(503, "The server is shutting down", {"Retry-After": "5"}) from None

    @property
    def graph(self) -> bool:
        """Whether the system's translations are paths of graphs, which it can show."""
        family = family_of_task(self.bundle.task)
        return family is not None and family.graphs

    def describe(self) -> Dict[str, Any]:
        """The facts about the system that ``/v1/systems`` and the web page show; no file paths."""
        return {
            "name": self.name,
            "source": self.bundle.source_lang,
            "target": self.bundle.target_lang,
            "task": self.bundle.task,
            "engine": self.translator.identity()["engine"],
            "alternatives": self.alternatives,
            "graph": self.graph,
            "options": self.options,
            "examples": self.bundle.examples,
        }


def load_served(
    name: str, folder: Path, settings: Settings, metrics: Metrics, load: LoadTranslator
) -> ServedSystem:
    """Loads a bundle as a system. Translates one word with it, so that the first request is not
    slowed down by what is made on first use.

    Args:
        name, folder: the system's name and its bundle's folder.
        settings: the server's options.
        metrics: counts the system's batches and reports the length of its queue.
        load: makes the translator of a bundle, see :data:`LoadTranslator`.

    Raises:
        ValueError: the folder is not a bundle, or the bundle cannot be loaded.
    """
    glossary = Glossary.of(settings.glossary_of(name))
    own = settings.options_of(name)
    translator = load(folder, settings, **{key: own[key] for key in OF_LOADING if key in own})
    bundle = translator.bundle
    usual = {**bundle.runtime_options, **bundle.options, **own}
    translator.translate(["a"], details=True, **own)

    def decode(pieces: Sequence[PreparedLine], options: Dict[str, Any]) -> Sequence[Any]:
        # Only these are refused if they have no effect; the system's own then get their defaults.
        asked = {
            name: value
            for name, value in options.items()
            if name not in ("graph", "glossary", "terms")
        }
        # A decoder's buffers grow with sentences, beam and length: batches shrink for larger ones.
        more = {**usual, **asked}
        share = _beam(usual) * _longest(usual) / (_beam(more) * _longest(more))
        size = max(1, min(settings.max_batch, int(settings.max_batch * share)))
        common: Dict[str, Any] = dict(
            batch_size=size,
            cancelled=batcher.given_up,
            given=frozenset(asked),
            **{**own, **asked},
        )
        if options.get("terms", False):
            names = [raw_text(piece) for piece in pieces]
            translator.prepare_terms(names, batch_size=size, cancelled=batcher.given_up)
            return [None] * len(pieces)
        if options.get("graph", False):
            return translator.graphs(list(pieces), **common)
        if "glossary" in options:
            common["glossary"] = options["glossary"]
        found: List[Any] = []
        for start in range(0, len(pieces), size * settings.threads):
            taken = list(pieces[start : start + size * settings.threads])
            results = translator.translate(taken, details=True, **common)
            for translation in results:
                _drop_unanswered(translation, "print_alignment" in options)
            found += results
        return found

    def join(sentence: str, results: List[Any], options: Dict[str, Any]) -> Any:
        if options.get("terms", False):
            return None
        if options.get("graph", False):
            return [graph for graphs in results for graph in graphs]
        return join_pieces(sentence, results)

    batcher = Batcher(
        decode,
        prepare=translator.prepare,
        join=join,
        max_batch=settings.max_batch,
        max_queue=settings.max_queue,
        wait=settings.batch_wait,
        observe=lambda sentences, seconds: metrics.observe_batch(name, sentences, seconds),
        observe_queue=lambda waiting: metrics.observe_queue(name, waiting),
    )
    metrics.observe_queue(name, 0)
    system = ServedSystem(
        name,
        bundle,
        translator,
        batcher,
        _several(bundle) is not None
        and _tried(translator, own, _options_for(bundle, own, 2)) is not None,
        # Models that write many words at once align none, and another engine may take the option
        # and do nothing.
        bool(getattr(_tried(translator, own, ALIGNED), "alignment", ())),
        own,
        glossary,
    )
    logger.info(
        "%s: %s to %s, ready (%s)",
        name,
        bundle.source_lang,
        bundle.target_lang,
        translator.describe(),
    )
    return system


def _drop_unanswered(translation: Any, aligned: bool) -> None:
    """Empties the fields of a translation that no answer shows: kept until a large request is
    answered, they would fill the memory. ``aligned``: whether tags and placeholders are to be put
    into the texts, for which the tokens of alternatives are kept."""
    others = getattr(translation, "alternatives", ())
    for one in (translation, *others):
        one.positional_scores = []
    for one in others:
        one.token_steps = []
        if not aligned:
            one.tokens = []


def require_room(
    system: ServedSystem,
    sentences: int,
    options: Mapping[str, Any],
    settings: Settings,
    terms: int = 0,
) -> None:
    """Refuses a request whose translations could take more memory than those of the largest request
    that chooses no options.

    Args:
        system: the system that is to translate.
        sentences: number of the request's sentences.
        options: the request's decoding options.
        settings: the limits of a request.
        terms: number of the terms of a glossary that have to be translated alone, too.

    Raises:
        RequestError: status 400; the message tells what to change.
    """
    bundle = system.bundle
    usual = {**bundle.runtime_options, **bundle.options, **system.options}
    hypotheses = int({**usual, **options}.get("nbest", DecodingOptions().nbest))
    longer = max(1.0, _longest({**usual, **options}) / _longest(usual))
    most = settings.max_sentences * (settings.max_alternatives + 1)
    if sentences * hypotheses * longer + terms > most or terms > settings.max_queue:
        length = f", {longer:.1f} times as long as usual" * (longer > 1)
        also = f", and {terms} terms of a glossary," * (terms > 0)
        raise invalid(
            f"{sentences} sentences with {hypotheses} translations each{length}{also} exceed what"
            f" one request may take ({most} translations of usual length): ask for fewer sentences"
            " at a time"
        )


def _beam(options: Mapping[str, Any]) -> int:
    return int(options.get("beam", DecodingOptions().beam))


def _longest(options: Mapping[str, Any]) -> float:
    """The number of tokens of the longest translation that decoding options permit, for a source of
    :data:`LONGEST` subwords."""
    default = DecodingOptions()
    share = float(options.get("max_len_a", default.max_len_a))
    return max(1.0, share * LONGEST + float(options.get("max_len_b", default.max_len_b)))


def load_translator(folder: Path, settings: Settings, **loading: str) -> Any:
    """Loads a bundle on the engine that the settings name; ``loading``: those decoding options that
    take effect when a model is loaded (:data:`~..bundles.decoder.OF_LOADING`).

    ``auto`` is decided here, once per system. A translator that changed from the native engine to
    PyTorch for the options of a single request would load PyTorch while other requests wait, or
    fail if it is not installed.

    Raises:
        ValueError: see :func:`fairseq_hrt.from_pretrained`.
    """
    from ..bundles.pretrained import from_pretrained

    own: Dict[str, Any] = {
        "threads": settings.threads, "use_shortlist": settings.shortlist, "device": settings.device,
        **loading,
    }  # fmt: skip
    native = settings.engine == "auto" and settings.device in (None, "cpu")
    bundle = load_bundle(folder, for_runtime=True) if native else None
    if bundle is not None and bundle.runtime is not None:
        try:
            return from_pretrained(folder, engine="native", **own)
        except (UnsupportedOption, LibraryUnavailable) as error:
            if not bundle.models or settings.shortlist:
                raise
            logger.warning("%s (PyTorch takes over)", printable(str(error)))
    try:
        engine = "torch" if settings.engine == "auto" else settings.engine
        return from_pretrained(folder, engine=engine, **own)
    except ImportError as error:
        raise ValueError(
            f"{folder} needs PyTorch and fairseq, and {error.name} is not installed: install it, or"
            " pack the bundle for the native engine (fairseq-hrt bundle --runtime int8)"
        ) from error


def _tried(translator: Any, own: Mapping[str, str], more: Mapping[str, Any]) -> Any:
    """A translation of one word by ``translator`` with the options ``own``, overridden by ``more``;
    None if its engine refuses these options."""
    try:
        return translator.translate(["a"], details=True, **{**own, **more})[0]
    except ValueError:
        return None


def _several(bundle: Bundle) -> Optional[Dict[str, Any]]:
    """The options, besides the beam, with which the models of a bundle's family find several
    translations: {name: value}, see ``several`` of :class:`..options.option.Option`; None if the
    family finds only one."""
    family = family_of_task(bundle.task)
    if family is None or not family.several:
        return None
    own = {name: option.several for name, option in SCHEMA.items() if option.origin == family.name}
    return {name: value for name, value in own.items() if value is not None}


def _options_for(bundle: Bundle, given: Mapping[str, Any], hypotheses: int) -> Dict[str, Any]:
    """The options, {name: value}, with which a bundle finds ``hypotheses`` translations of a
    sentence. ``given`` are options that override the bundle's. The beam is not smaller than without
    further translations, so that asking for these does not make the best one worse."""
    usual = {**bundle.runtime_options, **bundle.options, **given}
    beam = max(hypotheses, _beam(usual))
    found: Dict[str, Any] = {"beam": beam, "nbest": hypotheses}
    for name, value in (_several(bundle) or {}).items():
        when = SCHEMA[name].when
        # An option without effect is left out, e.g. one of a second stage where there is none.
        if when is not None and not when.holds({**vars(DecodingOptions()), **usual}):
            continue
        if value is True:
            value = min(beam, max(hypotheses, int(usual.get(name, beam))))
        found[name] = value
    return found


def alternatives_options(
    system: ServedSystem, hypotheses: int, options: Mapping[str, Any]
) -> Dict[str, Any]:
    """The ``options`` of a request, completed by those with which the system finds ``hypotheses``
    translations of a sentence; unchanged if the system can find only one."""
    if not system.alternatives:
        return dict(options)
    found = _options_for(
        system.bundle, {**system.options, **options}, max(hypotheses, int(options.get("nbest", 1)))
    )
    # Numbers that are too small are widened; another choice stays, and is refused where it gives
    # only one.
    return {
        **found,
        **{name: value for name, value in options.items() if not isinstance(found.get(name), int)},
    }
