"""What the verbs of ``fairseq-hrt`` have in common: shared options, logging, and errors of one
line."""

import argparse
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Sequence, Tuple

from ..native.bundles.bundle import Bundle, is_bundle, load_bundle
from ..native.text.recipe import (
    SPECIFICATION,
    SUBWORDS,
    TOKENIZERS,
    VARIANTS,
    TextRecipe,
    Tokenization,
)
from .reporting import reporting

if TYPE_CHECKING:
    from ..evaluation.systems import SystemSpec


def command(
    build_parser: Callable[[], argparse.ArgumentParser],
    run: Callable[[argparse.Namespace], None],
    *,
    progress: bool = True,
    intermixed: bool = False,
) -> Callable[..., None]:
    """Makes the ``main`` function of a verb (a subcommand of ``fairseq-hrt``). That function takes
    the verb's arguments (default: those of the process); on an error in options or files it prints
    one line and ends the process with exit status 2.

    Args:
        build_parser: makes the parser of the verb's options.
        run: does the verb's work with the parsed options.
        progress: True logs the verb's steps with the time of day; otherwise only warnings are
            logged.
        intermixed: True allows file arguments behind options as well as before them.
    """

    def main(arguments: Optional[Sequence[str]] = None) -> None:
        parser = build_parser()
        options = (parser.parse_intermixed_args if intermixed else parser.parse_args)(arguments)
        # force: fairseq has set up the log already, when it was imported.
        logging.basicConfig(
            level=logging.INFO if progress else logging.WARNING,
            stream=sys.stderr,
            format="%(asctime)s %(message)s" if progress else "%(message)s",
            datefmt="%H:%M:%S",
            force=True,
        )
        # fairseq reports every dictionary and data file of every system.
        logging.getLogger("fairseq").setLevel(logging.WARNING)
        with reporting(parser):
            run(options)

    # python -m fairseq_hrt.cli.VERB
    if build_parser.__module__ == "__main__":
        main()
    return main


def add_data_arguments(parser: argparse._ActionsContainer, subset: str) -> None:
    """Adds the options that choose binarised data, under the names they have in fairseq; ``subset``
    is the default of ``--gen-subset``."""
    parser.add_argument("data", help="folder written by fairseq-preprocess")
    parser.add_argument(
        "--gen-subset", default=subset, help="subset of the data (default: %(default)s)"
    )
    add_language_arguments(parser)


def add_language_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options that name the two languages."""
    parser.add_argument(
        "-s", "--source-lang", help="source language (default: from the names of the files)"
    )
    parser.add_argument("-t", "--target-lang", help="target language")


def add_reference_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds the options that name the reference translations."""
    parser.add_argument(
        "--references",
        type=Path,
        metavar="FILE",
        help=(
            "reference translations, one a line, plain or gzip (default: the targets in the data"
            " folder, detokenised; an unknown word in them is never matched)"
        ),
    )
    parser.add_argument(
        "--detokenize",
        metavar="HOW",
        help="moses:LANGUAGE or none (default: as the bundles among the systems do, else none)",
    )


# The options of :func:`add_text_arguments`, as attributes.
PREPARATION = ("tokenizer", "subwords", "codes", "target_codes")


def add_text_arguments(parser: argparse._ActionsContainer, found: str) -> None:
    """Adds the options that state how the training text was prepared; ``found`` is the default
    that their help names, e.g. "found out from the files"."""
    parser.add_argument(
        "--tokenizer",
        type=_tokenizer,
        metavar=SPECIFICATION,
        help=(
            f"tokeniser of the training text: {', '.join(TOKENIZERS)}; of moses also variants, e.g."
            f" moses+escape+aggressive ({', '.join(VARIANTS)}) (default: {found})"
        ),
    )
    parser.add_argument(
        "--subwords",
        choices=SUBWORDS,
        help=f"subwords of the training text (default: {found})",
    )
    parser.add_argument("--codes", type=Path, metavar="FILE", help="codes or model of the subwords")
    parser.add_argument(
        "--target-codes",
        type=Path,
        metavar="FILE",
        help="codes or model of the target language's subwords (default: those of --codes)",
    )


def _tokenizer(text: str) -> str:
    """Returns ``text`` if it names a tokeniser, e.g. ``moses+escape``, else raises
    ArgumentTypeError. As argparse calls this, an unknown name is refused before anything is
    loaded."""
    try:
        Tokenization.parse(text, ("zh", "ja"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def recipe_of_bundle(
    specs: "Sequence[SystemSpec]",
    advice: str = "compare each of them alone",
    told: Mapping[str, Any] = MappingProxyType({}),
) -> Optional[TextRecipe]:
    """The text preparation of those systems whose path is a bundle; None if no path is one.

    Args:
        specs: the systems.
        advice: the end of the error message, which tells the user what to do.
        told: {name in PREPARATION: value}, which replace the bundles' own values.

    Raises:
        ValueError: two of the bundles prepare text by different steps or codes.
    """
    bundles = [spec for spec in specs if is_bundle(Path(spec.path))]
    recipes = [
        _changed(load_bundle(Path(spec.path), for_runtime=True).recipe, told) for spec in bundles
    ]
    for spec, recipe in zip(bundles, recipes):
        if _steps(recipe) != _steps(recipes[0]):
            first, other = (
                f"{one.name} ({made.tokenizer}, {made.subwords})"
                for one, made in ((bundles[0], recipes[0]), (spec, recipe))
            )
            raise ValueError(
                f"systems {first} and {other} are bundles whose text is prepared by different"
                f" steps or codes; {advice}"
            )
    return recipes[0] if recipes else None


def _changed(recipe: TextRecipe, told: Mapping[str, Any]) -> TextRecipe:
    """A bundle's recipe with the values ``told``, {field: value}. If these change the subwords or
    the codes, all codes that they do not name are dropped: the bundle's would not fit."""
    if "codes" in told or told.get("subwords", recipe.subwords) != recipe.subwords:
        told = {"codes": None, "target_codes": None, **told}
    return replace(recipe, **told)


def _steps(recipe: TextRecipe) -> Tuple[Any, ...]:
    """A recipe as a tuple to compare with others': each file of codes is represented by its
    contents, so that copies of a file count as equal."""
    codes = (recipe.codes, recipe.target_codes or recipe.codes)
    return (
        recipe.tokenization,
        recipe.subwords,
        *(None if path is None else path.read_bytes() for path in codes),
        recipe.source_prefix,
        recipe.target_prefix,
    )


def add_numbers(parser: argparse._ActionsContainer, *options: Tuple[str, Any, str]) -> None:
    """Adds options that take a number, each given as (flag, default, help). The number has the type
    of the default; with the default None it is an integer that may be left out."""
    for flag, default, text in options:
        kind, told = (int, "") if default is None else (type(default), " (default: %(default)s)")
        metavar = "N" if kind is int else "X"
        parser.add_argument(flag, type=kind, default=default, metavar=metavar, help=text + told)


def add_system_argument(
    parser: argparse._ActionsContainer, text: str = "as for fairseq-hrt benchmark", **more: Any
) -> None:
    """Adds ``--system`` with the help ``text``; ``more`` are further arguments of ``add_argument``,
    e.g. ``action="append"`` or ``required=True``."""
    metavar = "name=...,path=...,OPTION=..."
    parser.add_argument("--system", metavar=metavar, help=text, **more)


def add_out_argument(
    parser: argparse._ActionsContainer, what: str, *, required: bool = False
) -> None:
    """Adds ``--out``, the folder for results, which is made if it is missing; ``what`` names the
    results in its help."""
    parser.add_argument(
        "--out", type=Path, required=required, metavar="FOLDER", help=f"folder for {what}"
    )


def add_new_folder_argument(parser: argparse._ActionsContainer) -> None:
    """Adds ``--output``, a folder that must not exist yet."""
    parser.add_argument(
        "--output",
        required=True,
        type=Path,
        metavar="FOLDER",
        help="folder to make; must not exist",
    )


def language_arguments(source: Optional[str], target: Optional[str]) -> List[str]:
    """The two languages as arguments of ``fairseq-generate``. One that is None is left out: fairseq
    infers it from the names of the files."""
    chosen = (("--source-lang", source), ("--target-lang", target))
    return [argument for flag, language in chosen if language for argument in (flag, language)]


def data_arguments(options: argparse.Namespace) -> List[str]:
    """The arguments of ``fairseq-generate`` that choose the data. If ``options.data`` is a bundle,
    it provides the dictionaries and the languages; ValueError if an option names another
    language."""
    bundle = given_bundle(options)
    languages = (options.source_lang, options.target_lang)
    if bundle is not None:
        own = (bundle.source_lang, bundle.target_lang)
        for option, given, known in zip(("-s", "-t"), languages, own):
            if given not in (None, known):
                raise ValueError(
                    f"{option} {given}: {bundle.folder} translates from {own[0]} to {own[1]}; leave"
                    " the option out"
                )
        languages = own
    return [options.data, "--gen-subset", options.gen_subset, *language_arguments(*languages)]


def given_bundle(options: argparse.Namespace) -> Optional[Bundle]:
    """The bundle, if ``options.data`` is the folder of one; None if it is a folder of data.

    Raises:
        ValueError: the bundle's path contains fairseq's path separator.
    """
    folder = Path(options.data)
    if not is_bundle(folder):
        return None
    if os.pathsep in options.data:
        raise ValueError(
            f"{folder} contains {os.pathsep!r}, which fairseq reads as a path separator; rename the"
            f" bundle, or give a link to it whose path is without {os.pathsep!r}"
        )
    return load_bundle(folder)
