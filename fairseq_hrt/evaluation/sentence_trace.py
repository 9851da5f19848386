"""Records in which decoder pass each word of a translation became final, the decoding dependency
graph (Santilli et al., 2023, section 3.4).

In its pictures, rows are decoder passes and columns the words of the translation. Above them, arcs
join successive words that the same pass made final: they were decoded without seeing each other,
or, in parallel decoding of an autoregressive model, confirmed together.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Sequence

import torch

from ..engine import attached
from ..native.io.escaping import printable
from .systems import System

# States of a cell: no word yet; a guess that a later pass will change; a guess that will stay, but
# is not confirmed yet; a word that this pass made final; a word that an earlier pass made final.
OPEN, WRONG, RIGHT, FIXED, SETTLED = range(5)
STATES = ("open", "wrong", "right, not confirmed", "fixed now", "settled")


@dataclass
class Cell:
    """The state of one word of the translation in one decoder pass.

    Attributes:
        state: index into STATES, e.g. FIXED, which means that this pass made the word final.
        token: the word at this position in this pass; empty if there is none yet.
        probability: the word's probability; None if this pass did not compute it.
    """

    state: int
    token: str = ""
    probability: Optional[float] = None


@dataclass
class Trace:
    """How one system decoded one sentence.

    Attributes:
        name: the name of the system.
        source: the words of the source.
        tokens: the tokens of the translation, ``</s>`` included.
        passes: for each decoder pass a row with a cell for each token.
        fixed: the pass (1 = first) in which each token became final.
        directions: the number of the direction, from 0, that wrote each token; empty if there is
            only one.
        decoder_calls: number of calls of the decoder.
    """

    name: str
    source: str
    tokens: List[str]
    passes: List[List[Cell]]
    fixed: List[int]
    directions: List[int] = field(default_factory=list)
    decoder_calls: int = 0

    @property
    def arcs(self) -> List[List[int]]:
        """The pairs [index, index], from 0, of each token with the next one that the same decoder
        pass made final."""
        found = []
        for step in sorted(set(self.fixed)):
            members = [place for place, own in enumerate(self.fixed) if own == step]
            found += [list(pair) for pair in zip(members, members[1:])]
        return found

    def to_json(self) -> Dict[str, Any]:
        """The trace as plain data, with arcs and the names of the states."""
        return {**asdict(self), "arcs": self.arcs, "states": list(STATES)}


def trace(system: System, sample: Dict[str, Any], source: str) -> Trace:
    """Decodes one sentence and records the decoder passes.

    Args:
        system: a system of any family.
        sample: a batch of one sentence, made by the system's ``collate`` or ``collate_text``.
        source: the words of the sentence, for :attr:`Trace.source`.
    """
    iterations: List[Any] = []
    # Only parallel decoding has guesses to report.
    hooks = getattr(system.generator, "iteration_hooks", [])
    system.counters.reset()
    with attached(hooks, iterations.append):
        best = system.decode(sample)[0][0]
    dictionary = system.task.target_dictionary
    tokens = [dictionary[token] for token in best.tokens]
    fixed = best.token_steps or list(range(1, len(tokens) + 1))
    if iterations:
        passes = _passes_of_guesses(iterations, best.tokens, dictionary)
    else:
        passes = _passes_of_steps(tokens, fixed, best.positional_scores)
    calls = system.counters.decoder_calls
    return Trace(system.name, source, tokens, passes, fixed, best.token_directions, calls)


def _passes_of_steps(
    tokens: Sequence[str], fixed: Sequence[int], scores: Sequence[float]
) -> List[List[Cell]]:
    """The passes (:attr:`Trace.passes`) of a decoder that never changes a word it has written. For
    each token, ``fixed`` has the pass (1 = first) that wrote it, ``scores`` its log-probability."""
    probabilities = torch.tensor(scores).exp().clamp(max=1).tolist()
    rows = []
    for step in range(1, max(fixed) + 1):
        row = []
        for token, own, probability in zip(tokens, fixed, probabilities):
            if own == step:
                row.append(Cell(FIXED, token, probability))
            else:
                row.append(Cell(SETTLED, token) if own < step else Cell(OPEN))
        rows.append(row)
    return rows


def _passes_of_guesses(
    iterations: Sequence[Any], final: Sequence[int], dictionary: Any
) -> List[List[Cell]]:
    """The passes (:attr:`Trace.passes`) of parallel decoding, which guesses words and corrects
    them: a word that a pass predicted but did not confirm is right if the ``final`` translation has
    it at this place, else wrong.

    Args:
        iterations: each pass, a :class:`~..jacobi.decoding.JacobiIteration`.
        final: ids of the tokens of the translation.
        dictionary: the target dictionary.
    """
    rows = []
    for iteration in iterations:
        row = [Cell(OPEN) for _ in final]
        for place in range(iteration.first):
            row[place] = Cell(SETTLED, dictionary[final[place]])
        probabilities = torch.tensor(iteration.log_probs).exp().clamp(max=1).tolist()
        for ahead, (token, probability) in enumerate(zip(iteration.answers, probabilities)):
            place = iteration.first + ahead
            if place >= len(final):
                break
            if ahead < iteration.verified:
                state = FIXED
            else:
                state = RIGHT if token == final[place] else WRONG
            row[place] = Cell(state, dictionary[token], probability)
        rows.append(row)
    return rows


_MARKS = {OPEN: "·", WRONG: "✗", RIGHT: "○", FIXED: "●", SETTLED: "–"}
_COLOURS = {OPEN: "90", WRONG: "31", RIGHT: "33", FIXED: "32", SETTLED: "90"}


def to_text(found: Trace, *, colour: bool) -> str:
    """The trace for a terminal: a line for each pass, with a mark, and if ``colour`` is True also a
    colour, for the state of each word."""
    name, source = printable(found.name), printable(found.source)
    lines = [
        f"{name}: {len(found.tokens)} tokens in {len(found.passes)} passes",
        f"  source  {source}",
    ]
    for number, row in enumerate(found.passes, start=1):
        words = []
        for cell in row:
            # The words come from a dictionary of unknown origin: none may repaint the terminal.
            token = printable(cell.token)
            text = token or _MARKS[OPEN]
            if cell.state == SETTLED:
                text = token if number == len(found.passes) else _MARKS[SETTLED]
            elif cell.state != OPEN:
                text = f"{_MARKS[cell.state]}{text}"
            words.append(f"\x1b[{_COLOURS[cell.state]}m{text}\x1b[0m" if colour else text)
        lines.append(f"  {number:6d}  " + " ".join(words))
    return "\n".join(lines)


def legend(*, colour: bool) -> str:
    """A line that explains the marks and colours of :func:`to_text`."""
    parts = []
    for state, name in enumerate(STATES):
        mark = f"\x1b[{_COLOURS[state]}m{_MARKS[state]}\x1b[0m" if colour else _MARKS[state]
        parts.append(f"{mark} {name}")
    return "   ".join(parts)
