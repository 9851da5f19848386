"""Translations of one model, chosen by another, as :mod:`..decoding.rescoring` does it in PyTorch."""

from dataclasses import replace
from typing import List, Sequence, cast

from ..decoding_rules import check_rescoring_penalty
from .engine import DecodeOptions, Engine, Header, NumericalError, Result
from .options import chunk_table, writes_in_order


def candidates(header: Header, options: DecodeOptions) -> int:
    """Most translations of a sentence that a search finds."""
    if header.family == "dag":
        return 1
    beam = min(options.beam, header.target_vocabulary - 1)
    if header.family != "hrt" or 1 in (size for _, size in chunk_table(header, options)):
        return beam
    return beam if options.hrt_nat_beam is None else min(beam, options.hrt_nat_beam)


def require_candidates(header: Header, options: DecodeOptions) -> None:
    """Raises ValueError where there is only one translation to choose from."""
    if candidates(header, options) < 2:
        more = {
            "dag": "--dag-decode-strategy beam, which PyTorch's engine knows",
            "hrt": "--beam 2 or more and --hrt-nat-beam 2 or more",
        }
        raise ValueError(
            f"--rescore-path: there is only one translation to choose from; give {more.get(header.family, '--beam 2 or more')}"
        )


class Rescorer:
    """Ranks translations by log P(y | x) of a model that writes one word after the other.

    Args:
        judge: that model; not closed here.
        lenpen: the sum of the log-probabilities is divided by the length, ``</s>`` included, to this power.

    Raises:
        ValueError: a penalty that overflows.
    """

    def __init__(self, judge: Engine, *, lenpen: float = 1.0) -> None:
        self.judge, self.lenpen = judge, check_rescoring_penalty(lenpen)

    def require(self, header: Header, options: DecodeOptions) -> None:
        """Refuses a judge that cannot read what a model writes.

        Raises:
            ValueError: by name.
        """
        judge = self.judge.header
        if not writes_in_order(judge):
            raise ValueError(
                f"--rescore-path: that model is of the family {judge.family} and does not write one word after the other; give an "
                "autoregressive one"
            )
        for name in ("source_vocabulary", "target_vocabulary", "eos", "pad", "unk"):
            words, known = getattr(header, name), getattr(judge, name)
            if words != known:
                raise ValueError(
                    f"--rescore-path: the {name.replace('_', ' ')} of that model is {known}, of the one that is decoded {words}: give one "
                    "with the same dictionaries"
                )
        writes = min(header.longest_target, int(options.max_len_a * header.longest_source + options.max_len_b) + 1)
        if judge.longest_target < writes:
            raise ValueError(
                f"--rescore-path: that model reads translations of {judge.longest_target} tokens, the one that is decoded writes up to "
                f"{writes}; lower --max-len-a and --max-len-b, or decode with PyTorch's engine, which cuts them"
            )

    def decode(self, engine: Engine, sources: Sequence[Sequence[int]], options: DecodeOptions) -> List[List[Result]]:
        """What :meth:`.engine.Engine.decode` returns, in the judge's order and with its scores; ``steps`` counts its pass.

        Raises:
            ValueError: as :meth:`.engine.Engine.decode`, and for sources that the judge cannot read.
        """
        reads = self.judge.header.longest_source
        longest = max(map(len, sources), default=0)
        if longest > reads:
            raise ValueError(
                f"--rescore-path: a source of {longest} tokens is longer than the {reads} which that model reads; leave it out of the data, "
                "or give a model that reads more"
            )
        found = engine.decode(sources, options, every=True)
        return [best[: options.nbest] for best in self.rank(sources, found)]

    def rank(self, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Result]]) -> List[List[Result]]:
        """The translations of each source, best first; what ties stays in order."""
        written = [[one.tokens for one in best] for best in found]
        try:
            judged = self.judge.score(sources, written, lenpen=self.lenpen)
        except NumericalError as error:
            raise NumericalError(f"--rescore-path: {error}") from None
        ranked = []
        for best, opinions in zip(found, judged):
            order = sorted(range(len(best)), key=lambda number: -cast(float, opinions[number].score))
            ranked.append([_judged(best[number], opinions[number]) for number in order])
        return ranked


def _judged(one: Result, opinion: Result) -> Result:
    return replace(one, score=opinion.score, positional_scores=opinion.positional_scores, steps=one.steps + opinion.steps)
