"""Log-probabilities of given translations (``--score-reference``) by HRT's Eq. 2."""

from typing import Any, Dict, List, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..engine import ReferenceScorer, log_probs_of, to_fairseq
from ..native.decoding import Hypothesis
from .generator import chunk_sizes_of
from .sample import training_views


class ChunkScorer(ReferenceScorer):
    """Gives a reference the score that two-stage decoding would give it as a translation.

    The score is log P(z | x) of every K-th token by stage I plus log P(y_j | z, x) of all others by
    stage II (the HRT paper, Eq. 2). The ``</s>`` that fill the last chunk count as in decoding (see
    ``--hrt-tail-target``).

    Args:
        dictionary: the target dictionary.
        table: chunk size by source length, see :func:`.generator.chunk_sizes_of`; with size 1 a
            sentence is scored autoregressively.
    """

    def __init__(self, dictionary: Dictionary, table: Sequence[Tuple[float, int]]) -> None:
        super().__init__(dictionary)
        self.table = table

    def entries(self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict) -> List[Dict]:
        """The references in ``sample["target"]`` with their scores by the ensemble ``models``.

        The score is Eq. 2 divided by the number of tokens once ``</s>`` has filled the last chunk,
        as in decoding with ``--lenpen 1``. A further entry, ``log_likelihood``, is Eq. 2 itself.
        """
        pad, decoder = self.dictionary.pad(), models[0].decoder
        source, targets = sample["net_input"], sample["target"]
        sizes = chunk_sizes_of(self.table, source["src_tokens"].ne(pad).sum(1) - 1)
        chunk_sizes = torch.tensor(sizes, device=targets.device)  # [B]
        views = training_views(
            targets,
            chunk_sizes,
            starts=decoder.start_symbols(chunk_sizes),
            # With chunk size 1 there is no stage II, hence no CMLM mask.
            masked=torch.zeros_like(targets, dtype=torch.bool),
            eos=self.eos,
            mask=decoder.mask,
            pad=pad,
            learn_tail=decoder.learn_tail,
        )
        learnt = [view.target.ne(pad) for view in (views.causal, views.parallel)]  # [B, T] each
        words = torch.cat(  # [n]
            [view.target[mask] for view, mask in zip((views.causal, views.parallel), learnt)]
        )
        parts = log_probs_of(models, source, words, views=views).split(
            [int(mask.sum()) for mask in learnt]
        )
        first, second = (  # [B, m], [B, L]
            torch.zeros(mask.shape, dtype=part.dtype, device=part.device).masked_scatter_(
                mask, part
            )
            for mask, part in zip(learnt, parts)
        )
        lengths = targets.ne(pad).sum(1).tolist()
        rows = zip(targets.tolist(), sizes, lengths, first.tolist(), second.tolist())
        return [_hypothesis(*row) for row in rows]


def _hypothesis(
    target: List[int], chunk: int, length: int, first: List[float], second: List[float]
) -> Dict[str, Any]:
    """The reference of one sentence as a dictionary, in the form of fairseq's hypotheses.

    Args:
        target: ``length`` token ids with ``</s>``, then padding.
        chunk: K, the chunk size.
        first: log-probabilities of z_1 … z_m, the tokens of stage I, then padding.
        second: log-probabilities of y_1 … y_L, the tokens of whole chunks, 0 at the positions of
            stage I, then padding.
    """
    steps = -(-length // chunk)
    scores = second[: chunk * steps] + [0.0] * (chunk * steps - len(second))
    scores[chunk - 1 :: chunk] = first[:steps]
    total = sum(scores)
    hypothesis = Hypothesis(
        tokens=target[:length],
        score=total / len(scores),
        positional_scores=scores[:length],
        token_steps=[
            place // chunk if place % chunk == 0 else steps + 1 for place in range(1, length + 1)
        ],
        steps=steps + (chunk > 1),
    )
    return {**to_fairseq(hypothesis), "log_likelihood": total}
