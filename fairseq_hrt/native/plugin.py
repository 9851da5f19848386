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
        """Returns ``name`` if it is a task that a file of unknown origin may name.

        Raises:
            ValueError: it is not such a task; the message begins with ``subject``, the file's name.
        """

    def allowed_options(self, task: str) -> Mapping[str, Optional[type]]:
        """The options that a file of unknown origin may set for a task: {name: type of its value}.
        The type is None for ``post_process`` and ``remove_bpe``, whose values name the kind of
        subwords to join."""

    def save_checkpoint(self, state: Dict[str, Any], path: Path) -> None:
        """Writes the checkpoint ``state``, a dictionary as fairseq saves it, to ``path``; parts
        that only training needs, such as the optimiser's state, are left out."""

    def checkpoint_of(
        self, architecture: str, options: Mapping[str, Any], parameters: Mapping[str, Any],
        languages: Any, data: Path, *, task: str = "translation",
    ) -> Dict[str, Any]:  # fmt: skip
        """Makes the contents of a checkpoint, as fairseq saves it, from an imported model.

        Args:
            architecture: fairseq's name of the model's architecture.
            options: the model's options, {name: value}.
            parameters: {fairseq's name of the parameter: array}.
            languages: (source, target).
            data: the folder of the model's dictionaries.
            task: the task that decodes the model.
        """

    def add_runtime(self, bundle: Any, weights: str, **options: Any) -> None:
        """Adds the native engine's model to a bundle that is being made, after comparing its
        translations with PyTorch's.

        Args:
            bundle: the :class:`.bundles.bundle.Bundle`.
            weights: how the engine stores its matrices, ``int8`` or ``float32``.
            options: ``data``, the folder of the dictionaries; perhaps ``lines``, source lines to
                compare, ``shortlist``, its file, and ``make_model``, which makes the model.
        """

    def import_checkpoints(
        self, folder: Path, checkpoints: Any, data: Path, *, task: str, languages: Any,
        complete: Any, **described: Any,
    ) -> Any:  # fmt: skip
        """Makes a bundle from checkpoints of other origin: published models of fairseq, and models
        of DA-Transformer and FA-DAT.

        Args:
            folder: the bundle's folder, which must not exist.
            checkpoints: the paths of the checkpoints, several for an ensemble.
            data: the folder of the dictionaries.
            task: the task that decodes fairseq's own models.
            languages: (source, target), each None if the checkpoint or ``data`` names it.
            complete: called with the bundle before it is finished, to add files or facts.
            described: text preparation, options and card of the bundle; see
                ``export/imported_checkpoints.py``.
        """


def plugin() -> Plugin:
    """Loads the package's PyTorch side, the module ``export/plugin.py``, and returns it.

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
