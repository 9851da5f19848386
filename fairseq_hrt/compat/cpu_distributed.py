"""Lets several processes train on CPUs without further options.

fairseq 0.12.2 passes the number of a GPU to `DistributedDataParallel` even for a model on the CPU
(models/distributed_fairseq_model.py:60), which PyTorch >= 1.7 refuses ("device_ids and
output_device arguments only work with single-device/multiple-device GPU modules or CPU modules");
only ``--ddp-backend legacy_ddp`` worked. The device arguments are now left out for such models.

The default of ``--distributed-backend``, nccl, connects only GPUs; on a CPU gloo is used instead.
"""

from typing import Any

from .importing import around


def _on_its_device(wrap: Any, *args: Any, **kwargs: Any) -> Any:
    model: Any = kwargs.get("module", args[0] if args else None)
    if all(parameter.device.type == "cpu" for parameter in model.parameters()):
        kwargs.pop("device_ids", None)
        kwargs.pop("output_device", None)
    return wrap(*args, **kwargs)


def _by_its_backend(connect: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    import torch

    common, distributed = getattr(cfg, "common", cfg), getattr(cfg, "distributed_training", cfg)
    if distributed.distributed_backend == "nccl" and (common.cpu or not torch.cuda.is_available()):
        distributed.distributed_backend = "gloo"
    return connect(cfg, *args, **kwargs)


REPAIR = around(
    "cpu-distributed",
    "fairseq connects processes as if each had a GPU",
    {
        "fairseq.distributed.utils:distributed_init": _by_its_backend,
        "fairseq.models.distributed_fairseq_model:DistributedDataParallel": _on_its_device,
    },
)
