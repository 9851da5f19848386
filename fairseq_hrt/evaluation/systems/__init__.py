"""Systems of a comparison: each is a decoder and the data that it is run on, behind one interface
whatever decodes it."""

import logging
from dataclasses import replace
from typing import Sequence

from ...decoding_task import DecodingTask
from ...native.io.escaping import printable
from ...native.io.progress import Doing
from .specification import SystemSpec, generate_arguments, parse_system, read_systems, scoring
from .system import FairseqSystem, System, continuation, count_calls, subwords

logger = logging.getLogger(__name__)
_CALLED = {"torch": "PyTorch", "native": "the native engine", "ctranslate2": "CTranslate2"}

__all__ = [
    "FairseqSystem",
    "System",
    "SystemSpec",
    "continuation",
    "count_calls",
    "generate_arguments",
    "load_system",
    "load_watched",
    "parse_system",
    "read_systems",
    "scoring",
    "subwords",
]


def load_system(spec: SystemSpec, data: Sequence[str]) -> System:
    """Loads a system with the engine that it names.

    Args:
        spec: what to load.
        data: see :func:`.specification.generate_arguments`.

    Raises:
        ValueError: an option that the engine does not support, or a model that it cannot decode.
        OSError: a checkpoint is missing or unreadable.
    """
    with Doing(f"loading {printable(spec.name)}"):
        system = _loaded(spec, data)
    # Our tasks say it themselves, with a reason where only PyTorch can decode.
    if system.generator is None or not isinstance(system.task, DecodingTask):
        engine = _CALLED[system.engine]
        logger.info("%s: decoding with %s: %s weights", spec.name, engine, system.dtype)
    return system


def _loaded(spec: SystemSpec, data: Sequence[str]) -> System:
    if spec.engine == "ctranslate2":
        # Not for everybody: the package is an optional one.
        from .ctranslate2_system import CTranslate2System

        return CTranslate2System(spec, data)
    if spec.engine == "native":
        from .native_system import NativeSystem

        return NativeSystem(spec, data)
    return FairseqSystem(spec, data)


def load_watched(spec: SystemSpec, data: Sequence[str]) -> System:
    """A loaded system that reports in which pass each word was written; PyTorch's with ``auto``.

    Raises:
        ValueError: CTranslate2, which does not say it; besides what :func:`load_system` raises.
    """
    if spec.engine == "ctranslate2":
        raise ValueError(
            f"{spec.subject}: engine=ctranslate2 translates, but its steps cannot be watched:"
            " leave it out"
        )
    return load_system(replace(spec, engine="torch") if spec.engine == "auto" else spec, data)
