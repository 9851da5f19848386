"""``fairseq_hrt.from_pretrained``: a bundle on the engine that suits it."""

from pathlib import Path
from typing import Any, Optional, Union

from ..escaping import printable
from .bundle import load_bundle

ENGINES = ("auto", "torch", "runtime")


def from_pretrained(
    path: Union[str, Path],
    *,
    device: Optional[str] = None,
    engine: str = "auto",
    threads: Optional[int] = None,
    use_shortlist: bool = False,
    **decoding: Any,
) -> Any:
    """A model from a bundle (``fairseq-hrt bundle``), ready to translate.

    Args:
        path: the bundle's folder.
        device: ``cpu`` or ``cuda``; None: a GPU where there is one, and the runtime, which is for CPUs, before it.
        engine: ``runtime`` (native, for bundles made with ``--runtime``), ``torch``, or ``auto``: the runtime where the bundle has
            a model for it, the machine can run it, no GPU is asked for and it knows the options, else PyTorch.
        threads: of the engine; None: its own choice.
        use_shortlist: choose among the words of the bundle's shortlist only; needs the runtime.
        decoding: options of ``fairseq-generate`` by their names, e.g. ``beam=1`` or ``hrt_decode_chunk=3``; they go before those
            of the bundle.

    Returns:
        A :class:`.translator.Translator` or a :class:`.runtime_translator.RuntimeTranslator`, which have the same methods.

    Raises:
        ValueError: no bundle, or an option that its task does not know.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine {engine!r} is unknown: choose one of {', '.join(ENGINES)}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads}: give at least 1")
    folder = Path(path)
    if engine == "runtime" and device not in (None, "cpu"):
        raise ValueError(f"device {device!r}: the runtime decodes on the CPU; use engine='torch'")
    bundle = None if engine == "torch" or device not in (None, "cpu") else load_bundle(folder, for_runtime=True)
    if bundle is None or (engine == "auto" and bundle.runtime is None):
        if use_shortlist:
            raise ValueError("a shortlist needs the runtime: give engine='runtime', or leave it away")
        return _torch(folder, device, threads, decoding)
    from ..runtime.engine import UnsupportedOption
    from .runtime_translator import RuntimeTranslator

    fallback = None if engine == "runtime" else (lambda: _torch(folder, device, threads, decoding))
    from ..runtime.library import LibraryUnavailable

    try:
        return RuntimeTranslator(bundle, threads=threads, use_shortlist=use_shortlist, fallback=fallback, **decoding)
    except (UnsupportedOption, LibraryUnavailable) as error:
        if engine == "runtime" or use_shortlist:
            raise
        import logging

        logging.getLogger(__name__).warning("%s (PyTorch takes over)", printable(str(error)))
        return _torch(folder, device, threads, decoding)


def _torch(folder: Path, device: Optional[str], threads: Optional[int], decoding: Any) -> Any:
    from .translator import Translator

    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    # Read again: fairseq demands more of what a bundle says.
    return Translator(load_bundle(folder), device=device, **decoding)
