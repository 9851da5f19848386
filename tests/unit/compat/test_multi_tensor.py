"""The repair `multi-tensor`: the same updates as fairseq's own functions, bit by bit, by fewer calls
of PyTorch."""

import copy
import inspect
from types import SimpleNamespace

import pytest
import torch
from fairseq import utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim import FP16Optimizer
from fairseq.optim.adam import Adam, FairseqAdam, FairseqAdamConfig
from fairseq.optim.fairseq_optimizer import FairseqOptimizer
from fairseq.optim.fp16_optimizer import MemoryEfficientFP16Optimizer, _FP16OptimizerMixin
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_hrt.compat import multi_tensor

REPLACED = (
    (Adam, "step"),
    (FairseqOptimizer, "multiply_grads"),
    (_FP16OptimizerMixin, "_sync_fp16_grads_to_fp32"),
    (_FP16OptimizerMixin, "_sync_fp32_params_to_fp16"),
    (utils, "clip_grad_norm_"),
)
# Enough numbers for vectorised loops.
SHAPES = st.lists(st.lists(st.integers(0, 9), max_size=3).map(tuple), min_size=1, max_size=4)


class Calls(TorchDispatchMode):
    """Counts the operations of PyTorch, views left out."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += not function.is_view
        return function(*args, **(kwargs or {}))


def as_fairseq(monkeypatch):
    """Puts fairseq's own functions back."""
    for holder, name in REPLACED:
        # PyTorch wraps an optimizer's step once more.
        monkeypatch.setattr(holder, name, inspect.unwrap(getattr(holder, name)))


def parameters_of(shapes, kind, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.nn.Parameter(torch.randn(shape, generator=generator).to(kind)) for shape in shapes
    ]


def give_gradients(parameters, seed, missing=()):
    generator = torch.Generator().manual_seed(seed)
    for number, p in enumerate(parameters):
        found = torch.randn(p.shape, generator=generator).to(p.dtype)
        p.grad = None if number in missing else found


def configuration(**common):
    config = OmegaConf.structured(FairseqConfig)
    config.common.update({"fp16_scale_window": 2, "fp16_init_scale": 4, **common})
    config.optimizer = FairseqAdamConfig(lr=[0.1], weight_decay=0.01)
    config.optimizer._name = "adam"
    return config


def optimizer_of(kind, parameters):
    """fairseq's optimizer of a training with --fp16, --bf16, --memory-efficient-fp16 or none."""
    if kind == "memory-efficient":
        return MemoryEfficientFP16Optimizer.build_optimizer(
            configuration(fp16=True, memory_efficient_fp16=True), parameters
        )
    if kind == "float32":
        return FairseqAdam(configuration().optimizer, parameters)
    return FP16Optimizer.build_optimizer(configuration(**{kind: True}), parameters)


WEIGHTS = {
    "float32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "memory-efficient": torch.float16,
}


def trained(kind, shapes, *, missing=(), max_norm=0.5, updates=3):
    """Weights, norms of the gradients and the optimizer's state after some updates."""
    parameters = parameters_of(shapes, WEIGHTS[kind])
    optimizer = optimizer_of(kind, parameters)
    norms = []
    for number in range(updates):
        optimizer.zero_grad()
        give_gradients(parameters, number, missing)
        optimizer._needs_sync = True
        optimizer.multiply_grads(torch.tensor(0.5) if number == 1 else 0.5)
        norms.append(optimizer.clip_grad_norm(max_norm))
        optimizer.step()
    return [p.detach() for p in parameters], norms, optimizer.state_dict()["state"]


@pytest.fixture(autouse=True)
def weights_on_the_cpu(monkeypatch):
    # fairseq keeps the float32 copies of --fp16 by the index of the device, None on a CPU.
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)


def same(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize("kind", WEIGHTS)
@settings(max_examples=25)
@given(shapes=SHAPES, max_norm=st.sampled_from([0.0, 0.5, 100.0]), data=st.data())
def test_updates_equal_those_of_fairseq(kind, shapes, max_norm, data):
    # Adam of fairseq needs a gradient in each float32 copy.
    missing = data.draw(st.sets(st.integers(0, len(shapes) - 1), max_size=len(shapes) - 1))
    ours = trained(kind, shapes, missing=missing, max_norm=max_norm)
    with pytest.MonkeyPatch.context() as patch:
        as_fairseq(patch)
        theirs = trained(kind, shapes, missing=missing, max_norm=max_norm)
    assert same(ours, theirs)


@pytest.mark.parametrize("kind", ["float32", "fp16", "bf16"])
def test_an_update_takes_as_many_calls_for_many_parameters_as_for_few(kind):
    def calls(count):
        parameters = parameters_of([(2, 3)] * count, WEIGHTS[kind])
        optimizer = optimizer_of(kind, parameters)
        give_gradients(parameters, 0)
        optimizer._needs_sync = True
        with Calls() as counted:
            optimizer.multiply_grads(0.5)
            optimizer.clip_grad_norm(0.5)
            optimizer.step()
        return counted.count

    # Adam makes its two averages at the first update.
    made = 0 if kind == "fp16" else 2
    assert calls(50) - calls(10) == 40 * made


def test_states_of_a_checkpoint_are_continued(monkeypatch):
    def resumed():
        parameters = parameters_of([(2, 3), (4,)], torch.float32)
        first = Adam(parameters, lr=0.1)
        give_gradients(parameters, 0)
        first.step()
        state = copy.deepcopy(first.state_dict())
        for own in state["state"].values():
            own["exp_avg"] = own["exp_avg"].double()
        second = Adam(parameters, lr=0.1)
        second.load_state_dict(state)
        # PyTorch casts what it loads; --memory-efficient-fp16 does not.
        for p, own in zip(parameters, state["state"].values()):
            second.state[p] = own
        # One parameter has no gradient from now on.
        give_gradients(parameters, 1, missing={1})
        second.step()
        return [p.detach() for p in parameters], second.state_dict()["state"]

    ours = resumed()
    as_fairseq(monkeypatch)
    assert same(ours, resumed())


def test_the_number_of_steps_may_be_a_tensor(monkeypatch):
    def stepped():
        parameters = parameters_of([(2, 3)], torch.float32)
        optimizer = Adam(parameters, lr=0.1)
        for seed in range(2):
            give_gradients(parameters, seed)
            optimizer.step()
            optimizer.state[parameters[0]]["step"] = torch.tensor(float(seed + 1))
        return [p.detach() for p in parameters]

    ours = stepped()
    as_fairseq(monkeypatch)
    torch.testing.assert_close(ours, stepped())


@given(st.lists(st.integers(0, 20), max_size=10), st.integers(1, 30))
def test_parts_hold_all_tensors_in_order(sizes, most):
    parts = [sizes[part] for part in multi_tensor._parts(sizes, most)]
    assert sum(parts, []) == sizes
    for part, following in zip(parts, parts[1:]):
        assert len(part) == 1 or sum(part) <= most
        assert sum(part) + following[0] > most


def test_square_roots_of_a_part_are_held(monkeypatch):
    monkeypatch.setattr(multi_tensor, "_AT_ONCE", 8)
    ours = trained("float32", [(2, 3), (1,), (4, 4), (2,), (1, 1)])
    as_fairseq(monkeypatch)
    assert same(ours, trained("float32", [(2, 3), (1,), (4, 4), (2,), (1, 1)]))


class TestLeftToFairseq:
    """Updates that PyTorch's functions for lists do not make, or not as fairseq does."""

    def test_amsgrad(self, monkeypatch):
        def stepped():
            parameters = parameters_of([(2,)], torch.float32)
            optimizer = Adam(parameters, lr=0.1, amsgrad=True)
            for seed in range(3):
                give_gradients(parameters, seed)
                optimizer.step()
            return [p.detach() for p in parameters], optimizer.state_dict()["state"]

        ours = stepped()
        as_fairseq(monkeypatch)
        assert same(ours, stepped())

    def test_closures_are_called_before_gradients_are_read(self):
        (p,) = parameters_of([(2,)], torch.float32)
        before = p.detach().clone()

        def closure():
            p.grad = torch.ones(2)
            return 3

        assert Adam([p], lr=0.1).step(closure) == 3 and not torch.equal(p, before)

    def test_sparse_gradients(self):
        (p,) = parameters_of([(2,)], torch.float32)
        p.grad = torch.ones(2).to_sparse()
        with pytest.raises(RuntimeError, match="does not support sparse"):
            Adam([p]).step()

    def test_experts_do_not_count_for_the_norm(self):
        parameters = parameters_of([(2,), (3,), (2,)], torch.float32)
        parameters[2].expert = True
        give_gradients(parameters, 0)
        others = torch.cat([p.grad for p in parameters[:2]]).norm()
        assert torch.allclose(utils.clip_grad_norm_(parameters, 0.1), others)

    def test_mixed_types(self, monkeypatch):
        def scaled():
            parameters = [
                *parameters_of([(2,)], torch.float32), *parameters_of([(2,)], torch.float16, 1)
            ]  # fmt: skip
            give_gradients(parameters, 0)
            norm = utils.clip_grad_norm_(parameters, 0.1)
            FairseqOptimizer.multiply_grads(SimpleNamespace(params=parameters), 2.0)
            return norm, [p.grad for p in parameters]

        ours = scaled()
        as_fairseq(monkeypatch)
        assert same(ours, scaled())


def test_an_aggregate_of_the_norm_clips():
    parameters = parameters_of([(2,), (3,)], torch.float32)
    give_gradients(parameters, 0)
    before = [p.grad.clone() for p in parameters]
    norm = utils.clip_grad_norm_(iter(parameters), 1.0, lambda own: own * 10)
    torch.testing.assert_close(norm, 10 * torch.cat(before).norm())
    for p, gradient in zip(parameters, before):
        torch.testing.assert_close(p.grad, gradient / (norm + 1e-6))


def test_no_gradients():
    parameters = parameters_of([(2,), (3,)], torch.float32)
    Adam(parameters).step()
    assert utils.clip_grad_norm_(parameters, 1.0) == 0 == utils.clip_grad_norm_([], 1.0)
