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
        """The family's own fields of the model's header, {name: value}.

        Args:
            longest_target: the most target tokens, a field that all headers have.
        """
        return {}

    def native_tensors(self, header: Header) -> Dict[str, Tensor]:
        """Tensors by their names in the model file that ``header`` describes: those that only the
        family has, and those that replace a plain Transformer's of the same name."""
        return {}

    def not_native(self) -> Sequence[str]:
        """The model's options that the native engine does not support, as words for a message;
        empty if it supports all."""
        return ()
