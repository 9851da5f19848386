"""Decoding without PyTorch: a converted model, token ids in, token ids out.

    engine = Engine.open("model.safetensors", threads=2)
    engine.header.family     # "hrt"; also .source_vocabulary, .eos, … (see .format.Header)
    engine.isa               # "avx512_vnni": which instruction set the kernel uses
    plan = plan_search(engine.header, DecodingOptions(beam=1, hrt_decode_chunk="3"))
    for best in engine.decode([[17, 4, 2], [9, 2]], plan):         # one list per sentence
        best[0].tokens       # the best hypothesis: ids with </s>
        best[0].score        # what hypotheses are ranked by
    engine.score([[17, 4, 2]], [[[5, 2], [6, 8, 2]]])              # of given translations
    engine.set_shortlist(Shortlist(offsets, candidates, always))   # None switches it off
    engine.close()

Sources are dictionary ids that end in ``</s>``; there is one result per source, in the same order.
To the last bit, a result does not depend on the other sentences, ``batch_size`` or ``threads``
(except the ``steps`` with ``hrt_draft_chunk``, or with ``jacobi_mode`` but no ``jacobi_window``).
Options have the names and defaults of ``fairseq-generate``; :meth:`DecodingOptions.parse` reads
them from text. :func:`plan_search` checks them for a model and makes a plan; it raises
:class:`UnsupportedOption` for an option that only PyTorch's engine supports (``--engine torch``)
and ValueError for a bad value. Options may be given in place of a plan; their plan is cached.

Calls release the interpreter's lock; calls from several threads take turns. Ctrl-C, exceptions of
other signals' handlers, and ``cancelled``, asked some 20 times a second, end a call within a
fraction of a second and leave the engine usable::

    engine.decode(rows, plan, cancelled=event.is_set)                     # a threading.Event
    engine.decode(rows, plan, cancelled=lambda: time.monotonic() > deadline)

An engine may be used and closed in a forked process, too: it starts threads of its own there.
"""

import ctypes as C
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ..decoding import Graph, Hypothesis, NumericalError, collapse_repeats
from ..families import decoders
from ..families.fields import ModelFileError
from ..io.forks import renew_in_forks
from ..options.values import DecodingOptions, UnsupportedOption
from . import binding, library
from .arguments import Shortlist, flatten, listed, shortlist_arrays
from .caller import Caller, Cancelled
from .format import Header, read_header, read_model
from .options import SearchPlan, plan_search
from .results import read_results

__all__ = [
    "Cancelled",
    "DecodingOptions",
    "Engine",
    "Graph",
    "Header",
    "Hypothesis",
    "ModelFileError",
    "NumericalError",
    "SearchPlan",
    "Shortlist",
    "UnsupportedOption",
    "plan_search",
    "read_header",
    "read_model",
]

_DEFAULT = DecodingOptions()
_planned = lru_cache(maxsize=64)(plan_search)


class Engine:
    """A model and its threads; see this module's docstring.

    Args:
        header, tensors: the model's hyper-parameters and arrays, as :func:`.format.read_model`
            returns them.
        threads: number of threads, which share the weights. Each decodes its own sentences. Idle
            threads help the last busy one with large matrix products, as long as measurements
            during decoding show that this is faster.
        isa: the instruction set to use; None: the one that FAIRSEQ_HRT_RUNTIME_ISA names, else the
            best of this machine.
    """

    def __init__(
        self,
        header: Header,
        tensors: Mapping[str, np.ndarray],
        *,
        threads: int = 1,
        isa: Optional[str] = None,
    ) -> None:
        if not isinstance(threads, int) or not 1 <= threads <= 4096:
            raise ValueError(f"threads={threads!r}: give an integer from 1 to 4096")
        self.header, self.threads = header, threads
        self._shortlist: Optional[Shortlist] = None
        self._model = C.c_void_p()
        self._start_anew()
        self._kernel = binding.kernel()
        shape, kept = binding.shape_of(header)
        table, arrays = binding.tensor_table(tensors)
        message = binding.message_buffer()
        # None: the best one.
        forced = (isa or library.forced_instruction_set()).encode() or None
        status = self._kernel.fh_model_new(
            C.byref(self._model), C.byref(shape), table, len(tensors), forced, message, len(message)
        )
        del kept, arrays
        _check(status, message)
        self._started()
        # The weights never change: a fork keeps them.
        renew_in_forks(self, Engine._start_anew)

    @classmethod
    def open(
        cls, path: Union[str, Path], *, threads: int = 1, isa: Optional[str] = None
    ) -> "Engine":
        """Loads the model file ``path``; for the other arguments see :class:`Engine`.

        Raises:
            ModelFileError: the file is missing, damaged, or not a model of the native engine.
            ValueError: the kernel, a compiled C library, is missing or cannot be loaded;
                ``threads`` is not between 1 and 4096; or this machine lacks the instruction set.
        """
        header, tensors = read_model(Path(path))
        return cls(header, tensors, threads=threads, isa=isa)

    def describe(self) -> str:
        """The kind of weights, the instruction set and the number of threads, in a few words."""
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"{self.header.weights} weights, {self.isa}, {threads}"

    @property
    def longest_source(self) -> int:
        """The longest source that the model accepts, in tokens with ``</s>``."""
        return self.header.longest_source - self.header.read_bos

    @property
    def longest_target(self) -> int:
        """The longest translation that the model accepts, in tokens with ``</s>``."""
        return self.header.longest_target

    @property
    def isa(self) -> str:
        """The instruction set that the kernel uses, such as ``avx2``."""
        return self._kernel.fh_model_isa(self._alive(self._model)).decode()

    @property
    def weight_bytes(self) -> int:
        """The memory that the weights take, in bytes."""
        return int(self._kernel.fh_model_bytes(self._alive(self._model)))

    def _start_anew(self) -> None:
        """Forgets the kernel's buffers and threads, if there are any, without freeing them, so that
        the next call makes new ones. Called for a new engine and in a forked process."""
        self._lock, self._caller, self._engine = threading.Lock(), Caller(), C.c_void_p()

    def _started(self) -> C.c_void_p:
        """Returns the kernel's handle of its buffers and threads, which are made on first use. The
        caller must hold ``self._lock``.

        Raises:
            ValueError: the engine is closed.
        """
        if not self._engine:
            message = binding.message_buffer()
            status = self._kernel.fh_engine_new(
                C.byref(self._engine), self._alive(self._model), self.threads, message, len(message)
            )
            _check(status, message)
            if self._shortlist is not None:
                self._give(self._shortlist)
        return self._engine

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        plan: Union[SearchPlan, DecodingOptions] = _DEFAULT,
        *,
        first_words: Optional[Sequence[Sequence[int]]] = None,
        cancelled: Optional[Callable[[], bool]] = None,
    ) -> List[List[Hypothesis]]:
        """Translates sources. Returns the hypotheses of each source, best first, at most ``nbest``
        of the plan.

        Args:
            sources: dictionary ids ending in ``</s>``.
            plan: a plan made for this model, or decoding options.
            first_words: for each source the target ids that its translations must begin with,
                however improbable; padding stands for any word. Their log-probabilities count in
                scores, except those of ``forced_start``. The model must write from left to right
                (hrt: in chunks of 1).
            cancelled: returns True to end the call; asked in this thread, some 20 times a second.

        Raises:
            UnsupportedOption: the model cannot take first words; or as :func:`plan_search`.
            ValueError: a source is empty or too long for the model, or an id is not in the model's
                dictionaries; or as :func:`plan_search`.
            NumericalError: a probability is NaN.
            MemoryError: buffers could not grow.
            Cancelled: ``cancelled`` returned True.
            BaseException: whatever ``cancelled`` or the handler of a signal raises.
        """
        plan, given = self._plan(plan), None
        options = plan.options
        if first_words is None and options.forced_start is not None:
            raise ValueError(
                f"--forced-start {options.forced_start}: an engine has no dictionary; give the ids"
                " as first_words"
            )
        if first_words is not None:
            if len(first_words) != len(sources):
                raise ValueError(
                    f"{len(sources)} sources but first words of {len(first_words)}: give a list of"
                    " ids for each source, empty if its translation may begin with any word"
                )
            scored = options.forced_start is None
            given = C.byref(binding.FirstWords(*flatten(first_words, "beginning"), scored))
        results = self._run("fh_decode", sources, plan, given, cancelled=cancelled)
        if any(family.collapses_repeats(options) for family in decoders(self.header.family)):
            for best in results:
                for result in best:
                    collapse_repeats(result)
        return results

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[Sequence[int]]],
        *,
        lenpen: float = 1.0,
        batch_size: int = 32,
        cancelled: Optional[Callable[[], bool]] = None,
    ) -> List[List[Hypothesis]]:
        """Scores given translations. Probabilities are normalised over all words, even with a
        shortlist. The model must be able to write one word after the other (hrt: in chunks of 1).

        Args:
            sources: dictionary ids ending in ``</s>``.
            targets: any number of translations of each source, dictionary ids, ``</s>`` last.
            lenpen: the ``score`` of a hypothesis is the sum of its tokens' log-probabilities
                / number of its tokens ** lenpen.
            batch_size: sentences computed together.
            cancelled: see :meth:`decode`.

        Returns:
            For each source a hypothesis for each of its translations, in their order.

        Raises:
            UnsupportedOption: the model writes several words at once.
            ValueError, NumericalError, MemoryError, Cancelled: as :meth:`decode`.
        """
        if len(sources) != len(targets):
            raise ValueError(
                f"{len(sources)} sources but translations of {len(targets)}: give a list of"
                " translations for each source"
            )
        options = DecodingOptions(beam=1, min_len=0, lenpen=lenpen, batch_size=batch_size)
        groups = [
            listed(own, f"the translations of sentence {number}")
            for number, own in enumerate(targets)
        ]
        flat, offsets = flatten([target for own in groups for target in own], "translation")
        counts = (C.c_int32 * max(len(targets), 1))(*map(len, groups))
        given = binding.Targets(flat, counts, offsets)
        plan = self._plan(options)
        return self._run("fh_score", sources, plan, C.byref(given), cancelled=cancelled)

    def _plan(self, plan: Union[SearchPlan, DecodingOptions]) -> SearchPlan:
        return plan if isinstance(plan, SearchPlan) else _planned(self.header, plan)

    def _run(
        self,
        function: str,
        sources: Sequence[Sequence[int]],
        plan: SearchPlan,
        *given: Any,
        cancelled: Optional[Callable[[], bool]] = None,
    ) -> List[List[Hypothesis]]:
        """Calls the kernel's ``function``, ``fh_decode`` or ``fh_score``, and returns the
        hypotheses of each source. ``given`` holds the function's argument between sources and
        options: a pointer to first words (or None), or to the translations to score."""
        if self.header.read_bos:
            rows = [listed(row, f"source {number}") for number, row in enumerate(sources)]
            sources = [[self.header.bos, *row] if row else row for row in rows]
        flat, offsets = flatten(sources)
        message = binding.message_buffer()
        found = C.POINTER(binding.Results)()
        try:
            with self._lock:
                engine = self._started()
                if self._caller.state.raised is not None:
                    self._caller = Caller()
                caller, self._caller.state.cancelled = self._caller, cancelled
                status = getattr(self._kernel, function)(
                    engine, flat, offsets, len(sources), *given, C.byref(plan.kernel), caller.ask,
                    C.byref(found), message, len(message),
                )  # fmt: skip
                caller.state.cancelled = None
            if caller.state.raised is not None:
                raise caller.state.raised
            _check(status, message)
            return read_results(found.contents, plan.options)
        finally:
            self._kernel.fh_results_free(found)

    def set_shortlist(self, shortlist: Optional[Shortlist]) -> None:
        """Restricts the translation of each sentence to the shortlist's candidates of its source
        words, in all later calls of :meth:`decode`; None lifts the restriction.

        Raises:
            ValueError: the shortlist belongs to other dictionaries.
        """
        with self._lock:
            self._started()
            self._give(shortlist)
            self._shortlist = shortlist

    def _give(self, shortlist: Optional[Shortlist]) -> None:
        given: Tuple[Any, ...] = (None, None, 0, None, 0)
        if shortlist is not None:
            offsets, candidates, always = shortlist_arrays(shortlist, self.header)
            given = (
                binding.pointer(offsets, C.c_int64),
                binding.pointer(candidates, C.c_int32), candidates.size,
                binding.pointer(always, C.c_int32), always.size,
            )  # fmt: skip
        message = binding.message_buffer()
        _check(
            self._kernel.fh_engine_shortlist(self._engine, *given, message, len(message)), message
        )

    def close(self) -> None:
        """Frees the weights and ends the threads; the engine cannot be used any more."""
        with self._lock:
            for handle, free in ((self._engine, "fh_engine_free"), (self._model, "fh_model_free")):
                if handle:
                    getattr(self._kernel, free)(handle)
                    handle.value = None

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_kernel"):
            self.close()

    @staticmethod
    def _alive(handle: C.c_void_p) -> C.c_void_p:
        if not handle:
            raise ValueError("the engine is closed: open another one with Engine.open")
        return handle


def _check(status: int, message: Any) -> None:
    """Raises the exception that corresponds to a status returned by the kernel, with the message
    that the kernel wrote; does nothing for the status OK."""
    if status == binding.OK:
        return
    text = message.value.decode(errors="replace")
    kinds = {
        binding.MEMORY: MemoryError,
        binding.NUMBER: NumericalError,
        binding.REFUSED: UnsupportedOption,
        binding.ENDED: Cancelled,
    }
    raise kinds.get(status, ValueError)(text)
