"""The graphs of decoding against the module's own forward pass: links, and tokens of vertices where
they are wanted."""

import math

import pytest
import torch

from fairseq_hrt.dag import graph
from fairseq_hrt.dag.graph import GraphBuilder
from fairseq_hrt.engine import EngineEnsemble
from fairseq_hrt.engine.counters import GenerationCounters

SIZES = [9, 4, 2]
PENALTIES = {0: math.inf, 1: math.inf, 5: 1.5}


def build(models, sample, penalties=PENALTIES, sizes=SIZES):
    ensemble = EngineEnsemble(models, GenerationCounters())
    ensemble.refresh()
    builder = GraphBuilder(ensemble, penalties)
    builder.refresh(static_weights=False)
    return builder.build(ensemble.encode(sample["net_input"]), torch.tensor(sizes))


def by_module(model, sample, row, size):
    """(log-links ``[L, L]``, log-probabilities ``[L, V]``) of one sentence alone."""
    source = sample["net_input"]["src_tokens"][row]
    source = source[source != 1].unsqueeze(0)
    encoder_out = model.encoder(source, src_lengths=torch.tensor([source.size(1)]))
    inputs = model.decoder.vertex_inputs(torch.tensor([size]))
    features, _ = model.decoder(inputs, encoder_out=encoder_out, features_only=True)
    links = model.decoder.links(features, torch.tensor([size]))
    return links[0], model.decoder.output_layer(features)[0].log_softmax(-1)


@pytest.fixture(scope="module")
def example(family):
    """(models, batch, links and log-probabilities of each sentence, averaged over the models)."""
    models, sample = [family.dag(seed=1), family.dag(seed=2)], family.sample([5, 3, 4])
    truth = {}
    with torch.no_grad():
        for count in (1, 2):
            parts = [
                [by_module(model, sample, row, size) for model in models[:count]]
                for row, size in enumerate(SIZES)
            ]
            truth[count] = [
                [torch.stack([pair[kind].exp() for pair in part]).mean(0).log() for kind in (0, 1)]
                for part in parts
            ]
    return models, sample, truth


def penalised(log_probs):
    log_probs = log_probs.clone()
    for token, penalty in PENALTIES.items():
        log_probs[:, token] -= penalty
    return log_probs


def close(found, expected):
    """fairseq's attention takes its softmax in float32, whatever the type of the model."""
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("chunk", [None, 40])
@torch.inference_mode()
def test_links_and_tokens_are_those_of_the_module(monkeypatch, example, count, chunk):
    """For one model and for the averaged probabilities of two; computed at once, or a few vertices
    after the other."""
    if chunk is not None:
        monkeypatch.setattr(graph, "CHUNK", chunk)
    models, sample, truth = example
    graphs = build(models[:count], sample)
    assert graphs.last.tolist() == [8, 3, 1] and (graphs.bos, graphs.eos) == (0, 2)
    best, tokens = graphs.best_tokens()
    log_probs, ends, (top, top_tokens) = (
        graphs.log_probs(),
        graphs.end_scores(),
        graphs.top_tokens(3),
    )
    for row, size in enumerate(SIZES):
        links, words = truth[count][row]
        close(graphs.links[row, :size, :size].exp(), links.exp())
        assert (graphs.links[row, :, size:] == -math.inf).all()
        close(ends[row], torch.stack([words[0, 0], words[-1, 2]]))
        words = penalised(words)
        close(log_probs[row, :size].exp(), words.exp())
        for weight in (1.0, 0.5):
            close(graphs.probabilities(weight)[row, :size], words.exp() ** weight)
        for vertex in range(1, size - 1):
            order = words[vertex].argsort(descending=True)
            assert (
                int(tokens[row, vertex]) == int(order[0])
                and top_tokens[row, vertex].tolist() == order[:3].tolist()
            )
            close(top[row, vertex], words[vertex, order[:3]])
            close(best[row, vertex], words[vertex].max())
        # The ends say what they have to, penalties or not.
        assert (int(tokens[row, 0]), int(tokens[row, size - 1])) == (0, 2)
        close(best[row, [0, size - 1]], ends[row])


@pytest.mark.parametrize("count", [1, 2])
@torch.inference_mode()
def test_tokens_of_chosen_vertices(example, count):
    """The others are left at zero, the ends are always there."""
    models, sample, _ = example
    graphs = build(models[:count], sample)
    best, tokens = graphs.best_tokens()
    chosen = torch.zeros(3, 9, dtype=torch.bool)
    chosen[0, [2, 5]] = chosen[1, 2] = True
    some, some_tokens = graphs.best_tokens(chosen)
    seen = chosen.clone()
    seen[:, 0] = True
    seen[torch.arange(3), graphs.last] = True
    close(some, best.where(seen, 0.0))
    assert torch.equal(some_tokens, tokens.where(seen, 0))


@torch.inference_mode()
def test_a_forbidden_token_has_no_probability_under_any_weight(example):
    models, sample, _ = example
    graphs = build(models[:1], sample)
    for weight in (1.0, 0.3, 1e-9):
        assert not graphs.probabilities(weight)[:, :, [0, 1]].any()
    assert graphs.top_tokens(100)[1].shape == (
        3,
        9,
        graphs.engines[0].output.weight.size(0),
    ), "no more than there are"


@torch.inference_mode()
def test_each_model_runs_once_for_all_vertices(example):
    models, sample, _ = example
    ensemble = EngineEnsemble(models, GenerationCounters())
    ensemble.refresh()
    builder = GraphBuilder(ensemble, {})
    builder.refresh(static_weights=False)
    builder.build(ensemble.encode(sample["net_input"]), torch.tensor(SIZES))
    assert (ensemble.counters.decoder_calls, ensemble.counters.decoder_tokens) == (2, 2 * 3 * 9)


@pytest.mark.parametrize("static", [True, False])
@torch.no_grad()
def test_weights_that_change_are_collected_anew(family, static):
    """Where they are static they are collected once, until their type changes."""
    model = family.dag(seed=1)
    builder, collected = GraphBuilder(EngineEnsemble([model], GenerationCounters()), {}), []
    for _ in range(2):
        builder.refresh(static_weights=static)
        collected.append(builder.links[0].weight.clone())
        model.decoder.links.query.weight.mul_(0.5)
    assert torch.equal(*collected) == static
    model.float()
    builder.refresh(static_weights=static)
    assert builder.links[0].weight.dtype == torch.float32
