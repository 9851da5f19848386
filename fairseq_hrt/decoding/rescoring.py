"""Translations of one model, chosen by another (``--rescore-path``).

As in noisy parallel decoding (Gu et al., 2018, "Non-Autoregressive Neural Machine Translation") a parallel decoder writes several
translations, and an autoregressive model, mostly its teacher, says in a single pass over finished sentences which one it likes best.
"""

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..decoding_rules import NumericalError, check_rescoring_penalty
from ..engine import EngineEnsemble, GenerationCounters, on_device
from .beam_search import check_number
from .hypothesis import Hypothesis


@dataclass
class RescoringConfig(FairseqDataclass):
    """Which model chooses among the translations that were found."""

    rescore_path: Optional[str] = field(
        default=None,
        metadata={
            "help": "checkpoint of an autoregressive model with the same dictionaries (several: an ensemble, separated by "
            "colons), mostly the teacher: it scores the translations of the beam in one pass, and its favourite comes first"
        },
    )
    rescore_lenpen: float = field(
        default=1.0,
        metadata={
            "help": "length penalty of that model: its log-probability is divided by the length to this power; only with "
            "--rescore-path"
        },
    )


class Rescorer:
    """Ranks finished translations by log P(y | x) of autoregressive models.

    Args:
        models: an ensemble that writes from left to right; its probabilities are averaged.
        dictionary: the target dictionary.
        counters: where its passes are counted.
        lenpen: the sum of the log-probabilities is divided by the length, ``</s>`` included, to this power.
    """

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        dictionary: Dictionary,
        counters: GenerationCounters,
        *,
        lenpen: float = 1.0,
    ) -> None:
        self.models, self.lenpen = list(models), check_rescoring_penalty(lenpen)
        self.eos = dictionary.eos()
        self.pad = dictionary.pad()
        self._ensemble = EngineEnsemble(self.models, counters, static_weights=True)

    @property
    def source_positions(self) -> int:
        """Longest source that all models read, ``</s>`` included."""
        return min(model.max_positions()[0] for model in self.models)

    @property
    def target_positions(self) -> int:
        """Longest translation that all models read, ``</s>`` included."""
        return min(model.max_decoder_positions() for model in self.models)

    def rank(
        self,
        net_input: Dict[str, Tensor],
        hypotheses: Sequence[Sequence[Hypothesis]],
        *,
        like: FairseqEncoderDecoderModel,
    ) -> List[List[Hypothesis]]:
        """The hypotheses of each sentence, best first; what ties stays in order.

        ``score`` and ``positional_scores`` become those of the models here, ``steps`` counts their pass.

        Args:
            net_input: of the batch.
            hypotheses: of each sentence, at least one.
            like: a model on whose device and with whose precision is computed.

        Raises:
            ValueError: a source that is longer than the models read.
            NumericalError: NaN.
        """
        if on_device(self.models, like):
            self._ensemble.refresh()
        self._check_sources(net_input["src_tokens"])
        beams = max(map(len, hypotheses))
        # Where a sentence has fewer hypotheses its last one fills the rows up; the copies are not read.
        rows = [best[min(rank, len(best) - 1)].tokens for best in hypotheses for rank in range(beams)]
        scores = self._scores(net_input, rows, beams)
        ranked = []
        for sentence, best in enumerate(hypotheses):
            for hypothesis, own in zip(best, scores[sentence * beams :]):
                hypothesis.positional_scores = own
                hypothesis.score = sum(own) / len(own) ** self.lenpen
                hypothesis.steps += 1
                _check(hypothesis.score)
            ranked.append(sorted(best, key=lambda hypothesis: -hypothesis.score))
        return ranked

    def _scores(self, net_input: Dict[str, Tensor], rows: Sequence[List[int]], beams: int) -> List[List[float]]:
        """Log-probability of each token of each row."""
        device = net_input["src_tokens"].device
        width = max(map(len, rows))
        # What fills the rows stands behind their words, which do not see it.
        targets = torch.tensor([row + [self.eos] * (width - len(row)) for row in rows], device=device)
        lengths = [len(row) for row in rows]
        wanted = torch.arange(width, device=device) < torch.tensor(lengths, device=device).unsqueeze(1)
        ensemble = self._ensemble
        ensemble.reserve_positions(width)
        found = ensemble.score(ensemble.encode(net_input), targets, wanted, start=self.eos, beams=beams)
        return [list(part) for part in _split(found.tolist(), lengths)]

    def _check_sources(self, sources: Tensor) -> None:
        width, longest = sources.size(1), self.source_positions
        if width > longest:
            width = int(sources.ne(self.pad).sum(1).max())
        if width > longest:
            raise ValueError(
                f"--rescore-path: a source of {width} tokens is longer than the {longest} which that model reads; "
                f"leave it out with --max-source-positions {longest} --skip-invalid-size-inputs-valid-test"
            )


def _check(score: float) -> None:
    try:
        check_number(score)
    except NumericalError as error:
        raise NumericalError(f"--rescore-path: {error}") from None


def _split(values: List[float], lengths: Sequence[int]) -> List[List[float]]:
    """Consecutive parts of these lengths."""
    parts, begin = [], 0
    for length in lengths:
        parts.append(values[begin : begin + length])
        begin += length
    return parts
