"""The base of scorers of given translations (``--score-reference``)."""

from typing import Any, Dict, List, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..native.decoding import Hypothesis
from .fairseq_hypothesis import to_fairseq


class ReferenceScorer:
    """Scores references through the interface of fairseq's generators; a family defines
    :meth:`entries`.

    Attributes:
        alone: the model's name, for a message, if its ensembles cannot score; empty: they can.
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
        """The reference of each sentence of a batch with its score, as a dictionary like those of
        :func:`.fairseq_hypothesis.to_fairseq`. Called without gradients."""
        raise NotImplementedError


def one_step_reference(tokens: List[int], score: float, parts: List[float]) -> Dict[str, Any]:
    """A reference as a hypothesis dictionary of fairseq, as if one step had written all ``tokens``;
    ``parts`` are their log-probabilities, ``score`` is that of the whole."""
    steps = [1] * len(tokens)
    return to_fairseq(Hypothesis(tokens, score, parts, token_steps=steps, steps=1))
