"""Attention on GPUs in half precision, without cuDNN's kernels.

PyTorch prefers them on Hopper, but cuDNN plans each new shape of its input anew. Batches of
sentences hardly ever have the same shape twice: a call took 9 ms on an H200 (PyTorch 2.11), and an
update of a Transformer with 3 + 3 layers, 18 of whose calls these are, 0.2 s. PyTorch's own kernels
are chosen instead.
"""

from typing import Any, Optional

from .importing import Repair


def _reason() -> Optional[str]:
    import torch

    if torch.backends.cuda.cudnn_sdp_enabled():
        return "cuDNN plans its attention anew for each shape of a batch"
    return None


def _choose_others(module: Any) -> None:
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)


REPAIR = Repair(
    name="attention-kernels",
    modules=("fairseq.modules.multihead_attention",),
    reason=_reason,
    apply=_choose_others,
)
