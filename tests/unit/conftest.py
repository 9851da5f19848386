"""Tiny stock Transformers and batches, in float64 so that equality can be demanded."""

from argparse import Namespace
from types import SimpleNamespace
from typing import Any, Dict, Sequence

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel

from fairseq_hrt.hrt.model import HRTTransformerModel

PAD, EOS = 1, 2


def make_dictionary(symbols: int = 12) -> Dictionary:
    dictionary = Dictionary()
    for number in range(symbols):
        dictionary.add_symbol(f"w{number}")
    return dictionary


def make_model(arch: str = "transformer", *, symbols: int = 12, seed: int = 1, **overrides: Any) -> Any:
    """A model in evaluation mode whose weights are large enough for peaked, different distributions."""
    torch.manual_seed(seed)
    settings: Dict[str, Any] = dict(
        encoder_embed_dim=16, decoder_embed_dim=16, encoder_ffn_embed_dim=24, decoder_ffn_embed_dim=24,
        encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=4,
        max_source_positions=64, max_target_positions=64, dropout=0.0,
    )  # fmt: skip
    settings.update(overrides)
    args = Namespace(**settings)
    ARCH_CONFIG_REGISTRY[arch](args)
    family = HRTTransformerModel if arch.startswith("hrt") else TransformerModel
    task = Namespace(source_dictionary=make_dictionary(symbols), target_dictionary=make_dictionary(symbols))
    model = family.build_model(args, task).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("relative_keys"):
                parameter.normal_()
            elif parameter.dim() > 1:
                parameter.mul_(2.5)
            else:
                parameter.add_(torch.randn_like(parameter).mul_(0.1))
    return model


def make_sample(lengths: Sequence[int], *, symbols: int = 12, seed: int = 0, left_pad: bool = True) -> Dict[str, Any]:
    """A batch of random sources of these lengths, ``</s>`` included."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(tokens, lengths):
        words = torch.randint(4, 4 + symbols, (length,), generator=generator)
        words[-1] = EOS
        row[row.numel() - length :] = words
        if not left_pad:
            row.copy_(row.roll(length - row.numel()))
    return {
        "id": torch.arange(len(lengths)),
        "net_input": {"src_tokens": tokens, "src_lengths": torch.tensor(lengths)},
    }


@pytest.fixture(scope="session")
def tiny() -> SimpleNamespace:
    """The builders of this file."""
    return SimpleNamespace(PAD=PAD, EOS=EOS, dictionary=make_dictionary, model=make_model, sample=make_sample)
