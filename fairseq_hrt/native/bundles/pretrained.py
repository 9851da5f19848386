"""``fairseq_hrt.from_pretrained``: loads a bundle on a suitable engine."""

import importlib.util
import logging
from pathlib import Path
from typing import Any, Optional, Union

from ..io.escaping import printable
from ..options.schema import ENGINES
from ..options.values import UnsupportedOption
from ..plugin import plugin
from ..runtime.library import LibraryUnavailable
from ..text.glossary import GivenGlossary, Glossary
from .bundle import Bundle, load_bundle
from .decoder import Decoder
from .native_decoder import NativeDecoder
from .translator import Translator

logger = logging.getLogger(__name__)
# Earlier names of the native engine.
_FORMERLY = {"runtime": "native"}


def from_pretrained(
    path: Union[str, Path],
    *,
    device: Optional[str] = None,
    engine: str = "auto",
    threads: Optional[int] = None,
    use_shortlist: bool = False,
    glossary: GivenGlossary = None,
    **decoding: Any,
) -> Translator:
    """Loads a bundle, made by ``fairseq-hrt bundle``, ready to translate.

    Args:
        path: the bundle's folder.
        device: ``cpu``, ``cuda`` or ``cuda:N``; None: the CPU for the native engine, for PyTorch a
            GPU if there is one.
        engine: ``native`` (for bundles made with ``--runtime``), ``torch``, or ``auto``: the native
            engine if the bundle has a model for it, the engine runs on this machine and supports
            the options, and no GPU is asked for; else PyTorch.
        threads: number of the engine's threads; None: for the native engine
            :func:`.native_decoder.default_threads`, for PyTorch its own default.
        use_shortlist: write only words of the bundle's shortlist; native engine only.
        glossary: given translations of terms: the path of a file with a term, a tab and its
            translation in each line, or {term: translation}; see
            :class:`~..text.glossary.Glossary`.
        decoding: options of ``fairseq-generate`` by their names, e.g. ``beam=1`` or
            ``hrt_decode_chunk=3``; they override the bundle's.

    Raises:
        ValueError: the folder is not a bundle, another argument is invalid, or the bundle's task
            does not have an option.
        UnsupportedOption: ``engine`` is ``native``, which does not support an option.
    """
    engine = _FORMERLY.get(engine, engine)
    if engine not in ENGINES:
        raise ValueError(f"engine {engine!r} is unknown: choose one of {', '.join(ENGINES)}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ValueError(f"threads={threads!r}: give an integer, at least 1")
    folder, glossary = Path(path), Glossary.of(glossary)
    if engine == "native" and device not in (None, "cpu"):
        raise ValueError(
            f"device {device!r}: the native engine decodes on the CPU; use engine='torch'"
        )
    bundle: Optional[Bundle] = None
    if engine != "torch" and device in (None, "cpu"):
        bundle = load_bundle(folder, for_runtime=True)

    def with_torch() -> Decoder:
        return plugin().torch_decoder(folder, device, threads)

    if bundle is None or (engine == "auto" and bundle.runtime is None):
        if use_shortlist:
            raise ValueError(
                "a shortlist needs the native engine: give engine='native' and a bundle made with"
                " --runtime, or leave use_shortlist (--shortlist) out"
            )
        # Read again, with fairseq's checks of the task and the options.
        return Translator(load_bundle(folder), with_torch(), glossary=glossary, **decoding)
    # PyTorch can take over only if there is a checkpoint and fairseq is installed.
    takes_over = bundle.models and importlib.util.find_spec("fairseq") is not None
    # PyTorch has no shortlists.
    chosen = engine == "native" or use_shortlist
    fallback = with_torch if takes_over and not chosen else None
    try:
        decoder = NativeDecoder.of_bundle(bundle, threads=threads, use_shortlist=use_shortlist)
        return Translator(bundle, decoder, fallback=fallback, glossary=glossary, **decoding)
    except (UnsupportedOption, LibraryUnavailable) as error:
        if fallback is None:
            raise
        logger.warning("%s (PyTorch takes over)", printable(str(error)))
        return Translator(load_bundle(folder), with_torch(), glossary=glossary, **decoding)
