"""Raw text in the words of a bundle's model, one sentence a line, as the bundle prepares it.

    python examples/import/bundle_text.py runs/import/imported --language en lines.en > pieces.en

Text is plain or gzip. Text of the target language is prepared as the bundle of the opposite
direction would: by the target language's own codes, if it has some.
"""

import argparse
import sys
import zlib
from pathlib import Path
from typing import Optional, Sequence

from fairseq_hrt.native.bundles.bundle import load_bundle
from fairseq_hrt.native.io.streams import raw_lines, reading
from fairseq_hrt.native.text.pipeline import TextPipeline


def pipeline_of(folder: Path, language: str) -> TextPipeline:
    """The preparation of one of a bundle's languages.

    Raises:
        ValueError: the bundle has not this language, or begins its sentences with language tokens.
    """
    recipe = load_bundle(folder).recipe
    if recipe.source_prefix or recipe.target_prefix:
        raise ValueError(f"{folder} begins sentences with language tokens: give a bilingual model")
    languages = (recipe.source_lang, recipe.target_lang)
    if language not in languages:
        raise ValueError(f"--language {language}: {folder} has {' and '.join(languages)}")
    return TextPipeline(recipe if language == languages[0] else recipe.reversed())


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--language", required=True, help="source or target of the bundle")
    options = parser.parse_args(arguments)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        pipeline = pipeline_of(options.bundle, options.language)
        with reading(options.text) as source:
            for line in raw_lines(source, str(options.text)):
                text = line.decode("utf-8").removesuffix("\n")
                sys.stdout.write(" ".join(pipeline.words(text)) + "\n")
    except UnicodeDecodeError as error:
        parser.error(f"{options.text} is not UTF-8: {error}")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
