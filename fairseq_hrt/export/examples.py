"""Chooses example sentences to try a bundle with."""

from pathlib import Path
from typing import Any, List, Sequence

from ..native.bundles.bundle import Bundle
from ..native.bundles.description import LONGEST_EXAMPLE
from ..native.text.dictionary import Words
from .validation_data import validation_sides

# How many sentences are taken from data; least and most subwords of each.
CHOSEN, SHORT, LONG = 5, 5, 25


def example_sentences(bundle: Bundle, data: Path) -> List[str]:
    """Up to CHOSEN raw source sentences, spread over the validation set (without one, over the test
    or training set). Sentences with words that the model does not know are left out.

    Args:
        bundle: the bundle, whose dictionaries and codes must be in its folder.
        data: the folder of fairseq-preprocess; if it has no sentences, the list is empty.
    """
    import numpy as np

    languages = (bundle.source_lang, bundle.target_lang)
    rows: Sequence[Any] = next(validation_sides(data, languages), ((), ()))[0]
    words = Words(bundle.folder / f"dict.{bundle.source_lang}.txt")
    restore, prepare = bundle.target_pipeline().text, bundle.pipeline().words
    chosen: List[str] = []
    for number in np.linspace(0, len(rows) - 1, min(len(rows), 20 * CHOSEN)).astype(int).tolist():
        ids = rows[number].tolist()[:-1]
        if not SHORT <= len(ids) <= LONG or words.unk in ids or max(ids) >= len(words):
            continue
        symbols = [words.words[one] for one in ids]
        text = restore(" ".join(symbols))
        # Text that is not tokenised back to its subwords is not what the model was trained on.
        if (
            prepare(text) == symbols
            and text not in chosen
            and len(text) <= LONGEST_EXAMPLE
            and text.isprintable()
        ):
            chosen.append(text)
    # Some of those that were found, spread evenly.
    return chosen[:: max(1, len(chosen) // CHOSEN)][:CHOSEN]
