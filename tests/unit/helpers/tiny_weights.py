"""What all builders of tiny models share: their sizes, weights that make them decide, and that the
same model is built once."""

from collections import OrderedDict
from typing import Any, Callable, Dict, Optional, Tuple

import torch
from torch import Tensor, nn, no_grad, randn_like

TINY = dict(
    encoder_embed_dim=16, decoder_embed_dim=16, encoder_ffn_embed_dim=24, decoder_ffn_embed_dim=24,
    encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=4,
    max_source_positions=64, max_target_positions=32, dropout=0.0,
)  # fmt: skip


@no_grad()
def sharpen(model: nn.Module, factor: float = 2.5) -> None:
    """Makes the distributions of a fresh model peaked and different from each other, in place."""
    for name, parameter in model.named_parameters():
        if name.endswith("relative_keys"):
            parameter.normal_()
        elif parameter.dim() > 1:
            parameter.mul_(factor)
        else:
            parameter.add_(randn_like(parameter).mul_(0.1))


_SIMPLE = (str, int, float, bool, type(None))


def seed_host(seed: int) -> None:
    """``torch.manual_seed`` where no other device is in use, at a hundredth of its time: for those
    it notes where it was called from."""
    if torch.cuda.is_initialized():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def _cloned(tensor: Tensor) -> Tensor:
    found = tensor.detach().clone()
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(found, requires_grad=tensor.requires_grad)
    return found


def duplicate(module: nn.Module, renew: Callable[[Tensor], Tensor] = _cloned) -> nn.Module:
    """A copy of a module: modules and tensors as ``copy.deepcopy`` copies them, in a tenth of its
    time; other attributes, such as configurations and dictionaries, are the same objects.

    Args:
        renew: makes a tensor's copy; shared tensors are copied once.
    """
    known: Dict[int, Tuple[Any, Any]] = {}

    def renewed(value: Any) -> Any:
        if type(value) in _SIMPLE:
            return value
        if isinstance(value, dict):
            if type(value) in (dict, OrderedDict):
                return type(value)([(key, renewed(own)) for key, own in value.items()])
        elif type(value) in (list, tuple, set):
            return type(value)(map(renewed, value))
        elif isinstance(value, (nn.Module, Tensor)):
            if id(value) not in known:
                copied = duplicated(value) if isinstance(value, nn.Module) else renew(value)
                # The old one is kept so that its id stays its own.
                known[id(value)] = (value, copied)
            return known[id(value)][1]
        return value

    def duplicated(old: nn.Module) -> nn.Module:
        new = old.__class__.__new__(old.__class__)
        known[id(old)] = (old, new)
        # An empty table of hooks is most of what a module holds.
        new.__dict__.update(
            (name, type(value)() if isinstance(value, dict) and not value else renewed(value))
            for name, value in old.__dict__.items()
        )
        return new

    return renewed(module)


def _key(values: Any) -> Optional[str]:
    """Arguments as a text; None where one of them has no text of its own."""
    for value in values:
        parts = value if isinstance(value, (list, tuple)) else (value,)
        if not all(isinstance(part, _SIMPLE) for part in parts):
            return None
    return repr(values)


def built_once(build: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A builder that seeds itself and whose models are built once for each list of arguments: every
    call returns a copy, and leaves the random numbers as building it would."""
    kept: Dict[str, Tuple[nn.Module, Tensor]] = {}

    def found(*args: Any, **options: Any) -> nn.Module:
        key = _key([*args, *(part for option in sorted(options.items()) for part in option)])
        if key is None:
            return build(*args, **options)
        if key not in kept:
            if len(kept) == 200:
                # The oldest one.
                del kept[next(iter(kept))]
            kept[key] = (build(*args, **options), torch.get_rng_state())
        model, state = kept[key]
        torch.set_rng_state(state)
        return duplicate(model)

    return found
