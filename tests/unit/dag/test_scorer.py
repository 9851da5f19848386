"""Given translations have the likelihood over all paths."""

import math

import pytest
import torch

from fairseq_hrt.dag.scorer import GraphScorer
from fairseq_hrt.ops import dag_best_alignment, dag_log_likelihood


def test_given_translations_are_scored(family, batch):
    model, graph, grads = family.dag(), batch["graph"], []
    model.register_forward_hook(lambda *given: grads.append(torch.is_grad_enabled()))
    found = GraphScorer(family.dictionary(), lambda sample: sample["graph"]).generate(
        [model], batch
    )
    assert len(found) == len(graph.targets) and grads == [False], (
        "nothing is kept for a backward pass"
    )
    match, links, _ = family.plain_scores(
        model, batch["net_input"], graph, model.decoder.vertex_inputs(graph.vertex_lengths)
    )
    truth = dag_log_likelihood(match, links, graph.target_lengths, graph.vertex_lengths)
    alignment = dag_best_alignment(match, links, graph.target_lengths, graph.vertex_lengths)
    for row, (best,) in enumerate(found):
        assert best["tokens"].tolist() == graph.targets[row, 1 : graph.target_lengths[row]].tolist()
        assert best["log_likelihood"] == pytest.approx(float(truth[row]), abs=1e-9)
        assert float(best["positional_scores"].sum()) == pytest.approx(float(truth[row]), abs=1e-4)
        assert float(best["score"]) == pytest.approx(
            float(truth[row]) / (int(graph.target_lengths[row]) - 1), abs=1e-6
        )
        path = [int(v) for v in (alignment[row] >= 0).nonzero()]
        of_links = sum(float(links[row, u, v]) for u, v in zip(path, path[1:]))
        of_tokens = sum(float(match[row, i, v]) for i, v in enumerate(path))
        assert best["path_log_prob"] == pytest.approx(of_links, abs=1e-9)
        assert best["token_log_prob"] == pytest.approx(of_tokens, abs=1e-9)
    # One path only: its parts are the whole. The first word pays for <s>.
    parts = [float(links[2, v, v + 1]) + float(match[2, v + 1, v + 1]) for v in range(7)]
    parts[0] += float(match[2, 0, 0])
    assert found[2][0]["positional_scores"].tolist() == pytest.approx(parts, abs=1e-5)
    assert found[2][0]["path_log_prob"] + found[2][0]["token_log_prob"] == pytest.approx(
        found[2][0]["log_likelihood"]
    )
    batch["graph"] = family.graph(batch, [4, 4, 4], [4, 2, 6])
    scores = [
        best["log_likelihood"]
        for (best,) in GraphScorer(family.dictionary(), lambda s: s["graph"]).generate(
            [model], batch
        )
    ]
    assert scores[0] == scores[2] == -math.inf and math.isfinite(scores[1])


def test_one_model_scores(family, batch):
    models = [family.dag(), family.dag(seed=2)]
    with pytest.raises(
        ValueError, match="--score-reference scores with one dag_transformer; give one checkpoint"
    ):
        GraphScorer(family.dictionary(), lambda sample: sample["graph"]).generate(models, batch)


def test_dropout_is_switched_off(family, batch):
    scorer = GraphScorer(family.dictionary(), lambda sample: sample["graph"])
    model = family.dag(dropout=0.5)
    expected = [best["log_likelihood"] for (best,) in scorer.generate([model], batch)]
    assert [
        best["log_likelihood"] for (best,) in scorer.generate([model.train()], batch)
    ] == expected
    assert scorer.eos == family.EOS, "read by fairseq's command line"
