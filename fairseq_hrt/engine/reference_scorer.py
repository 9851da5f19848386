"""The base of scorers of given translations (``--score-reference``)."""

from typing import Any, Dict, List, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..native.decoding import Hypothesis
from .fairseq_hypothesis import to_fairseq


class ReferenceScorer:
    """Stands where fairseq's commands expect a generator; a family defines :meth:`entries`.

    Attributes:
        alone: the model of which no ensemble can be scored with; empty: ensembles are possible.
    """

    alone = ""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        # Read by fairseq's command line.
        self.eos = dictionary.eos()

    @torch.no_grad()
    def generate(
        self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict, **ignored: Any
    ) -> List[List[Dict]]:
        """One hypothesis per sentence, the reference with its score; see :meth:`entries`."""
        if self.alone and len(models) > 1:
            raise ValueError(f"--score-reference scores with one {self.alone}; give one checkpoint")
        return [[entry] for entry in self.entries(models, sample)]

    def entries(self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict) -> List[Dict]:
        """The reference of each sentence of a batch with its score, a dictionary as those of
        :func:`.fairseq_hypothesis.to_fairseq`; without gradients."""
        raise NotImplementedError


def one_step_reference(tokens: List[int], score: float, parts: List[float]) -> Dict[str, Any]:
    """A reference in fairseq's form, as if one step had written all ``tokens``, whose
    log-probabilities are ``parts``."""
    steps = [1] * len(tokens)
    return to_fairseq(Hypothesis(tokens, score, parts, token_steps=steps, steps=1))
