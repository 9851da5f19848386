"""Several models in lockstep, against the mean of what each of fairseq's modules predicts."""

import pytest
import torch

from fairseq_hrt.engine.counters import GenerationCounters
from fairseq_hrt.engine.ensemble import EngineEnsemble, reorder


def mean_log_probabilities(models, sample, tokens, temperature=1.0):
    """``[R, T, V]``, by the modules' full passes."""
    shares = [
        (
            model.decoder(tokens, encoder_out=model.encoder(**sample["net_input"]))[0] / temperature
        ).softmax(-1)
        for model in models
    ]
    return (sum(shares) / len(shares)).log()


def assert_close(found, expected):
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
@torch.no_grad()
def test_probabilities_are_averaged(tiny, count, temperature):
    # Models of one ensemble need not have the same size.
    models = [tiny.model(seed=seed, decoder_layers=1 + seed % 2) for seed in range(count)]
    sample = tiny.sample([4, 2, 5])
    tokens = torch.cat([torch.full((3, 1), tiny.EOS), torch.randint(4, 16, (3, 4))], 1)
    expected = mean_log_probabilities(models, sample, tokens, temperature)
    ensemble = EngineEnsemble(models, GenerationCounters())
    states = ensemble.start(ensemble.encode(sample["net_input"]))
    last = ensemble.log_probabilities(
        states, tokens[:, :2], torch.arange(2), temperature=temperature
    )
    assert_close(last, expected[:, 1])
    some = torch.tensor([0, 2])
    rest = tokens[:, 2:], torch.arange(2, 5)
    assert_close(
        ensemble.log_probabilities(states, *rest, every=True, temperature=temperature),
        expected[:, 2:],
    )
    for state in states:
        state.rollback(2)
    found = ensemble.log_probabilities(states, *rest, only=some, temperature=temperature)
    assert_close(found, expected[:, 2:][:, some])


@torch.no_grad()
def test_all_states_are_reordered(tiny):
    models, sample = [tiny.model(seed=1), tiny.model(seed=2)], tiny.sample([4, 2])
    ensemble = EngineEnsemble(models, GenerationCounters())
    states = ensemble.start(ensemble.encode(sample["net_input"]), beams=2)
    tokens = torch.cat([torch.full((4, 1), tiny.EOS), torch.randint(4, 16, (4, 2))], 1)
    ensemble.log_probabilities(states, tokens[:, :2], torch.arange(2))
    # Only the second sentence continues, its beams change places.
    rows = torch.tensor([3, 2])
    reorder(states, rows, sentences=torch.tensor([1]))
    found = ensemble.log_probabilities(states, tokens[rows, 2:], torch.arange(2, 3))
    alone = {"net_input": {name: value[[1, 1]] for name, value in sample["net_input"].items()}}
    assert_close(found, mean_log_probabilities(models, alone, tokens[rows])[:, 2])


@torch.no_grad()
def test_attention_to_the_source_is_averaged(tiny):
    models, sample = [tiny.model(seed=1), tiny.model(seed=2)], tiny.sample([4, 2])
    tokens = torch.cat([torch.full((2, 1), tiny.EOS), torch.randint(4, 16, (2, 3))], 1)
    counters = GenerationCounters()
    ensemble = EngineEnsemble(models, counters)
    found = ensemble.source_attention(ensemble.encode(sample["net_input"]), tokens)
    # fairseq's decoder averages the heads of its last layer.
    parts = [
        model.decoder.extract_features(tokens, encoder_out=model.encoder(**sample["net_input"]))[1][
            "attn"
        ][0]
        for model in models
    ]
    assert_close(found, (parts[0] + parts[1]) / 2)
    assert counters.decoder_calls == 2 and counters.decoder_tokens == 2 * 8


def test_learned_positions_of_every_model(tiny):
    models = [tiny.model(), tiny.model(decoder_learned_pos=True, max_target_positions=10)]
    ensemble = EngineEnsemble(models, GenerationCounters())
    ensemble.reserve_positions(10)
    with pytest.raises(ValueError, match="learned 10"):
        ensemble.reserve_positions(11)
