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

Sources are dictionary ids that end in ``</s>``; results have their order and number. The result of
a sentence does not depend on the sentences beside it, on ``batch_size`` or on ``threads``, to the
last bit (excepted the steps of ``hrt_draft_chunk`` and ``jacobi_mode`` where no width is given).
Options carry the names and defaults of ``fairseq-generate``; :meth:`DecodingOptions.parse` reads
them from text. :func:`plan_search` refuses an option that this engine does not support by name with
:class:`UnsupportedOption` (PyTorch's does it then, ``--engine torch``), bad values with ValueError.
Options in place of a plan are planned when they are first seen.
Calls release the interpreter's lock; calls from several threads take turns. Ctrl-C and what other
signals' handlers raise end a call within a fraction of a second, and so does ``cancelled``, asked
some 20 times a second; the engine is as before then::

    engine.decode(rows, plan, cancelled=event.is_set)                     # a threading.Event
    engine.decode(rows, plan, cancelled=lambda: time.monotonic() > deadline)
"""

import ctypes as C
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ..decoding import Graph, Hypothesis, NumericalError, collapse_repeats
from ..families import decoders
from ..options.values import DecodingOptions, UnsupportedOption
from . import binding, library
from .arguments import Shortlist, flatten, listed, shortlist_arrays
from .caller import Caller, Cancelled
from .format import Header, ModelFileError, read_header, read_model
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
    """A model with its threads; see this module's text.

    Args:
        header, tensors: what :func:`.format.read_model` returns.
        threads: sentences are decoded on that many threads, which share the weights; those without
            a sentence help with the large products of the last one, as long as that is measured to
            pay.
        isa: a forced instruction set; None: the best one that this machine has, or what
            FAIRSEQ_HRT_RUNTIME_ISA names.
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
            raise ValueError(f"threads={threads!r}: give a number from 1 to 4096")
        self.header, self.threads = header, threads
        self._lock = threading.Lock()
        self._model, self._engine = C.c_void_p(), C.c_void_p()
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
        _check(
            self._kernel.fh_engine_new(
                C.byref(self._engine), self._model, threads, message, len(message)
            ),
            message,
        )
        self._caller = Caller()

    @classmethod
    def open(
        cls, path: Union[str, Path], *, threads: int = 1, isa: Optional[str] = None
    ) -> "Engine":
        """Loads a model file.

        Raises:
            ModelFileError: see :func:`.format.read_model`.
            ValueError: no kernel on this machine, a bad number of threads, or an instruction set
                that it has not.
        """
        header, tensors = read_model(Path(path))
        return cls(header, tensors, threads=threads, isa=isa)

    @property
    def longest_source(self) -> int:
        """See :class:`~..decoding.Scorer`."""
        return self.header.longest_source

    @property
    def longest_target(self) -> int:
        """See :class:`~..decoding.Scorer`."""
        return self.header.longest_target

    @property
    def isa(self) -> str:
        """The instruction set in use."""
        return self._kernel.fh_model_isa(self._alive(self._model)).decode()

    @property
    def weight_bytes(self) -> int:
        """Memory of the weights."""
        return int(self._kernel.fh_model_bytes(self._alive(self._model)))

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        plan: Union[SearchPlan, DecodingOptions] = _DEFAULT,
        *,
        first_words: Optional[Sequence[Sequence[int]]] = None,
        cancelled: Optional[Callable[[], bool]] = None,
    ) -> List[List[Hypothesis]]:
        """Hypotheses of each source, best first, at most as many as the plan wants.

        Args:
            sources: dictionary ids ending in ``</s>``.
            plan: made for this model.
            first_words: of each source the target ids that its translations have to begin with,
                whatever their probability, which counts unless they are those of
                ``forced_start``; padding stands for any word. The model has to write from left to
                right (hrt: in chunks of 1).
            cancelled: whether nobody wants the results any more; asked in this thread, from time to
                time.

        Raises:
            UnsupportedOption: first words for a model that cannot be given any.
            ValueError: a source or first words that do not fit the model.
            UnsupportedOption, ValueError: see :func:`plan_search`, where options are given.
            NumericalError: a probability is NaN.
            MemoryError: buffers could not grow.
            Cancelled: see ``cancelled``.
            BaseException: what ``cancelled``, or the handler of a signal, raised meanwhile.
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
                    f"{len(sources)} sources but first words of {len(first_words)}: each source"
                    " needs a list of them"
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
        """How the model, which must write one word after the other (hrt: C_d = 1), rates given
        translations; without shortlist.

        Args:
            sources: dictionary ids ending in ``</s>``.
            targets: translations of each source, any number, ``</s>`` last.
            lenpen: ``score`` is the sum of the log-probabilities, divided by the length to this
                power.
            cancelled: see :meth:`decode`.

        Returns:
            Results in the order of the translations.

        Raises:
            UnsupportedOption: the model writes several words at once.
            ValueError, NumericalError, MemoryError, Cancelled: as :meth:`decode`.
        """
        if len(sources) != len(targets):
            raise ValueError(
                f"{len(sources)} sources but translations of {len(targets)}: each source needs a"
                " list of them"
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
        """Calls the kernel."""
        flat, offsets = flatten(sources)
        message = binding.message_buffer()
        found = C.POINTER(binding.Results)()
        try:
            with self._lock:
                engine = self._alive(self._engine)
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
        """Restricts the words of each sentence to candidates of its source words; None: all words
        again.

        Raises:
            ValueError: the shortlist belongs to other dictionaries.
        """
        given: Tuple[Any, ...] = (None, None, 0, None, 0)
        if shortlist is not None:
            offsets, candidates, always = shortlist_arrays(shortlist, self.header)
            given = (
                binding.pointer(offsets, C.c_int64),
                binding.pointer(candidates, C.c_int32), candidates.size,
                binding.pointer(always, C.c_int32), always.size,
            )  # fmt: skip
        message = binding.message_buffer()
        with self._lock:
            status = self._kernel.fh_engine_shortlist(
                self._alive(self._engine), *given, message, len(message)
            )
        _check(status, message)

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
        if getattr(self, "_engine", None) is not None and hasattr(self, "_kernel"):
            self.close()

    @staticmethod
    def _alive(handle: C.c_void_p) -> C.c_void_p:
        if not handle:
            raise ValueError("the engine is closed")
        return handle


def _check(status: int, message: Any) -> None:
    """Raises what a call reports."""
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
