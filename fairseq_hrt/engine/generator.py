"""The base class of the families' generators, with the interface that fairseq's commands expect,
and the autoregressive generator."""

import logging
import time
from typing import Any, ContextManager, Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..native.decoding import Hypothesis, Rescorer, collapse_repeats, require_candidates
from ..native.families import BY_NAME, candidates
from ..native.options.values import DecodingOptions, forced_ids, require_torch
from .attention_alignment import align
from .beam_search import SearchPlan, require_found, search
from .cache import Memory
from .constraints import Constraints, length_limits
from .counters import GenerationCounters
from .ensemble import EngineEnsemble
from .fairseq_hypothesis import to_fairseq
from .graphs import RecordingFailed, is_shortage
from .static_search import StaticSearch
from .steps import StepHook, attached

logger = logging.getLogger(__name__)

# Seconds without CUDA graphs after memory was short, or a recording failed, for the first time;
# each further time twice as many, an hour at most.
PAUSE, LONGEST_PAUSE = 60.0, 3600.0


class EngineGenerator:
    """Base of the families' generators: a family defines how one encoded batch is decoded.

    Args:
        models: the models of the ensemble. Their weights are packed at the first batch: only then
            has fairseq moved them to their device and cast them.
        dictionary: the target dictionary.
        options: the decoding options.

    Attributes:
        family: name of the models' family.
        forced: ids of the words that every translation begins with (``--forced-start``).
        counters: how many calls were made and tokens decoded.
        step_hooks: called with every :class:`DecodingStep`.
        aligned: whether hypotheses get an alignment; see :meth:`align_words`.
        rescorer: ranks the hypotheses; None keeps the order of the search. See :meth:`rank_by`.
        ways: how batches were decoded so far, in words for the user and each way once: with CUDA
            graphs, or without because of some reason (see :meth:`tell_way`).
        pause_reason: why the last pause from CUDA graphs began, in words for the log.
        eos: id of ``</s>``, which fairseq's command line strips from its output.
    """

    family = "autoregressive"

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        options: DecodingOptions,
    ) -> None:
        require_torch(options)
        self.models = list(models)
        self.dictionary = dictionary
        self.options = options
        self.eos = dictionary.eos()
        self.symbols_to_strip_from_output = {self.eos}
        never = (dictionary[dictionary.pad()], dictionary[self.eos])
        self.forced = forced_ids(options, dictionary.symbols, never)
        self.counters = GenerationCounters()
        self.step_hooks: List[StepHook] = []
        self._ensemble: Optional[EngineEnsemble] = None
        self.aligned = False
        self.rescorer: Optional[Rescorer] = None
        self._uses_graphs: Optional[bool] = None
        self.ways: List[str] = []
        self._resume, self._pause, self.pause_reason = 0.0, PAUSE, ""
        # Whether the last batch was decoded by graphs, or the attempt was made.
        self._tried_graphs = False
        longest = self.decoder_positions - 1
        if options.min_len > longest:
            raise ValueError(
                f"--min-len {options.min_len} is greater than the {longest} words that the model"
                " can write; lower it"
            )
        if options.print_alignment is not None:
            self.align_words("--print-alignment")

    @property
    def ensemble(self) -> EngineEnsemble:
        """The engines, built at first use."""
        if self._ensemble is None:
            static = self.options.static_weights
            self._ensemble = EngineEnsemble(self.models, self.counters, static_weights=static)
        return self._ensemble

    @torch.no_grad()
    def generate(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> List[List[Dict[str, Any]]]:
        """Translates a batch; arguments as for :meth:`find`, except that ``models`` is ignored: the
        models given to the constructor decode.

        Returns:
            For each sentence its hypotheses, best first, as :func:`.fairseq_hypothesis.to_fairseq`
            describes them.
        """
        found = self.find(sample, prefix_tokens, constraints, bos_token)
        return [[to_fairseq(hypothesis) for hypothesis in best] for best in found]

    @torch.no_grad()
    def find(
        self,
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> List[List[Hypothesis]]:
        """Decodes a batch; returns at most ``--beam`` hypotheses of each sentence, best first.

        Args:
            sample: a batch of :class:`LanguagePairDataset`.
            prefix_tokens: LongTensor ``[B, P]``, the tokens that each translation must begin with,
                see :class:`Constraints`; or None.
            constraints: must be None.
            bos_token: id of the start symbol; None: ``</s>``.

        Raises:
            NumericalError: a probability is NaN, or all translations of a sentence have
                probability 0.
            ValueError: ``constraints`` are given, or both ``prefix_tokens`` and
                ``--forced-start``.
        """
        if constraints is not None:
            raise ValueError(
                "--constraints: not supported by this decoder; decode with --task translation"
            )
        if self.forced:
            if prefix_tokens is not None:
                raise ValueError(
                    "--forced-start with given first words: both set how translations begin; leave"
                    " one out"
                )
            tokens = sample["net_input"]["src_tokens"]  # [B, S]
            prefix_tokens = tokens.new_tensor(self.forced).expand(tokens.size(0), -1)  # [B, P]
        for model in self.models:
            # As fairseq's generator does; a training step switches the model back itself.
            if model.training:
                model.eval()
        # Before each batch: a model that was moved or cast since has new weight tensors.
        self.ensemble.refresh()
        # Recorded computations are replayed on the current device.
        with torch.inference_mode(), self.ensemble.graphs.on_device():
            hypotheses = require_found(self._decoded(sample["net_input"], prefix_tokens, bos_token))
        # Aligned before repeats are collapsed, as in the native engine; rescored after that.
        if self.aligned:
            align(self.ensemble, sample["net_input"], hypotheses, self.dictionary, start=bos_token)
        if BY_NAME[self.family].collapses_repeats(self.options):
            for hypothesis in (one for best in hypotheses for one in best):
                collapse_repeats(hypothesis)
        with torch.inference_mode(), self.ensemble.graphs.on_device():
            hypotheses = self.ranked(sample["net_input"], hypotheses)
        self.counters.sentences += len(hypotheses)
        return [best[: self.options.beam] for best in hypotheses]

    def _decoded(
        self, net_input: Dict[str, Tensor], prefix: Optional[Tensor], start: Optional[int]
    ) -> List[List[Hypothesis]]:
        """Calls :meth:`decode`. If memory is short on the device, or the recording of a CUDA graph
        fails, drops all recordings and calls it again; if it had used CUDA graphs, they are not
        used from then on for a while (:attr:`paused`)."""
        graphs = self.ensemble.graphs
        self._tried_graphs = False
        try:
            return self.decode(net_input, prefix=prefix, start=start)
        except RuntimeError as error:
            if not graphs.enabled:
                raise
            failed = isinstance(error, RecordingFailed)
            if failed:
                reason = f"a recording that failed ({error})"
            elif is_shortage(error):
                reason = "too little memory"
            else:
                raise
        if failed or self._tried_graphs:
            logger.warning(
                "decoding without CUDA graphs for %d s because of %s", self._pause, reason
            )
            self._resume, self.pause_reason = time.monotonic() + self._pause, reason
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        graphs.make_room()
        return self.decode(net_input, prefix=prefix, start=start)

    @property
    def paused(self) -> bool:
        """Whether CUDA graphs are not used for a while, since memory was short or the recording of
        one failed."""
        return time.monotonic() < self._resume

    @property
    def candidates(self) -> int:
        """The largest number of translations that :meth:`decode` can find for a sentence."""
        return candidates(
            self.family, self.options, self.models[0].decoder, words=len(self.dictionary)
        )

    @property
    def wanted(self) -> int:
        """How many translations of a sentence the search has to find: ``nbest``, or all candidates
        if a rescorer will choose among them."""
        return self.options.nbest if self.rescorer is None else self.candidates

    def require_candidates(self) -> None:
        """Raises ValueError if the search finds only one translation per sentence."""
        require_candidates(self.candidates, self.family)

    def rank_by(self, rescorer: Rescorer) -> None:
        """From now on ``rescorer`` ranks the translations of each sentence.

        Raises:
            ValueError: the search finds only one translation per sentence.
        """
        self.require_candidates()
        self.rescorer = rescorer

    def align_words(self, option: str = "--replace-unk") -> None:
        """From now on each hypothesis has an ``alignment``: the source word of each of its tokens.

        Args:
            option: the option that asks for alignments, named in the error.

        Raises:
            ValueError: a model does not decode from left to right; only such models can be aligned.
        """
        for model in self.models:
            if getattr(model.decoder, "only_task", None) is not None:
                raise ValueError(
                    f"{option}: the words of a {type(model).__name__} are not aligned with the"
                    " source; "
                    + (
                        "give --unkpen inf instead, which forbids <unk>"
                        if option == "--replace-unk"
                        else "leave it out"
                    )
                )
        self.aligned = True

    def decode(
        self, net_input: Dict[str, Tensor], *, prefix: Optional[Tensor], start: Optional[int]
    ) -> List[List[Hypothesis]]:
        """Decodes one batch, in inference mode: the hypotheses of each sentence, best first.
        ``net_input`` is part of the ``sample`` of :meth:`find`; ``prefix`` and ``start`` are its
        ``prefix_tokens`` and ``bos_token``."""
        raise NotImplementedError

    def ranked(
        self, net_input: Dict[str, Tensor], hypotheses: List[List[Hypothesis]]
    ) -> List[List[Hypothesis]]:
        """The hypotheses that :meth:`decode` found, ranked by the rescorer; without one, as they
        are."""
        if self.rescorer is None:
            return hypotheses
        return self.rescorer.rank(
            source_rows(net_input["src_tokens"], self.dictionary.pad()), hypotheses
        )

    @property
    def beam(self) -> int:
        """``--beam``, at most V - 1: fairseq never keeps more hypotheses than there are tokens
        besides padding."""
        return min(self.options.beam, len(self.dictionary) - 1)

    def length_limits(self, lengths: Tensor, *, capacity: Optional[int] = None) -> Tensor:
        """The largest number of tokens before ``</s>``: LongTensor ``[B]``.

        The limit follows from each sentence's own length. fairseq takes the padded length of the
        batch, so that its translations can depend on what they are batched with.

        Args:
            lengths: LongTensor ``[B]``, the number of source tokens, ``</s>`` included.
            capacity: the number of decoder positions; None: :attr:`decoder_positions`.
        """
        capacity = self.decoder_positions if capacity is None else capacity
        if self.rescorer is not None:
            capacity = min(capacity, self.rescorer.judge.longest_target)
        return length_limits(
            lengths,
            max_len_a=self.options.max_len_a,
            max_len_b=self.options.max_len_b,
            capacity=capacity,
        )

    def rules(
        self, limits: Tensor, *, prefix: Optional[Tensor] = None, stride: int = 1
    ) -> Constraints:
        """The constraints that the options put on each next token.

        Args:
            limits: LongTensor ``[B]``, the most tokens of the search before ``</s>``, see
                :meth:`length_limits`.
            prefix: LongTensor ``[B, P]``, the first tokens of each sentence, see
                :class:`Constraints`; or None.
            stride: target tokens for each token that is searched; K in the first stage of hrt.
        """
        return Constraints(
            self.dictionary,
            # A translation shorter than the stride is a single searched token, </s>.
            min_length=self.options.min_len // stride,
            max_lengths=limits,
            unkpen=self.options.unkpen,
            no_repeat_ngram_size=self.options.no_repeat_ngram_size,
            prefix=prefix,
            prefix_scored=not self.forced,
        )

    def search_plan(self, start: Optional[int], rules: Constraints, **more: Any) -> SearchPlan:
        """The settings of a search, from the options.

        Args:
            start: id of the start symbol; None: ``</s>``.
            rules: the constraints on each next token, see :meth:`rules`.
            more: further fields of :class:`SearchPlan`.
        """
        return SearchPlan(
            start=self.eos if start is None else start,
            constraints=rules,
            beam=self.beam,
            lenpen=self.options.lenpen,
            normalize=self.options.normalize,
            temperature=self.options.temperature,
            **more,
        )

    @property
    def uses_graphs(self) -> bool:
        """Whether batches without a :meth:`graph_refusal` are decoded by computations of fixed
        shapes, which a GPU replays as CUDA graphs; if nothing (None) was assigned, only on GPUs."""
        return self.ensemble.graphs.enabled if self._uses_graphs is None else self._uses_graphs

    @uses_graphs.setter
    def uses_graphs(self, wanted: Optional[bool]) -> None:
        self._uses_graphs = wanted

    def by_graphs(self, tokens: Tensor, prefix: Optional[Tensor] = None) -> bool:
        """Whether a batch is decoded by computations of fixed shapes, not step by step; unless
        :attr:`uses_graphs` is False, the answer is also logged (:meth:`tell_way`). Arguments as for
        :meth:`graph_refusal`."""
        if not self.uses_graphs:
            return False
        reason = self.graph_refusal(tokens, prefix)
        self._tried_graphs = reason is None
        self.tell_way(reason)
        return reason is None

    def graph_refusal(self, tokens: Tensor, prefix: Optional[Tensor] = None) -> Optional[str]:
        """Why CUDA graphs do not support these models, options or this batch, in a few words; None:
        they do.

        Args:
            tokens: LongTensor ``[B, S]``, the sources.
            prefix: LongTensor ``[B, P]``, given first words of the translations, or None.
        """
        engine = self.ensemble.engines[0]
        for reason, holds in (
            ("a given beginning", prefix is not None),
            ("--no-repeat-ngram-size", self.options.no_repeat_ngram_size),
            ("--retain-iter-history", self.options.retain_iter_history),
            ("a trace of the steps", self.step_hooks),
            ("an ensemble", len(self.models) > 1),
            (
                f"an encoder of type {type(engine.model.encoder).__name__}",
                not engine.encoder_layers,
            ),
            ("weights that are being trained", not engine.static_weights),
            (self.pause_reason, self.paused),
        ):
            if holds:
                return reason
        return None

    def tell_way(self, reason: Optional[str]) -> None:
        """Adds to :attr:`ways`, and logs at its first time, that a batch is decoded by CUDA graphs
        or, because of ``reason``, without."""
        way = "with CUDA graphs" if reason is None else f"without CUDA graphs because of {reason}"
        if way not in self.ways:
            self.ways.append(way)
            logger.info("decoding %s", way)

    def host_lengths(self, tokens: Tensor) -> Tensor:
        """The number of tokens of each source in ``tokens`` ``[B, S]``, padding not counted:
        LongTensor ``[B]`` on the host."""
        return tokens.ne(self.ensemble.engines[0].pad).sum(1).cpu()

    @property
    def static_search(self) -> StaticSearch:
        """The search that runs on the device alone; :attr:`ensemble` keeps its buffers and
        recordings."""
        return StaticSearch(self.ensemble, longest=self.decoder_positions)

    @property
    def decoder_positions(self) -> int:
        """Decoder positions of the model that has the fewest."""
        return min(model.max_decoder_positions() for model in self.models)

    def watched(self, hook: StepHook) -> ContextManager[None]:
        """Calls ``hook`` with every :class:`DecodingStep` while the context lasts."""
        return attached(self.step_hooks, hook)


def source_rows(tokens: Tensor, pad: int) -> List[List[int]]:
    """The ids of each source of a batch ``tokens`` ``[B, S]``, without padding (id ``pad``)."""
    return [[token for token in row if token != pad] for row in tokens.tolist()]


class AutoregressiveGenerator(EngineGenerator):
    """Left-to-right decoding, one token per step; the baseline of the other families."""

    def decode(
        self, net_input: Dict[str, Tensor], *, prefix: Optional[Tensor], start: Optional[int]
    ) -> List[List[Hypothesis]]:
        # The words of --forced-start, which begin all translations, need no table per sentence.
        if self.by_graphs(net_input["src_tokens"], None if self.forced else prefix):
            return self.decode_static(net_input["src_tokens"], start=start)
        return self.decode_memories(self.ensemble.encode(net_input), prefix=prefix, start=start)

    def decode_static(
        self, tokens: Tensor, *, start: Optional[int] = None
    ) -> List[List[Hypothesis]]:
        """Decodes the sources ``tokens`` ``[B, S]`` by the search that runs on the device alone
        (:mod:`.static_search`); ``start``: id of the start symbol, None: ``</s>``."""
        lengths = self.host_lengths(tokens)
        plan = self.search_plan(start, self.rules(self.length_limits(lengths)))
        with self.ensemble.graphs.lock:
            source = self.static_search.encode(tokens, self.eos)
            return self.static_search.search(source, len(lengths), plan, forced=self.forced)

    def decode_memories(
        self,
        memories: List[Memory],
        *,
        prefix: Optional[Tensor] = None,
        start: Optional[int] = None,
    ) -> List[List[Hypothesis]]:
        """Decodes a batch that is encoded already, in one memory per model. ``prefix`` (the first
        tokens) and ``start`` (id of the start symbol) are ``prefix_tokens`` and ``bos_token`` of
        :meth:`find`."""
        rules = self.rules(self.length_limits(memories[0].lengths), prefix=prefix)
        self.ensemble.reserve_positions(rules.longest_limit + 1)
        plan = self.search_plan(start, rules)
        found = search(self.ensemble, memories, plan, hooks=self.step_hooks)
        if self.options.retain_iter_history:
            for hypothesis in (hypothesis for best in found for hypothesis in best):
                hypothesis.history = [
                    hypothesis.tokens[: i + 1] for i in range(len(hypothesis.tokens))
                ]
        return found
