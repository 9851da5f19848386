"""Log-probabilities of given translations (``--score-reference``) and of decoded ones."""

from typing import Any, Callable, Dict, List, NamedTuple, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..engine import ReferenceScorer, one_step_reference
from ..native.decoding import Hypothesis
from ..ops import dag_best_alignment, dag_log_likelihood
from .graph import Graphs
from .sample import GraphSample


class TranslationScores(NamedTuple):
    """Natural log-probabilities of a translation y that was decoded along the path a.

    Attributes:
        path_log_prob: log P(a | x).
        token_log_prob: log P(y | a, x).
        log_likelihood: log P(y | x), over all paths.
    """

    path_log_prob: float
    token_log_prob: float
    log_likelihood: float


@torch.no_grad()
def score_decoded(graphs: Graphs, found: Sequence[Hypothesis]) -> List[TranslationScores]:
    """Scores decoded translations and their paths (FA-DAT, Table 3).

    Args:
        graphs: the graphs of a batch.
        found: the translation of each sentence, decoded with ``--dag-keep-repeats``.
    """
    size, device = graphs.links.size(1), graphs.links.device
    lengths = torch.tensor([len(hypothesis.tokens) + 1 for hypothesis in found], device=device)
    rows = torch.arange(len(found), device=device)  # [B]
    texts = torch.full((len(found), int(lengths.max())), graphs.eos, device=device)  # [B, T]
    texts[:, 0] = graphs.bos
    for row, hypothesis in enumerate(found):
        texts[row, 1 : lengths[row]] = torch.tensor(hypothesis.tokens, device=device)
    # [B, L, V] -> [B, T, L]
    match = (
        graphs.log_probs()
        .gather(2, texts.unsqueeze(1).expand(-1, size, -1))
        .transpose(1, 2)
        .contiguous()
    )
    # log_probs() forbids <s> and </s>; the first and the last vertex emit them.
    match[:, 0, 0], match[rows, lengths - 1, graphs.last] = graphs.end_scores().to(match).unbind(1)
    likelihood = dag_log_likelihood(match, graphs.links, lengths, graphs.lengths).tolist()
    scores = []
    for row, (hypothesis, total) in enumerate(zip(found, likelihood)):
        path = torch.tensor([0, *hypothesis.token_vertices], device=device)  # [T]
        of_links = graphs.links[row, path[:-1], path[1:]].sum()
        of_tokens = match[row, torch.arange(len(path), device=device), path].sum()
        scores.append(TranslationScores(float(of_links), float(of_tokens), total))
    return scores


class GraphScorer(ReferenceScorer):
    """Scores given translations by log P(y) over all paths, and by their best path.

    Args:
        dictionary: the target dictionary.
        graph: function from a batch to its :class:`GraphSample`.
    """

    alone = "dag_transformer"

    def __init__(
        self, dictionary: Dictionary, graph: Callable[[Dict[str, Any]], GraphSample]
    ) -> None:
        super().__init__(dictionary)
        self.graph = graph

    def entries(self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict) -> List[Dict]:
        """The references with their scores.

        The score is log P(y | x) divided by the number of tokens with ``</s>``;
        ``positional_scores`` are those of the best path, to which the rest of log P(y | x) is added
        in equal parts. Further entries are ``log_likelihood``, ``path_log_prob`` (log P(a | x) of
        the best path) and ``token_log_prob`` (log P(y | a, x)). All are -inf if the target is
        longer than its graph.
        """
        model, graph, source = models[0], self.graph(sample), sample["net_input"]
        model.eval()
        output = model(
            src_tokens=source["src_tokens"], src_lengths=source["src_lengths"], graph=graph
        )
        sizes = (graph.target_lengths, graph.vertex_lengths)
        likelihood = dag_log_likelihood(output.match, output.links, *sizes)  # [B]
        alignment = dag_best_alignment(output.match, output.links, *sizes)  # [B, L]
        found = []
        for row, total in enumerate(likelihood.tolist()):
            tokens = graph.targets[row, 1 : graph.target_lengths[row]]
            path = (alignment[row] >= 0).nonzero().squeeze(1)
            if len(path):
                of_links = output.links[row, path[:-1], path[1:]]  # [T - 1]
                of_tokens = output.match[row, torch.arange(len(path)), path]
                parts = of_links + of_tokens[1:]  # [T - 1]
                parts[0] += of_tokens[0]
                # Spread the rest of log P(y | x) evenly.
                parts = parts + (total - parts.sum()) / len(parts)  # [T - 1]
            else:
                of_links = of_tokens = parts = torch.full((len(tokens),), float("-inf"))
            entry = one_step_reference(tokens.tolist(), total / len(tokens), parts.tolist())
            entry.update(
                log_likelihood=total,
                path_log_prob=float(of_links.sum()),
                token_log_prob=float(of_tokens.sum()),
            )
            found.append(entry)
        return found
