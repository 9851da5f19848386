"""Shows in which decoding step (decoder pass) each token of a translation became final."""

import os
from typing import List, Mapping, Optional, Sequence, TextIO

from .comparison import Comparison, source_text
from .systems import System

# Colours of the 256-colour terminal palette, readable on dark and light ground, neighbours well
# apart.
_PALETTE = (33, 166, 35, 163, 136, 37, 161, 64, 99, 202, 30, 125)


def use_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour what is written to ``stream``: never with NO_COLOR, always with
    FORCE_COLOR, else if the stream is a terminal.

    An empty variable counts as not set (no-color.org).
    """
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or stream.isatty()


def show_steps(
    tokens: Sequence[str],
    steps: Optional[Sequence[int]],
    *,
    colour: bool,
    directions: Optional[Sequence[int]] = None,
) -> str:
    """A translation's tokens in one line, each with the decoding step in which it became final.

    Args:
        tokens: the tokens of one translation.
        steps: the decoding step (1 = first) of each token; None if the decoder does not report
            steps: then only the tokens are shown.
        colour: True shows the step by a colour, False as ``token/step``.
        directions: the number of the direction, from 0, that wrote each token, for decoders with
            several: ``token/3b`` is a token that the second one wrote in step 3; in colour, tokens
            of all but the first are underlined.

    Raises:
        ValueError: ``steps`` and ``tokens`` differ in length.
    """
    if steps is None:
        return " ".join(tokens)
    if len(tokens) != len(steps):
        raise ValueError(
            f"{len(tokens)} tokens but {len(steps)} steps: a decoder must give one step for each"
            " token"
        )
    if directions is None:
        directions = [0] * len(steps)
        letters = [""] * len(steps)
    else:
        letters = [chr(ord("a") + direction) for direction in directions]
    if not colour:
        return " ".join(
            f"{token}/{step}{letter}" for token, step, letter in zip(tokens, steps, letters)
        )
    return " ".join(
        _paint(token, step, underlined=direction > 0)
        for token, step, direction in zip(tokens, steps, directions)
    )


def legend(steps: int, *, colour: bool) -> str:
    """A line with the numbers 1 to ``steps``, each in the colour of its step; empty if ``colour``
    is False."""
    if not colour:
        return ""
    return "step " + " ".join(_paint(str(step), step) for step in range(1, steps + 1))


def _paint(text: str, step: int, *, underlined: bool = False) -> str:
    line = "4;" if underlined else ""
    return f"\x1b[{line}38;5;{_PALETTE[(step - 1) % len(_PALETTE)]}m{text}\x1b[0m"


def examples(comparison: Comparison, systems: Sequence[System], count: int, *, colour: bool) -> str:
    """A text with source and translations of ``count`` sentences, spread evenly over the test set;
    each token is shown with its decoding step, by a colour or, if ``colour`` is False, as
    ``token/step``. ``systems`` must be those of the comparison, in its order."""
    size = len(comparison.results[0].hypotheses)
    count = min(count, size)
    lines: List[str] = []
    longest, lettered = 0, False
    width = max(len(system.name) for system in systems)
    for sentence in (index * size // count for index in range(count)):
        lines += ["", f"{'source':{width}}  {source_text(systems[0], sentence)}"]
        for result, system in zip(comparison.results, systems):
            best = result.best[sentence]
            tokens = [system.task.target_dictionary[token] for token in best.tokens]
            steps = best.token_steps or None
            longest = max([longest, *(steps or [])])
            directions = best.token_directions or None
            lettered = lettered or directions is not None
            shown = show_steps(tokens, steps, colour=colour, directions=directions)
            lines.append(f"{result.name:{width}}  {shown}")
    title = (
        legend(longest, colour=colour)
        or "Each token with the decoding step that fixed it (token/step)."
    )
    if lettered:
        title += (
            " Underlined: not from left to right."
            if colour
            else " Letters: directions of writing (a, b, …)."
        )
    return "\n".join([title, *lines])
