"""Model, criterions and task against what they are made of."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import LanguagePairDataset

from fairseq_hrt.dag.config import DagTaskConfig
from fairseq_hrt.dag.criterion import DagFuzzyLoss, DagNllLoss
from fairseq_hrt.dag.glancing import STRATEGIES, force
from fairseq_hrt.dag.model import same_random_numbers_afterwards
from fairseq_hrt.dag.scorer import GraphScorer
from fairseq_hrt.dag.task import DagTranslationTask
from fairseq_hrt.ops import dag_best_alignment, dag_log_likelihood, fuzzy_alignment

NLL = dict(dag_glance_schedule="0", dag_glance_strategy="number-random", dag_length_loss_factor=0.1)


def make_task(room, **options):
    config = DagTaskConfig(**{f"dag_{name}": value for name, value in options.items()})
    config.seed, config.eval_bleu = 1, False
    return DagTranslationTask(config, room.dictionary(), room.dictionary())


def make_nll(room, forcing="vertex", **options):
    return DagNllLoss(make_task(room), dag_glance_forcing=forcing, **{**NLL, **options})


def plain_scores(model, source, graph, inputs):
    """(match, links, logits) by the whole log-softmax."""
    encoder_out = model.encoder(source["src_tokens"], src_lengths=source["src_lengths"])
    features, _ = model.decoder(inputs, encoder_out=encoder_out, features_only=True)
    logits = model.decoder.output_layer(features)
    log_probs = torch.log_softmax(logits, -1)
    index = graph.targets.unsqueeze(1).expand(-1, log_probs.size(1), -1)
    return log_probs.gather(2, index).transpose(1, 2), model.decoder.links(features, graph.vertex_lengths), logits


@pytest.fixture
def batch(room):
    sample = room.sample([5, 3, 4], seed=2)
    return {**sample, "graph": room.graph(sample, [10, 6, 8], [4, 2, 6], update=7)}


def test_nll_is_the_mean_over_sentences(room, batch):
    model, graph = room.dag(), batch["graph"]
    loss, size, log = make_nll(room)(model, batch)
    match, links, _ = plain_scores(model, batch["net_input"], graph, model.decoder.vertex_inputs(graph.vertex_lengths))
    likelihood = dag_log_likelihood(match, links, graph.target_lengths, graph.vertex_lengths)
    # The third target has as many tokens as vertices: one path.
    assert size == 3 and log["skipped"] == 0 and log["tokens"] == 6 + 4 + 8
    assert float(loss) == pytest.approx(float(-(likelihood / graph.target_lengths).sum()), abs=1e-9)
    assert float(log["nll_loss"]) == pytest.approx(float(-likelihood.sum()), abs=1e-9)


@pytest.mark.parametrize("criterion", ["nll", "fuzzy"])
def test_targets_longer_than_their_graph_are_left_out(room, criterion):
    model, sample = room.dag(), room.sample([5, 3], seed=2)
    build = make_nll if criterion == "nll" else make_fuzzy
    both = {**sample, "graph": room.graph(sample, [6, 6], [6, 2])}
    loss, size, log = build(room)(model, both)
    assert size == 1 and log["skipped"] == 1 and log["sample_size"] == 1 and loss.isfinite()
    gradient = torch.autograd.grad(loss, model.decoder.links.query.weight)[0]
    alone = {**room.sample([3], seed=0), "graph": None}
    alone["net_input"] = {"src_tokens": sample["net_input"]["src_tokens"][1:, 2:], "src_lengths": torch.tensor([3])}
    alone["graph"] = type(both["graph"])(*(part if isinstance(part, int) else part[1:] for part in both["graph"]))
    expected, _, _ = build(room)(model, alone)
    assert float(loss) == pytest.approx(float(expected), abs=1e-9)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, model.decoder.links.query.weight)[0])
    none = {**sample, "graph": room.graph(sample, [2, 2], [6, 2])}
    loss, size, _ = build(room)(model, none)
    assert size == 0 and float(loss) == 0
    loss.backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def make_fuzzy(room, order=2, **options):
    return DagFuzzyLoss(make_task(room), dag_ngram_order=order, **{**NLL, **options})


@pytest.mark.parametrize("order", [1, 2, 3, 9])
def test_fuzzy_loss(room, batch, order):
    model, graph = room.dag(), batch["graph"]
    loss, size, log = make_fuzzy(room, order)(model, batch)
    match, links, _ = plain_scores(model, batch["net_input"], graph, model.decoder.vertex_inputs(graph.vertex_lengths))
    truth = fuzzy_alignment(match, links, graph.targets, graph.target_lengths, graph.vertex_lengths, order=order)
    assert size == 3 and float(loss) == pytest.approx(float(-truth.score.sum()), abs=1e-9)
    assert float(log["precision"]) == pytest.approx(float(truth.precision.sum()), abs=1e-9)
    ratio = (truth.expected_length / graph.target_lengths).sum()
    assert float(log["length_ratio"]) == pytest.approx(float(ratio), abs=1e-9)


@pytest.mark.parametrize("forcing", ["vertex", "path", "none"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_second_pass_sees_the_shown_tokens(room, batch, strategy, forcing):
    model, graph = room.dag().train(), batch["graph"]
    criterion = make_nll(room, forcing, dag_glance_schedule="0.6", dag_glance_strategy=strategy)
    loss, _, log = criterion(model, batch)
    inputs = model.decoder.vertex_inputs(graph.vertex_lengths)
    match, links, logits = plain_scores(model, batch["net_input"], graph, inputs)
    alignment = dag_best_alignment(match, links, graph.target_lengths, graph.vertex_lengths)
    glanced = criterion.glancer(graph, 0.6)(alignment, logits.argmax(2))
    assert glanced.shown.any()
    match, links, _ = plain_scores(
        model, batch["net_input"], graph, torch.where(glanced.shown, glanced.tokens, inputs)
    )
    likelihood = dag_log_likelihood(force(match, glanced, forcing), links, graph.target_lengths, graph.vertex_lengths)
    assert float(loss) == pytest.approx(float(-(likelihood / graph.target_lengths).sum()), abs=1e-9)
    assert log["shown"] == int(glanced.shown.sum()) and log["path_vertices"] == 6 + 4 + 8
    # Nothing is shown in validation, whatever the schedule.
    loss, _, log = criterion(model.eval(), batch)
    assert "shown" not in log
    assert float(loss) == pytest.approx(float(make_nll(room)(model, batch)[0]), abs=1e-9)


def test_both_passes_draw_the_same_dropout(room, batch):
    """With everything right at the first glance and nothing shown, the second pass repeats the first."""
    model = room.dag(dropout=0.3).train()
    seen = []

    def glance(alignment, best):
        seen.append(alignment)
        return SimpleNamespace(shown=torch.zeros_like(alignment, dtype=torch.bool), tokens=torch.zeros_like(alignment))

    source = batch["net_input"]
    output = model(source["src_tokens"], source["src_lengths"], graph=batch["graph"], glance=glance)
    sizes = (batch["graph"].target_lengths, batch["graph"].vertex_lengths)
    assert torch.equal(dag_best_alignment(output.match.detach(), output.links.detach(), *sizes), seen[0])
    with same_random_numbers_afterwards(torch.device("cpu")):
        first = torch.rand(5)
    assert torch.equal(first, torch.rand(5))


def test_the_length_head_learns(room, batch):
    model = room.dag(upsample_base="predict", length_classes=8)
    loss, _, log = make_nll(room)(model, batch)
    assert float(log["length_loss"]) > 0
    without = make_nll(room, dag_length_loss_factor=0.0)(model, batch)[0]
    assert float(loss - without) == pytest.approx(0.1 * float(log["length_loss"]), abs=1e-6)
    loss.backward()
    assert model.decoder.length_head.output.weight.grad.abs().sum() > 0
    head = model.decoder.length_head
    words = head.label(torch.tensor([9, 2, 40]), torch.tensor([7, 7, 7]), 8)
    assert words.tolist() == [6, 0, 7]


def test_graph_sizes_of_the_task(room):
    task = make_task(room)
    targets = torch.tensor([[5, 6, 2, 1], [5, 6, 7, 2]])
    sample = room.sample([6, 3])
    sample.update(target=targets)
    for options, update, expected in (
        (dict(upsample_scale="8"), None, [48, 24]),
        (dict(upsample_scale="8", count_bos=True), None, [56, 32]),
        (dict(upsample_scale="4~8"), None, [36, 18]),
        (dict(upsample_scale="3", upsample_base="predict"), None, [8, 11]),
        (dict(upsample_scale="40"), None, [64, 64]),
    ):
        task.decoder = room.dag(**options).decoder
        graph = task.graph(sample, update)
        assert graph.vertex_lengths.tolist() == expected
        assert graph.targets.tolist() == [[0, 5, 6, 2, 1], [0, 5, 6, 7, 2]] and graph.target_lengths.tolist() == [4, 5]
    task.decoder = room.dag(upsample_scale="4~8").decoder
    sizes = torch.stack([task.graph(sample, update).vertex_lengths for update in range(300)])
    assert sizes.min(0).values.tolist() == [24, 12] and sizes.max(0).values.tolist() == [47, 23]
    task = make_task(room, decode_upsample_scale=2.5)
    task.decoder = room.dag(upsample_scale="4~8").decoder
    assert task.graph(sample, None).vertex_lengths.tolist() == [15, 7]


def test_filter_ratio(room, caplog):
    lengths = [(4, 8), (4, 7), (4, 2), (2, 4)]
    pairs = [tuple([torch.full((size,), 5) for _ in range(count)] for size in pair) for pair in lengths for count in (1,)]
    dataset = LanguagePairDataset(
        [source[0] for source, _ in pairs], torch.tensor([a for a, _ in lengths]).numpy(), room.dictionary(),
        [target[0] for _, target in pairs], torch.tensor([b for _, b in lengths]).numpy(), room.dictionary(),
    )  # fmt: skip
    indices = torch.arange(4).numpy()
    kept = make_task(room, filter_ratio=2.0).filter_indices_by_size(indices, dataset, (64, 64), True)
    assert kept.tolist() == [1, 2] and "leaves out 2 of 4" in caplog.text
    assert len(make_task(room, filter_ratio=2.0).filter_indices_by_size(indices, dataset, (64, 64), False)) == 4
    with pytest.raises(ValueError, match="leaves no training pair"):
        make_task(room, filter_ratio=0.1).filter_indices_by_size(indices, dataset, (64, 64), True)
    with pytest.raises(ValueError, match="--dag-filter-ratio -1"):
        make_task(room, filter_ratio=-1.0).filter_indices_by_size(indices, dataset, (64, 64), True)


def test_given_translations_are_scored(room, batch):
    model, graph = room.dag(), batch["graph"]
    found = GraphScorer(room.dictionary(), lambda sample: sample["graph"]).generate([model], batch)
    match, links, _ = plain_scores(model, batch["net_input"], graph, model.decoder.vertex_inputs(graph.vertex_lengths))
    truth = dag_log_likelihood(match, links, graph.target_lengths, graph.vertex_lengths)
    alignment = dag_best_alignment(match, links, graph.target_lengths, graph.vertex_lengths)
    for row, (best,) in enumerate(found):
        assert best["tokens"].tolist() == graph.targets[row, 1 : graph.target_lengths[row]].tolist()
        assert best["log_likelihood"] == pytest.approx(float(truth[row]), abs=1e-9)
        assert float(best["positional_scores"].sum()) == pytest.approx(float(truth[row]), abs=1e-4)
        assert float(best["score"]) == pytest.approx(float(truth[row]) / (int(graph.target_lengths[row]) - 1), abs=1e-6)
        path = [int(v) for v in (alignment[row] >= 0).nonzero()]
        of_links = sum(float(links[row, u, v]) for u, v in zip(path, path[1:]))
        of_tokens = sum(float(match[row, i, v]) for i, v in enumerate(path))
        assert best["path_log_prob"] == pytest.approx(of_links, abs=1e-9)
        assert best["token_log_prob"] == pytest.approx(of_tokens, abs=1e-9)
    # One path only: its parts are the whole.
    assert found[2][0]["path_log_prob"] + found[2][0]["token_log_prob"] == pytest.approx(found[2][0]["log_likelihood"])
    batch["graph"] = room.graph(batch, [4, 4, 4], [4, 2, 6])
    scores = [best["log_likelihood"] for best, in GraphScorer(room.dictionary(), lambda s: s["graph"]).generate([model], batch)]
    assert scores[0] == scores[2] == -math.inf and math.isfinite(scores[1])


def test_other_transformers_can_be_fine_tuned(room):
    plain, model = room.model(), room.dag(upsample_base="predict")
    state = plain.state_dict()
    kept = model.decoder.links.query.weight.detach().clone()
    model.load_state_dict(state, strict=True)
    assert torch.equal(model.decoder.links.query.weight, kept)
    assert torch.equal(model.encoder.layers[0].fc1.weight, plain.encoder.layers[0].fc1.weight)


@pytest.mark.parametrize(
    "options, named",
    [
        (dict(adaptive_softmax_cutoff="5,10"), "--adaptive-softmax-cutoff"),
        (dict(upsample_scale="x"), "--dag-upsample-scale"),
        (dict(upsample_base="predict", length_classes=1), "--dag-length-classes 1"),
    ],
)
def test_models_that_cannot_be_built(room, options, named):
    with pytest.raises(ValueError, match=named):
        room.dag(**options)


def test_stock_decoding_is_refused(room):
    model = room.dag()
    with pytest.raises(ValueError, match="--task translation_dag"):
        model.decoder(torch.tensor([[2]]), encoder_out=None, incremental_state={})
    with pytest.raises(ValueError, match="--dag-decode-upsample-scale -1"):
        make_task(room, decode_upsample_scale=-1.0).decode_scale(model.decoder)
    with pytest.raises(ValueError, match="translation_dag"):
        make_nll(room)(model, room.sample([3]))
    with pytest.raises(ValueError, match="--dag-ngram-order 0"):
        make_fuzzy(room, 0)


def test_bert_initialisation(room):
    normal, bert = room.dag(seed=1), room.dag(seed=1, dag_bert_init=True)
    assert float(bert.decoder.links.query.weight.std()) == pytest.approx(2.5 * 0.02, rel=0.2)
    assert float(normal.decoder.links.query.weight.std()) > 0.1
