"""Options of ``fairseq-train`` for a student that starts from an imported model: its languages,
sizes and conventions. With ``--pack`` those of ``fairseq-hrt bundle``: its preparation of text.

    python examples/import/student_options.py runs/import/imported [--pack]

One word a line. The bundle is one of ``fairseq-hrt import`` whose model has Marian's conventions,
two languages, and SentencePiece models: one for both, or one of each.
"""

import argparse
from pathlib import Path
from typing import List, Optional, Sequence

from fairseq_hrt.loading.checkpoints import architecture_name, read_checkpoint, value_of
from fairseq_hrt.native.bundles.bundle import Bundle, load_bundle

VALUES = [
    *(
        f"{side}_{name}"
        for side in ("encoder", "decoder")
        for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    ),
    "max_source_positions",
    "max_target_positions",
    "activation_fn",
    "marian_first_position",
    "marian_epsilon",
    "marian_output_bias",
]
SWITCHES = (
    "share_all_embeddings",
    "share_decoder_input_output_embed",
    "encoder_normalize_before",
    "decoder_normalize_before",
    "no_scale_embedding",
    "layernorm_embedding",
    # Models of Hugging Face's bring tables of positions. That of the decoder is left out: hrt
    # computes fairseq's sinusoids.
    "encoder_learned_pos",
)


def student_options(folder: Path) -> List[str]:
    """The options for a student of the bundle in ``folder``.

    Raises:
        ValueError: the bundle is not one of these.
    """
    bundle = bundle_of(folder)
    config = read_checkpoint(bundle.paths[0])["cfg"].model
    if not str(architecture_name(config)).startswith("marian_transformer"):
        raise ValueError(
            f"{folder} holds a {architecture_name(config)}; this recipe is for a marian_transformer"
        )
    found = ["--source-lang", bundle.source_lang, "--target-lang", bundle.target_lang]
    for name in VALUES:
        value = value_of(config, name)
        # A marian_transformer that does not say it begins at 0, an hrt_transformer at 2.
        if value is None and name == "marian_first_position":
            value = 0
        found += [flag(name), str(value)]
    return found + [flag(name) for name in SWITCHES if value_of(config, name)]


def pack_options(folder: Path) -> List[str]:
    """The options that give a student of the bundle in ``folder`` its preparation of text.

    Raises:
        ValueError: the bundle is not one of these.
    """
    recipe = bundle_of(folder).recipe
    found = ["--tokenizer", recipe.tokenizer, "--subwords", recipe.subwords]
    for name, codes in (("codes", recipe.codes), ("target_codes", recipe.target_codes)):
        found += [] if codes is None else [flag(name), str(codes)]
    return found


def bundle_of(folder: Path) -> Bundle:
    """The bundle.

    Raises:
        ValueError: its text is not prepared by SentencePiece, or has language tokens.
    """
    bundle = load_bundle(folder)
    if bundle.subwords != "sentencepiece" or bundle.source_prefix or bundle.target_prefix:
        raise ValueError(
            f"{folder}: this recipe is for models of two languages, with SentencePiece models and"
            " without language tokens"
        )
    return bundle


def flag(name: str) -> str:
    """An option as it is written in a command."""
    return f"--{name.replace('_', '-')}"


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--pack", action="store_true", help="of fairseq-hrt bundle")
    options = parser.parse_args(arguments)
    try:
        print("\n".join((pack_options if options.pack else student_options)(options.bundle)))
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
