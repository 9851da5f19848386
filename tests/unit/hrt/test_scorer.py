"""``--score-reference``: Eq. 2 of given translations, against an independent scorer and against
the scores that decoding gives its own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.hrt.scorer import ChunkScorer
from fairseq_hrt.native.families.hrt import chunk_table
from fairseq_hrt.native.options.values import DecodingOptions

SYMBOLS = 6
EOS, PAD = 2, 1
TOLERANCE = 2e-5


def score(hrt, models, sample, targets, chunk, table="3:1,5:2,inf:3"):
    """The scored references; targets with ``</s>``."""
    padded = torch.full((len(targets), max(map(len, targets)) + 1), PAD)
    for row, target in zip(padded, targets):
        row[: len(target)] = torch.tensor(target)
    options = DecodingOptions(hrt_decode_chunk=str(chunk), hrt_chunk_table=table)
    scorer = ChunkScorer(hrt.dictionary(SYMBOLS), chunk_table(options, [2, 3]))
    return [best for (best,) in scorer.generate(models, {**sample, "target": padded})]


def naive(hrt, models, source, target, chunk, *, tail):
    """(Eq. 2, log-probabilities of the target's tokens) sentence by sentence in plain loops."""
    scorer = hrt.Scorer(models, source)
    steps = -(-len(target) // chunk)
    filled = [*target, *[EOS] * (chunk * steps - len(target))]
    kept = filled[chunk - 1 :: chunk]
    scores = {chunk * (i + 1): value for i, value in enumerate(scorer.first_stage(kept, chunk))}
    if chunk > 1:
        for j, row in scorer.second_stage(kept, chunk).items():
            if tail == "eos" or j <= len(target):
                scores[j] = float(row[filled[j - 1]])
    return sum(scores.values()), [scores[j] for j in range(1, len(target) + 1)], len(filled)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 15),
    chunk=st.sampled_from([2, 3, "auto"]),
    tail=st.sampled_from(["eos", "pad"]),
    lengths=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 8)), min_size=1, max_size=3),
    members=st.integers(1, 2),
)
def test_equals_an_independent_scorer(hrt, seed, chunk, tail, lengths, members):
    models = [
        hrt.model(symbols=SYMBOLS, seed=seed + n, hrt_tail_target=tail) for n in range(members)
    ]
    sources = hrt.sources([length for length, _ in lengths], SYMBOLS, seed)
    targets = hrt.sources([length for _, length in lengths], SYMBOLS, seed + 1)
    found = score(hrt, models, hrt.sample(sources, extra=1), targets, chunk)
    for source, target, mine in zip(sources, targets, found):
        words = len(source) - 1
        size = chunk if chunk != "auto" else 1 if words <= 3 else 2 if words <= 5 else 3
        total, scores, length = naive(hrt, models, source, target, size, tail=tail)
        assert mine["tokens"].tolist() == target
        assert mine["log_likelihood"] == pytest.approx(total, abs=TOLERANCE)
        assert float(mine["score"]) == pytest.approx(total / length, abs=TOLERANCE)
        assert mine["positional_scores"].tolist() == pytest.approx(scores, abs=TOLERANCE)


@pytest.mark.parametrize("tail", ["eos", "pad"])
@pytest.mark.parametrize("chunk", [2, 3])
def test_translations_are_scored_as_they_were_found(hrt, chunk, tail):
    compared = 0
    for seed in range(5):
        model = hrt.model(symbols=SYMBOLS, seed=seed, hrt_tail_target=tail)
        sample = hrt.sample(hrt.sources([5, 3, 7], SYMBOLS, seed))
        options = DecodingOptions(
            beam=3, max_len_b=9, hrt_eos_last_chunk=True, hrt_decode_chunk=str(chunk)
        )
        generator = HRTGenerator([model], hrt.dictionary(SYMBOLS), options)
        for best in zip(*generator.generate([model], sample)):
            scored = score(hrt, [model], sample, [h["tokens"].tolist() for h in best], chunk)
            for mine, theirs in zip(scored, best):
                # A first stage that writes </s> before its last token contradicts itself: its text
                # is that of fewer chunks.
                if mine["steps"] == theirs["steps"]:
                    compared += 1
                    assert float(mine["score"]) == pytest.approx(
                        float(theirs["score"]), abs=TOLERANCE
                    )
                    assert mine["positional_scores"].tolist() == pytest.approx(
                        theirs["positional_scores"].tolist(), abs=TOLERANCE
                    )
                    assert mine["token_steps"].tolist() == theirs["token_steps"].tolist()
    assert compared > 30
