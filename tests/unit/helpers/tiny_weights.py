"""What all builders of tiny models share: their sizes, and weights that make them decide."""

from torch import nn, no_grad, randn_like

TINY = dict(
    encoder_embed_dim=16, decoder_embed_dim=16, encoder_ffn_embed_dim=24, decoder_ffn_embed_dim=24,
    encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=4,
    max_source_positions=64, max_target_positions=64, dropout=0.0,
)  # fmt: skip


@no_grad()
def sharpen(model: nn.Module, factor: float = 2.5) -> None:
    """Makes the distributions of a fresh model peaked and different from each other, in place."""
    for name, parameter in model.named_parameters():
        if name.endswith("relative_keys"):
            parameter.normal_()
        elif parameter.dim() > 1:
            parameter.mul_(factor)
        else:
            parameter.add_(randn_like(parameter).mul_(0.1))
