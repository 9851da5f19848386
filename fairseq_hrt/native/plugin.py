"""What PyTorch's side does for this one: it decodes, checks and writes checkpoints.

Nothing in this folder imports what lies outside, so that side is asked for by its name, here alone.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Protocol, cast

if TYPE_CHECKING:
    from .bundles.decoder import Decoder

_MODULE = f"{__name__.split('.')[0]}.export.plugin"


class Plugin(Protocol):
    """The functions of ``export/plugin.py``."""

    def torch_decoder(
        self, folder: Path, device: Optional[str], threads: Optional[int]
    ) -> "Decoder":
        """The decoder of a bundle's checkpoints on PyTorch's engine."""

    def require_known_task(self, name: object, subject: str) -> str:
        """The name of a task that may decode data of unknown origin; ValueError for others."""

    def allowed_options(self, task: str) -> Mapping[str, Optional[type]]:
        """The options that data of unknown origin may set for a task, with their types."""

    def load_tensors(self, path: Path) -> Any:
        """The contents of a file of PyTorch's, which is of unknown origin."""

    def save_checkpoint(self, state: Dict[str, Any], path: Path) -> None:
        """Writes what decoding needs of a checkpoint."""

    def checkpoint_of(
        self, architecture: str, options: Mapping[str, Any], parameters: Mapping[str, Any],
        languages: Any, data: Path,
    ) -> Dict[str, Any]:  # fmt: skip
        """A checkpoint of an imported model, see ``export/imported.py``."""

    def add_runtime(self, bundle: Any, weights: str, **options: Any) -> None:
        """Adds the native engine's model, compared with PyTorch's, see
        ``export/runtime_bundle.py``."""

    def pack(self, folder: Path, checkpoints: Any, data: Path, **options: Any) -> Any:
        """Makes a bundle of checkpoints, see ``export/checkpoint_bundle.py``."""


def plugin() -> Plugin:
    """PyTorch's side.

    Raises:
        ModuleNotFoundError: this installation only translates, or PyTorch is missing.
    """
    try:
        return cast(Plugin, importlib.import_module(_MODULE))
    except ModuleNotFoundError as error:
        if error.name is not None and _MODULE.startswith(error.name):
            raise ModuleNotFoundError("this installation only translates", name="torch") from None
        raise
