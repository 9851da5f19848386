"""Decodes the graphs of ``dag_transformer`` models into translations."""

import logging
import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import Memory, ParallelGenerator, attached, check_number
from ..native.decoding import Hypothesis, best_first
from ..native.families.dag import most_vertices, require_ranking
from ..native.options.values import DecodingOptions
from ..ops import joint_viterbi, without_repeats
from .beam import BeamPlan, best_paths, prefix_beam
from .graph import GraphBuilder, Graphs
from .graph_description import describe, to_dot
from .graph_size import vertices_of_encoded
from .paths import WalkRules, best_successors, follow, path_lists, sentence_keys, walk
from .static import StaticPaths
from .static_tables import PathSearch

logger = logging.getLogger(__name__)

# Links of all graphs and heads that are in memory together: 1 GiB in float32.
MOST_LINKS = 2**28


def decode_scale(decoder: Any, options: DecodingOptions) -> float:
    """lambda, the vertices per token, in decoding and validation:
    ``--dag-decode-upsample-scale``, else the middle of the range that the model was trained with.
    """
    given = options.dag_decode_upsample_scale
    return decoder.rule.scale.middle if given is None else given


def _size_rule(decoder: Any) -> Tuple[Any, ...]:
    """The settings of ``decoder``, a :class:`DagDecoder`, that determine the sizes of graphs, as a
    tuple; it must be equal for all models of an ensemble."""
    head = decoder.length_head
    return decoder.rule._replace(scale=None, most=0), head and head.absolute


class DagGenerator(ParallelGenerator):
    """Decodes ``dag_transformer`` models.

    A word that repeats the word before is not printed (unless ``--dag-keep-repeats``). The
    strategies differ in how they search and score such repetitions:

    * greedy and sample follow the links of the graph. Score: log P(path, tokens), repetitions
      included. lookahead, viterbi and joint-viterbi do the same only with ``--dag-repeats
      collapsed`` (as in DA-Transformer and FA-DAT) or ``--dag-keep-repeats``, and lookahead also
      where it suppresses repeats (:attr:`suppresses_repeats`).
    * Otherwise lookahead, viterbi and joint-viterbi search the graph of
      :func:`~..ops.without_repeats`, whose paths lead from the first vertex of a word to the first
      vertex of the next. Score: log-probability that the words begin at these vertices, summed over
      all repetitions between them. The length of a path is then its number of printed words.
    * beam: a hypothesis is a printed text. Score: log P(text), summed over all paths that print it.
      ``--dag-decode-beta`` changes this score as well as the search: token probabilities are raised
      to that power in both.

    Scores are divided by the number of printed tokens ** lenpen. greedy, lookahead and sample
    choose a path without knowing its length, and cut off words beyond ``--max-len-a/-b``; the
    others find paths within the limit, if there are any.

    Args:
        models: the ensemble; all must agree in the options that determine the sizes of graphs.
        dictionary: the target dictionary.
        options: the decoding options.
        seed: seed of sampling.

    Attributes:
        graph_hooks: functions that are called with the :class:`Graphs` of every batch and the
            hypotheses of each of its sentences, best first.

    Raises:
        ValueError: the strategy does not support the value of an option, or the models do not
            agree.
    """

    family = "dag"
    no_beginning = "a graph cannot begin with given words"

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        options: DecodingOptions,
        *,
        seed: int = 1,
    ) -> None:
        super().__init__(models, dictionary, options)
        require_ranking(options)
        self.strategy = self.stage = options.dag_decode_strategy
        self.seed = seed
        self.decoder = models[0].decoder
        self.scale = decode_scale(self.decoder, options)
        self.most_vertices = most_vertices(options, self.decoder_positions)
        if len({_size_rule(model.decoder) for model in models}) > 1:
            raise ValueError(
                "the models of an ensemble must agree in --dag-upsample-base, --dag-count-bos,"
                " --dag-read-bos and --dag-absolute-lengths: leave those that differ out of --path"
            )
        never = (dictionary.bos(), dictionary.pad(), dictionary.eos())
        self.penalties: Dict[int, float] = {token: float("inf") for token in never}
        self.penalties[dictionary.unk()] = options.unkpen if options.dag_allow_unk else float("inf")
        self.graph_hooks: List[Callable[[Graphs, List[List[Hypothesis]]], None]] = []
        self._builder: Optional[GraphBuilder] = None
        self._graphs: Optional[Graphs] = None
        self._static: Optional[StaticPaths] = None
        # No warning: the user has given --dag-max-graph.
        self._warned_of_clamping = options.dag_max_graph is not None

    def decode_sources(self, net_input: Dict[str, Tensor]) -> List[List[Hypothesis]]:
        tokens, lengths = self.decoder.read_source(
            net_input["src_tokens"], net_input["src_lengths"]
        )
        return self._decode_read({"src_tokens": tokens, "src_lengths": lengths})

    def _decode_read(self, net_input: Dict[str, Tensor]) -> List[List[Hypothesis]]:
        """Decodes a batch whose sources are as :meth:`DagDecoder.read_source` returns them; in
        smaller batches if its graphs would need too much memory."""
        count = self.graphs_at_once(net_input["src_tokens"].size(1))
        if count < len(net_input["src_tokens"]) and not self.graph_hooks:
            pieces = zip(*(net_input[name].split(count) for name in ("src_tokens", "src_lengths")))
            return [
                best
                for tokens, lengths in pieces
                for best in self._decode_read({"src_tokens": tokens, "src_lengths": lengths})
            ]
        if self.uses_graphs:
            found = self.decode_static(net_input["src_tokens"])
            if found is not None:
                return found
        memories = self.ensemble.encode(net_input)
        graphs = self.build_graphs(memories)
        limits = self.length_limits(memories[0].lengths, capacity=int(graphs.lengths.max()) + 1)
        if self.strategy == "beam":
            found = self.by_beam(graphs, limits)
        elif self.strategy == "sample" or self.suppresses_repeats:
            found = self.by_walk(graphs, limits, net_input["src_tokens"])
        else:
            found = self.by_path(graphs, limits)
        for best in found:
            check_number(best[0].score or 0.0)
        self._graphs = graphs if self.graph_hooks else None
        return found

    def ranked(
        self, net_input: Dict[str, Tensor], hypotheses: List[List[Hypothesis]]
    ) -> List[List[Hypothesis]]:
        """Lets the rescorer, if there is one, rank the hypotheses of each sentence; then calls the
        step hooks and the graph hooks with the final order, and returns it."""
        found = super().ranked(net_input, hypotheses)
        for hook in self.graph_hooks:
            assert self._graphs is not None
            hook(self._graphs, found)
        return found

    # ------------------------------------------------------------------ the graph

    def graphs_at_once(self, width: int) -> int:
        """The most sentences whose graphs are built together, for sources of ``width`` tokens. The
        memory of links grows with the square of a graph's vertices: larger batches are decoded in
        pieces of this size, which changes no translation."""
        decoder, words = self.decoder, width + self.decoder.rule.count_bos
        if decoder.length_head is not None:
            head = decoder.length_head
            words = head.classes if head.absolute else width + head.classes // 2
        vertices = min(math.ceil(self.scale * words) + 2, self.most_vertices)
        return max(1, MOST_LINKS // (decoder.links.heads * vertices * vertices))

    def build_graphs(self, memories: List[Memory]) -> Graphs:
        """The graphs of a batch; ``memories`` are its encoded sources, one :class:`Memory` for each
        model."""
        return self.builder().build(memories, self.vertex_lengths(memories))

    def builder(self) -> GraphBuilder:
        """The builder of graphs, made at the first call and kept. Each call updates the builder's
        copy of the link weights, where :meth:`GraphBuilder.refresh` finds that it may be old."""
        if self._builder is None:
            self._builder = GraphBuilder(self.ensemble, self.penalties)
        self._builder.refresh(static_weights=self.options.static_weights)
        return self._builder

    def vertex_lengths(self, memories: List[Memory]) -> Tensor:
        """L, the number of vertices of each sentence's graph, which depends on that sentence alone:
        LongTensor ``[B]``. If it exceeds ``--dag-max-graph`` or, without that option, the decoder's
        number of positions, it is reduced to that number; the first time that it exceeds the
        positions, this generator logs a warning.

        Args:
            memories: the encoded sources, one :class:`Memory` for each model.
        """
        sizes = vertices_of_encoded([model.decoder for model in self.models], memories, self.scale)
        if not self._warned_of_clamping and bool((sizes > self.most_vertices).any()):
            self._warn_of_clamping()
        return sizes.clamp(max=self.most_vertices)

    def _warn_of_clamping(self) -> None:
        if not self._warned_of_clamping:
            self._warned_of_clamping = True
            logger.warning(
                "graphs of long sentences are cut to the decoder's %d positions",
                self.decoder_positions,
            )

    def describe_graphs(
        self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict[str, Any]
    ) -> List[Dict[str, Any]]:
        """Decodes the batch ``sample`` and returns its graphs as plain data: for each sentence the
        dictionary of :func:`.graph_description.describe`."""
        found: List[Dict[str, Any]] = []
        with attached(
            self.graph_hooks,
            lambda graphs, hypotheses: found.extend(
                describe(graphs, [best[0] for best in hypotheses], dictionary=self.dictionary)
            ),
        ):
            self.generate(models, sample)
        return found

    graph_dot = staticmethod(to_dot)

    # ------------------------------------------------------------------ strategies

    @property
    def suppresses_repeats(self) -> bool:
        """Whether ``--dag-no-repeat-consecutive`` or ``--no-repeat-ngram-size`` forbids repeats, so
        that the choice of each word depends on the words before it."""
        return bool(self.options.dag_no_repeat_consecutive or self.options.no_repeat_ngram_size)

    @property
    def _suppresses_in_search(self) -> bool:
        """Whether paths are searched in the graph of :func:`~..ops.without_repeats`, in which they
        lead from word to word and repetitions are summed."""
        options = self.options
        return not (
            options.dag_keep_repeats
            or options.dag_repeats == "collapsed"
            or self.strategy == "greedy"
        )

    @property
    def _token_weight(self) -> float:
        """The factor of a token's log-probability in the search of a path; that of a link has the
        factor 1."""
        return {"greedy": 0.0, "viterbi": 0.0, "joint-viterbi": 1.0}.get(
            self.strategy, self.options.dag_decode_beta
        )

    def decode_static(self, tokens: Tensor) -> Optional[List[List[Hypothesis]]]:
        """The hypotheses of each sentence, as :meth:`by_path` finds them, computed on a GPU by the
        replay of a CUDA graph (:class:`.static.StaticPaths`). None if this batch cannot be decoded
        so; :attr:`ways` then has the reason.

        Args:
            tokens: the sources, LongTensor ``[B, S]``.
        """
        # Set first: the tables that graph_refusal makes may already exceed the device's memory.
        self._tried_graphs = True
        refusal = self.graph_refusal(tokens)
        if refusal is None:
            assert self._static is not None
            found = self._static.find(tokens)
            if found is not None:
                self.tell_way(None)
                paths, clamped = found
                if clamped:
                    self._warn_of_clamping()
                hypotheses = [[self._hypothesis(*path)] for path in paths]
                for best in hypotheses:
                    check_number(best[0].score or 0.0)
                return hypotheses
            refusal = (
                "a batch whose probabilities underflow, or whose paths exceed the length limit"
            )
        self._tried_graphs = False
        self.tell_way(refusal)
        return None

    def graph_refusal(self, tokens: Tensor, prefix: Optional[Tensor] = None) -> Optional[str]:
        options = self.options
        if self.strategy in ("beam", "sample"):
            # Each step asks on the host whether all texts are complete, and language models run
            # there; a beam's shapes grow with its texts.
            return (
                f"--dag-decode-strategy {self.strategy}, whose number of steps depends on the words"
                " that it finds"
            )
        if self.suppresses_repeats:
            return "--dag-no-repeat-consecutive or --no-repeat-ngram-size"
        if self.graph_hooks:
            return "hooks that read the graph"
        if self.rescorer is not None:
            return "a model that reranks the translations"
        if self.paused:
            return self.pause_reason
        builder = self.builder()
        if self._static is None or self._static.builder is not builder:
            self._static = StaticPaths(
                builder,
                PathSearch(
                    viterbi="viterbi" in self.strategy,
                    weight=self._token_weight,
                    suppress=self._suppresses_in_search,
                    length_beta=options.dag_decode_length_beta,
                    scale=self.scale,
                    max_len_a=options.max_len_a,
                    max_len_b=options.max_len_b,
                    most=self.most_vertices,
                ),
            )
        return self._static.graph_refusal(tokens)

    def by_path(self, graphs: Graphs, limits: Tensor) -> List[List[Hypothesis]]:
        """Decodes by greedy, lookahead, viterbi or joint-viterbi: finds a path in each graph, then
        the best token of each vertex on the path. ``limits``, LongTensor ``[B]``, are the most
        words of each translation."""
        keeps, weight = not self._suppresses_in_search, self._token_weight
        scores: Optional[Tensor] = None
        tokens: Optional[Tensor] = None
        # ``links`` are searched, with weighted probabilities of repetitions; ``counted`` has the
        # unweighted ones, for the score.
        links = counted = graphs.links
        if not keeps or self.strategy not in ("greedy", "viterbi"):
            scores, tokens = graphs.best_tokens()  # [B, L] each
        if not keeps and scores is not None and tokens is not None:
            counted = links = without_repeats(graphs.links, tokens, scores, graphs.lengths)
            if weight != 1.0:
                links = without_repeats(graphs.links, tokens, weight * scores, graphs.lengths)
        if "viterbi" in self.strategy:
            passed = self._viterbi(graphs, links, scores if weight else None, limits)  # [B, L]
        else:
            passed = follow(best_successors(links, scores if weight else None, weight), graphs.last)
        if tokens is None or scores is None:
            scores, tokens = graphs.best_tokens(passed)
        paths = path_lists(passed)
        # The vertex before each, in row-major order; that of a first vertex is masked below.
        rows, vertices = passed.nonzero(as_tuple=True)  # [path vertices of all sentences] each
        words = tokens[rows, vertices].tolist()
        before = torch.cat([vertices.new_zeros(1), vertices[:-1]])
        into = counted[rows, before, vertices].masked_fill(vertices == 0, 0.0)  # like vertices
        parts = (scores[rows, vertices] + into).tolist()
        found, place = [], 0
        for path, limit in zip(paths, limits.tolist()):
            end = place + len(path)
            found.append([self._hypothesis(path, words[place:end], parts[place:end], limit)])
            place = end
        return found

    def _viterbi(
        self, graphs: Graphs, links: Tensor, scores: Optional[Tensor], limits: Tensor
    ) -> Tensor:
        """The vertices of the best path over ``links`` ``[B, L, L]``, with ``scores`` ``[B, L]`` of
        the vertices (None: zeros): BoolTensor ``[B, L]``.

        If no path is within the length limit (``--dag-max-transition-length`` makes paths long),
        the best links are followed and words beyond the limit cut off, as in lookahead.
        """
        # At most twice as many words as the scale implies: L / lambda.
        interior = torch.minimum((2 * graphs.lengths / self.scale).long(), limits).clamp(min=1)
        paths = joint_viterbi(
            torch.zeros_like(links[:, :, 0]) if scores is None else scores.to(links.dtype),
            links,
            graphs.lengths,
            max_interior=interior,
            length_beta=self.options.dag_decode_length_beta,
        ).paths
        # The -1 behind a path are scattered into an extra column, which is dropped.
        size = links.size(1)
        passed = torch.zeros(len(links), size + 1, dtype=torch.bool, device=links.device)
        passed = passed.scatter_(1, paths.masked_fill(paths < 0, size), True)[:, :size]  # [B, L]
        without = ~passed.any(1)  # [B]
        if bool(without.any()):
            passed[without] = follow(best_successors(links[without]), graphs.last[without])
        return passed

    def by_walk(self, graphs: Graphs, limits: Tensor, source: Tensor) -> List[List[Hypothesis]]:
        """Decodes by sampling, or by lookahead with repeat suppression: chooses vertex and token
        together, step by step. Random numbers depend on the ``source`` tokens ``[B, S]``;
        ``limits``, LongTensor ``[B]``, are the most words of each translation."""
        options, sampling = self.options, self.strategy == "sample"
        rules = WalkRules(
            beta=options.dag_decode_beta,
            candidates=options.dag_candidates,
            consecutive=options.dag_no_repeat_consecutive,
            anywhere=options.no_repeat_ngram_size,
            temperature=options.temperature if sampling else None,
            top_p=options.dag_sample_topp,
            seed=self.seed,
            keep_repeats=options.dag_keep_repeats,
        )
        candidates, ends = graphs.top_tokens(options.dag_candidates), graphs.end_scores()
        found: List[List[Hypothesis]] = [[] for _ in graphs.lengths]
        for number in range(self.wanted):
            keys = sentence_keys(source, self.dictionary.pad(), number)  # [B]
            vertices, words, scores = walk(  # [B, steps] each
                graphs.links, candidates, graphs.last, rules, eos=self.eos, keys=keys
            )
            for row, best in enumerate(found):
                kept = vertices[row] >= 0
                path = torch.cat([vertices.new_zeros(1), vertices[row][kept]])  # [t]
                parts = graphs.links[row, path[:-1], path[1:]] + scores[row][kept]  # [t - 1]
                parts[-1] += ends[row, 1]
                tokens = [graphs.bos, *words[row][kept].tolist()]
                each = [float(ends[row, 0]), *parts.tolist()]
                best.append(self._hypothesis(path.tolist(), tokens, each, int(limits[row])))
        return [best_first(best) for best in found]

    def by_beam(self, graphs: Graphs, limits: Tensor) -> List[List[Hypothesis]]:
        """Decodes by beam search: finds the texts whose probability, summed over the paths that
        print them, is highest. ``limits``, LongTensor ``[B]``, are the most words of each
        translation."""
        options, weight = self.options, self.options.dag_decode_beta
        check_number(float(graphs.links.sum()))
        ends, emissions = (
            weight * graphs.end_scores().to(graphs.links),
            graphs.probabilities(weight),
        )
        plan = BeamPlan(
            beam=options.beam,
            nbest=self.wanted,
            lenpen=options.lenpen if options.normalize else 0.0,
            limits=limits,
            shortest=options.min_len,
            eos=self.eos,
            keep_repeats=self.options.dag_keep_repeats,
            mass_only_falls=weight >= 1.0,
            language_model=self.language_model,
        )
        texts = prefix_beam(graphs.links, emissions, ends, graphs.last, plan)
        found: List[List[Hypothesis]] = [[] for _ in graphs.lengths]
        for number in range(self.wanted):
            words = texts.tokens[:, number]  # [B, words + 1]
            placed = best_paths(
                words,
                emissions,
                ends,
                graphs.links,
                graphs.lengths,
                keep_repeats=plan.keep_repeats,
            )
            totals, ranks = texts.log_probs[:, number].tolist(), texts.ranks[:, number].tolist()
            for row, (best, path, total, rank) in enumerate(zip(found, placed, totals, ranks)):
                if path is not None and rank > float("-inf"):
                    vertices, scores = path
                    tokens = [graphs.bos, *words[row, : len(scores) - 1].tolist()]
                    hypothesis = self._hypothesis(vertices, tokens, scores, len(scores))
                    # The best path's log-probabilities; the rest of log P(text) is spread evenly.
                    more = (total - sum(hypothesis.positional_scores)) / len(hypothesis.tokens)
                    hypothesis.positional_scores = [
                        part + more for part in hypothesis.positional_scores
                    ]
                    hypothesis.score = rank
                    best.append(hypothesis)
        if not all(found):
            # No text is within --max-len-a/-b: the best path is cut off there.
            found = [best or instead for best, instead in zip(found, self.by_path(graphs, limits))]
        return found

    # ------------------------------------------------------------------ results

    def _hypothesis(
        self, path: List[int], tokens: List[int], parts: List[float], limit: int
    ) -> Hypothesis:
        """The translation that a path prints.

        A repetition of the word before is dropped (unless ``--dag-keep-repeats``), and its
        log-probability added to that word's.

        Args:
            path, tokens, parts: the path's vertices, their tokens and the log-probability of each
                token with the link to it; the first vertex is included.
            limit: the most words; further words and their log-probabilities are dropped.
        """
        kept: List[int] = []
        scores: List[float] = []
        carried = parts[0]
        for place in range(1, len(tokens)):
            ending = place + 1 == len(tokens)
            repeated = bool(kept) and not ending and tokens[place] == tokens[kept[-1]]
            if repeated and not self.options.dag_keep_repeats:
                scores[-1] += parts[place]
            elif ending or len(kept) < limit:
                kept.append(place)
                scores.append(parts[place] + carried)
                carried = 0.0
        hypothesis = self.in_one_step([tokens[place] for place in kept], scores)
        hypothesis.token_vertices = [path[place] for place in kept]
        return hypothesis
