"""Options of ``fairseq-train`` for a student that starts from an imported model: its languages,
sizes and conventions.

    python examples/import/student_options.py runs/import/imported

One word a line. The bundle is one of ``fairseq-hrt import`` whose model has Marian's conventions
and whose two languages have the same SentencePiece model.
"""

import argparse
from pathlib import Path
from typing import List, Optional, Sequence

from fairseq_hrt.loading.checkpoints import architecture_name, read_checkpoint, value_of
from fairseq_hrt.native.bundles.bundle import load_bundle

VALUES = [
    *(
        f"{side}_{name}"
        for side in ("encoder", "decoder")
        for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
    ),
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
)


def student_options(folder: Path) -> List[str]:
    """The options for a student of the bundle in ``folder``.

    Raises:
        ValueError: the bundle is not one of these.
    """
    bundle = load_bundle(folder)
    if bundle.subwords != "sentencepiece" or bundle.target_codes or bundle.source_prefix:
        raise ValueError(
            f"{folder}: this recipe is for models with one SentencePiece model for both languages "
            "and without language tokens"
        )
    config = read_checkpoint(bundle.paths[0])["cfg"].model
    if not str(architecture_name(config)).startswith("marian_transformer"):
        raise ValueError(
            f"{folder} holds a {architecture_name(config)}; this recipe is for a marian_transformer"
        )
    found = ["--source-lang", bundle.source_lang, "--target-lang", bundle.target_lang]
    for name in VALUES:
        found += [flag(name), str(value_of(config, name))]
    return found + [flag(name) for name in SWITCHES if value_of(config, name)]


def flag(name: str) -> str:
    """An option as it is written in a command."""
    return f"--{name.replace('_', '-')}"


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    options = parser.parse_args(arguments)
    try:
        print("\n".join(student_options(options.bundle)))
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
