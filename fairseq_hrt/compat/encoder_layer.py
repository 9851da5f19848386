"""Removes the duplicate parameters of encoder layers and the fast path that uses them.

fairseq 0.12.2 gives every `TransformerEncoderLayerBase` a second copy of its projection and
feed-forward parameters (modules/transformer_layer.py:70-87) for the fused "BetterTransformer" call
of PyTorch 1.12 (:319 and models/transformer/transformer_encoder.py:260). This causes two faults:

* The copies never get a gradient: the default distributed backend stops with "Expected to have
  finished reduction in the prior iteration", a model of 58.4M parameters reports 96.2M, and
  every checkpoint stores the copies.
* The fused call of PyTorch >= 2.0 needs a mask type that fairseq does not pass: evaluating a
  post-norm model loaded from a checkpoint stops with "Mask Type should be defined".

The fast path is switched off: since PyTorch 2 the ordinary path has fused attention, too, and the
fused layer would be between 10 % faster and 15 % slower on a CPU. The copies, then unused, become
empty non-persistent buffers, as TorchScript needs the attributes.

Checkpoints are written without the copies. Those of stock fairseq load here, with ``strict=True``,
and those written here load in stock fairseq, which makes the copies while loading. Only the
optimizer's state depends on the number of parameters: to resume a training that was started without
this repair, give ``--reset-optimizer``.
"""

import functools
import types
from typing import Any, Dict

from .importing import Repair

COPIES = tuple(
    f"{name}_{kind}"
    for name in ("in_proj", "out_proj", "fc1", "fc2")
    for kind in ("weight", "bias")
)


def _repair_layer_class(module: types.ModuleType) -> None:
    import torch

    layer_class = module.TransformerEncoderLayerBase
    stock_init = layer_class.__init__

    @functools.wraps(stock_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock_init(self, *args, **kwargs)
        for name in COPIES:
            if name in self._parameters:
                del self._parameters[name]
                self.register_buffer(name, torch.empty(0), persistent=False)
        self.can_use_fastpath = False

    def load_from_state_dict(
        self: Any, state_dict: Dict[str, Any], prefix: str, *args: Any
    ) -> None:
        for name in COPIES:
            state_dict.pop(prefix + name, None)
        super(layer_class, self)._load_from_state_dict(state_dict, prefix, *args)

    layer_class.__init__ = init
    layer_class._load_from_state_dict = load_from_state_dict


REPAIR = Repair(
    name="encoder-layer",
    modules=("fairseq.modules.transformer_layer",),
    reason="unused copies of encoder parameters, made for a call that PyTorch 2 changed",
    apply=_repair_layer_class,
)
