"""Beam search for the most probable text. A path prints the words of its vertices, without those
that repeat the word before. A hypothesis is a prefix of a text; its probability is the sum over all
paths that print it.

Each prefix keeps a distribution over the vertices at which its last word may begin. A step sums
over repetitions of that word, which are not printed, by one triangular system; multiplies by the
links to reach the next vertices; and multiplies by the vertices' token probabilities to get the
probability of every continuation. Paths that print the same prefix are thus merged by adding their
probabilities, as in the released search of DA-Transformer: no text is found twice, and the
probability of a finished text is its exact likelihood.
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from ..engine import LanguageModel
from ..ops import best_printing_path, dag_best_alignment


@dataclass(frozen=True)
class BeamPlan:
    """The settings of a beam search.

    Attributes:
        beam: N, the number of prefixes of each sentence that are kept after each word.
        nbest: the number of finished texts that are wanted for each sentence.
        lenpen: texts are ranked by log-probability / tokens ** lenpen, where ``</s>`` counts as a
            token; 0: not normalised.
        limits: LongTensor ``[B]``, the most words of a text, without ``</s>``.
        shortest: the fewest words of a text, without ``</s>``.
        eos: id of ``</s>``.
        keep_repeats: True: a word that repeats the word before is part of the text; False: it is
            dropped.
        mass_only_falls: True promises that no continuation is more probable than its prefix, so
            that the search may stop early; give False for token probabilities raised to a power
            below 1.
        language_model: its score of a prefix is added to the log-probability; None: none is used.
    """

    beam: int
    nbest: int
    lenpen: float
    limits: Tensor
    shortest: int
    eos: int
    keep_repeats: bool = False
    mass_only_falls: bool = True
    language_model: Optional[LanguageModel] = None


@dataclass
class Texts:
    """Finished texts, best first.

    Attributes:
        tokens: LongTensor ``[B, nbest, words + 1]``, with ``</s>``, and -1 behind it.
        log_probs: ``[B, nbest]``, log P(text); -inf where there are fewer texts.
        ranks: ``[B, nbest]``, the scores by which the texts are sorted: log P(text), plus the
            language model's score, divided by tokens ** lenpen.
    """

    tokens: Tensor
    log_probs: Tensor
    ranks: Tensor


def prefix_beam(
    links: Tensor, emissions: Tensor, end_scores: Tensor, last: Tensor, plan: BeamPlan
) -> Texts:
    """Finds the most probable texts of each sentence's graph, of the lengths that ``plan`` allows.

    Args:
        links: ``[B, L, L]``, log P(v | u).
        emissions: ``[B, L, V]``, P(token | v); those of the first and last vertex are not read.
        end_scores: ``[B, 2]``, log P(<s> | first) and log P(</s> | last).
        last: LongTensor ``[B]``, index of the last vertex.
        plan: the settings of the search.
    """
    batch, size, vocabulary = emissions.shape
    device, beams = links.device, plan.beam
    rows = torch.arange(batch, device=device)  # [B]
    vertex = torch.arange(size, device=device)  # [L]
    inner = ((vertex > 0) & (vertex < last.unsqueeze(1))).unsqueeze(1)  # [B, 1, L]
    edges = links.exp()  # [B, L, L]
    longest = int(torch.minimum(plan.limits, last - 1).max().clamp(min=0))
    # [B, N, L], P(the last word of the prefix begins at v | prefix), and log P(prefix) [B, N].
    standing = edges.new_zeros(batch, beams, size)  # [B, N, L]
    standing[:, :, 0] = 1
    scores = edges.new_full((batch, beams), float("-inf"))  # [B, N]
    scores[:, 0] = end_scores[:, 0]
    words = last.new_full((batch, beams, 0), -1)  # [B, N, words so far]
    bonus = _Bonus(plan, batch)
    texts = Texts(
        last.new_full((batch, plan.nbest, longest + 1), -1),
        scores.new_full((batch, plan.nbest), float("-inf")),
        scores.new_full((batch, plan.nbest), float("-inf")),
    )
    for count in range(longest + 1):
        repeats = count > 0 and not plan.keep_repeats
        if repeats:
            standing = _with_repeats(standing, edges, emissions, words[:, :, -1], inner)
        reached = torch.bmm(standing, edges)  # [B, N, L]
        ended = reached[rows, :, last].log() + scores + end_scores[:, 1:]  # [B, N]
        # The minimum length is at most the number of inner vertices, or no text could end.
        allowed = count >= (last - 1).clamp(max=plan.shortest)
        ended = ended.masked_fill(~allowed.unsqueeze(1), float("-inf"))  # [B, N]
        _collect(texts, words, ended, bonus.ending(ended), plan)
        if count == longest or _complete(texts, scores + bonus.total, plan):
            break
        reached = reached * inner
        mass = torch.bmm(reached, emissions)  # [B, N, V]
        if repeats:
            # The same word again is a repetition, not a new word.
            mass.scatter_(2, words[:, :, -1:], 0.0)
        totals = (mass.log_() + scores.unsqueeze(2)).masked_fill(
            (count >= plan.limits).view(-1, 1, 1), float("-inf")
        )
        parent, token = bonus.select(totals, beams)  # [B, N] each
        scores = totals.view(batch, -1).gather(1, parent * vocabulary + token)  # [B, N]
        words = torch.cat(
            [words.gather(1, parent.unsqueeze(2).expand(-1, -1, count)), token.unsqueeze(2)], 2
        )
        moved = reached.gather(1, parent.unsqueeze(2).expand(-1, -1, size))  # [B, N, L]
        emitted = emissions.gather(2, token.unsqueeze(1).expand(-1, size, -1)).transpose(1, 2)
        standing = moved * emitted  # [B, N, L]
        standing = standing / standing.sum(2, keepdim=True).clamp(min=1e-37)  # [B, N, L]
    return texts


def best_paths(
    texts: Tensor,
    emissions: Tensor,
    end_scores: Tensor,
    links: Tensor,
    vertex_lengths: Tensor,
    *,
    keep_repeats: bool,
) -> List[Optional[Tuple[List[int], List[float]]]]:
    """The best path of each sentence among those that print its given text.

    Returns:
        For each sentence two lists with an entry for ``<s>`` and for each token of the text: the
        first vertex that writes the token; and the log-probability of the token and of the link to
        it, to which those of its repetitions on the path are added. None if the sentence has no
        text, or no path prints it.

    Args:
        texts: LongTensor ``[B, t]``, the text of each sentence, as in ``tokens`` of
            :class:`Texts`; -1 throughout if there is none.
        emissions: ``[B, L, V]``, P(token | v).
        end_scores: ``[B, 2]``, log P(<s> | first) and log P(</s> | last).
        links: ``[B, L, L]``, log P(v | u).
        vertex_lengths: LongTensor ``[B]``, the number of vertices of each graph.
        keep_repeats: whether a word that repeats the word before is part of the text.
    """
    lengths, last = (texts >= 0).sum(1).clamp(min=1) + 1, vertex_lengths - 1  # [B] each
    rows = torch.arange(len(texts), device=texts.device)
    chosen = texts.clamp(min=0).unsqueeze(1).expand(-1, links.size(1), -1)  # [B, L, t]
    match = emissions.gather(2, chosen).log().transpose(1, 2)  # [B, t, L]
    # Prepend <s>. Only the first vertex may write <s>, only the last </s>, and they write nothing
    # else.
    match = torch.cat([torch.full_like(match[:, :1], float("-inf")), match], 1)  # [B, t + 1, L]
    match[:, :, 0], match[rows, :, last] = float("-inf"), float("-inf")
    match[rows, lengths - 1] = float("-inf")
    match[:, 0, 0], match[rows, lengths - 1, last] = end_scores.unbind(1)
    program = dag_best_alignment if keep_repeats else best_printing_path
    alignment = program(match, links, lengths, vertex_lengths)  # [B, L]
    found: List[Optional[Tuple[List[int], List[float]]]] = []
    for row, own in enumerate(alignment):
        path = (own >= 0).nonzero().squeeze(1)  # vertices of the path
        if not len(path) or int(texts[row, 0]) < 0:
            found.append(None)
            continue
        parts = match[row, own[path], path]  # [vertices of the path]
        parts[1:] += links[row, path[:-1], path[1:]]
        scores = [0.0] * int(lengths[row])
        firsts: Dict[int, int] = {}
        for vertex, index, part in zip(path.tolist(), own[path].tolist(), parts.tolist()):
            scores[index] += part
            firsts.setdefault(index, vertex)
        found.append((list(firsts.values()), scores))
    return found


def _with_repeats(
    standing: Tensor, edges: Tensor, emissions: Tensor, words: Tensor, inner: Tensor
) -> Tensor:
    """s ``[B, N, L]``: for each prefix the probability, given the prefix, that a path writes its
    last word at vertex v, either for the first time or, at a vertex of ``inner``, as a repetition.

    s = n + s E diag(P(word | .)), one unit triangular system for each prefix.

    Args:
        standing: n, ``[B, N, L]``, the probability that the last word begins at each vertex.
        edges: E, ``[B, L, L]``, P(v | u).
        emissions: ``[B, L, V]``, P(token | v).
        words: LongTensor ``[B, N]``, the last word of each prefix.
        inner: BoolTensor ``[B, 1, L]``, True for vertices other than the first and last.
    """
    found = []
    # One beam at a time: the systems of all together would take N times the memory of the links.
    for own, word in zip(standing.unbind(1), words.unbind(1)):
        again = (
            emissions.gather(2, word.view(-1, 1, 1).expand(-1, emissions.size(1), -1)).transpose(
                1, 2
            )
            * inner
        )
        # The diagonal of a unit triangular system is not read: -E P stands for I - E P.
        system = (edges * again).neg_()  # [B, L, L]
        found.append(
            torch.linalg.solve_triangular(
                system, own.unsqueeze(1), upper=True, left=False, unitriangular=True
            )
        )
    return torch.cat(found, 1)  # [B, N, L]


def _collect(
    texts: Texts, words: Tensor, log_probs: Tensor, ranked: Tensor, plan: BeamPlan
) -> None:
    """Merges the prefixes that end in this step into the finished ``texts``, in place, and keeps
    the best ``plan.nbest`` of each sentence.

    Args:
        texts: the finished texts so far.
        words: LongTensor ``[B, N, t]``, the prefixes, without ``</s>``.
        log_probs: ``[B, N]``, log P(text); -inf for prefixes that may not end here.
        ranked: ``[B, N]``, ``log_probs`` plus the language model's scores.
    """
    count = words.size(2)
    ranks = torch.cat([texts.ranks, ranked / (count + 1) ** plan.lenpen], 1)  # [B, nbest + N]
    texts.ranks, place = ranks.topk(plan.nbest, 1)  # [B, nbest] each
    texts.log_probs = torch.cat([texts.log_probs, log_probs], 1).gather(1, place)
    fresh = texts.tokens.new_full((*words.shape[:2], texts.tokens.size(2)), -1)  # [B, N, words + 1]
    fresh[:, :, :count] = words
    fresh[:, :, count] = plan.eos
    everything = torch.cat([texts.tokens, fresh], 1)  # [B, nbest + N, words + 1]
    texts.tokens = everything.gather(1, place.unsqueeze(2).expand(-1, -1, everything.size(2)))


def _complete(texts: Texts, scores: Tensor, plan: BeamPlan) -> bool:
    """Whether the search may stop: no open prefix of any sentence can become better than the worst
    of the finished ``texts``. False where that is not certain, e.g. with a language model.
    ``scores`` ``[B, N]`` are the log-probabilities of the open prefixes."""
    if plan.language_model is not None or not plan.mass_only_falls:
        return False
    best = scores.max(1).values  # [B]
    possible = best / (plan.limits + 1) ** max(plan.lenpen, 0.0)  # [B]
    return bool((possible <= texts.ranks[:, -1]).all())


class _Bonus:
    """The language model's scores of the open prefixes; all 0 without a language model.

    Attributes:
        total: the sum of each prefix's scores ``[B, N]``; the number 0 without a language model.
    """

    def __init__(self, plan: BeamPlan, batch: int) -> None:
        self.model = plan.language_model
        self.total: Any = 0.0
        if self.model is not None:
            self.total = torch.zeros(batch, plan.beam, device=plan.limits.device)
            self.states = [[self.model.start()] * plan.beam for _ in range(batch)]

    def ending(self, log_probs: Tensor) -> Tensor:
        """``log_probs`` ``[B, N]`` of prefixes that end now, plus the language model's scores for
        them with ``</s>``."""
        if self.model is None:
            return log_probs
        last = [[self.model.step(state, None)[1] for state in row] for row in self.states]
        return (
            log_probs
            + self.total
            + torch.tensor(last, dtype=log_probs.dtype, device=log_probs.device)
        )

    def select(self, totals: Tensor, beams: int) -> Tuple[Tensor, Tensor]:
        """Selects the N = ``beams`` best continuations of each sentence, the language model's score
        included, and stores the model's states after these.

        Args:
            totals: ``[B, N, V]``, log-probabilities of all continuations.

        Returns:
            (indices of the prefixes that are continued, tokens), LongTensors ``[B, N]``.
        """
        batch, _, vocabulary = totals.shape
        if self.model is None:
            flat = totals.view(batch, -1).topk(beams, 1).indices  # [B, N]
            return flat // vocabulary, flat % vocabulary
        # The language model scores the 2N best candidates; N of them are kept.
        combined = (totals + self.total.unsqueeze(2).to(totals)).view(batch, -1)  # [B, N * V]
        scores, flat = combined.topk(min(2 * beams, combined.size(1)), 1)
        parents, tokens = flat // vocabulary, flat % vocabulary
        steps = [
            [self.model.step(self.states[row][parent], token) for parent, token in zip(*pairs)]
            for row, pairs in enumerate(zip(parents.tolist(), tokens.tolist()))
        ]
        more = torch.tensor(
            [[score for _, score in row] for row in steps], dtype=scores.dtype, device=scores.device
        )
        chosen = (scores + more).topk(beams, 1).indices  # [B, N]
        self.states = [
            [steps[row][place][0] for place in places] for row, places in enumerate(chosen.tolist())
        ]
        parents, tokens = parents.gather(1, chosen), tokens.gather(1, chosen)  # [B, N] each
        self.total = self.total.gather(1, parents) + more.gather(1, chosen).to(self.total)
        return parents, tokens
