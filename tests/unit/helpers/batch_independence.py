"""Whether a translation depends on what it is batched with: for every family's generator, under
random options.

    @settings(max_examples=40, deadline=None)
    @given(options=decoding_options(), batch=batches())
    def test_a_translation_does_not_depend_on_its_batch(tiny, options, batch):
        assert_independent(generator(model, DecodingOptions(**options)), batch)

The models should be in float64: then a difference is a mistake and no rounding.
"""

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

import pytest
import torch
from hypothesis import strategies as st

PAD, EOS = 1, 2


@dataclass(frozen=True)
class Batch:
    """Sentences to be decoded alone and together.

    Attributes:
        sources: ids with ``</s>``.
        extra: columns of padding that no sentence of the batch needs.
        left_pad: where the padding stands.
    """

    sources: List[List[int]]
    extra: int = 0
    left_pad: bool = True

    def sample(self, numbers: Sequence[int], extra: int = 0) -> Dict[str, Any]:
        """The sentences with these numbers as fairseq's collater gives them."""
        lines = [self.sources[number] for number in numbers]
        width = max(map(len, lines)) + extra
        tokens = torch.full((len(lines), width), PAD)
        for row, line in zip(tokens, lines):
            start = width - len(line) if self.left_pad else 0
            row[start : start + len(line)] = torch.tensor(line)
        lengths = torch.tensor([len(line) for line in lines])
        return {
            "id": torch.tensor(numbers),
            "net_input": {"src_tokens": tokens, "src_lengths": lengths},
        }


def batches(*, symbols: int = 6, longest: int = 9) -> st.SearchStrategy[Batch]:
    """Batches of 2 to 5 sentences of very different lengths; ``symbols`` words behind fairseq's
    four special ones."""
    word = st.integers(4, 3 + symbols)
    line = st.integers(0, longest - 1).flatmap(
        lambda count: st.lists(word, min_size=count, max_size=count)
    )
    return st.builds(
        Batch,
        sources=st.lists(line.map(lambda words: [*words, EOS]), min_size=2, max_size=5),
        extra=st.sampled_from([0, 0, 2]),
        left_pad=st.booleans(),
    )


# Every value with the defaults among them; (max_len_a, max_len_b) so that limits bind often.
_CHOICES: Dict[str, Sequence[Any]] = {
    "beam": (1, 2, 4),
    "lenpen": (0.0, 0.6, 1.0, 1.7),
    "unkpen": (0.0, 1.5, -1.0, math.inf),
    "min_len": (0, 1, 3, 8),
    "limits": ((0.0, 9), (1.0, 0), (1.0, 2), (0.5, 1), (2.0, 0), (0.0, 200)),
    "unnormalized": (True, False),
    "temperature": (1.0, 0.7),
    "no_repeat_ngram_size": (0, 0, 1, 2),
}


@st.composite
def decoding_options(draw: st.DrawFn, **only: Sequence[Any]) -> Dict[str, Any]:
    """Keyword arguments of :class:`DecodingOptions`, valid together.

    Args:
        only: other choices for some of them, e.g. ``no_repeat_ngram_size=[0]`` for a search that
            refuses it.
    """
    chosen = {
        name: draw(st.sampled_from(list(only.get(name, values))))
        for name, values in _CHOICES.items()
    }
    chosen["max_len_a"], chosen["max_len_b"] = chosen.pop("limits")
    if not chosen["max_len_a"]:
        chosen["min_len"] = min(chosen["min_len"], chosen["max_len_b"])
    return chosen


def assert_independent(
    generator: Any, batch: Batch, *, tolerance: float = 1e-5, others: Optional[Sequence[str]] = None
) -> None:
    """Decodes each sentence alone and among the others, and demands the same hypotheses.

    Args:
        generator: an ``EngineGenerator``.
        tolerance: of scores.
        others: further entries of a hypothesis that must be equal; default: ``token_steps`` and
            ``steps``.
    """
    together = generator.generate(
        generator.models, batch.sample(range(len(batch.sources)), batch.extra)
    )
    for number, mine in enumerate(together):
        (alone,) = generator.generate(generator.models, batch.sample([number]))
        assert [h["tokens"].tolist() for h in mine] == [h["tokens"].tolist() for h in alone], number
        for own, other in zip(mine, alone):
            assert float(own["score"]) == pytest.approx(float(other["score"]), abs=tolerance)
            assert own["positional_scores"].tolist() == pytest.approx(
                other["positional_scores"].tolist(), abs=tolerance
            )
            for name in ("token_steps", "steps") if others is None else others:
                assert torch.as_tensor(own[name]).equal(torch.as_tensor(other[name])), name
