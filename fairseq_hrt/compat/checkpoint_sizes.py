"""Limits the size of the model that a checkpoint's configuration asks for, relative to the
parameters that the file holds.

fairseq builds a model from the configuration before it compares the model's parameters with those
of the file. A small file that asks for 10**9 layers, or for terabytes, would exhaust time and
memory. Therefore parameters are counted while the model is built: modules register them before
filling them with numbers. Position tables are not parameters; their sizes are checked in the
configuration beforehand.
"""

import functools
import inspect
import re
import threading
from argparse import Namespace
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Mapping, Sequence, Tuple

from .display import shown

# A model may have _TIMES as many numbers and tensors as the file, plus _MORE; fairseq's models
# register up to twice as many.
_TIMES = 4
_MORE_NUMBERS, _MORE_TENSORS = 1 << 27, 1000
# Options that determine the number of rows of position tables.
_ROWS = re.compile(r".*(positions|chunk_sizes|directions|tokens_per_step|_block)")
_WIDTH = re.compile(r"(.*[._])?(?<!ffn_)embed_dim")
# Width that is assumed if the configuration has none.
_USUAL_WIDTH = 1024
_CANNOT_ALLOCATE = (
    "allocate memory",
    "not enough memory",
    "out of memory",
    "Storage size calculation overflowed",
    "Unable to allocate",
)


class OversizedModelError(ValueError):
    """The configuration of a checkpoint asks for a much larger model than the file holds."""


class SizeLimit:
    """Counts the parameters of a model while this thread builds it, and refuses to continue once
    there are many more than the checkpoint holds that was passed to :meth:`begin` last.

    Args:
        advice: the last sentence of the error message, which tells the user what to do.
    """

    def __init__(self, advice: str) -> None:
        self.advice, self.path, self.active = advice, "", False
        self.thread = threading.get_ident()

    def begin(self, path: str, state: Mapping[str, Any]) -> None:
        """Starts counting for a model that is about to be built from the checkpoint ``state``, read
        from the file ``path``.

        Raises:
            OversizedModelError: the configuration asks for a position table that alone exceeds the
                limit.
        """
        held = [value for value in state["model"].values() if hasattr(value, "numel")]
        self.path, self.active, self.built = path, True, (0, 0)
        self.held = len(held), sum(value.numel() for value in held)
        self.limit = _TIMES * self.held[0] + _MORE_TENSORS, _TIMES * self.held[1] + _MORE_NUMBERS
        config = state.get("args") or (state.get("cfg") or {}).get("model")
        self.sizes: Dict[str, int] = {}
        for name, size in _numbers(config):
            self.sizes[name] = max(size, self.sizes.get(name, size))
        width = max(
            (size for name, size in self.sizes.items() if _WIDTH.fullmatch(name)),
            default=_USUAL_WIDTH,
        )
        for name, size in self.sizes.items():
            if _ROWS.fullmatch(name) and size * width > self.limit[1]:
                raise self._refusal(
                    f"{name}={shown(size)} in the configuration",
                    f"a table of {size} rows of {width} numbers",
                )

    def count(self, module: object, name: str, parameter: Any) -> None:
        """Counts a parameter. PyTorch calls this when a module registers one, before it is filled
        with numbers.

        Raises:
            OversizedModelError: the model has more parameters than the limit allows.
        """
        if not self.active or parameter is None or threading.get_ident() != self.thread:
            return
        self.built = self.built[0] + 1, self.built[1] + parameter.numel()
        for built, limit, what in zip(self.built, self.limit, ("parameter tensors", "parameters")):
            if built > limit:
                raise self._refusal(
                    f"its configuration{self._largest()}", f"more than {limit} {what}"
                )

    def no_memory(self, error: Exception) -> OversizedModelError:
        """The error to raise where building the model has run out of memory (``error``)."""
        return self._refusal(
            f"its configuration{self._largest()}",
            f"more memory than there is ({shown(str(error).split('. ')[0])[1:-1]})",
        )

    def _largest(self) -> str:
        """The option with the largest number, which is the likely cause, for the error message: a
        space and ``(name=number)``; empty if there are no numbers."""
        name = max(self.sizes, key=lambda name: self.sizes[name], default=None)
        return f" ({name}={shown(self.sizes[name])})" if name is not None else ""

    def _refusal(self, subject: str, asked: str) -> OversizedModelError:
        tensors, numbers = self.held
        return OversizedModelError(
            f"{self.path}: {subject} asks for {asked}, but the file holds {numbers} parameters in"
            f" {tensors} tensors: it is damaged or forged, or its dictionaries are those of another"
            f" model. {self.advice}"
        )


def _numbers(config: Any, prefix: str = "") -> Iterator[Tuple[str, int]]:
    """Yields (name, number) for all numbers of a configuration, also those in lists; in nested
    ones names are dotted, e.g. (``encoder.embed_dim``, 512). Floats are truncated to integers,
    those beyond ±2**63 become ±2**63, and booleans and NaN are skipped.

    Args:
        config: a namespace or mapping; anything else has no numbers.
        prefix: put before each name.
    """
    held: Mapping[Any, Any] = (
        vars(config)
        if isinstance(config, Namespace)
        else config
        if isinstance(config, Mapping)
        else {}
    )
    for name in list(held):
        try:
            value = held[name]
        except Exception:
            # OmegaConf's missing value.
            continue
        if isinstance(value, (Namespace, Mapping)):
            yield from _numbers(value, f"{prefix}{name}.")
            continue
        for number in value if isinstance(value, Sequence) else (value,):
            if (
                isinstance(number, (int, float))
                and not isinstance(number, bool)
                and number == number
            ):
                yield f"{prefix}{name}", int(max(-(1 << 63), min(number, 1 << 63)))


@contextmanager
def counting(limit: SizeLimit) -> Iterator[None]:
    """A context in which ``limit`` counts every parameter that a PyTorch module registers. A lack
    of memory, once ``limit`` has begun, raises OversizedModelError instead of PyTorch's error."""
    from torch.nn.modules.module import register_module_parameter_registration_hook

    handle = register_module_parameter_registration_hook(limit.count)
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not limit.active or not any(text in str(error) for text in _CANNOT_ALLOCATE):
            raise
        raise limit.no_memory(error) from None
    finally:
        handle.remove()


def bound_building(module: Any, is_trusted: Any, advice: Any) -> None:
    """Makes ``fairseq.checkpoint_utils`` apply :class:`SizeLimit` to the models that it builds.

    Args:
        module: ``fairseq.checkpoint_utils``, changed in place.
        is_trusted: function from a path to whether the user trusts the file, which then has no
            limit.
        advice: function from a path to the last sentence of the error message.
    """
    load, read = module.load_model_ensemble_and_task, module.load_checkpoint_to_cpu
    current: Dict[int, SizeLimit] = {}

    @functools.wraps(load)
    def bounded(*arguments: Any, **options: Any) -> Any:
        given = inspect.signature(load).bind(*arguments, **options).arguments
        if given.get("num_shards", 1) != 1:
            # Each file holds a part of the model.
            return load(*arguments, **options)
        limit, thread = SizeLimit(""), threading.get_ident()
        current[thread] = limit
        try:
            with counting(limit):
                if given.get("state") is not None:
                    begin(limit, str(given["filenames"][0]), given["state"])
                return load(*arguments, **options)
        finally:
            del current[thread]

    @functools.wraps(read)
    def reading(path: Any, *arguments: Any, **options: Any) -> Any:
        state = read(path, *arguments, **options)
        limit = current.get(threading.get_ident())
        if limit is not None:
            begin(limit, str(path), state)
        return state

    def begin(limit: SizeLimit, path: str, state: Mapping[str, Any]) -> None:
        limit.active, limit.advice = False, advice(path)
        if not is_trusted(path):
            limit.begin(path, state)

    module.load_model_ensemble_and_task, module.load_checkpoint_to_cpu = bounded, reading
