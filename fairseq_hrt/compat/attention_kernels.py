"""Switches off cuDNN's attention kernels, which are slow for batches of ever new shapes.

PyTorch prefers them in half precision on Hopper GPUs, but cuDNN plans each new shape of its input,
and batches of sentences hardly ever have the same shape twice. On an H200 (PyTorch 2.11) a call
took 9 ms, and a Transformer of 3 + 3 layers made 5 instead of 25 updates per second. PyTorch's
switch for the whole process selects its own kernels instead.
"""

from typing import Any, Optional

from .importing import Repair


def _reason() -> Optional[str]:
    import torch

    if torch.version.cuda and torch.backends.cuda.cudnn_sdp_enabled():
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
