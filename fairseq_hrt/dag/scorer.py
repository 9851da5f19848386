"""Log-probabilities of given translations (``--score-reference``)."""

from typing import Any, Callable, Dict, List, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..engine import ReferenceScorer, one_step_reference
from ..ops import dag_best_alignment, dag_log_likelihood
from .sample import GraphSample


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
        the best path) and ``token_log_prob`` (log P(y | a, x)). All are -inf if no path through the
        graph has the target's length.
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
