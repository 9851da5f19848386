"""CUDA graphs: a computation of fixed shapes and addresses, recorded once and replayed.

A decoding step of one sentence needs microseconds on a GPU, and its host a hundred times as long to
launch the kernels. Replaying a graph launches all of them at once. On a CPU everything here just
calls the function: the arithmetic is the same.

A function that is recorded reads nothing from the device to the host, and its shapes depend on
nothing but the key under which it is kept.
"""

import gc
import itertools
import logging
import threading
import time
from collections import Counter, OrderedDict
from contextlib import contextmanager, nullcontext
from typing import (
    Any,
    Callable,
    ContextManager,
    Hashable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
    TypeVar,
)
from weakref import WeakSet

import torch
from torch import Tensor

from .fused.support import constant_parameters

logger = logging.getLogger(__name__)

# The most recordings that a store keeps, and the share of the device's memory for the recordings
# and buffers of all stores.
MOST, SHARE = 128, 0.25
# How often a key may be recorded while nothing that is kept is used in between; more often, the
# recordings of one batch displace each other.
AGAIN = 3
# Calls before a recording: libraries allocate their workspaces, Triton compiles its kernels.
WARM_UPS = 2

Kept = TypeVar("Kept")

# One recording at a time in a process: Python's collector is off meanwhile.
_recording = threading.Lock()
# All stores of the process, and a lock for this set.
_stores: "WeakSet[GraphStore]" = WeakSet()
_stores_lock = threading.Lock()
# Numbers the uses of what is kept, so that the oldest one can be told.
_uses = itertools.count()


def free_dropped() -> None:
    """Frees the memory of recordings of dropped generators. Recordings and their functions refer to
    each other: only the garbage collector finds them, and it does not know that the device is full.
    Does nothing if this process has not used CUDA."""
    if torch.cuda.is_initialized():
        gc.collect()


def is_shortage(error: RuntimeError) -> bool:
    """Whether an error is due to a shortage of the device's memory. The allocator raises
    OutOfMemoryError; to make a graph of what was recorded, and to load a kernel, needs memory
    besides, with errors of other types."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or "out of memory" in str(error)


class RecordingFailed(RuntimeError):
    """A CUDA graph could not be recorded, though memory was not short."""


@contextmanager
def _uncollected() -> Iterator[None]:
    """A context in which Python's collector does not run by itself. What it finds may be graphs or
    pinned memory of dropped generators; to free them calls CUDA in ways that end a recording."""
    with _recording:
        enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if enabled:
                gc.enable()


class _Entry(NamedTuple):
    """What is kept, the bytes it holds on the device, and the number of its last use."""

    made: Any
    size: int
    used: int


class GraphStore:
    """Recorded functions and the buffers they work on. When these are too many, or too large
    together with those of the other stores on the device, the least recently used ones are dropped.

    Args:
        device: the device of the model. Unless it is a CUDA device, functions are just called.

    Attributes:
        lock: held while recorded functions run: their buffers serve one batch at a time.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.enabled = device, device.type == "cuda"
        self.lock = threading.RLock()
        self._kept: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._bytes = 0
        # How often the object of each key was made since a kept object was last used.
        self._made: Counter[Hashable] = Counter()
        self._pool: Any = None
        self._stream: Any = None
        self._limit = 0
        if self.enabled:
            self._limit = int(SHARE * torch.cuda.get_device_properties(device).total_memory)
        with _stores_lock:
            _stores.add(self)

    def on_device(self) -> ContextManager[None]:
        """A context in which the CUDA device is PyTorch's current one, as recording and replaying
        require; on a CPU it does nothing."""
        return torch.cuda.device(self.device) if self.enabled else nullcontext()

    def run(
        self, key: Hashable, function: Callable[..., Tuple[Tensor, ...]], *inputs: Tensor
    ) -> Tuple[Tensor, ...]:
        """``function(*inputs)``, on a CUDA device by replaying a recording.

        Args:
            key: identifies the recording: all that the computation depends on (function, shapes,
                dtypes, options), but for the values of the tensors.

        Returns:
            What the function returns. Any later run may overwrite it: graphs share their memory.
        """
        if not self.enabled:
            return function(*inputs)
        call = self.keep(key, lambda: _RecordedCall(self, function, inputs))
        return call(*inputs)

    def keep(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """The object kept under ``key``, made by ``make()`` if there is none. It may be dropped
        when others are made. The caller holds :attr:`lock`.

        Raises:
            torch.cuda.OutOfMemoryError: a batch needs more recordings than can be kept, by itself
                or beside what other stores use in turn. Each batch would drop recordings that the
                next one needs, and recording takes far longer than it saves.
        """
        if key in self._kept:
            self._made.clear()
            self._kept.move_to_end(key)
            entry = self._kept[key] = self._kept[key]._replace(used=next(_uses))
            return entry.made
        self._made[key] += 1
        if self.enabled and self._made[key] > AGAIN:
            raise torch.cuda.OutOfMemoryError(
                "CUDA graphs of one batch, or of models that decode in turn, exceed their share of"
                " the GPU's memory; decode step by step or in smaller batches"
            )
        began, before = time.perf_counter(), self._allocated()
        made = make()
        size = max(self._allocated() - before, 0)
        self._kept[key] = _Entry(made, size, next(_uses))
        self._bytes += size
        if self.enabled:
            logger.debug(
                "recorded %s: %.2f s, %d MiB", key, time.perf_counter() - began, size >> 20
            )
        dropped = len(self._kept) > MOST
        if dropped:
            self._drop_oldest()
        if self.enabled:
            with self._idle() as others:
                dropped |= self._shrink(others)
        if dropped:
            self._free()
        return made

    def _shrink(self, others: List["GraphStore"]) -> bool:
        """Drops the objects used longest ago, here or in ``others``, until all stores of the device
        keep within their share or nothing but this store's last object is left to drop; returns
        whether it dropped any. The bytes of stores that are in use count, but are not dropped."""
        with _stores_lock:
            excess = sum(one._bytes for one in _stores if one.device == self.device) - self._limit
        dropped = False
        while excess > 0:
            able = [one for one in others if one._kept] + [self] * (len(self._kept) > 1)
            if not able:
                break
            oldest = min(able, key=lambda one: next(iter(one._kept.values())).used)
            excess -= oldest._drop_oldest()
            if oldest is not self:
                # Its graphs may all be gone; PyTorch refuses such a pool, see record().
                oldest._pool = None
            dropped = True
        return dropped

    def _drop_oldest(self) -> int:
        """Drops the object used longest ago, and those made for it, whose keys contain its id;
        returns the bytes they held. The caller holds :attr:`lock`."""
        made, size, _ = self._kept.popitem(last=False)[1]
        # Those would keep it alive but never be found again: a new object has another id.
        for key in [key for key in self._kept if isinstance(key, tuple) and id(made) in key]:
            size += self._kept.pop(key).size
        self._bytes -= size
        return size

    @contextmanager
    def _idle(self) -> Iterator[List["GraphStore"]]:
        """The other stores on this device that no other thread is using; their locks are held
        within the context."""
        with _stores_lock:
            others = [one for one in _stores if one.device == self.device and one is not self]
        held = [one for one in others if one.lock.acquire(blocking=False)]
        try:
            yield held
        finally:
            for one in held:
                one.lock.release()

    def record(self, function: Callable[[], Kept]) -> Callable[[], Kept]:
        """Records ``function``: returns a callable that repeats its work on the same tensors.

        On a CUDA device recording calls the function a few times, which changes the buffers that it
        writes: the caller must set these buffers after it.

        Raises:
            torch.cuda.OutOfMemoryError: memory of the device is short.
            RecordingFailed: something else ended the recording.
        """
        if not self.enabled:
            return function
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        if self._stream is None:
            # PyTorch's default stream for recordings is on the device of the first recording.
            self._stream = torch.cuda.Stream(self.device)
        aside, before = self._stream, torch.cuda.current_stream(self.device)
        # An earlier error, on any stream, is raised here: it is not the recording's.
        torch.cuda.synchronize(self.device)
        aside.wait_stream(before)
        with torch.cuda.stream(aside), constant_parameters():
            for _ in range(WARM_UPS):
                function()
        before.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the device meanwhile.
        recording = torch.cuda.graph(
            graph, pool=self._pool, stream=aside, capture_error_mode="thread_local"
        )
        own: Optional[BaseException] = None
        try:
            with _uncollected(), recording, constant_parameters():
                try:
                    outputs = function()
                except BaseException as error:
                    own = error
                    raise
        except BaseException as error:
            # PyTorch refuses a pool all of whose graphs are gone, and stays on the stream of a
            # recording that it cannot end.
            self._pool = None
            torch.cuda.set_stream(before)
            # Ending the recording then fails, too, with an error that hides the first one.
            first = own or error
            if isinstance(first, RuntimeError) and not is_shortage(first):
                raise RecordingFailed(str(first).partition("\n")[0]) from error
            raise first from first.__cause__

        def replay() -> Kept:
            graph.replay()
            return outputs

        # The function's closure holds the tensors whose addresses the graph reads.
        replay.function = function  # type: ignore[attr-defined]
        return replay

    def clear(self) -> None:
        """Drops all recordings and buffers, because addresses or values of weights have changed. If
        another thread is decoding a batch, waits until that has ended."""
        with self.lock:
            self._empty()
        self._free()

    def make_room(self) -> None:
        """Drops all recordings and buffers, and those of all idle stores on this device, because
        its memory is short."""
        with self._idle() as others:
            for one in others:
                one._empty()
        self.clear()
        if self.enabled:
            torch.cuda.empty_cache()

    def _empty(self) -> None:
        """Drops all that is kept; the caller holds :attr:`lock`."""
        self._kept.clear()
        self._made.clear()
        self._bytes = 0
        # PyTorch refuses a pool all of whose graphs are gone, see record().
        self._pool = None

    def _free(self) -> None:
        if self.enabled:
            free_dropped()

    def _allocated(self) -> int:
        return torch.cuda.memory_allocated(self.device) if self.enabled else 0


class _RecordedCall:
    """A recorded function of tensors; a call copies its inputs into the buffers with which it was
    recorded."""

    def __init__(
        self,
        store: GraphStore,
        function: Callable[..., Tuple[Tensor, ...]],
        inputs: Tuple[Tensor, ...],
    ) -> None:
        self.inputs = tuple(tensor.clone() for tensor in inputs)
        self._replay: Optional[Callable[[], Tuple[Tensor, ...]]] = store.record(
            lambda: function(*self.inputs)
        )

    def __call__(self, *inputs: Tensor) -> Tuple[Tensor, ...]:
        for buffer, tensor in zip(self.inputs, inputs):
            buffer.copy_(tensor)
        assert self._replay is not None
        return self._replay()
