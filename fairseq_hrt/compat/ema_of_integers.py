"""Supports ``--store-ema`` for models with integer buffers.

fairseq 0.12.2 multiplies every tensor of a model by the decay (models/ema/ema.py:173), which
PyTorch refuses for integers ("result type Float can't be cast to the desired output type Long"),
such as the chunk sizes in an HRT model. Integer tensors are now copied from the model, as fairseq
copies those in ``skip_keys``.
"""

from typing import Any

from .importing import around


def _skip_integers(
    create: Any, self: Any, model: Any, config: Any, device: Any = None, skip_keys: Any = None
) -> None:
    # A state may contain dictionaries, which fairseq skips.
    tensors = {
        name: value for name, value in model.state_dict().items() if not isinstance(value, dict)
    }
    integers = {name for name, value in tensors.items() if not value.is_floating_point()}
    create(self, model, config, device, integers | set(skip_keys or ()))


REPAIR = around(
    "ema-of-integers",
    "PyTorch does not multiply integers by a decay",
    {"fairseq.models.ema.ema:EMA.__init__": _skip_integers},
)
