"""Scoring of given translations by autoregressive models, in one pass."""

import itertools
from typing import Dict, List, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..native.decoding import Hypothesis
from .beam_search import check_number
from .counters import GenerationCounters
from .ensemble import EngineEnsemble
from .precision import on_device


class ModelScorer:
    """Computes log P(y | x) of an autoregressive ensemble; a :class:`~..native.decoding.Scorer`.

    Args:
        models: the ensemble; their probabilities are averaged.
        dictionary: the target dictionary.
        counters: where the passes of the models are counted.
        like: the decoding model; the scorer's models are moved to its device and cast to its dtype.
    """

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        counters: GenerationCounters,
        *,
        like: FairseqEncoderDecoderModel,
    ) -> None:
        self.models, self.like = list(models), like
        self.eos, self.pad = dictionary.eos(), dictionary.pad()
        self._ensemble = EngineEnsemble(self.models, counters, static_weights=True)

    @property
    def longest_source(self) -> int:
        """The longest source that all models accept, in tokens with ``</s>``."""
        return min(model.max_positions()[0] for model in self.models)

    @property
    def longest_target(self) -> int:
        """The longest translation that all models accept, in tokens with ``</s>``."""
        return min(model.max_decoder_positions() for model in self.models)

    @torch.no_grad()
    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[Sequence[int]]],
        *,
        lenpen: float = 1.0,
    ) -> List[List[Hypothesis]]:
        """Scores translations by their log-probabilities, see :class:`~..native.decoding.Scorer`.

        Args:
            sources: dictionary ids of each source, ``</s>`` last.
            targets: any number of translations of each source, ``</s>`` last.
            lenpen: the score is the sum of log-probabilities / length ** lenpen.

        Returns:
            A hypothesis for each translation, in lists like those of ``targets``.

        Raises:
            NumericalError: a probability is NaN.
        """
        if on_device(self.models, self.like):
            self._ensemble.refresh()
        beams = max(map(len, targets))
        # Every sentence needs the same number of rows: where it has fewer translations, its last
        # one is repeated, and the copies' scores are dropped.
        rows = [own[min(rank, len(own) - 1)] for own in targets for rank in range(beams)]
        scores = self._scores(self._batch(sources), rows, beams)
        found = []
        for sentence, own in enumerate(targets):
            parts = scores[sentence * beams : sentence * beams + len(own)]
            found.append(
                [self._hypothesis(list(tokens), part, lenpen) for tokens, part in zip(own, parts)]
            )
        return found

    def _hypothesis(self, tokens: List[int], scores: List[float], lenpen: float) -> Hypothesis:
        score = sum(scores) / len(scores) ** lenpen
        check_number(score)
        return Hypothesis(tokens, score, scores, steps=1)

    def _batch(self, sources: Sequence[Sequence[int]]) -> Dict[str, Tensor]:
        device = next(self.like.parameters()).device
        rows = [torch.tensor(list(row)) for row in sources]
        return {
            "src_tokens": collate_tokens(rows, self.pad, self.eos, left_pad=True).to(device),
            "src_lengths": torch.tensor([len(row) for row in rows], device=device),
        }

    def _scores(
        self, net_input: Dict[str, Tensor], rows: Sequence[Sequence[int]], beams: int
    ) -> List[List[float]]:
        """The log-probability of each token of the translations ``rows``, a list for each.

        Args:
            net_input: the sources as a batch, ``src_tokens`` and ``src_lengths``.
            rows: ids of the translations, ``beams`` of each source one after the other.
        """
        device = net_input["src_tokens"].device
        width = max(map(len, rows))
        # A causal decoder does not see the filler behind a row's words: any token will do.
        targets = torch.tensor(  # [R, T]
            [[*row, *[self.eos] * (width - len(row))] for row in rows], device=device
        )
        lengths = [len(row) for row in rows]
        wanted = torch.arange(width, device=device) < torch.tensor(  # [R, T]
            lengths, device=device
        ).unsqueeze(1)  # [R, T]
        ensemble = self._ensemble
        ensemble.reserve_positions(width)
        found = iter(
            ensemble.score(
                ensemble.encode(net_input), targets, wanted, start=self.eos, beams=beams
            ).tolist()
        )
        return [list(itertools.islice(found, length)) for length in lengths]
