"""One pass through the encoder for a draft and the model that checks it, where both encoders are
the same."""

from typing import Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import EngineEnsemble, Memory


def same_encoder(
    first: FairseqEncoderDecoderModel, second: FairseqEncoderDecoderModel, dictionary: Dictionary
) -> bool:
    """Whether two models encode every source alike: equal weights and embeddings, and, for what
    weights do not tell (heads, activations, norms), equal vectors of a padded batch.

    Args:
        dictionary: of the source; both models have the same.
    """
    # Buffers are not weights: some of fairseq's are not even initialised.
    weights, others = (dict(model.encoder.named_parameters()) for model in (first, second))
    if type(first.encoder) is not type(second.encoder) or weights.keys() != others.keys():
        return False
    for name, weight in weights.items():
        other = others[name]
        if (weight.shape, weight.dtype, weight.device) != (
            other.shape,
            other.dtype,
            other.device,
        ) or not weight.equal(other):
            return False
    symbols, eos, pad = len(dictionary), dictionary.eos(), dictionary.pad()
    # All symbols up to a few dozen, and two lengths.
    words = torch.arange(dictionary.nspecial, min(symbols, dictionary.nspecial + 24)).tolist()
    rows = [[*words, eos], [pad] * (len(words) // 2) + [*words[len(words) // 2 :], eos]]
    tokens = torch.tensor(rows, device=next(first.parameters()).device)
    with torch.no_grad():
        mine, theirs = (
            model.encoder(tokens, src_lengths=tokens.ne(pad).sum(1))["encoder_out"][0]
            for model in (first, second)
        )
    return mine.equal(theirs)


class DraftEnsemble(EngineEnsemble):
    """The engine of a draft model, which takes the encoder's vectors from where they were computed
    already.

    Attributes:
        lent: the batch encoded by an equal encoder; None: the draft encodes it itself.
    """

    lent: Optional[Memory] = None

    def encode(self, net_input: Dict[str, Tensor]) -> List[Memory]:
        if self.lent is None or self.lent.encoded is None:
            return super().encode(net_input)
        return [self.engines[0].remember(self.lent.encoded, self.lent.bias, self.lent.lengths)]


def lender(
    draft: FairseqEncoderDecoderModel,
    models: Sequence[FairseqEncoderDecoderModel],
    dictionary: Dictionary,
) -> Optional[int]:
    """Which of the models that check has the draft's encoder; None: none of them."""
    return next(
        (number for number, model in enumerate(models) if same_encoder(draft, model, dictionary)),
        None,
    )
