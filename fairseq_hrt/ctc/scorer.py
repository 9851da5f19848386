"""Log-probabilities of given translations (``--score-reference``)."""

from typing import Any, Callable, Dict, List, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..engine import to_fairseq
from ..native.decoding import Hypothesis
from .criterion import log_likelihood
from .sample import CtcSample


class CtcScorer:
    """Scores given translations by log P(y) over all outputs.

    Args:
        dictionary: the target dictionary.
        ctc: function from a batch to its :class:`CtcSample`.
    """

    def __init__(self, dictionary: Dictionary, ctc: Callable[[Dict[str, Any]], CtcSample]) -> None:
        self.dictionary, self.ctc = dictionary, ctc
        # Read by fairseq's command line.
        self.eos = dictionary.eos()

    @torch.no_grad()
    def generate(
        self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict, **ignored: Any
    ) -> List[List[Dict]]:
        """One hypothesis per sentence: its reference, with the score log P(y | x) divided by the
        number of tokens, ``</s>`` included. Each token gets this score; -inf if there are too few
        positions."""
        if len(models) > 1:
            raise ValueError(
                "--score-reference scores with one ctc_transformer; give one checkpoint"
            )
        model, ctc, source = models[0], self.ctc(sample), sample["net_input"]
        model.eval()
        output = model(src_tokens=source["src_tokens"], src_lengths=source["src_lengths"], ctc=ctc)
        totals = log_likelihood(output.log_probs, ctc, model.decoder.blank).tolist()  # [B]
        found = []
        for words, length, total in zip(ctc.targets.tolist(), ctc.target_lengths.tolist(), totals):
            part = total / (length + 1)
            hypothesis = Hypothesis(
                tokens=[*words[:length], self.eos],
                score=part,
                positional_scores=[part] * (length + 1),
                token_steps=[1] * (length + 1),
                steps=1,
            )
            found.append([{**to_fairseq(hypothesis), "log_likelihood": total}])
        return found
