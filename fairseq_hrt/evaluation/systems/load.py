"""A system from its description, with the engine that it names."""

from typing import Sequence

from .fairseq_system import FairseqSystem
from .specification import SystemSpec
from .system import System


def load_system(spec: SystemSpec, data: Sequence[str]) -> System:
    """Loads a system.

    Args:
        spec: what to load.
        data: see :func:`.specification.generate_arguments`.

    Raises:
        ValueError: an option that the engine does not support, or a model that it cannot decode.
        OSError: a checkpoint is missing or unreadable.
    """
    if spec.engine == "ctranslate2":
        # Not for everybody: the package is an optional one.
        from .ctranslate2_system import CTranslate2System

        return CTranslate2System(spec, data)
    if spec.engine == "native":
        from .native_system import NativeSystem

        return NativeSystem(spec, data)
    return FairseqSystem(spec, data, engine=spec.engine)


def load_watched(spec: SystemSpec, data: Sequence[str]) -> System:
    """A loaded system that reports in which pass each word was written; PyTorch's with ``auto``.

    Raises:
        ValueError: CTranslate2, which does not say it; besides what :func:`load_system` raises.
    """
    if spec.engine == "ctranslate2":
        raise ValueError(
            f"system {spec.name!r}: engine=ctranslate2 translates, but its steps cannot be watched:"
            " leave it out"
        )
    return load_system(spec, data) if spec.engine == "native" else FairseqSystem(spec, data)
