"""Decodes with the native engine; neither PyTorch nor fairseq is loaded."""

import os
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Tuple

import numpy as np

from ..decoding import Hypothesis, Rescorer, describe_graph
from ..families import (
    BY_NAME,
    FAMILIES,
    check_dictionaries,
    decoders,
    family_of_task,
    tasks_for,
)
from ..options.values import (
    DecodingOptions,
    UnsupportedOption,
    flag,
    forced_ids,
    require_native_search,
)
from ..runtime.engine import Engine
from ..runtime.options import SearchPlan, plan_search
from ..text.dictionary import Words
from .bundle import Bundle
from .decoder import Wanted, Watch
from .shortlist import read_shortlist
from .translation import longest_first

# Options of fairseq-generate that may be given, by bundles or for PyTorch, but do not change what
# the native engine decodes.
WITHOUT_EFFECT = (
    "cpu", "left_pad_source", "post_process", "print_step", "remove_bpe", "retain_iter_history",
    "seed",
)  # fmt: skip


def native_options(task: str, options: Mapping[str, str], **own: Any) -> DecodingOptions:
    """Reads options of ``fairseq-generate`` for the native engine. As this engine has no tasks, the
    options that the task would set are added, e.g. ``jacobi_mode=frontier`` for
    ``translation_jacobi``.

    Args:
        task: the name of the task.
        options: {name: text}; the text ``"false"`` leaves an option out, as on the command line.
        own: further options as numbers and switches, e.g. ``batch_size=8``; they override
            ``options``.

    Raises:
        UnsupportedOption: an option is unknown, or only PyTorch decodes the task.
        ValueError: a value is invalid, or an option of jacobi, which has no models of its own, is
            given with another task.
    """
    family = family_of_task(task)
    if family is not None:
        require_native_search(family)
    default = {} if family is None else family.default
    for name, value in options.items():
        for other in FAMILIES:
            if other.decodes and other is not family and name.startswith(f"{other.name}_"):
                raise ValueError(
                    f"{flag(name)} {value} belongs to --task {other.task}, not {task}: give that"
                    " task, or leave the option out"
                )
    chosen = {
        name: value
        for name, value in {**default, **options}.items()
        if value != "false" and name not in WITHOUT_EFFECT
    }
    return DecodingOptions.parse(chosen, **own)


def default_threads() -> int:
    """The number of cores that this process may use, at most the integer in the environment
    variable OMP_NUM_THREADS, if there is one."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return min(cores, int(given)) if given.isdecimal() and int(given) else cores


class NativeDecoder:
    """A :class:`.decoder.Decoder` on the native engine.

    Args:
        engine: the engine, with the model.
        source, target: the dictionaries.
        task: the task that decodes the model, unless the option ``task`` names another one.
        training: decoding options that were stored in the training's checkpoint; they hold for
            ``task`` only.

    Attributes:
        use_shortlist: whether each sentence is written with the words of a shortlist only.
        rescorer: reranks the translations, as ``--rescore-path`` does; None: they are not reranked.
    """

    def __init__(
        self,
        engine: Engine,
        source: Words,
        target: Words,
        *,
        task: str,
        training: Optional[Mapping[str, str]] = None,
    ) -> None:
        self.engine, self.source, self.target = engine, source, target
        self.task, self.training = task, dict(training or {})
        self.use_shortlist = False
        self.rescorer: Optional[Rescorer] = None
        self._kept: Dict[Tuple[Any, ...], SearchPlan] = {}
        self._forced: Dict[str, List[int]] = {}

    @classmethod
    def of_bundle(
        cls, bundle: Bundle, *, threads: Optional[int] = None, use_shortlist: bool = False
    ) -> "NativeDecoder":
        """Loads the native model of a bundle, which ``fairseq-hrt bundle --runtime`` adds.

        Args:
            threads: number of threads; None: :func:`default_threads`.
            use_shortlist: write only words of the bundle's shortlist.

        Raises:
            ValueError: the bundle has no model for the native engine, or a damaged one; or
                ``use_shortlist`` is set and the bundle has no shortlist.
        """
        if bundle.runtime is None:
            raise ValueError(
                f"{bundle.folder} holds no model for the native engine: make the bundle again with"
                " fairseq-hrt bundle ... --runtime int8, or use --engine torch"
            )
        source, target = bundle.dictionaries()
        file = bundle.folder / bundle.runtime
        engine = Engine.open(file, threads=default_threads() if threads is None else threads)
        header = engine.header
        if (header.source_vocabulary, header.target_vocabulary) != (len(source), len(target)):
            raise ValueError(
                f"{file} was made for dictionaries of {header.source_vocabulary} and"
                f" {header.target_vocabulary} words, but the bundle's have {len(source)} and"
                f" {len(target)}: make the bundle again with fairseq-hrt bundle ... --runtime int8"
            )
        decoder = cls(engine, source, target, task=bundle.task, training=bundle.runtime_options)
        if use_shortlist:
            if bundle.shortlist is None:
                raise ValueError(
                    f"{bundle.folder} holds no shortlist: make the bundle again with fairseq-hrt"
                    " bundle ... --shortlist FILE, or translate without a shortlist"
                )
            engine.set_shortlist(read_shortlist(bundle.folder / bundle.shortlist))
            decoder.use_shortlist = True
        return decoder

    def identity(self) -> Dict[str, Any]:
        """The engine, and whether it uses a shortlist; see :meth:`.decoder.Decoder.identity`."""
        return {"engine": "native", "shortlist": self.use_shortlist}

    def describe(self) -> str:
        """The engine, its weights, instruction set and threads, in a few words."""
        return f"the native engine: {self.engine.describe()}"

    def prepare(
        self, options: Mapping[str, str], wanted: Wanted, given: FrozenSet[str]
    ) -> SearchPlan:
        """Converts options to the plan of a search, or takes the plan for equal arguments from a
        cache; for arguments and errors see :meth:`.decoder.Decoder.prepare`."""
        key = (wanted, given, *sorted(options.items()))
        found = self._kept.get(key)
        if found is None:
            found = self._plan(options, wanted, given)
            if len(self._kept) < 64:
                self._kept[key] = found
        return found

    def _plan(
        self, options: Mapping[str, str], wanted: Wanted, given: FrozenSet[str]
    ) -> SearchPlan:
        # As on the command line, a switch that is off counts as not given: the training's value
        # holds, unless the caller has switched it off.
        asked = {name: value for name, value in options.items() if value != "false"}
        family, task = self.engine.header.family, asked.pop("task", self.task)
        if task not in tasks_for(family):
            raise UnsupportedOption(
                f"--task {task}: the native engine does not decode a model of the family {family}"
                f" with this task; give --task {tasks_for(family)[0]}, or use --engine torch"
            )
        if wanted.given and not BY_NAME[family].scores_by_word:
            raise UnsupportedOption(
                "the native engine scores given translations only with autoregressive models, and"
                f" this one is of the family {family}: use --engine torch"
            )
        # The training's options are for its own task.
        training = self.training.items() if task == self.task else ()
        chosen = {**{name: value for name, value in training if name not in given}, **asked}
        own: Dict[str, Any] = dict(
            batch_size=wanted.batch_size, scores=wanted.scores, graphs=wanted.graphs
        )
        if wanted.given:
            # No search takes place, so its settings do not matter.
            of_search = {name for one in decoders(family) for name in one.default}
            own.update({**dict.fromkeys(of_search), "beam": 1, "nbest": 1, "forced_start": None})
        if wanted.alignments:
            own["alignments"] = True
        found = native_options(task, chosen, **own)
        if found.rescore_path is not None:
            raise UnsupportedOption(
                f"--rescore-path {found.rescore_path}: the native engine translates with the"
                " bundle's model alone; use --engine torch"
            )
        plan = plan_search(self.engine.header, found, given)
        if "seed" in given and "seed" in asked:
            raise ValueError(
                f"--seed {asked['seed']}: the native engine draws nothing at random; leave --seed"
                " out"
            )
        check_dictionaries(plan.options, self.source.words, self.target.words)
        if found.prefix_size:
            raise ValueError(
                f"prefix_size={found.prefix_size}: there are no target lines to take words from;"
                " leave it out, or use fairseq-generate"
            )
        # Raises for a bad --forced-start now, not at the first line.
        self.first_words(plan, 0)
        return plan

    def first_words(self, prepared: SearchPlan, count: int) -> Optional[List[List[int]]]:
        """The ids of the words of ``--forced-start``, once for each of ``count`` sentences; None
        if that option is not given.

        Raises:
            ValueError: ``--forced-start`` has a word that is not in the dictionary.
        """
        words = prepared.options.forced_start
        if words is None:
            return None
        if words not in self._forced:
            special = [
                self.target.words[number] for number in (self.engine.header.pad, self.target.eos)
            ]
            self._forced = {words: forced_ids(prepared.options, self.target.words, special)}
        return [self._forced[words]] * count

    def longest(self, prepared: SearchPlan) -> Tuple[int, int]:
        """The most tokens of (a source, a translation) that the model takes, ``</s>`` included."""
        return self.engine.longest_source, self.engine.longest_target

    def decode(
        self, prepared: SearchPlan, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[List[Hypothesis]]:
        """Translates sources, see :meth:`.decoder.Decoder.decode`."""
        if watch.progress is None:
            return self._decode(prepared, rows, watch) if rows else []
        found: List[List[Hypothesis]] = [[] for _ in rows]
        done = 0
        for members in longest_first(rows, wanted.batch_size * self.engine.threads):
            chosen = [rows[number] for number in members]
            for number, best in zip(members, self._decode(prepared, chosen, watch)):
                found[number] = best
            done += len(members)
            watch.progress(done, len(rows))
        return found

    def _decode(
        self, prepared: SearchPlan, rows: List[List[int]], watch: Watch
    ) -> List[List[Hypothesis]]:
        found = self.engine.decode(
            rows,
            prepared if self.rescorer is None else prepared.with_all(),
            first_words=self.first_words(prepared, len(rows)),
            cancelled=watch.cancelled,
        )
        if self.rescorer is None:
            return found
        return [best[: prepared.options.nbest] for best in self.rescorer.rank(rows, found)]

    def score(
        self,
        prepared: SearchPlan,
        sources: List[List[int]],
        targets: List[List[int]],
        wanted: Wanted,
    ) -> List[Hypothesis]:
        """Scores a given translation of each source, see :meth:`.decoder.Decoder.score`. A
        shortlist is ignored."""
        found = self.engine.score(
            sources, [[target] for target in targets], batch_size=wanted.batch_size
        )
        for (scored,) in found:
            # Given translations were not written in steps.
            scored.steps, scored.token_steps = 0, []
        return [scored for (scored,) in found]

    def graphs(
        self, prepared: SearchPlan, rows: List[List[int]], wanted: Wanted, watch: Watch
    ) -> List[Dict[str, Any]]:
        """The graph of each source, see :meth:`.decoder.Decoder.graphs`. Each vertex has only its
        most probable word."""
        return [self._document(best[0]) for best in self.decode(prepared, rows, wanted, watch)]

    def _document(self, hypothesis: Hypothesis) -> Dict[str, Any]:
        graph, words = hypothesis.graph, self.target.words
        assert graph is not None
        return describe_graph(
            [
                [(words[token], float(np.exp(score)))]
                for token, score in zip(graph.tokens.tolist(), graph.scores)
            ],
            graph.links,
            graph.path,
            # Without </s>, as fairseq's dictionaries write it.
            translation=" ".join(words[token] for token in hypothesis.tokens[:-1]),
            score=hypothesis.score,
        )
