"""What a family's decoder adds to a plain Transformer in a model of the native engine."""

from typing import Any, Dict, Sequence

from torch import Tensor

from ..native.runtime.header import Header


class NativeParts:
    """Base of such decoders, beside fairseq's; it adds nothing.

    Attributes:
        family: its name.
    """

    family = "autoregressive"

    def native_fields(self, longest_target: int) -> Dict[str, Any]:
        """The fields of its family in the model's header.

        Args:
            longest_target: the decoder's capacity, as the header has it.
        """
        return {}

    def native_tensors(self, header: Header) -> Dict[str, Tensor]:
        """Tensors by their names in the model file: those of its family, and others that are not
        made of parameters as a plain Transformer's are."""
        return {}

    def not_native(self) -> Sequence[str]:
        """Options that the model has and the native engine has not."""
        return ()
