"""Log-probabilities of given translations (``--score-reference``) by HRT's Eq. 2."""

from typing import Any, Dict, List, Sequence, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..engine import log_probs_of, to_fairseq
from ..native.decoding import Hypothesis
from .generator import chunk_sizes_of
from .sample import training_views


class ChunkScorer:
    """Scores a translation as the two stages of decoding would, had they found it.

    log P(z | x) of every K-th token by the first stage, given those before it, and log P(y_j | z,
    x) of all the others by the second (Eq. 2), the ``</s>`` that fill the last chunk up included,
    as in decoding (see ``--hrt-tail-target``).

    Args:
        dictionary: the target dictionary.
        table: see :func:`.generator.chunk_sizes_of`; size 1 scores autoregressively.
    """

    def __init__(self, dictionary: Dictionary, table: Sequence[Tuple[float, int]]) -> None:
        self.dictionary, self.table = dictionary, table
        # Read by fairseq's command line.
        self.eos = dictionary.eos()

    @torch.no_grad()
    def generate(
        self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict, **ignored: Any
    ) -> List[List[Dict]]:
        """One hypothesis a sentence, its reference.

        The score is Eq. 2 divided by the length L of whole chunks: what decoding with
        ``--lenpen 1`` ranks by. Each hypothesis has a further entry, ``log_likelihood``: Eq. 2
        itself.
        """
        pad, decoder = self.dictionary.pad(), models[0].decoder
        source, targets = sample["net_input"], sample["target"]
        sizes = chunk_sizes_of(self.table, source["src_tokens"].ne(pad).sum(1) - 1)
        chunk_sizes = torch.tensor(sizes, device=targets.device)
        views = training_views(
            targets,
            chunk_sizes,
            starts=decoder.start_symbols(chunk_sizes),
            # Chunk size 1 has no second stage.
            masked=torch.zeros_like(targets, dtype=torch.bool),
            eos=self.eos,
            mask=decoder.mask,
            pad=pad,
            learn_tail=decoder.learn_tail,
        )
        learnt = [view.target.ne(pad) for view in (views.causal, views.parallel)]
        words = torch.cat(
            [view.target[mask] for view, mask in zip((views.causal, views.parallel), learnt)]
        )
        parts = log_probs_of(models, source, words, views=views).split(
            [int(mask.sum()) for mask in learnt]
        )
        first, second = (
            torch.zeros(mask.shape, dtype=part.dtype, device=part.device).masked_scatter_(
                mask, part
            )
            for mask, part in zip(learnt, parts)
        )
        lengths = targets.ne(pad).sum(1).tolist()
        rows = zip(targets.tolist(), sizes, lengths, first.tolist(), second.tolist())
        return [[_hypothesis(*row)] for row in rows]


def _hypothesis(
    target: List[int], chunk: int, length: int, first: List[float], second: List[float]
) -> Dict[str, Any]:
    """The scored reference of one sentence.

    Args:
        target: padded; ``length`` tokens with ``</s>``.
        first: log-probabilities of z_1 … z_m; second: of y_1 … y_L, 0 where the first stage writes.
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
