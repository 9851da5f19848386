"""Translations of one model, chosen by another, as :mod:`..decoding.rescoring` does it in PyTorch."""

from dataclasses import replace
from typing import List, Sequence, cast

from .engine import DecodeOptions, Engine, Header, Result
from .options import chunk_table, writes_in_order

LARGEST_PENALTY = 20.0


def candidates(header: Header, options: DecodeOptions) -> int:
    """Most translations of a sentence that a search finds."""
    if header.family == "dag":
        return 1
    beam = min(options.beam, header.target_vocabulary - 1)
    if header.family != "hrt" or 1 in (size for _, size in chunk_table(header, options)):
        return beam
    return beam if options.hrt_nat_beam is None else min(beam, options.hrt_nat_beam)


class Rescorer:
    """Ranks translations by log P(y | x) of a model that writes one word after the other.

    Args:
        judge: that model; not closed here.
        lenpen: the sum of the log-probabilities is divided by the length, ``</s>`` included, to this power.

    Raises:
        ValueError: a penalty that overflows.
    """

    def __init__(self, judge: Engine, *, lenpen: float = 1.0) -> None:
        if not abs(lenpen) <= LARGEST_PENALTY:
            raise ValueError(f"--rescore-lenpen {lenpen} must lie between -{LARGEST_PENALTY:g} and {LARGEST_PENALTY:g}")
        self.judge, self.lenpen = judge, lenpen

    def require(self, header: Header, options: DecodeOptions) -> None:
        """Refuses what there is nothing to choose from, or what the judge cannot read.

        Raises:
            ValueError: by name.
        """
        if candidates(header, options) < 2:
            more = {
                "dag": "--dag-decode-strategy beam, which the runtime does not know (--engine torch)",
                "hrt": "--beam 2 or more and --hrt-nat-beam 2 or more",
            }
            raise ValueError(
                f"--rescore-path: there is only one translation to choose from; give {more.get(header.family, '--beam 2 or more')}"
            )
        judge = self.judge.header
        if not writes_in_order(judge):
            raise ValueError(
                f"--rescore-path: that model is of the family {judge.family} and does not write one word after the other; give an "
                "autoregressive one"
            )
        for side in ("source", "target"):
            words, known = getattr(header, f"{side}_vocabulary"), getattr(judge, f"{side}_vocabulary")
            if words != known:
                raise ValueError(
                    f"--rescore-path: that model has {known} {side} words, the one that is decoded {words}: give one with the same dictionaries"
                )
        if judge.longest_target < header.longest_target:
            raise ValueError(
                f"--rescore-path: that model reads translations of {judge.longest_target} tokens, the one that is decoded writes up to "
                f"{header.longest_target}; use --engine torch"
            )

    def decode(self, engine: Engine, sources: Sequence[Sequence[int]], options: DecodeOptions) -> List[List[Result]]:
        """What :meth:`.engine.Engine.decode` returns, in the judge's order and with its scores; ``steps`` counts its pass."""
        found = engine.decode(sources, options, every=True)
        return [best[: options.nbest] for best in self.rank(sources, found)]

    def rank(self, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Result]]) -> List[List[Result]]:
        """The translations of each source, best first; what ties stays in order."""
        judged = self.judge.score(sources, [[one.tokens for one in best] for best in found], lenpen=self.lenpen)
        ranked = []
        for best, opinions in zip(found, judged):
            order = sorted(range(len(best)), key=lambda number: -cast(float, opinions[number].score))
            ranked.append([_judged(best[number], opinions[number]) for number in order])
        return ranked


def _judged(one: Result, opinion: Result) -> Result:
    return replace(one, score=opinion.score, positional_scores=opinion.positional_scores, steps=one.steps + opinion.steps)
