"""Log-probabilities of given translations (``--score-reference``)."""

from typing import Any, Callable, Dict, List, Sequence

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..engine import ReferenceScorer, one_step_reference
from .criterion import log_likelihood
from .sample import CtcSample


class CtcScorer(ReferenceScorer):
    """Scores given translations by log P(y) over all outputs.

    Args:
        dictionary: the target dictionary.
        ctc: function from a batch to its :class:`CtcSample`.
    """

    alone = "ctc_transformer"

    def __init__(self, dictionary: Dictionary, ctc: Callable[[Dict[str, Any]], CtcSample]) -> None:
        super().__init__(dictionary)
        self.ctc = ctc

    def entries(self, models: Sequence[FairseqEncoderDecoderModel], sample: Dict) -> List[Dict]:
        """The references in ``sample["target"]`` with the score log P(y | x) / tokens, ``</s>``
        included, which each token gets as well; -inf if there are too few positions. A further
        entry, ``log_likelihood``, is log P(y | x)."""
        model, ctc, source = models[0], self.ctc(sample), sample["net_input"]
        model.eval()
        output = model(src_tokens=source["src_tokens"], src_lengths=source["src_lengths"], ctc=ctc)
        totals = log_likelihood(output.log_probs, ctc, model.decoder.blank).tolist()  # [B]
        found = []
        for words, length, total in zip(ctc.targets.tolist(), ctc.target_lengths.tolist(), totals):
            part = total / (length + 1)
            tokens = [*words[:length], self.eos]
            reference = one_step_reference(tokens, part, [part] * (length + 1))
            found.append({**reference, "log_likelihood": total})
        return found
