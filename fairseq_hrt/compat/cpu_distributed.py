"""Several processes on processors without an accelerator, without further options.

fairseq 0.12.2 tells `DistributedDataParallel` the number of a GPU whatever the model lies on
(models/distributed_fairseq_model.py:60); PyTorch >= 1.7 refuses that for a model on the CPU
("device_ids and output_device arguments only work with single-device/multiple-device GPU
modules or CPU modules"). Only ``--ddp-backend legacy_ddp`` worked there. The device arguments
are left out for such models; models on a GPU are wrapped as before.

Its default for ``--distributed-backend`` is nccl, which connects GPUs only: on a CPU it means gloo.
"""

import functools
from typing import Any

from .importing import Repair


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


def _repair_connecting(module: Any) -> None:
    connect = module.distributed_init

    @functools.wraps(connect)
    def by_its_backend(cfg: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        common, distributed = getattr(cfg, "common", cfg), getattr(cfg, "distributed_training", cfg)
        if distributed.distributed_backend == "nccl" and (
            common.cpu or not torch.cuda.is_available()
        ):
            distributed.distributed_backend = "gloo"
        return connect(cfg, *args, **kwargs)

    module.distributed_init = by_its_backend


_REPAIRED = {
    "fairseq.distributed.utils": _repair_connecting,
    "fairseq.models.distributed_fairseq_model": _repair_wrapping,
}

REPAIR = Repair(
    name="cpu-distributed",
    modules=tuple(_REPAIRED),
    reason="fairseq connects processes as if each had a GPU",
    apply=lambda module: _REPAIRED[module.__name__](module),
)
