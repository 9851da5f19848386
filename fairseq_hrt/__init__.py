"""fairseq_hrt: fast *and* right machine translation as a plugin for stock fairseq 0.12.2.

Importing the package repairs what a newer Python, NumPy or PyTorch broke in fairseq
(:mod:`.compat`) and registers the tasks, models and criterions of its families;
``--user-dir fairseq_hrt`` imports the package. Repairs and registration wait until fairseq itself
is imported: until then the package takes a few milliseconds and loads neither PyTorch nor NumPy.
"""

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Optional, Union

from . import compat, registration
from .native import __version__ as __version__
from .native import families

if TYPE_CHECKING:
    from .native.bundles.translator import Translator

__all__ = ["compat", "from_pretrained", *families.NAMES]


def __getattr__(name: str) -> Any:
    # `fairseq_hrt.hrt` works without `import fairseq_hrt.hrt`.
    if name in families.NAMES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})


def from_pretrained(
    path: Union[str, Path],
    *,
    device: Optional[str] = None,
    engine: str = "auto",
    threads: Optional[int] = None,
    use_shortlist: bool = False,
    **decoding: Any,
) -> "Translator":
    """Loads a trained model (a bundle) as a :class:`~.native.bundles.translator.Translator` of raw
    text.

    Args:
        path: the bundle's folder.
        device: ``cpu`` or ``cuda``; None: the CPU, or, with PyTorch, a GPU if there is one.
        engine: ``native``, ``torch``, or ``auto``: native where possible, else PyTorch.
        threads: number of the engine's threads; None: the engine's default.
        use_shortlist: write only words of the bundle's shortlist; native engine only.
        decoding: options of ``fairseq-generate``, e.g. ``beam=1``, or a ``glossary``.

    For details and errors see :func:`.native.bundles.pretrained.from_pretrained`.
    """
    # Imported only here: training does not need the bundles.
    from .native.bundles import pretrained

    return pretrained.from_pretrained(
        path, device=device, engine=engine, threads=threads, use_shortlist=use_shortlist, **decoding
    )


def _require_one_copy(repairs: Path, own: Path) -> None:
    """Refuses to mix two copies of this package whose repairs of fairseq differ.

    The environment's start-up line loads ``compat`` from the installed copy; ``--user-dir`` may
    name another copy.

    Args:
        repairs: the folder that the loaded :mod:`.compat` came from.
        own: the folder ``compat`` of the copy that is being imported.

    Raises:
        ImportError: the Python files in the two folders differ, or ``repairs`` no longer exists.
    """
    if repairs == own:
        return
    if not repairs.is_dir():
        raise ImportError(
            f"fairseq_hrt was moved while it was running: {repairs} no longer exists; start the"
            " command again"
        )
    # Equal copies do no harm: a clone beside the package installed from it.
    sources = [
        {path.name: path.read_bytes() for path in folder.glob("*.py")} for folder in (repairs, own)
    ]
    if sources[0] != sources[1]:
        raise ImportError(
            "two different copies of fairseq_hrt: the repairs of fairseq come from"
            f" {repairs.parent}, which is installed, the rest from "
            f'{own.parent}; give --user-dir "$(fairseq-hrt --user-dir)", or install the other copy:'
            f" pip install -e {own.parent.parent}"
        )


_require_one_copy(
    Path(compat.__file__).resolve().parent, Path(__file__).resolve().parent / "compat"
)
compat.install()
if importlib.util.find_spec(f"{__name__}.task") is not None:
    registration.install()
