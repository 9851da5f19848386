"""fairseq_hrt: fast *and* right machine translation as a plugin for stock fairseq 0.12.2.

Importing the package repairs what a newer Python, NumPy or PyTorch broke in fairseq (:mod:`.compat`) and registers the
tasks, models and criterions of its rooms; ``--user-dir fairseq_hrt`` does just that.
"""

from . import compat

compat.install()

from . import autoregressive, hrt  # noqa: E402  (the repairs come before fairseq is imported)

__version__ = "0.1.0"
__all__ = ["autoregressive", "compat", "hrt"]
