"""The result of reading and converting a model of another toolkit, and how a bundle is written from
it."""

import logging
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..bundles.bundle import Bundle, create_bundle, require_new
from ..bundles.data_options import language_of_data
from ..bundles.description import checked_options
from ..bundles.native_bundle import write_native_model, write_native_shortlist
from ..bundles.pretrained import from_pretrained
from ..bundles.shortlist import load_shortlist
from ..io.escaping import shown
from ..io.progress import Doing
from ..plugin import plugin
from .imported_to_native import native_model
from .plain_files import WHOLE
from .vocabularies import Vocabulary

logger = logging.getLogger(__name__)

# The task of imported models.
TASK = "translation_autoregressive"
# The logit of words that a model lacks: low enough that their probability is 0, but no lower, for
# the label-smoothed loss of further training and for half precision, in which it must be finite.
NEVER = -1e4


@dataclass
class ConvertedModel:
    """A converted model, with fairseq's names of options and parameters.

    Attributes:
        architecture: its ``--arch`` in fairseq.
        options: options of ``fairseq-train`` that describe it, by their names without leading
            dashes; True for a switch.
        parameters: {fairseq's name: float32 array}.
        steps: {name of a parameter: its quantisation step, the value that the integer 1
            represents}, for parameters that were stored as 8-bit integers.
    """

    architecture: str
    options: Dict[str, Any]
    parameters: Dict[str, np.ndarray]
    steps: Dict[str, float] = field(default_factory=dict)


@dataclass
class Converted:
    """A converted model or ensemble, with everything else that its bundle needs.

    Attributes:
        models: the model, or the models of an ensemble.
        languages: names of the source and target language.
        source, target: the vocabularies of the two languages.
        tokenizer, subwords, codes, target_codes, source_prefix, target_prefix: how text is prepared
            for the model; see :class:`~..text.recipe.TextRecipe`.
        decoding: decoding options of the bundle, {name: text}.
        card: further rows of the table in the bundle's README.md, {name: value}.
        shortlist: the candidate target words of each source word, to which the native engine
            limits its search, as lines of a ``vmap`` file; None: no shortlist.
    """

    models: List[ConvertedModel]
    languages: Tuple[str, str]
    source: Vocabulary
    target: Vocabulary
    tokenizer: str = "space"
    subwords: str = "none"
    codes: Optional[Path] = None
    target_codes: Optional[Path] = None
    source_prefix: Optional[str] = None
    target_prefix: Optional[str] = None
    decoding: Dict[str, str] = field(default_factory=dict)
    card: Dict[str, Any] = field(default_factory=dict)
    shortlist: Optional[List[str]] = None


@dataclass(frozen=True)
class Wishes:
    """The user's options for importing a model.

    Attributes:
        source_language, target_language: names of the languages, required for multilingual models;
            None: as the model's files name them.
        tokenizer, subwords, codes, target_codes: text preparation, if the model's files do not
            specify it; see :class:`~..text.recipe.TextRecipe`.
        runtime: type of the weights of the native engine's model, ``int8`` or ``float32``; None: no
            such model, but ``int8`` if ``checkpoint`` is False.
        lines: raw source lines that the native engine and PyTorch both translate, to compare the
            results; None: the importer makes such lines.
        checkpoint: True: also write a checkpoint of fairseq, which needs PyTorch; False: write only
            the native engine's model.
        examples: raw source sentences to try the bundle with.
    """

    source_language: Optional[str] = None
    target_language: Optional[str] = None
    tokenizer: Optional[str] = None
    subwords: Optional[str] = None
    codes: Optional[Path] = None
    target_codes: Optional[Path] = None
    runtime: Optional[str] = None
    lines: Optional[List[str]] = None
    checkpoint: bool = True
    examples: Sequence[str] = ()


def write_bundle(
    converted: Converted,
    folder: Path,
    wishes: Wishes = Wishes(),
) -> Bundle:
    """Writes a bundle with its dictionaries and models.

    Args:
        converted: the converted model.
        folder: the bundle's folder, which must not exist.
        wishes: ``runtime``, ``lines``, ``checkpoint`` and ``examples`` are read. With ``runtime``
            None there is no model for the native engine; with ``lines`` None PyTorch and the
            native engine are compared on random words.

    Raises:
        ValueError: the folder exists, the languages' names or the decoding options do not fit a
            bundle, or an ensemble, which only PyTorch decodes, is to have no checkpoint.
        OSError: a file cannot be written.
    """
    runtime, checkpoint = wishes.runtime, wishes.checkpoint
    for language in converted.languages:
        language_of_data(language, "the source")
    if converted.languages[0] == converted.languages[1] and converted.source != converted.target:
        raise ValueError(
            f"both languages are called {shown(converted.languages[0])}, but have different"
            " vocabularies: give two names by --source-language and --target-language"
        )
    if len(converted.models) > 1 and not checkpoint:
        raise ValueError(
            f"an ensemble of {len(converted.models)} models is decoded by PyTorch only: import it"
            f" with {WHOLE}, or give the path of one model"
        )
    if converted.shortlist is not None and runtime is None:
        logger.warning(
            "the shortlist is left out: it belongs to the native engine's model, which"
            " --runtime makes"
        )
    require_new(folder)
    bundle = Bundle(
        folder, TASK, *converted.languages, converted.tokenizer, converted.subwords,
        options=checked_options(converted.decoding, TASK if checkpoint else None, "the new bundle"),
        # Nothing about the training: it is unknown.
        card={"architecture": converted.models[0].architecture, **converted.card},
        examples=list(wishes.examples),
        source_prefix=converted.source_prefix, target_prefix=converted.target_prefix,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        for language, words in zip(converted.languages, (converted.source, converted.target)):
            words.save(place / f"dict.{language}.txt")
        states = [
            plugin().checkpoint_of(
                model.architecture, model.options, model.parameters, converted.languages, place
            )
            for model in converted.models
            if checkpoint
        ]

        def complete(made: Bundle) -> None:
            if runtime is not None:
                _add_native_model(made, converted, runtime, place, wishes.lines)

        check = partial(
            from_pretrained, device="cpu", engine="torch" if runtime is None else "native"
        )
        return create_bundle(
            bundle,
            place,
            converted.codes,
            converted.target_codes,
            states=states,
            complete=complete,
            check=check,
        )


def _add_native_model(
    made: Bundle,
    converted: Converted,
    weights: str,
    place: Path,
    lines: Optional[Sequence[str]],
) -> None:
    """Adds the native engine's model, with ``weights`` of type ``int8`` or ``float32``, and its
    shortlist to the new bundle ``made``. If the bundle has a checkpoint, translations of ``lines``
    (None: of random words) by PyTorch and by the native engine are compared. ``place`` is the
    folder with the dictionaries."""
    shortlist = None
    if converted.shortlist is not None:
        shortlist = place / "shortlist.vmap"
        shortlist.write_text(
            "".join(f"{line}\n" for line in converted.shortlist), encoding="utf-8", newline="\n"
        )
    model = converted.models[0]
    make_model = partial(native_model, model.options, model.parameters, model.steps)
    if made.models:
        plugin().add_runtime(
            made, weights, data=place, lines=lines, shortlist=shortlist, make_model=make_model
        )
        return
    made.card["checkpoint"] = "none: imported without PyTorch"
    with Doing("making the native engine's model"):
        write_native_model(made, *make_model(weights=weights))
    if shortlist is not None:
        write_native_shortlist(made, load_shortlist(shortlist, *made.dictionaries()))
