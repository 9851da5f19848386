"""Makes the lines that ``fairseq-hrt translate`` writes: translations, with their alignments if
these are asked for, or JSON."""

import argparse
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, cast

if TYPE_CHECKING:
    from ..native.bundles.translation import Line, Translation


def output_lines(model: Any, texts: Sequence["Line"], options: argparse.Namespace) -> List[str]:
    """Translates input lines, and returns the output line of each.

    Args:
        model: a :class:`~..native.bundles.translator.Translator`.
        texts: with ``--split-sentences`` the raw lines, else lines as ``model.in_words`` returns
            them (with their subwords).
        options: the options of the command line.
    """
    # Scores are computed only where they are shown.
    wanted = {"details": options.json or options.alignments, "batch_size": options.batch_size}
    found = (
        by_sentence(model, cast(Sequence[str], texts), wanted)
        if options.split_sentences
        else model.translate(texts, **wanted)
    )
    if options.json:
        return [to_json(one) for one in found]
    return [f"{one.text}\t{pairs(one)}" for one in found] if options.alignments else found


def by_sentence(model: Any, texts: Sequence[str], wanted: Dict[str, Any]) -> List[Any]:
    """Translates lines that may hold several sentences each: every sentence on its own, then joined
    to one translation for each line.

    Args:
        model: a :class:`~..native.bundles.translator.Translator`.
        texts: raw lines.
        wanted: two arguments of ``model.translate``: ``details``, whether scores and alignments are
            needed, and ``batch_size``, sentences decoded together.

    Returns:
        A :class:`~..native.bundles.translation.Translation` for each line with ``details``, else
        the translation as a str.

    Raises:
        ValueError: the package that splits sentences is not installed.
    """
    from ..native.bundles.translation import join_pieces, joined_texts

    try:
        lines = [model.in_sentences(text) for text in texts]
    except ImportError:
        raise ValueError(
            "--split-sentences needs the package sentencex: pip install sentencex"
        ) from None
    found = iter(model.translate([sentence for line in lines for sentence in line], **wanted))
    joined: List[Any] = []
    for text, line in zip(texts, lines):
        own = [next(found) for _ in line]
        joined.append(join_pieces(text, own) if wanted["details"] else joined_texts(own))
    return joined


def pairs(found: "Translation") -> str:
    """The alignment of a translation as fairseq prints it: for each target subword but ``</s>`` a
    pair ``SOURCE-TARGET`` of positions from 0, separated by spaces."""
    places = [place for token, place in zip(found.tokens, found.alignment) if token != "</s>"]
    return " ".join(f"{place}-{number}" for number, place in enumerate(places))


def to_json(found: "Translation") -> str:
    """A translation as one line of JSON."""
    return json.dumps(_document(found), ensure_ascii=False)


def _document(found: "Translation") -> Dict[str, Any]:
    """A translation as plain data for JSON; the entry ``terms`` (terms of a glossary) is left out
    if none was found."""
    document = asdict(replace(found, alternatives=[], terms=[]))
    document["alternatives"] = [_document(other) for other in found.alternatives]
    terms = [term._asdict() for term in found.terms]
    del document["terms"]
    return {**document, "terms": terms} if terms else document
