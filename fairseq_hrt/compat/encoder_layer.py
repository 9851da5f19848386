"""Encoder layers without their second set of parameters, and the fast path that reads it.

fairseq 0.12.2 gives every `TransformerEncoderLayerBase` a second copy of its projection and
feed-forward parameters (modules/transformer_layer.py:70-87) for the fused "BetterTransformer"
call of PyTorch 1.12 (:319 and models/transformer/transformer_encoder.py:260). Two things break:

* The copies never get a gradient: the default distributed backend stops with "Expected to have
  finished reduction in the prior iteration", a model of 58.4M parameters reports 96.2M, and
  every checkpoint carries the surplus.
* PyTorch >= 2.0 asks the fused call for a mask type that fairseq does not give: evaluating a
  post-norm model that was loaded from a checkpoint stops with "Mask Type should be defined".

The fast path is switched off: since PyTorch 2 the ordinary path runs fused attention too
(`scaled_dot_product_attention`), and the fused layer, given a mask type, is between 10 % faster
and 15 % slower (nested tensors) on a CPU. The copies have no reader left then and become empty
non-persistent buffers, which keeps the attributes that TorchScript looks for.

File format: checkpoints are written without the copies. Those of stock fairseq load here, with
``strict=True``, the copies being dropped; those written here load in stock fairseq, whose
`_load_from_state_dict` makes the copies itself. Only the optimizer's state counts parameters:
to continue a training that was started without this repair, give ``--reset-optimizer``.
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
