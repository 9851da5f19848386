"""Supports ``fairseq-train --bf16`` on a CPU; refuses ``--fp16`` and warns of ``--amp`` there.

fairseq 0.12.2 assumes a TPU with ``--bf16`` (options.py:200) and stops if there is none; set by
Hydra, it calls CUDA in the first update. With this repair the flag means a TPU only if torch_xla is
installed or ``--tpu`` given. On a CPU it computes matrix products in bfloat16, with parameters and
optimizer in float32 (:mod:`.bfloat16_products`); on a GPU nothing changes. Checkpoints from a CPU
are those of a float32 training: they load everywhere, and training can be resumed with or without
the flag.

``--fp16`` needs CUDA; ``--amp`` has no effect on a CPU. The memory-efficient variants of the
options work as they are.
"""

import importlib.util
import logging
import sys
from typing import Any

from .display import refuse
from .importing import around

logger = logging.getLogger(__name__)


def _on_cpu(common: Any) -> bool:
    """Whether training with the options ``common`` (fairseq's group of this name) runs on a CPU, by
    the rule in fairseq's trainer.py:60."""
    import torch

    return not common.tpu and (common.cpu or not torch.cuda.is_available())


def _parsed(parse: Any, parser: Any, input_args: Any = None, *args: Any, **kwargs: Any) -> Any:
    result = parse(parser, input_args, *args, **kwargs)
    # With parse_known the result is a tuple with the unknown arguments.
    options = result[0] if isinstance(result, tuple) else result
    asked_for_tpu = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
    # With suppress_defaults it has only options that were given.
    if getattr(options, "bf16", False) and not asked_for_tpu:
        on_cpu = getattr(options, "cpu", False)
        options.tpu = not on_cpu and importlib.util.find_spec("torch_xla") is not None
    return result


def _checked(main: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    common = getattr(cfg, "common", cfg)
    if common.fp16 and not common.memory_efficient_fp16 and _on_cpu(common):
        refuse("--fp16 needs a GPU; on a CPU give --bf16, or neither to train in float32")
    return main(cfg, *args, **kwargs)


def _on_its_device(init: Any, self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    common = getattr(cfg, "common", cfg)
    on_cpu = _on_cpu(common)
    self.bfloat16_products = on_cpu and common.bf16 and not common.memory_efficient_bf16
    if self.bfloat16_products:
        # Parameters are trained and saved in float32.
        common.bf16 = False
        logger.info("matrix products in bfloat16; parameters and optimizer in float32")
    if on_cpu and common.amp:
        logger.warning("--amp has no effect on a CPU, which trains in float32; give --bf16")
    init(self, cfg, *args, **kwargs)


def _in_its_precision(step: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    if not self.bfloat16_products:
        return step(self, *args, **kwargs)
    from .bfloat16_products import bfloat16_products

    with bfloat16_products():
        return step(self, *args, **kwargs)


REPAIR = around(
    "cpu-precision",
    "fairseq-train --bf16 asks for a TPU",
    {
        "fairseq.options:parse_args_and_arch": _parsed,
        "fairseq.trainer:Trainer.__init__": _on_its_device,
        "fairseq.trainer:Trainer.train_step": _in_its_precision,
        "fairseq.trainer:Trainer.valid_step": _in_its_precision,
        "fairseq_cli.train:main": _checked,
    },
)
