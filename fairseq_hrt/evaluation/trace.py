"""Shows in which decoding step each token of a translation was fixed."""

import os
from typing import List, Mapping, Optional, Sequence, TextIO

from .comparison import Comparison, source_text
from .systems import System

# Colours of the 256-colour terminal palette, readable on dark and light ground, neighbours well apart.
_PALETTE = (33, 166, 35, 163, 136, 37, 161, 64, 99, 202, 30, 125)


def use_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: never with NO_COLOR, always with FORCE_COLOR, else when ``stream`` is a terminal.

    An empty variable counts as not set (no-color.org).
    """
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or stream.isatty()


def show_steps(tokens: Sequence[str], steps: Optional[Sequence[int]], *, colour: bool) -> str:
    """The tokens in one line, each with its step.

    Args:
        tokens: of one translation.
        steps: the decoding step (1 = first) of each, of the same length; None if the decoder does not tell.
        colour: colours by step; else ``token/step``. Without steps just the tokens.

    Raises:
        ValueError: the lengths differ.
    """
    if steps is None:
        return " ".join(tokens)
    if len(tokens) != len(steps):
        raise ValueError(f"{len(tokens)} tokens but {len(steps)} steps: a decoder must give one step for each token")
    if not colour:
        return " ".join(f"{token}/{step}" for token, step in zip(tokens, steps))
    return " ".join(_paint(token, step) for token, step in zip(tokens, steps))


def legend(steps: int, *, colour: bool) -> str:
    """The colours of steps 1 .. ``steps``; empty without colours."""
    if not colour:
        return ""
    return "step " + " ".join(_paint(str(step), step) for step in range(1, steps + 1))


def _paint(text: str, step: int) -> str:
    return f"\x1b[38;5;{_PALETTE[(step - 1) % len(_PALETTE)]}m{text}\x1b[0m"


def examples(comparison: Comparison, systems: Sequence[System], count: int, *, colour: bool) -> str:
    """Source and translations of ``count`` sentences, spread over the test set, with the step of each token."""
    size = len(comparison.results[0].hypotheses)
    count = min(count, size)
    lines: List[str] = []
    longest = 0
    width = max(len(system.name) for system in systems)
    for sentence in (index * size // count for index in range(count)):
        lines += ["", f"{'source':{width}}  {source_text(systems[0], sentence)}"]
        for result, system in zip(comparison.results, systems):
            best = result.best[sentence]
            tokens = [system.task.target_dictionary[token] for token in best["tokens"].tolist()]
            steps = best["token_steps"].tolist() if "token_steps" in best else None
            longest = max([longest, *(steps or [])])
            lines.append(f"{result.name:{width}}  {show_steps(tokens, steps, colour=colour)}")
    title = legend(longest, colour=colour) or "Each token with the decoding step that fixed it (token/step)."
    return "\n".join([title, *lines])
