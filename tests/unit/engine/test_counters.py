"""What is counted, and what a new count forgets."""

from dataclasses import asdict

import torch

from fairseq_hrt.engine.counters import GenerationCounters
from fairseq_hrt.engine.ensemble import EngineEnsemble


@torch.no_grad()
def test_calls_and_tokens_of_every_model(tiny):
    counters = GenerationCounters()
    ensemble = EngineEnsemble([tiny.model(seed=1), tiny.model(seed=2)], counters)
    states = ensemble.start(ensemble.encode(tiny.sample([3, 4, 2])["net_input"]), beams=2)
    ensemble.log_probabilities(states, torch.full((6, 1), tiny.EOS), torch.arange(1))
    ensemble.log_probabilities(states, torch.full((6, 3), 5), torch.arange(1, 4))
    # Two models; 6 rows of 1 and then 3 tokens.
    expected = {
        "encoder_calls": 2,
        "decoder_calls": 4,
        "decoder_tokens": 2 * 6 * (1 + 3),
        "sentences": 0,
        "known": True,
    }
    assert asdict(counters) == expected


def test_counting_anew():
    counters = GenerationCounters(1, 2, 3, 4, known=False)
    counters.reset()
    # Whether anything is counted does not change by that.
    assert asdict(counters) == {**dict.fromkeys(asdict(counters), 0), "known": False}
