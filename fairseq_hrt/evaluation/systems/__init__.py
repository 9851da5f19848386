"""The systems that a comparison runs: each is a decoder with the data that it translates, behind
the same interface for PyTorch, the native engine and CTranslate2."""

import logging
from dataclasses import replace
from typing import Sequence

from ...decoding_task import DecodingTask
from ...native.io.escaping import printable
from ...native.io.progress import Doing
from .specification import SystemSpec, generate_arguments, parse_system, read_systems
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
    "subwords",
]


def load_system(spec: SystemSpec, data: Sequence[str]) -> System:
    """Loads a system with the engine that its specification names.

    Args:
        spec: the system's checkpoint, engine and options.
        data: the data folder and the options that choose its sentences and languages, see
            :func:`.specification.generate_arguments`.

    Raises:
        ValueError: the engine does not support an option, or cannot decode the model.
        OSError: a checkpoint is missing or unreadable.
    """
    with Doing(f"loading {printable(spec.name)}"):
        system = _loaded(spec, data)
    # This package's tasks log the engine themselves, with the reason if only PyTorch can decode.
    if system.generator is None or not isinstance(system.task, DecodingTask):
        engine = _CALLED[system.engine]
        logger.info("%s: decoding with %s: %s weights", spec.name, engine, system.dtype)
    return system


def _loaded(spec: SystemSpec, data: Sequence[str]) -> System:
    if spec.engine == "ctranslate2":
        # Imported here: CTranslate2 is an optional dependency.
        from .ctranslate2_system import CTranslate2System

        return CTranslate2System(spec, data)
    if spec.engine == "native":
        from .native_system import NativeSystem

        return NativeSystem(spec, data)
    return FairseqSystem(spec, data)


def load_watched(spec: SystemSpec, data: Sequence[str]) -> System:
    """Loads a system that reports in which decoder pass each word was written; ``engine=auto``
    means PyTorch here.

    Raises:
        ValueError: the engine is CTranslate2, which does not report this; or as :func:`load_system`
            raises.
    """
    if spec.engine == "ctranslate2":
        raise ValueError(
            f"{spec.subject}: engine=ctranslate2 does not report its decoder passes; remove"
            " engine=ctranslate2"
        )
    return load_system(replace(spec, engine="torch") if spec.engine == "auto" else spec, data)
