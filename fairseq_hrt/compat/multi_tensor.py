"""Updates all parameters by a few calls of PyTorch instead of several for each parameter.

fairseq 0.12.2 goes through the parameters in Python to copy half-precision gradients and weights,
to scale and clip gradients, and in Adam, unless NVIDIA's apex is installed. A Transformer of 6 + 6
layers has 253 parameters, for which an update takes 528 calls with ``--fp16`` (of 1,765 kernels on
a GPU), 2,791 in float32 and 3,046 with ``--bf16``; here some 20. PyTorch's functions for lists of
tensors do the same arithmetic; on a CPU the results are equal bit by bit (tested).

fairseq's own code still runs for 16-bit weights without a float32 copy
(``--memory-efficient-fp16``), since Adam would need float32 copies of all gradients at once; also
for sparse gradients, AMSGrad, experts and models on several devices.
"""

import math
from typing import Any, Dict, Iterator, List, Optional, Sequence

from .importing import around

# The most square roots that Adam's update holds in memory at a time.
_AT_ONCE = 2**24


def _step(step: Any, self: Any, closure: Any = None) -> Any:
    import torch

    groups = [[p for p in group["params"] if p.grad is not None] for group in self.param_groups]
    tensors = [one for parameters in groups for p in parameters for one in (p, p.grad)]
    amsgrad = any(group.get("amsgrad") for group in self.param_groups)
    if closure is not None or amsgrad or not _alike(tensors, torch.float32):
        return step(self, closure)
    for group, parameters in zip(self.param_groups, groups):
        if parameters:
            _update(group, parameters, [self.state[p] for p in parameters])
    return None


def _update(group: Dict[str, Any], parameters: List[Any], states: List[Dict[str, Any]]) -> None:
    """One step of Adam by fairseq's formula: weight decay apart from the gradient, epsilon added
    before the bias is corrected."""
    import torch

    first, second = group["betas"]
    sizes: List[float] = []
    for p, state in zip(parameters, states):
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        for name in ("exp_avg", "exp_avg_sq"):
            # A checkpoint's may have another type or lie on another device.
            state[name] = state[name].to(p.data)
        state["step"] += 1
        corrections = 1 - first ** state["step"], 1 - second ** state["step"]
        # The number of steps may be a tensor.
        sizes.append(-float(group["lr"] * math.sqrt(corrections[1]) / corrections[0]))
    weights, gradients = [p.data for p in parameters], [p.grad.data for p in parameters]
    means, squares = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq"))
    torch._foreach_mul_(means, first)
    torch._foreach_add_(means, gradients, alpha=1 - first)
    torch._foreach_mul_(squares, second)
    torch._foreach_addcmul_(squares, gradients, gradients, value=1 - second)
    if group["weight_decay"] != 0:
        torch._foreach_add_(weights, weights, alpha=-group["weight_decay"] * group["lr"])
    for part in _parts([p.numel() for p in parameters], _AT_ONCE):
        roots = torch._foreach_sqrt(squares[part])
        torch._foreach_add_(roots, group["eps"])
        torch._foreach_addcdiv_(weights[part], means[part], roots, scalars=sizes[part])


def _parts(sizes: Sequence[int], most: int) -> Iterator[slice]:
    """Yields slices that divide a list of tensors, of ``sizes`` numbers each, into parts of at most
    ``most`` numbers or of a single tensor."""
    begin = total = 0
    for place, size in enumerate(sizes):
        if total + size > most and place > begin:
            yield slice(begin, place)
            begin, total = place, 0
        total += size
    yield slice(begin, len(sizes))


def _multiply(multiply: Any, self: Any, factor: Any) -> None:
    import torch

    gradients = [p.grad.data for p in self.params if p.grad is not None]
    tensor = torch.is_tensor(factor)
    # Of 16-bit gradients a CPU would round the factor first.
    alike = _alike(gradients, torch.float32)
    if not gradients or not alike or (tensor and factor.dim() > 0):
        return multiply(self, factor)
    torch._foreach_mul_(gradients, factor.to(gradients[0].device) if tensor else factor)


def _clip(clip: Any, params: Any, max_norm: Any, aggregate_norm_fn: Any = None) -> Any:
    import torch
    from fairseq import utils

    params = [params] if torch.is_tensor(params) else list(params)
    gradients = [p.grad.detach() for p in params if getattr(p, "grad", None) is not None]
    apart = utils.multi_tensor_l2norm_available or any(hasattr(p, "expert") for p in params)
    if apart or len(gradients) < 2 or not _alike(gradients):
        return clip(params, max_norm, aggregate_norm_fn)
    with torch.no_grad():
        norm = torch.norm(torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float32)))
        if aggregate_norm_fn is not None:
            norm = aggregate_norm_fn(norm)
        if max_norm > 0:
            torch._foreach_mul_(gradients, (float(max_norm) / (norm + 1e-6)).clamp_(max=1))
    return norm


def _gradients_to_float32(copy: Any, self: Any) -> None:
    import torch

    if not self._needs_sync:
        return
    if self.has_flat_params:
        for device, flat in self.fp32_params.items():
            own = [p for p in self.fp16_params if p.requires_grad and p.device.index == device]
            found = [torch.zeros_like(p) if p.grad is None else p.grad.data for p in own]
            torch._foreach_copy_(_views(flat.grad.data, own), found)
    else:
        pairs = [pair for pair in zip(self.fp32_params, self.fp16_params) if pair[1].requires_grad]
        if any(one.grad is None for pair in pairs for one in pair):
            return copy(self)
        wide, narrow = ([p.grad.data for p in side] for side in zip(*pairs))
        torch._foreach_copy_(wide, narrow)
    self._needs_sync = False


def _float32_to_parameters(copy: Any, self: Any) -> None:
    import torch

    if self.has_flat_params:
        for device, flat in self.fp32_params.items():
            own = [p.data for p in self.fp16_params if p.device.index == device]
            torch._foreach_copy_(own, _views(flat.data, own))
    else:
        pairs = [pair for pair in zip(self.fp16_params, self.fp32_params) if pair[0].requires_grad]
        narrow, wide = ([p.data for p in side] for side in zip(*pairs))
        torch._foreach_copy_(narrow, wide)


def _views(flat: Any, shapes: List[Any]) -> Any:
    """Views of the one-dimensional tensor ``flat``, one behind the other, in the shapes of the
    tensors ``shapes``."""
    from torch._utils import _unflatten_dense_tensors

    return _unflatten_dense_tensors(flat, shapes)


def _alike(tensors: List[Any], kind: Optional[Any] = None) -> bool:
    """Whether all tensors are dense, on one device, and of one type, which is ``kind`` unless this
    is None."""
    import torch

    found = {(one.device, one.dtype, one.layout) for one in tensors}
    return len(found) < 2 and all(
        layout == torch.strided and kind in (None, dtype) for _, dtype, layout in found
    )


REPAIR = around(
    "multi-tensor",
    "fairseq calls PyTorch several times for each parameter in an update",
    {
        "fairseq.optim.adam:Adam.step": _step,
        "fairseq.optim.fairseq_optimizer:FairseqOptimizer.multiply_grads": _multiply,
        "fairseq.optim.fp16_optimizer:_FP16OptimizerMixin._sync_fp16_grads_to_fp32": (
            _gradients_to_float32
        ),
        "fairseq.optim.fp16_optimizer:_FP16OptimizerMixin._sync_fp32_params_to_fp16": (
            _float32_to_parameters
        ),
        "fairseq.utils:clip_grad_norm_": _clip,
    },
)
