"""The best blocks of each hypothesis against all blocks written out."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.bidirectional.candidates import (
    canonical_candidates,
    whole_candidates,
)

EOS, PAD = 2, 1


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_folding_equals_writing_out_all_blocks(data):
    """Random distributions of several hypotheses, any beam up to V ** z."""
    torch.manual_seed(data.draw(st.integers(0, 10_000)))
    vocabulary, block = data.draw(st.sampled_from([(3, 1), (3, 2), (3, 3), (4, 2), (5, 2)]))
    beams = data.draw(st.integers(1, vocabulary**block))
    log_probs = torch.log_softmax(torch.randn(2, beams, block, vocabulary).double() * 2, -1)
    scores = -torch.rand(2, beams).double()
    scores[0, (beams + 1) // 2 :] = float("-inf")
    before = log_probs.clone()
    canonical = canonical_candidates(log_probs, scores, eos=EOS, pad=PAD)
    paper = whole_candidates(log_probs, scores, eos=EOS, released=True)
    printed = whole_candidates(log_probs, scores, eos=EOS, released=False)
    assert torch.equal(log_probs, before)
    for row in range(2):
        whole, blocks, outcomes = [], [], {}
        for parent in range(beams):
            mine = [(float(scores[row, parent]), parent, ())]
            for costs in log_probs[row, parent].tolist():
                likely = sorted(enumerate(costs), key=lambda pair: -pair[1])[
                    : beams if block > 1 else 2 * beams
                ]
                mine = [
                    (s + more, parent, words + (word,))
                    for s, parent, words in mine[:beams]
                    for word, more in likely
                ]
                mine.sort(reverse=True)
            whole += mine
            all_blocks = []
            for words in itertools.product(range(vocabulary), repeat=block):
                costs = [
                    float(log_probs[row, parent, place, word]) for place, word in enumerate(words)
                ]
                end = words.index(EOS) + 1 if EOS in words else block
                score = float(scores[row, parent])
                all_blocks.append((score + sum(costs), parent, words))
                outcomes[(parent, *words[:end], *[PAD] * (block - end))] = score + sum(costs[:end])
            blocks += sorted(all_blocks, reverse=True)[:beams]
        blocks.sort(reverse=True)
        whole = sorted(whole, reverse=True)[: 2 * beams]
        outcomes = sorted(
            ((score, key[0], key[1:]) for key, score in outcomes.items()), reverse=True
        )
        expected = [
            [c for c in outcomes if EOS not in c[2]][:beams],
            [c for c in outcomes[:beams] if EOS in c[2]],
            [c for c in whole if EOS not in c[2]][:beams],
            [c for c in whole if EOS in c[2]],
            [c for c in blocks if EOS not in c[2]][:beams],
            [c for c in blocks if EOS in c[2]],
        ]
        for candidates, wanted in zip((*canonical, *paper, *printed), expected):
            listed = zip(*(part[row].tolist() for part in candidates))
            got = [(score, parent, tuple(words)) for score, parent, words in listed if score > -1e9]
            wanted = [candidate for candidate in wanted if candidate[0] > -1e9]
            assert [c[1:] for c in got] == [c[1:] for c in wanted]
            assert [c[0] for c in got] == pytest.approx([c[0] for c in wanted], abs=1e-9)
