"""Describes which parameters LightSeq packs into the single vector of a Transformer layer."""

from typing import List, Tuple

# Names and shapes.
Parts = List[Tuple[str, Tuple[int, ...]]]


def lightseq_layer(side: str, number: int, layers: int, width: int, inner: int) -> Parts:
    """Lists the parameters that LightSeq packs into the vector of one layer, in their order there:
    (fairseq's name, shape). The vector of the first decoder layer also holds the projections to
    keys and values of the source for all decoder layers.

    Args:
        side: ``encoder`` or ``decoder``.
        number: the number of the layer, from 0.
        layers: the number of layers of this side.
        width, inner: widths of the layers and of their feed-forward networks.
    """
    layer = f"{side}.layers.{number}"
    matrix, vector = (width, width), (width,)

    def linear(name: str) -> Parts:
        return [(f"{layer}.{name}.weight", matrix), (f"{layer}.{name}.bias", vector)]

    def norm(name: str) -> Parts:
        return [(f"{layer}.{name}.weight", vector), (f"{layer}.{name}.bias", vector)]

    found: Parts = [
        (f"{layer}.self_attn.{part}_proj.{kind}", shape)
        for kind, shape in (("weight", matrix), ("bias", vector))
        for part in "qkv"
    ]
    found += linear("self_attn.out_proj") + norm("self_attn_layer_norm")
    if side == "decoder":
        found += linear("encoder_attn.q_proj") + linear("encoder_attn.out_proj")
        found += norm("encoder_attn_layer_norm")
    found += [
        (f"{layer}.fc1.weight", (inner, width)), (f"{layer}.fc1.bias", (inner,)),
        (f"{layer}.fc2.weight", (width, inner)), (f"{layer}.fc2.bias", vector),
        *norm("final_layer_norm"),
    ]  # fmt: skip
    if side == "decoder" and number == 0:
        found += [
            (f"{side}.layers.{other}.encoder_attn.{part}_proj.{kind}", shape)
            for kind, shape in (("weight", matrix), ("bias", vector))
            for other in range(layers)
            for part in "kv"
        ]
    return found
