"""What a reader makes of a source: models of fairseq, dictionaries, and how text is prepared; and
the bundle of it."""

import logging
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..bundles.bundle import Bundle, create_bundle, require_new
from ..bundles.data_options import language_of_data
from ..bundles.description import checked_options
from ..bundles.native_bundle import read_candidates, write_native_model, write_native_shortlist
from ..bundles.pretrained import from_pretrained
from ..io.escaping import shown
from ..plugin import plugin
from .imported_to_native import native_model
from .plain_files import WHOLE
from .vocabularies import Vocabulary

logger = logging.getLogger(__name__)

# Decodes imported models as any others that write from left to right.
TASK = "translation_autoregressive"
# The logit of a word that a model does not have: never chosen, and nothing in a sum of
# probabilities. Lower, it would drown the label-smoothed loss of who trains on, and be infinite in
# half precision.
NEVER = -1e4


@dataclass
class ConvertedModel:
    """A model of fairseq.

    Attributes:
        architecture: its ``--arch``.
        options: of ``fairseq-train``, by their names without dashes; True for a switch.
        parameters: float32, by fairseq's names.
        steps: of parameters that the source holds as integers of 8 bits, the value of 1.
    """

    architecture: str
    options: Dict[str, Any]
    parameters: Dict[str, np.ndarray]
    steps: Dict[str, float] = field(default_factory=dict)


@dataclass
class Converted:
    """A source that was read.

    Attributes:
        models: one, or several of an ensemble.
        languages: source and target, as the dictionaries are named.
        source, target: their words.
        tokenizer, subwords, codes, target_codes, source_prefix, target_prefix: see
        :class:`~..text.pipeline.TextRecipe`.
        decoding: options that the bundle shall have.
        card: what else is to be known.
        shortlist: lines of a ``vmap`` file: candidates for the native engine.
        examples: raw source sentences to try the bundle with.
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
    examples: Sequence[str] = ()


@dataclass(frozen=True)
class Wishes:
    """What the user states about a source.

    Attributes:
        source_language, target_language: names, which a multilingual model needs.
        tokenizer, subwords, codes: how its text was prepared, where its files do not tell; see
        :class:`~..text.pipeline.TextRecipe`.
        runtime: weights of the native engine's model, ``int8`` or ``float32``; None: none.
        lines: raw source lines to compare both engines with.
        checkpoint: whether the bundle also gets a checkpoint of fairseq, which takes PyTorch;
            without one the native engine's model is made in any case.
        examples: raw source sentences to try the bundle with.
    """

    source_language: Optional[str] = None
    target_language: Optional[str] = None
    tokenizer: Optional[str] = None
    subwords: Optional[str] = None
    codes: Optional[Path] = None
    runtime: Optional[str] = None
    lines: Optional[List[str]] = None
    checkpoint: bool = True
    examples: Sequence[str] = ()


def write_bundle(
    converted: Converted,
    folder: Path,
    *,
    runtime: Optional[str] = None,
    lines: Optional[Sequence[str]] = None,
    checkpoint: bool = True,
) -> Bundle:
    """Writes dictionaries, models and bundle.

    Args:
        converted: what was read.
        folder: of the bundle; must not exist.
        runtime: weights of the native engine's model, ``int8`` or ``float32``; None: none.
        lines: raw source lines to compare both engines with.
        checkpoint: whether it also gets a checkpoint of fairseq, which takes PyTorch; else the
            native engine's model is all.

    Raises:
        ValueError: the folder exists, or the model cannot be represented.
        OSError: a file cannot be written.
    """
    for language in converted.languages:
        language_of_data(language, "the source")
    if converted.languages[0] == converted.languages[1] and converted.source != converted.target:
        raise ValueError(
            f"both languages are called {shown(converted.languages[0])}, but have different"
            " vocabularies: name them by --source-language and --target-language"
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
        # Nothing is known of the training.
        card={"architecture": converted.models[0].architecture, **converted.card},
        examples=list(converted.examples),
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
            if converted.target_codes is not None:
                made.target_codes = "target_codes"
                shutil.copyfile(converted.target_codes, made.folder / made.target_codes)
            if runtime is not None:
                _add_native_model(made, converted, runtime, place, lines)

        check = partial(
            from_pretrained, device="cpu", engine="torch" if runtime is None else "native"
        )
        return create_bundle(
            bundle, place, converted.codes, states=states, complete=complete, check=check
        )


def _add_native_model(
    made: Bundle,
    converted: Converted,
    weights: str,
    place: Path,
    lines: Optional[Sequence[str]],
) -> None:
    """Adds the native engine's model and shortlist, compared with PyTorch's engine where there is a
    checkpoint; the dictionaries lie in ``place``."""
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
    write_native_model(made, *make_model(weights=weights))
    if shortlist is not None:
        write_native_shortlist(made, read_candidates(made, shortlist))
