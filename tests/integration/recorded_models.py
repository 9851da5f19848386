"""Small models of every family whose weights do not depend on PyTorch's generator, for what is
recorded of them.

The weights are drawn from NumPy's legacy generator, whose numbers never change, each parameter's
from a seed of its own: one that is added or removed leaves the others alone.
"""

import shutil
import zlib

import numpy as np
import torch
from fairseq_cli import preprocess
from recorded_calls import run
from tiny_models import write_checkpoint

from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.export.checkpoint_bundle import pack
from fairseq_hrt.native.bundles.native_bundle import MODEL
from fairseq_hrt.native.runtime.format import write_model

LETTERS = "abcdefghijklmnopqr"
# Each letter inside of a word and at its end.
SYMBOLS = [letter + end for letter in LETTERS for end in ("@@", "")]
SIZES = [
    *(
        f"--{side}-{name}={value}"
        for side in ("encoder", "decoder")
        for name, value in (("layers", 2), ("embed-dim", 32), ("ffn-embed-dim", 64),
                            ("attention-heads", 4))
    ),
    # Lines of more words are translated in pieces.
    "--max-source-positions=24", "--max-target-positions=100",
]  # fmt: skip
# model: family, options of its architecture, task of decoding where it is not that of the training
MODELS = {
    "autoregressive": ("autoregressive", [], "translation_autoregressive"),
    "hrt": ("hrt", ["--hrt-chunk-sizes=2,3"], None),
    "bidirectional_2x1": ("bidirectional", [], None),
    "bidirectional_2x2": ("bidirectional", ["--bidirectional-tokens-per-step=2"], None),
    "bidirectional_1x2": (
        "bidirectional", ["--bidirectional-directions=1", "--bidirectional-tokens-per-step=2"],
        None,
    ),
    "dag": ("dag",
            ["--dag-upsample-scale=4", "--decoder-learned-pos", "--dag-max-transition-length=6"],
            None),
    "dag_length": (
        "dag",
        ["--dag-upsample-scale=4", "--decoder-learned-pos", "--dag-upsample-base=predict",
         "--dag-length-classes=16"], None,
    ),
    "ctc": ("ctc", ["--ctc-upsample-scale=3", "--ctc-inputs=soft-copy"], None),
}  # fmt: skip
# How much larger than at a usual start weights are, by the ends of their names: attention that
# looks at few words, logits that differ, and little of what is the same for every word.
GAINS = {
    "embed_tokens.weight": 3.0, "q_proj.weight": 2.0, "k_proj.weight": 2.0,
    "encoder_attn.out_proj.weight": 1.5, "self_attn.out_proj.weight": 0.7, "fc2.weight": 0.3,
    "output_projection.weight": 4.0, "relative_keys": 4.0, "embed_positions.weight": 6.0,
}  # fmt: skip
# The same for the logits of single symbols: translations end, and some words are unknown.
FAVOURED = {"</s>": 1.4, "<unk>": 1.1, "<s>": 0.0, "<pad>": 0.0}


def sources(count, longest, seed):
    """Random subwords, as many lines with at most so many of them."""
    draw = np.random.RandomState(seed)
    rows = [draw.choice(SYMBOLS, draw.randint(1, longest + 1)).tolist() for _ in range(count)]
    # No line ends within a word.
    return [[*row[:-1], row[-1].removesuffix("@@")] for row in rows]


def joined(symbols):
    """Subwords as raw text."""
    return " ".join(symbols).replace("@@ ", "")


@torch.no_grad()
def fill(model, seed=1):
    """Weights that make a model decide, by its source and by what it has written, in place."""
    for name, parameter in model.named_parameters():
        draw = np.random.RandomState((zlib.crc32(name.encode()) + seed) % 2**32)
        values = draw.standard_normal(tuple(parameter.shape))
        if parameter.dim() > 1:
            gain = next((gain for end, gain in GAINS.items() if name.endswith(end)), 1.0)
            # Rows of equal length: no symbol is likelier than others everywhere.
            values *= gain / np.linalg.norm(values, axis=-1, keepdims=True)
        else:
            values = 0.05 * values + name.endswith("norm.weight")
        parameter.copy_(torch.from_numpy(values))
    # No word likes to follow itself.
    model.decoder.output_projection.weight.sub_(model.decoder.embed_tokens.weight)
    for symbol, factor in FAVOURED.items():
        model.decoder.output_projection.weight[model.decoder.dictionary.index(symbol)].mul_(factor)
    return model


def make_data(folder):
    """Dictionaries, subword codes and a binarised test set whose targets begin translations;
    returns the folder of fairseq-preprocess."""
    folder.mkdir(parents=True)
    (folder / "codes").write_text("#version: 0.2\nz z</w>\n")
    (folder / "dict.txt").write_text("".join(f"{symbol} 9\n" for symbol in SYMBOLS))
    for language, seed in (("de", 3), ("en", 4)):
        (folder / f"test.{language}").write_text(
            "".join(" ".join(row) + "\n" for row in sources(8, 12, seed))
        )
    run(
        preprocess.cli_main, "fairseq-preprocess", "-s", "de", "-t", "en", "--testpref",
        folder / "test", "--joined-dictionary", "--srcdict", folder / "dict.txt", "--destdir",
        folder / "bin", "--workers", 1,
    )  # fmt: skip
    return folder / "bin"


def make_models(folder):
    """``MODEL.pt`` and the bundles ``MODEL_float32`` and ``MODEL_int8`` of each model, and the data
    in ``data/bin``."""
    data = make_data(folder / "data")
    for name, (family, sizes, task) in MODELS.items():
        kept = []
        checkpoint = write_checkpoint(
            folder / f"{name}.pt", data, family, sizes=[*SIZES, *sizes],
            fill=lambda model, kept=kept: kept.append(fill(model)),
        )  # fmt: skip
        exact, small = (folder / f"{name}_{weights}" for weights in ("float32", "int8"))
        pack(
            exact, [checkpoint], data, states=[torch.load(checkpoint, weights_only=False)],
            task=task, tokenizer="space", subwords="subword-nmt",
            codes=folder / "data" / "codes", options={"max_len_b": "16"}, runtime="float32",
        )  # fmt: skip
        # It differs in its weights alone.
        shutil.copytree(exact, small)
        (model,) = kept
        words = model.encoder.dictionary, model.decoder.dictionary
        write_model(small / MODEL, *convert(model, *words, weights="int8"))
