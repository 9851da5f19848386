"""How large a model a checkpoint may ask for: about as large as the one that it holds.

fairseq builds a model from a checkpoint's configuration and only then compares its parameters with
those of the file. A small file that asks for 10**9 layers, or for terabytes, takes time and memory
until something gives in. What is built is counted as it grows: a model registers its parameters
before they are filled, some of them twice (shared and normalised ones). Tables of positions are no
parameters and are compared first.
"""

import functools
import inspect
import re
import threading
from argparse import Namespace
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Mapping, Sequence, Tuple

from .display import shown

# What is built may have so many times the numbers, and the tensors, of the file, and so many more:
# fairseq's models need up to twice as many.
_TIMES = 4
_MORE_NUMBERS, _MORE_TENSORS = 1 << 27, 1000
# Options that tables of positions have as many rows as.
_ROWS = re.compile(r".*(positions|chunk_sizes|directions|tokens_per_step|_block)")
_WIDTH = re.compile(r"(.*[._])?(?<!ffn_)embed_dim")
# Width of a model whose configuration leaves it to fairseq.
_USUAL_WIDTH = 1024
_CANNOT_ALLOCATE = (
    "allocate memory",
    "not enough memory",
    "out of memory",
    "Storage size calculation overflowed",
    "Unable to allocate",
)


class OversizedModelError(ValueError):
    """The configuration of a checkpoint asks for a model of quite another size than that of the
    file."""


class SizeLimit:
    """Counts what is built in this thread, against the checkpoint that was read last.

    Args:
        advice: the end of a refusal.
    """

    def __init__(self, advice: str) -> None:
        self.advice, self.path, self.active = advice, "", False
        self.thread = threading.get_ident()

    def begin(self, path: str, state: Mapping[str, Any]) -> None:
        """The next model is built from this checkpoint.

        Raises:
            OversizedModelError: it asks for tables of positions that do not fit to it.
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
        """Hook of modules: a parameter is registered, which has memory and no contents yet.

        Raises:
            OversizedModelError: it is one too many.
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
        """There was none for what is built."""
        return self._refusal(
            f"its configuration{self._largest()}",
            f"more memory than there is ({shown(str(error).split('. ')[0])[1:-1]})",
        )

    def _largest(self) -> str:
        """The largest number in the configuration, which is what asks for much, if something
        does."""
        name = max(self.sizes, key=lambda name: self.sizes[name], default=None)
        return f" ({name}={shown(self.sizes[name])})" if name is not None else ""

    def _refusal(self, subject: str, asked: str) -> OversizedModelError:
        tensors, numbers = self.held
        return OversizedModelError(
            f"{self.path}: {subject} asks for {asked}, the file holds {numbers} parameters in"
            f" {tensors} tensors: it is damaged or forged, or its dictionaries are those of another"
            f" model. {self.advice}"
        )


def _numbers(config: Any, prefix: str = "") -> Iterator[Tuple[str, int]]:
    """The integers of a configuration, of nested parts too (``encoder.embed_dim``)."""
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
                yield f"{prefix}{name}", int(min(number, 1 << 63))


@contextmanager
def counting(limit: SizeLimit) -> Iterator[None]:
    """Counts what is built within the block."""
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
    """Lets ``fairseq.checkpoint_utils`` build no model that its checkpoint does not hold.

    Args:
        module: of fairseq.
        is_trusted: whether the user has named a file as trusted.
        advice: from a file to the end of a refusal.
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
