"""Log-probabilities of given translations (``--score-reference``)."""

from typing import Callable, Dict, List, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import ReferenceScorer, log_probs_of, one_step_reference
from .sample import SlotSample
from .slots import natural_index


class SlotScorer(ReferenceScorer):
    """Scores each word of a translation given the words that the model writes in earlier steps.

    Args:
        dictionary: the target dictionary.
        slots: function that puts targets, LongTensor ``[B, T]``, into the order of writing.
    """

    def __init__(self, dictionary: Dictionary, slots: Callable[[Tensor], SlotSample]) -> None:
        super().__init__(dictionary)
        self.slots = slots

    def entries(self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict) -> List[Dict]:
        """The references in ``sample["target"]``, scored by the mean log-probability of their
        tokens under the ensemble ``models``."""
        pad, source = self.dictionary.pad(), sample["net_input"]
        targets = sample["target"]
        slots = self.slots(targets)
        words = slots.target.ne(pad)  # [B, W]
        chosen = log_probs_of(models, source, slots.target[words], slots=slots).cpu()  # [slots]
        # On the host from here on, sentence by sentence.
        targets = targets.cpu()
        found, decoder = [], models[0].decoder
        for target, scores in zip(targets, chosen.split(targets.ne(pad).sum(1).tolist())):
            count = scores.numel() - 1
            index = natural_index(
                torch.arange(count + 1),
                torch.tensor(count),
                decoder.directions,
                middle_to_side=decoder.middle_to_side,
            )
            natural = torch.empty_like(scores)  # [n + 1]
            natural[index] = scores  # [n + 1]
            found.append(
                one_step_reference(
                    target[: count + 1].tolist(), float(scores.mean()), natural.tolist()
                )
            )
        return found
