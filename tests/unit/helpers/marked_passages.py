"""Passages written in short."""

import re

from fairseq_hrt.native.text.passages import Passage


def passage(text):
    """``[b`` begins an element, ``]`` ends it, ``{x}`` is a unit."""
    found, names = Passage(), []
    for piece in re.findall(r"\[\w|\]|\{\w*\}|[^][{}]+", text):
        if piece[0] == "[":
            names.append(piece[1])
            found.open(f"<{piece[1]}>")
        elif piece == "]":
            found.close(f"</{names.pop()}>")
        elif piece[0] == "{":
            found.unit(piece)
        else:
            found.add(piece)
    found.finish()
    return found
