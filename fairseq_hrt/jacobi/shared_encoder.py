"""Encodes once for a draft model and the model that checks it, if their encoders are equal."""

from typing import Dict, List, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import EngineEnsemble, Memory


def same_encoder(
    first: FairseqEncoderDecoderModel, second: FairseqEncoderDecoderModel, dictionary: Dictionary
) -> bool:
    """Whether the encoders of two models are equal: they have the same parameters and the same
    output for a test batch, since parameters do not show the number of heads, the activation and
    the places of norms.

    Args:
        dictionary: the source dictionary of both models.
    """
    # Buffers are not compared: fairseq leaves some of them uninitialised.
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
    # [2, S]: up to 24 symbols in a full row, and half of them in a padded one.
    words = torch.arange(dictionary.nspecial, min(symbols, dictionary.nspecial + 24)).tolist()
    rows = [[*words, eos], [pad] * (len(words) // 2) + [*words[len(words) // 2 :], eos]]
    tokens = torch.tensor(rows, device=next(first.parameters()).device)  # [2, S]
    with torch.no_grad():
        mine, theirs = (
            model.encoder(tokens, src_lengths=tokens.ne(pad).sum(1))["encoder_out"][0]
            for model in (first, second)
        )
    return mine.equal(theirs)


class DraftEnsemble(EngineEnsemble):
    """The ensemble of a draft model, which can reuse the encoder output of the model that checks
    its drafts, if both have equal encoders.

    Attributes:
        lent: the encoder output of the model that checks; None: the draft model encodes the batch
            itself.
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
    """Index of the first of ``models`` whose encoder equals that of the model ``draft`` and whose
    output can thus be lent to it; None: there is none. ``dictionary``: the source dictionary of all
    these models."""
    return next(
        (number for number, model in enumerate(models) if same_encoder(draft, model, dictionary)),
        None,
    )
