"""Adds to a bundle what the native engine reads: its model, after comparing its translations with
PyTorch's, and a shortlist."""

import logging
import math
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..engine.torch_to_native import convert
from ..loading.checkpoints import task_name
from ..loading.data_options import options_of_training
from ..native.bundles.bundle import Bundle
from ..native.bundles.decoder import Wanted, Watch
from ..native.bundles.native_bundle import (
    write_native_model,
    write_native_shortlist,
)
from ..native.bundles.native_decoder import NativeDecoder
from ..native.bundles.shortlist import load_shortlist, mean_candidates
from ..native.bundles.translator import Translator
from ..native.decoding import Hypothesis
from ..native.families.fields import STORED
from ..native.io.progress import Doing, Progress
from ..native.options.schema import CALLER, EVERY_TASK, FAIRSEQ
from ..native.options.values import SCHEMA, DecodingOptions
from ..native.runtime.engine import Engine
from ..native.runtime.format import Header
from ..native.text.dictionary import Words
from .torch_decoder import TorchDecoder
from .validation_data import validation_sides

logger = logging.getLogger(__name__)

# Makes the native engine's model; called with ``weights="int8"`` or ``"float32"``.
MakeModel = Callable[..., Tuple[Header, Dict[str, np.ndarray]]]
# Sentences that are compared.
SENTENCES = 100
# The most by which a log-probability with float32 weights may differ from PyTorch's: only the
# order of sums is another.
LARGEST_DIFFERENCE = 0.01


@dataclass(frozen=True)
class Agreement:
    """How far the translations of the native engine and of PyTorch agree.

    Attributes:
        sentences: the number of sentences that were compared.
        identical: the number of sentences that both translated with the same tokens.
        difference: the largest difference between the engines' log-probabilities of a token, in
            these identical translations; NaN if a log-probability is NaN.
    """

    sentences: int
    identical: int
    difference: float

    def __str__(self) -> str:
        return (
            f"{self.identical} of {self.sentences} translations identical, log-probabilities differ"
            f" by at most {self.difference:.2g}"
        )


def add_runtime(
    bundle: Bundle,
    weights: str,
    *,
    data: Path,
    lines: Optional[Sequence[str]] = None,
    shortlist: Optional[Path] = None,
    make_model: Optional[MakeModel] = None,
) -> None:
    """Converts the bundle's model for the native engine, compares its translations with PyTorch's,
    and writes the model and the result of the comparison into the bundle.

    Args:
        bundle: the bundle, complete but for the native engine's model, which is written into its
            folder.
        weights: the type of the native engine's weights, ``int8`` or ``float32``.
        data: the folder of fairseq-preprocess, whose sentences are translated if there are no
            ``lines``.
        lines: raw source lines to translate for the comparison.
        shortlist: a lexical table (Marian's lex or CTranslate2's vmap) that becomes the bundle's
            shortlist; None: no shortlist.
        make_model: called with ``weights="int8"`` or ``"float32"``, returns (header, tensors) of
            the native engine's model for an imported model; None: the checkpoint is converted.

    Raises:
        UnsupportedOption: the native engine does not support the bundle's options or task.
        ValueError: the bundle is an ensemble, the native engine does not support the model, or its
            translations differ from PyTorch's.
    """
    if weights not in STORED:
        raise ValueError(f"--runtime {weights}: choose one of {', '.join(STORED)}")
    if len(bundle.models) > 1:
        raise ValueError(
            f"--runtime: an ensemble of {len(bundle.models)} models is decoded by PyTorch only;"
            " give one checkpoint, or leave --runtime out"
        )
    with Doing("loading the model"):
        eager = TorchDecoder(bundle, device="cpu")
    in_torch = Translator(bundle, eager)
    wanted = Wanted(32)
    generator = eager.prepare(in_torch.defaults, wanted, frozenset())
    make_model = make_model or partial(
        convert,
        eager.models[0],
        generator.task.source_dictionary,
        generator.task.target_dictionary,
    )
    with Doing("making the native engine's model"):
        write_native_model(bundle, *make_model(weights=weights))
    bundle.runtime_options = trained_options(eager.trained_task, bundle.task)
    decoder = NativeDecoder.of_bundle(bundle)
    native = Translator(bundle, decoder)
    if lines is None:
        sentences = data_sentences(data, bundle, decoder.engine.header.longest_source)
    else:
        # As translation does it: lines that are too long are cut.
        sentences = native.pieces(lines)
    if not sentences:
        raise ValueError(
            "there is no sentence for comparing the native engine with PyTorch: give a file with"
            " source sentences by --runtime-lines"
        )
    options = decoder.prepare(native.defaults, wanted, frozenset())
    first_words = decoder.first_words(options, len(sentences))
    with Progress("sentences by PyTorch, to compare with", len(sentences)) as progress:
        expected = eager.decode(generator, sentences, wanted, Watch(progress.reach))
    with Doing("comparing the native engine with PyTorch"):
        if weights != "float32":
            # The conversion itself is checked without rounding.
            with Engine(*make_model(weights="float32"), threads=decoder.engine.threads) as exact:
                require_equal(
                    agreement(exact.decode(sentences, options, first_words=first_words), expected)
                )
        found = agreement(
            decoder.engine.decode(sentences, options, first_words=first_words), expected
        )
    if weights == "float32":
        require_equal(found)
    logger.info("runtime, %s: %s", weights, found)
    bundle.card[f"runtime, {weights}"] = str(found)
    if shortlist is not None:
        candidates = load_shortlist(shortlist, *bundle.dictionaries())
        decoder.engine.set_shortlist(candidates)
        found = agreement(
            decoder.engine.decode(sentences, options, first_words=first_words), expected
        )
        write_native_shortlist(bundle, candidates)
        size = mean_candidates(candidates, sentences)
        bundle.card[f"runtime, {weights}, shortlist"] = (
            f"{found}; {size:.0f} of {len(in_torch.target.words)} words a sentence on average"
        )
    decoder.engine.close()


def trained_options(saved: Any, name: str) -> Dict[str, str]:
    """The decoding options that were set in training and differ from the native engine's defaults,
    {name: text}: those of the bundle's task ``name`` and ``forced_start``. ``saved`` is the task's
    configuration in the checkpoint. Empty if the bundle is decoded by another task than that of the
    training."""
    if task_name(saved) != name:
        return {}
    held = options_of_training(saved, name)
    own = {item.name: item.default for item in fields(DecodingOptions)}
    found: Dict[str, str] = {}
    for option, value in held.items():
        # Options of the family, and forced_start, the language token of a multilingual model.
        known = option in SCHEMA and (
            SCHEMA[option].origin not in (FAIRSEQ, CALLER, EVERY_TASK) or option == "forced_start"
        )
        if known and value is not None and value is not False and value != own[option]:
            found[option] = "true" if value is True else str(value)
    return found


def data_sentences(data: Path, bundle: Bundle, longest: int) -> List[List[int]]:
    """Chooses up to SENTENCES source sentences, as ids that end in ``</s>``, evenly spread over the
    first of the subsets ``valid``, ``test`` and ``train`` that the data folder holds. Those of more
    than ``longest`` ids are left out. If no subset has sentences of the bundle's dictionary, random
    words are returned."""
    dictionary = Words(bundle.folder / f"dict.{bundle.source_lang}.txt")
    for found, _ in validation_sides(data, (bundle.source_lang, bundle.target_lang)):
        numbers = np.linspace(0, len(found) - 1, min(SENTENCES, len(found))).astype(int)
        rows = [found[int(number)].tolist() for number in numbers]
        if max(max(row) for row in rows) < len(dictionary):
            return [row for row in rows if 1 < len(row) <= longest]
    logger.warning(
        "%s holds no sentences: the native engine is compared with PyTorch on random words, which"
        " shows little; give --runtime-lines",
        data,
    )
    generator = np.random.default_rng(1)
    lengths = generator.integers(1, min(20, longest - 1) + 1, SENTENCES)
    return [[*generator.integers(4, len(dictionary), length).tolist(), 2] for length in lengths]


def agreement(
    found: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]
) -> Agreement:
    """Compares the tokens of the best hypothesis of each sentence in ``found`` (native engine) and
    ``expected`` (PyTorch), and where they are identical, the log-probabilities. Both lists hold
    each sentence's hypotheses, best first."""
    identical, difference = 0, 0.0
    for results, hypotheses in zip(found, expected):
        mine, theirs = results[0], hypotheses[0]
        if mine.tokens != theirs.tokens:
            continue
        identical += 1
        scores = np.abs(np.asarray(mine.positional_scores) - np.asarray(theirs.positional_scores))
        difference = (
            max(difference, float(scores.max(initial=0.0)))
            if not np.isnan(scores).any()
            else math.nan
        )
    return Agreement(len(expected), identical, difference)


def require_equal(found: Agreement) -> None:
    """Raises ValueError if a converted model with float32 weights does not translate as PyTorch
    does. Sums in another order may break ties differently, so half of the sentences may have other
    tokens."""
    if not found.difference <= LARGEST_DIFFERENCE or 2 * found.identical < found.sentences:
        raise ValueError(
            f"--runtime: the model that was converted for the native engine does not translate as"
            f" PyTorch's engine does ({found}): leave --runtime out"
        )
