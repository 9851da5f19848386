"""Access to the package's PyTorch side, which decodes, checks and writes checkpoints.

Modules in this folder import nothing from outside it, since the translation-only package lacks the
rest. Only this module loads ``export/plugin.py``, by its name and when it is needed.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Protocol, cast

if TYPE_CHECKING:
    from .bundles.decoder import Decoder

_MODULE = f"{__name__.split('.')[0]}.export.plugin"


class Plugin(Protocol):
    """The functions of ``export/plugin.py``, the package's PyTorch side."""

    def torch_decoder(
        self, folder: Path, device: Optional[str], threads: Optional[int]
    ) -> "Decoder":
        """Loads a bundle's checkpoints for decoding by PyTorch.

        Args:
            folder: the folder of the bundle.
            device: ``cpu``, ``cuda`` or ``cuda:N``; None: a GPU if there is one.
            threads: the number of PyTorch's threads; None: PyTorch's own choice.
        """

    def require_known_task(self, name: object, subject: str) -> str:
        """Returns the task's ``name`` if a file of unknown origin may name that task; otherwise
        raises ValueError, whose message begins with ``subject``, the file."""

    def allowed_options(self, task: str) -> Mapping[str, Optional[type]]:
        """The options that a file of unknown origin may set for a task: {name: type of value}, with
        None as type of options that name how subwords are joined (``post_process``)."""

    def load_tensors(self, path: Path) -> Any:
        """Loads a PyTorch file of unknown origin to the CPU, without running code from it."""

    def save_checkpoint(self, state: Dict[str, Any], path: Path) -> None:
        """Writes a checkpoint to ``path``, with only those parts that decoding needs."""

    def checkpoint_of(
        self, architecture: str, options: Mapping[str, Any], parameters: Mapping[str, Any],
        languages: Any, data: Path, *, task: str = "translation",
    ) -> Dict[str, Any]:  # fmt: skip
        """Builds a checkpoint from an imported model; see ``export/imported.py``."""

    def add_runtime(self, bundle: Any, weights: str, **options: Any) -> None:
        """Adds the native engine's model to a bundle that is being made, after comparing its
        translations with PyTorch's; see ``export/runtime_bundle.py``."""

    def import_checkpoints(
        self, folder: Path, checkpoints: Any, data: Path, *, task: str, languages: Any,
        complete: Any, **described: Any,
    ) -> Any:  # fmt: skip
        """Makes a bundle from checkpoints of other origin: published models of fairseq, and models
        of DA-Transformer and FA-DAT; see ``export/imported_checkpoints.py``."""


def plugin() -> Plugin:
    """Returns the functions of the PyTorch side.

    Raises:
        ModuleNotFoundError: this is the translation-only package, or PyTorch is missing.
    """
    try:
        return cast(Plugin, importlib.import_module(_MODULE))
    except ModuleNotFoundError as error:
        if error.name is not None and _MODULE.startswith(error.name):
            raise ModuleNotFoundError(
                "this installation only translates: install the whole plugin, fairseq_hrt",
                name="torch",
            ) from None
        raise
