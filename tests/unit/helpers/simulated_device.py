"""A device that is not the host, without one: finds tensors on the wrong device and counts the
host's reads.

    with SimulatedDevice() as device:
        model = device.move(model)          # a copy; parameters and buffers, as .cuda() does it
        found = generator([model]).generate([model], device.send(sample))
    assert device.reads <= ...

Inside the block tensors on the device are computed by the CPU, with their true values, but behave
as a GPU's do: an operation that mixes them with tensors of the host raises :class:`WrongDevice`,
with the exceptions that CUDA makes (numbers, index tensors, copies). ``device.reads`` counts what
makes the host wait for the device: ``item``, ``tolist``, ``nonzero``, boolean indexing, copies to
the host.

PyTorch calls the device ``meta``, which every build has. Operations without values on ``meta`` are
computed here, so that loops that depend on the data run as they would.
"""

from collections import Counter
from contextlib import ExitStack, nullcontext
from functools import cache
from typing import Any, ClassVar, Dict, Iterator, List, Optional, Sequence, Tuple
from unittest import mock

import torch
from tiny_weights import duplicate
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map_only

DEVICE = torch.device("meta")
_CPU = torch.device("cpu")
_NOTHING = nullcontext()
_aten = torch.ops.aten
_COPIES = (_aten.copy_.default, _aten._to_copy.default, _aten.copy.default)
# Index tensors of the host are sent to the device.
_INDEXING = (_aten.index.Tensor, _aten.index_put_.default, _aten.index_put.default,
             _aten._index_put_impl_.default,
             _aten._unsafe_index.Tensor)  # fmt: skip
_WAITING = (
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "equal",
    "bincount",
)


class WrongDevice(RuntimeError):
    """An operation on tensors of the host and the device."""


class NotRecordable(RuntimeError):
    """An operation that a CUDA graph cannot hold."""


class OnDevice(torch.Tensor):
    """A tensor of the device; its values lie in ``held``."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "OnDevice":
        # Views of ordinary tensors are ordinary ones, also in inference mode.
        with torch.inference_mode(False) if torch.is_inference_mode_enabled() else _NOTHING:
            return torch.Tensor._make_wrapper_subclass(
                cls,
                held.shape,
                strides=held.stride(),
                storage_offset=held.storage_offset(),
                dtype=held.dtype,
                device=DEVICE,
            )

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    def tolist(self) -> Any:
        _current().count("tolist")
        return self.held.tolist()

    def numpy(self, *args: Any, **options: Any) -> Any:
        raise WrongDevice("numpy() of a tensor on the device")

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def untyped_storage(self) -> Any:
        return self.held.untyped_storage()

    def __deepcopy__(self, memo: Dict[int, Any]) -> "OnDevice":
        return OnDevice(self.held.clone())

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        return _current().run(func, args, kwargs or {})


class _Constructors(TorchFunctionMode):
    """``torch.tensor(…, device=device)``, which PyTorch answers without values on ``meta``."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor):
            device = kwargs.get("device")
            if device is not None and torch.device(device) == DEVICE:
                if isinstance(args[0], OnDevice):
                    return args[0].to(kwargs.get("dtype") or args[0].dtype)
                return OnDevice(func(*args, **{**kwargs, "device": _CPU}))
        elif func is torch.Tensor.new_tensor and isinstance(args[0], OnDevice):
            kwargs.setdefault("dtype", args[0].dtype)
            if torch.device(kwargs.pop("device", DEVICE)) == DEVICE:
                return OnDevice(torch.tensor(*args[1:], **kwargs))
        return func(*args, **kwargs)


class SimulatedDevice(TorchDispatchMode):
    """See this module's text.

    Attributes:
        waits: how often the host waited, by what it did.
        recordings: of each run of a function that :class:`fairseq_hrt.engine.graphs.GraphStore`
            records, its operations: name, shapes and addresses of the arguments.
    """

    _open: ClassVar[List["SimulatedDevice"]] = []

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter = Counter()
        self.recordings: List[List[Tuple[Any, ...]]] = []
        self._recording = False
        self._outside = ExitStack()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled here; to make sure of that, PyTorch would import its compiler for
        # seconds.
        return False

    @property
    def reads(self) -> int:
        """How often the host waited for the device."""
        return sum(self.waits.values())

    def count(self, what: str) -> None:
        """Books a read of the host."""
        if self._recording:
            raise NotRecordable(f"the host reads from the device: {what}")
        self.waits[what] += 1

    def __enter__(self) -> "SimulatedDevice":
        self._open.append(self)
        self._outside.enter_context(_Constructors())
        # Parameters that share one piece of memory have no counterpart here; what is computed with
        # them is the same.
        for module in ("transformer", "layers"):
            self._outside.enter_context(
                mock.patch(f"fairseq_hrt.engine.{module}.fuse_rows", _stack)
            )
        self._outside.enter_context(
            mock.patch(
                "fairseq_hrt.engine.graphs.GraphStore.record",
                lambda store, function: self._record(function),
            )
        )
        self._outside.enter_context(
            mock.patch(
                "fairseq_hrt.engine.graphs.GraphStore.run",
                lambda store, key, function, *inputs: self._record(lambda: function(*inputs))(),
            )
        )
        # Nobody casts automatically on a device of this name.
        self._outside.enter_context(mock.patch("torch.is_autocast_enabled", _is_autocast_enabled))
        self._outside.enter_context(mock.patch("torch.autocast", _autocast))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._outside.close()
        self._open.pop()

    def _record(self, function: Any) -> Any:
        """Replaces :meth:`GraphStore.record`: the function runs each time, watched."""

        def run() -> Any:
            self._recording = True
            self.recordings.append([])
            try:
                return function()
            finally:
                self._recording = False

        # As a recording does, so that buffers must be set afterwards.
        run()
        return run

    def send(self, values: Any) -> Any:
        """A nest of tensors, e.g. a batch, on the device."""
        return tree_map_only(
            torch.Tensor, lambda x: x if isinstance(x, OnDevice) else OnDevice(x), values
        )

    def move(self, model: nn.Module) -> nn.Module:
        """A copy of a model on the device. Tensors that are neither parameters nor buffers stay
        behind, as with ``.cuda()``."""
        mine = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}

        def renew(value: torch.Tensor) -> torch.Tensor:
            copied = value.detach().clone()
            if id(value) not in mine:
                return copied
            new = OnDevice(copied)
            if isinstance(value, nn.Parameter):
                # As nn.Parameter makes it, without an operation on the device.
                new.requires_grad_(value.requires_grad)
                new._is_param = True
            return new

        with _disable_current_modes(), torch._C.DisableTorchFunction():
            return duplicate(model, renew)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        """One operation of PyTorch."""
        name, composite = _described(func)
        if composite:
            # In inference mode operations arrive here before they are taken apart.
            super().__enter__()
            try:
                return func.decompose(*args, **kwargs)
            finally:
                super().__exit__(None, None, None)
        tensors = list(_tensors((args, *kwargs.values())))
        mine = [tensor for tensor in tensors if isinstance(tensor, OnDevice)]
        host = [tensor for tensor in tensors if not isinstance(tensor, OnDevice)]
        on_device = self._check(func, name, args, mine, host)
        if kwargs.get("device") is not None:
            on_device = torch.device(kwargs["device"]) == DEVICE
            kwargs = {**kwargs, "device": _CPU}
        if mine and not on_device:
            self.count(name)
        elif mine:
            self._count_waiting(func, name, args)
        if self._recording:
            self._require_recordable(func, name, host)
            shapes = [(tuple(tensor.shape), tensor.stride()) for tensor in mine]
            self.recordings[-1].append((name, *shapes))
        held = {id(tensor.held): tensor for tensor in mine}
        open_args, open_kwargs = (
            _opened(args),
            {key: _opened(value) for key, value in kwargs.items()},
        )
        result = func(*open_args, **open_kwargs)
        if not on_device:
            return result

        def wrap(value: torch.Tensor) -> torch.Tensor:
            known = held.get(id(value))
            if known is not None:
                assert known.shape == value.shape, (
                    f"{func} changes a shape in place, which the simulation does not follow"
                )
                return known
            return OnDevice(value)

        if isinstance(result, torch.Tensor):
            return wrap(result)
        return tree_map_only(torch.Tensor, wrap, result)

    @staticmethod
    def _require_recordable(func: Any, name: str, host: List[torch.Tensor]) -> None:
        # Also a single number: it is copied from memory that may be freed before a replay.
        if host:
            raise NotRecordable(f"{name}: a tensor of the host is sent to the device")

    def _check(
        self, func: Any, name: str, args: Any, mine: List[OnDevice], host: List[torch.Tensor]
    ) -> bool:
        """Whether the result is on the device."""
        if func in _COPIES:
            return isinstance(args[0], OnDevice)
        wrong = [tensor for tensor in host if tensor.dim() > 0]
        if func in _INDEXING:
            if mine and not isinstance(args[0], OnDevice):
                raise WrongDevice(
                    f"{name}: a tensor of the host is indexed by, or given, tensors of the device"
                )
            values = args[2:3] if len(args) > 2 else ()
            wrong = [tensor for tensor in wrong if any(tensor is value for value in values)]
        if mine and wrong:
            shapes = [list(tensor.shape) for tensor in wrong]
            raise WrongDevice(f"{name}: tensors of the host {shapes} beside tensors of the device")
        return bool(mine)

    def _count_waiting(self, func: Any, name: str, args: Any) -> None:
        if name in _WAITING or (name == "repeat_interleave" and len(args) == 1):
            self.count(name)
        elif func in _INDEXING:
            masks = [x for x in args[1] if x is not None and x.dtype in (torch.bool, torch.uint8)]
            # Setting one number under a mask needs no list of places.
            if masks and not (func is not _aten.index.Tensor and args[2].numel() == 1):
                self.count("boolean index")


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among arguments; lists of them are no deeper than PyTorch's operations take
    them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _opened(value: Any) -> Any:
    """Arguments with the values of tensors on the device."""
    if isinstance(value, OnDevice):
        return value.held
    return type(value)(map(_opened, value)) if type(value) in (list, tuple) else value


@cache
def _described(func: Any) -> Tuple[str, bool]:
    """The name of an operation, and whether it is made of others."""
    name = func.name()
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    return name.split("::")[1].split(".")[0], composite


_asked_of_torch, _torch_autocast = torch.is_autocast_enabled, torch.autocast


def _is_autocast_enabled(*device: str) -> bool:
    return device != (DEVICE.type,) and _asked_of_torch(*device)


def _autocast(device: str, *args: Any, **options: Any) -> Any:
    return nullcontext() if device == DEVICE.type else _torch_autocast(device, *args, **options)


def _stack(parameters: Sequence[nn.Parameter]) -> torch.Tensor:
    return torch.cat([parameter.data for parameter in parameters])


def _current() -> SimulatedDevice:
    if not SimulatedDevice._open:
        raise RuntimeError("a tensor of the simulated device outside of its block")
    return SimulatedDevice._open[-1]


def assert_decodes_there(make_generator: Any, model: nn.Module, sample: Dict[str, Any]) -> None:
    """The generator that ``make_generator`` makes for a model finds on the device what it finds on
    the host."""

    def decode(model: nn.Module, sample: Dict[str, Any]) -> List[Any]:
        found = make_generator(model).generate([model], sample)
        return [[hypothesis["tokens"].tolist() for hypothesis in best] for best in found]

    expected = decode(model, sample)
    with SimulatedDevice() as device:
        assert decode(device.move(model), device.send(sample)) == expected
