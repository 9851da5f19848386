"""The tensors of an imported model, with checks that each exists, has the expected shape, and is
used."""

from typing import Any, Dict, List, Optional, Tuple

from ..io.escaping import shown


class Tensors:
    """The tensors in a file of weights, with a record of those that the conversion has used.

    Args:
        held: {name: array or tensor}.
        subject: the path of the file, for messages.
        steps: {name: quantisation step, the value that the integer 1 represents}, for tensors that
            the file holds as integers.
    """

    def __init__(
        self, held: Dict[str, Any], subject: object, steps: Optional[Dict[str, float]] = None
    ) -> None:
        self.held, self.subject, self.steps = held, subject, steps or {}
        self.used: set = set()

    def __contains__(self, name: str) -> bool:
        return name in self.held

    def take(self, name: str, *shape: int) -> Any:
        """Returns the tensor ``name`` and marks it as used; ValueError if it is missing or its
        shape is not ``shape``."""
        if name not in self.held:
            raise ValueError(
                f"{self.subject} has no {shown(name)}, which the model's configuration requires:"
                " use weights and a configuration of the same model"
            )
        self.used.add(name)
        value = self.held[name]
        if tuple(value.shape) != shape:
            raise ValueError(
                f"{self.subject}: {shown(name)} has the shape {_text(value.shape)}, but the model's"
                f" configuration gives {_text(shape)}: use weights and a configuration of the same"
                " model"
            )
        return value

    def shape(self, name: str) -> Tuple[int, ...]:
        """The (rows, columns) of the matrix ``name``; ValueError if it is missing or not a
        matrix."""
        if name not in self.held:
            raise ValueError(
                f"{self.subject} has no {shown(name)}, which every model of this kind has:"
                " it is incomplete, or a model of another kind"
            )
        shape = tuple(self.held[name].shape)
        if len(shape) != 2:
            raise ValueError(
                f"{self.subject}: {shown(name)} has the shape {_text(shape)}; it must be a matrix"
            )
        return shape

    def require_all_used(self) -> None:
        """Raises ValueError if a tensor is not marked as used, since the conversion would lose
        it."""
        left: List[str] = sorted(name for name in self.held if name not in self.used)
        if left:
            raise ValueError(
                f"{self.subject} has {len(left)} tensors that cannot be imported, among them"
                f" {shown(left[0])}: models with such parts are not supported"
            )


def _text(shape: Any) -> str:
    return shown("×".join(map(str, shape)))
