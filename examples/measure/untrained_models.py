"""Untrained models of any size, and sentences and shortlists of random words for them."""

import math
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel

from fairseq_hrt.autoregressive.model import MarianTransformerModel
from fairseq_hrt.bidirectional.model import BidirectionalTransformerModel
from fairseq_hrt.ctc.model import CtcTransformerModel
from fairseq_hrt.dag.model import DagTransformerModel
from fairseq_hrt.hrt.model import HRTTransformerModel
from fairseq_hrt.native.bundles.shortlist import pack
from fairseq_hrt.native.runtime.engine import Shortlist

# Sizes of the recipes: (width, inner size, layers of encoder and decoder, heads, words).
RECIPES = {
    "quickstart": (128, 512, (2, 2), 4, 2800),
    "multi30k": (256, 1024, (3, 3), 4, 8000),
    "student": (256, 1536, (6, 2), 8, 32000),
}
# The words that every shortlist has.
FREQUENT = 100


def check_size(name: str) -> None:
    """Raises ValueError for what is neither a recipe's sizes nor a preset of hrt_transformer."""
    prefix = "hrt_transformer_"
    presets = [arch.removeprefix(prefix) for arch in ARCH_CONFIG_REGISTRY if prefix in arch]
    known = [*RECIPES, *sorted(presets)]
    if name not in known:
        raise ValueError(
            f"--arch {name!r}: there is none of that name; give some of {', '.join(known)}"
        )


def point_at_a_word(model: Any, cosine: float) -> None:
    """Turns the decoder's features towards one word, at ``cosine`` to its vector, as training turns
    them towards the word to be written: the choice among an untrained model's words is flat."""
    decoder = model.decoder
    norm = decoder.layer_norm or decoder.layers[-1].final_layer_norm
    vector = decoder.embed_tokens.weight.detach()[-1]
    length = cosine / math.sqrt(1 - cosine**2) * math.sqrt(len(vector))
    norm.bias.data = length * vector / vector.norm()


def build_models(
    preset: str,
    vocabulary: Optional[int],
    seed: int,
    graph_scale: float = 3,
    cosine: float = 0.0,
    longest: Optional[int] = None,
) -> Dict[str, Any]:
    """Untrained models of one size: ``AT``, ``HRT``, ``IB``, ``IB+SA(2)`` to ``(4)``, ``DAG``,
    ``CTC``, for ``student`` ``SSRU``, and their ``dictionary``. cosine: see
    :func:`point_at_a_word`. longest: positions on either side, where fairseq's 1,024 are too
    few."""
    size = RECIPES.get(preset)
    dictionary = Dictionary()
    for number in range((vocabulary or (size[4] if size else 32000)) - dictionary.nspecial):
        dictionary.add_symbol(f"w{number}")
    settings: Dict[str, Any] = dict(share_all_embeddings=True)
    if longest is not None:
        settings.update(max_source_positions=longest, max_target_positions=longest)
    if size is not None:
        for side, layers in zip(("encoder", "decoder"), size[2]):
            values = dict(embed_dim=size[0], ffn_embed_dim=size[1], attention_heads=size[3])
            values["layers"] = layers
            settings.update({f"{side}_{name}": value for name, value in values.items()})
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)

    def build(family: Any, architecture: str, **more: Any) -> Any:
        arguments = Namespace(**settings, **more)
        if size is None:
            # The sizes of HRT's presets hold for all.
            ARCH_CONFIG_REGISTRY[f"hrt_transformer_{preset}"](arguments)
        ARCH_CONFIG_REGISTRY[architecture](arguments)
        torch.manual_seed(seed)
        model = family.build_model(arguments, task).eval()
        if cosine:
            point_at_a_word(model, cosine)
        return model

    recurrent = {}
    if preset == "student":
        cell = dict(marian_cell="ssru", activation_fn="relu")
        recurrent["SSRU"] = build(MarianTransformerModel, "marian_transformer", **cell)
    return {
        "dictionary": dictionary,
        **recurrent,
        "AT": build(TransformerModel, "transformer"),
        "HRT": build(HRTTransformerModel, "hrt_transformer", hrt_chunk_sizes=[2, 3]),
        "IB": build(BidirectionalTransformerModel, "bidirectional_transformer"),
        **{
            f"IB+SA({words})": build(
                BidirectionalTransformerModel,
                "bidirectional_transformer",
                bidirectional_tokens_per_step=words,
            )
            for words in (2, 3, 4)
        },
        "DAG": build(DagTransformerModel, "dag_transformer", dag_upsample_scale=str(graph_scale)),
        "CTC": build(CtcTransformerModel, "ctc_transformer", ctc_upsample_scale=graph_scale),
    }


def random_sentences(
    count: int, length: int, vocabulary: int, seed: int, batch_size: int = 1
) -> List[Dict[str, Any]]:
    """``count`` batches of sentences with ``length`` words and ``</s>``."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(count):
        tokens = torch.randint(4, vocabulary, (batch_size, length + 1), generator=generator)
        tokens[:, -1] = 2
        batches.append(
            {
                "net_input": {
                    "src_tokens": tokens,
                    "src_lengths": torch.full((batch_size,), length + 1),
                }
            }
        )
    return batches


def random_shortlist(words: int, candidates: int, seed: int) -> Shortlist:
    """That many random candidates of every word, and a hundred frequent words."""
    generator = np.random.default_rng(seed)
    found = {
        word: np.unique(generator.integers(4, words, candidates)).tolist()
        for word in range(4, words)
    }
    return pack(found, set(range(4, min(words, 4 + FREQUENT))), words)


def write_vmap(path: Path, shortlist: Shortlist, dictionary: Dictionary) -> None:
    """The same for CTranslate2."""
    lines = ["\t" + " ".join(dictionary[int(word)] for word in shortlist.always if word >= 4)]
    for word in range(4, len(dictionary)):
        own = shortlist.candidates[shortlist.offsets[word] : shortlist.offsets[word + 1]]
        lines.append(f"{dictionary[word]}\t" + " ".join(dictionary[int(other)] for other in own))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
