"""Log-probabilities of given translations (``--score-reference``)."""

from typing import Any, Callable, Dict, List, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..decoding import Hypothesis
from ..ops import dag_best_alignment, dag_log_likelihood
from .sample import GraphSample


class GraphScorer:
    """log P(y) over all paths; the parts of its best path stand beside it.

    Args:
        dictionary: the target dictionary.
        graph: makes the :class:`GraphSample` of a batch.
    """

    def __init__(self, dictionary: Dictionary, graph: Callable[[Dict[str, Any]], GraphSample]) -> None:
        self.dictionary, self.graph = dictionary, graph
        # Read by fairseq's command line.
        self.eos = dictionary.eos()

    @torch.no_grad()
    def generate(self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict, **ignored: Any) -> List[List[Dict]]:
        """One hypothesis a sentence, its reference.

        The score is log P(y | x) divided by the number of its tokens, ``</s>`` included, as fairseq's own; ``positional_scores``
        share it out by the best path. Entries besides fairseq's: ``log_likelihood``, ``path_log_prob`` (log P(a | x) of the best
        path) and ``token_log_prob`` (log P(y | a, x)). -inf for a target that is longer than its graph.
        """
        if len(models) > 1:
            raise ValueError("--score-reference scores with one dag_transformer; give one checkpoint")
        model, graph, source = models[0], self.graph(sample), sample["net_input"]
        model.eval()
        output = model(src_tokens=source["src_tokens"], src_lengths=source["src_lengths"], graph=graph)
        sizes = (graph.target_lengths, graph.vertex_lengths)
        likelihood = dag_log_likelihood(output.match, output.links, *sizes)
        alignment = dag_best_alignment(output.match, output.links, *sizes)
        found = []
        for row, total in enumerate(likelihood.tolist()):
            tokens = graph.targets[row, 1 : graph.target_lengths[row]]
            path = (alignment[row] >= 0).nonzero().squeeze(1)
            if len(path):
                of_links = output.links[row, path[:-1], path[1:]]
                of_tokens = output.match[row, torch.arange(len(path)), path]
                parts = of_links + of_tokens[1:]
                parts[0] += of_tokens[0]
                # What the other paths add, in equal parts.
                parts = parts + (total - parts.sum()) / len(parts)
            else:
                of_links = of_tokens = parts = torch.full((len(tokens),), float("-inf"))
            hypothesis = Hypothesis(
                tokens=tokens.tolist(),
                score=total / len(tokens),
                positional_scores=parts.tolist(),
                token_steps=[1] * len(tokens),
                steps=1,
            )
            entry = hypothesis.to_fairseq()
            entry.update(log_likelihood=total, path_log_prob=float(of_links.sum()), token_log_prob=float(of_tokens.sum()))
            found.append([entry])
        return found
