"""The default distributed backend on processors without an accelerator.

fairseq 0.12.2 tells `DistributedDataParallel` the number of a GPU whatever the model lies on
(models/distributed_fairseq_model.py:60); PyTorch >= 1.7 refuses that for a model on the CPU
("device_ids and output_device arguments only work with single-device/multiple-device GPU
modules or CPU modules"). Only ``--ddp-backend legacy_ddp`` worked there. The device arguments
are left out for such models; models on a GPU are wrapped as before.
"""

import functools
from typing import Any, Optional

from .importing import Repair


def _reason() -> Optional[str]:
    return "PyTorch refuses device numbers for a distributed model on the CPU"


def _repair_wrapping(module: Any) -> None:
    wrap = module.DistributedDataParallel

    @functools.wraps(wrap, updated=())
    def on_its_device(*args: Any, **kwargs: Any) -> Any:
        model: Any = kwargs.get("module", args[0] if args else None)
        if all(parameter.device.type == "cpu" for parameter in model.parameters()):
            kwargs.pop("device_ids", None)
            kwargs.pop("output_device", None)
        return wrap(*args, **kwargs)

    module.DistributedDataParallel = on_its_device


REPAIR = Repair(
    name="cpu-distributed",
    modules=("fairseq.models.distributed_fairseq_model",),
    reason=_reason,
    apply=_repair_wrapping,
)
