"""What a family's decoder adds to the model file of a plain Transformer."""

from typing import Any, Dict, Sequence

from torch import Tensor

from ..native.runtime.header import Header


class NativeParts:
    """Base class, besides fairseq's, of decoders that can be converted for the native engine. By
    default a decoder adds nothing to a plain Transformer.

    Attributes:
        family: name of the decoder's family.
    """

    family = "autoregressive"

    def native_fields(self, longest_target: int) -> Dict[str, Any]:
        """The family's own fields of the model's header.

        Args:
            longest_target: the decoder's capacity, as the header has it.
        """
        return {}

    def native_tensors(self, header: Header) -> Dict[str, Tensor]:
        """Tensors by their names in the model file: the family's own, and those that are not made
        from parameters as in a plain Transformer."""
        return {}

    def not_native(self) -> Sequence[str]:
        """Options of the model that the native engine does not support."""
        return ()
