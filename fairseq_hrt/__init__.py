"""fairseq_hrt: fast *and* right machine translation as a plugin for stock fairseq 0.12.2.

Importing the package repairs what a newer Python, NumPy or PyTorch broke in fairseq (:mod:`.compat`) and registers the
tasks, models and criterions of its rooms; ``--user-dir fairseq_hrt`` does just that.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from . import compat

if TYPE_CHECKING:
    from .hub.translator import Translator

compat.install()

# The repairs come before fairseq is imported; `python -m fairseq_hrt` reports what still fails instead of dying of it.
with compat.left_to_the_doctor():
    from . import autoregressive, bidirectional, dag, hrt, jacobi

__version__ = "0.1.0"
__all__ = ["autoregressive", "bidirectional", "compat", "dag", "from_pretrained", "hrt", "jacobi"]


def from_pretrained(path: Union[str, Path], *, device: Optional[str] = None, **decoding: Any) -> "Translator":
    """A trained model that translates raw text; see :func:`.hub.translator.from_pretrained`."""
    # Not at import: training needs none of it.
    from .hub import translator

    return translator.from_pretrained(path, device=device, **decoding)
