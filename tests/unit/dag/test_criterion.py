"""Model, criterions and task against what they are made of."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import LanguagePairDataset
from fairseq.logging import metrics
from fairseq.tasks.translation import TranslationTask

from fairseq_hrt.dag.config import DagFuzzyLossConfig, DagModelConfig, DagNllLossConfig, DagTaskConfig
from fairseq_hrt.dag.criterion import DagFuzzyLoss, DagNllLoss
from fairseq_hrt.dag.glancing import STRATEGIES, force
from fairseq_hrt.dag.graph_size import UpsampleScale
from fairseq_hrt.dag.links import LinkPredictor
from fairseq_hrt.dag.model import same_random_numbers_afterwards
from fairseq_hrt.dag.sample import SizeRule, graph_sample
from fairseq_hrt.dag.scorer import GraphScorer
from fairseq_hrt.dag.task import DagTranslationTask
from fairseq_hrt.ops import dag_best_alignment, dag_log_likelihood, fuzzy_alignment

NLL = dict(dag_glance_schedule="0", dag_glance_strategy="number-random", dag_length_loss_factor=0.1)


def make_task(family, **options):
    config = DagTaskConfig(**{f"dag_{name}": value for name, value in options.items()})
    config.seed, config.eval_bleu, config.train_subset = 1, False, "train"
    return DagTranslationTask(config, family.dictionary(), family.dictionary())


def make_nll(family, forcing="vertex", **options):
    return DagNllLoss(make_task(family), dag_glance_forcing=forcing, **{**NLL, **options})


def plain_scores(model, source, graph, inputs):
    """(match, links, logits) by the whole log-softmax."""
    encoder_out = model.encoder(source["src_tokens"], src_lengths=source["src_lengths"])
    features, _ = model.decoder(inputs, encoder_out=encoder_out, features_only=True)
    logits = model.decoder.output_layer(features)
    log_probs = torch.log_softmax(logits, -1)
    index = graph.targets.unsqueeze(1).expand(-1, log_probs.size(1), -1)
    return log_probs.gather(2, index).transpose(1, 2), model.decoder.links(features, graph.vertex_lengths), logits


@pytest.fixture
def batch(family):
    sample = family.sample([5, 3, 4], seed=2)
    return {**sample, "graph": family.graph(sample, [10, 6, 8], [4, 2, 6], update=7)}


def test_nll_is_the_mean_over_sentences(family, batch):
    model, graph = family.dag(), batch["graph"]
    loss, size, log = make_nll(family)(model, batch)
    match, links, _ = plain_scores(model, batch["net_input"], graph, model.decoder.vertex_inputs(graph.vertex_lengths))
    likelihood = dag_log_likelihood(match, links, graph.target_lengths, graph.vertex_lengths)
    # The third target has as many tokens as vertices: one path.
    assert size == 3 and log["skipped"] == 0 and log["tokens"] == 6 + 4 + 8
    assert float(loss) == pytest.approx(float(-(likelihood / graph.target_lengths).sum()), abs=1e-9)
    assert float(log["nll_loss"]) == pytest.approx(float(-likelihood.sum()), abs=1e-9)


@pytest.mark.parametrize("criterion", ["nll", "fuzzy"])
def test_targets_longer_than_their_graph_are_left_out(family, criterion):
    model, sample = family.dag(), family.sample([5, 3], seed=2)
    build = make_nll if criterion == "nll" else make_fuzzy
    both = {**sample, "graph": family.graph(sample, [6, 6], [6, 2])}
    loss, size, log = build(family)(model, both)
    assert size == 1 and log["skipped"] == 1 and log["sample_size"] == 1 and loss.isfinite()
    gradient = torch.autograd.grad(loss, model.decoder.links.query.weight)[0]
    alone = {**family.sample([3], seed=0), "graph": None}
    alone["net_input"] = {"src_tokens": sample["net_input"]["src_tokens"][1:, 2:], "src_lengths": torch.tensor([3])}
    alone["graph"] = type(both["graph"])(*(part[1:] if torch.is_tensor(part) else part for part in both["graph"]))
    expected, _, _ = build(family)(model, alone)
    assert float(loss) == pytest.approx(float(expected), abs=1e-9)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, model.decoder.links.query.weight)[0])
    none = {**sample, "graph": family.graph(sample, [2, 2], [6, 2])}
    loss, size, _ = build(family)(model, none)
    assert size == 0 and float(loss) == 0
    loss.backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def make_fuzzy(family, order=2, **options):
    return DagFuzzyLoss(make_task(family), dag_ngram_order=order, **{**NLL, **options})


@pytest.mark.parametrize("order", [1, 2, 3, 9])
def test_fuzzy_loss(family, batch, order):
    model, graph = family.dag(), batch["graph"]
    loss, size, log = make_fuzzy(family, order)(model, batch)
    match, links, _ = plain_scores(model, batch["net_input"], graph, model.decoder.vertex_inputs(graph.vertex_lengths))
    truth = fuzzy_alignment(match, links, graph.targets, graph.target_lengths, graph.vertex_lengths, order=order)
    assert size == 3 and float(loss) == pytest.approx(float(-truth.score.sum()), abs=1e-9)
    assert float(log["precision"]) == pytest.approx(float(truth.precision.sum()), abs=1e-9)
    ratio = (truth.expected_length / graph.target_lengths).sum()
    assert float(log["length_ratio"]) == pytest.approx(float(ratio), abs=1e-9)


@pytest.mark.parametrize("forcing", ["vertex", "path", "none"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_second_pass_sees_the_shown_tokens(family, batch, strategy, forcing):
    model, graph = family.dag().train(), batch["graph"]
    criterion = make_nll(family, forcing, dag_glance_schedule="0.6", dag_glance_strategy=strategy)
    loss, _, log = criterion(model, batch)
    inputs = model.decoder.vertex_inputs(graph.vertex_lengths)
    match, links, logits = plain_scores(model, batch["net_input"], graph, inputs)
    alignment = dag_best_alignment(match, links, graph.target_lengths, graph.vertex_lengths)
    right = (alignment >= 0) & (logits.argmax(2) == graph.targets.gather(1, alignment.clamp(min=0)))
    glanced = criterion.glancer(graph, 0.6)(alignment, right)
    assert glanced.shown.any()
    assert log["path_right"] == int(right.sum())
    match, links, _ = plain_scores(model, batch["net_input"], graph, torch.where(glanced.shown, glanced.tokens, inputs))
    likelihood = dag_log_likelihood(force(match, glanced, forcing), links, graph.target_lengths, graph.vertex_lengths)
    assert float(loss) == pytest.approx(float(-(likelihood / graph.target_lengths).sum()), abs=1e-9)
    assert log["shown"] == int(glanced.shown.sum()) and log["path_vertices"] == 6 + 4 + 8
    # Nothing is shown in validation, whatever the schedule.
    loss, _, log = criterion(model.eval(), batch)
    assert "shown" not in log
    assert float(loss) == pytest.approx(float(make_nll(family)(model, batch)[0]), abs=1e-9)


def test_both_passes_draw_the_same_dropout(family, batch):
    """With everything right at the first glance and nothing shown, the second pass repeats the first."""
    model = family.dag(dropout=0.3).train()
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


def test_the_length_head_learns(family, batch):
    model = family.dag(upsample_base="predict", length_classes=8)
    loss, _, log = make_nll(family)(model, batch)
    assert float(log["length_loss"]) > 0
    without = make_nll(family, dag_length_loss_factor=0.0)(model, batch)[0]
    assert float(loss - without) == pytest.approx(0.1 * float(log["length_loss"]), abs=1e-6)
    loss.backward()
    assert model.decoder.length_head.output.weight.grad.abs().sum() > 0
    head = model.decoder.length_head
    words = head.label(torch.tensor([9, 2, 40]), torch.tensor([7, 7, 7]), 8)
    assert words.tolist() == [6, 0, 7]


def test_the_length_loss_counts_the_sentences_of_the_likelihood(family):
    """Of two sentences the first is longer than its graph."""
    model, sample = family.dag(upsample_base="predict", length_classes=8), family.sample([5, 3], seed=2)
    graph = family.graph(sample, [6, 6], [6, 2])
    _, size, log = make_nll(family)(model, {**sample, "graph": graph})
    source = sample["net_input"]
    output = model(source["src_tokens"], source["src_lengths"], graph=graph)
    label = model.decoder.length_head.label(graph.target_lengths - 2, graph.source_lengths, 8)
    expected = -torch.log_softmax(output.length_logits.float(), 1)[1, label[1]]
    assert size == 1 and float(log["length_loss"]) == pytest.approx(float(expected), abs=1e-6)


def test_fine_tuning_leaves_the_length_head_alone(family, batch):
    model = family.dag(upsample_base="predict", length_classes=8)
    fuzzy = make_fuzzy(family, dag_length_loss_factor=DagFuzzyLossConfig().dag_length_loss_factor)
    loss, _, log = fuzzy(model, batch)
    assert -3 <= float(loss) <= 0 and float(log["length_loss"]) > 0
    loss.backward()
    assert not model.decoder.length_head.output.weight.grad.any()
    mixed, _, _ = make_fuzzy(family, dag_length_loss_factor=0.5)(model, batch)
    assert float(mixed - loss) == pytest.approx(0.5 * float(log["length_loss"]), abs=1e-6)


def test_what_was_not_logged_is_not_reported():
    logs = [{"nsentences": 3, "skipped": 1, "vertices": 40, "tokens": 10, "sample_size": 2, "nll_loss": 1.0}] * 2
    with metrics.aggregate() as found:
        DagNllLoss.reduce_metrics(logs)
    values = dict(found.get_smoothed_values())
    assert (values["skipped_share"], values["skipped_sentences"], values["vertices_per_token"]) == (0.333, 2, 4.0)
    assert values.keys().isdisjoint({"length_loss", "clamped_graphs", "glance_accuracy", "glance_rate"})
    logs = [
        *logs,
        {"length_loss": 4 * math.log(2), "sample_size": 0, "clamped": 2, "path_vertices": 8, "path_right": 6, "shown": 2},
    ]
    with metrics.aggregate() as found:
        DagNllLoss.reduce_metrics(logs)
    values = dict(found.get_smoothed_values())
    assert (values["length_loss"], values["clamped_graphs"], values["glance_accuracy"], values["glance_rate"]) == (
        1.0,
        2,
        0.75,
        0.25,
    )


def test_the_defaults_are_those_of_the_papers(family):
    """DA-Transformer, sections 3.4 and 4.1; FA-DAT, sections 3 and 4.1."""
    nll, fuzzy, task, model = DagNllLossConfig(), DagFuzzyLossConfig(), DagTaskConfig(), DagModelConfig()
    assert (nll.dag_glance_schedule, str(nll.dag_glance_strategy)) == ("0.5:0.1@200k", "number-random")
    assert str(nll.dag_glance_forcing) == "vertex"
    assert (nll.dag_length_loss_factor, fuzzy.dag_length_loss_factor) == (0.1, 0.0)
    assert (fuzzy.dag_ngram_order, fuzzy.dag_glance_schedule, str(fuzzy.dag_glance_strategy)) == (2, "0.1", "number-random")
    assert (model.dag_upsample_scale, str(model.dag_upsample_base), model.dag_link_features) == (
        "8",
        "source",
        "feature:position",
    )
    assert model.dag_max_transition_length is None and model.dag_length_classes == 256 and not model.dag_count_bos
    assert (str(task.dag_decode_strategy), task.dag_decode_beta, task.dag_decode_length_beta) == ("lookahead", 1.0, 1.0)
    assert not task.dag_keep_repeats and not task.dag_allow_unk
    torch.manual_seed(1)
    links = LinkPredictor(64, 4, features="feature:position", size=500, reach=None)
    assert float(links.position.weight.std()) == pytest.approx(64**-0.5, rel=0.03)


@pytest.mark.parametrize(
    "strategy, schedule, shown", [("cmlm", "0", False), ("cmlm", "0.1", True), ("number-random", "0", False)]
)
def test_a_schedule_of_0_switches_glancing_off(family, batch, strategy, schedule, shown):
    criterion = make_nll(family, dag_glance_schedule=schedule, dag_glance_strategy=strategy)
    log = criterion(family.dag().train(), batch)[2]
    assert ("shown" in log) == shown
    # cmlm draws its share whatever the schedule says today.
    late = make_nll(family, dag_glance_schedule="0.5:0@5", dag_glance_strategy=strategy)(family.dag().train(), batch)[2]
    assert ("shown" in late) == (strategy == "cmlm")


def test_the_views_are_a_function_of_batch_update_and_seed(family):
    sample = {**family.sample([6, 3, 6]), "target": torch.tensor([[5, 6, 2, 1], [5, 6, 7, 2], [5, 2, 1, 1]])}
    rule = SizeRule(UpsampleScale(2, 9), 3.5, from_target=False, count_bos=False, most=40)

    def sizes(update=7, seed=1, batch=sample, rule=rule):
        return graph_sample(batch, rule, update=update, seed=seed, bos=0, pad=1)

    first = sizes()
    assert first.vertex_lengths.tolist() == sizes().vertex_lengths.tolist() and first.update == 7
    assert any(sizes(update=8 + n).vertex_lengths.tolist() != first.vertex_lengths.tolist() for n in range(3))
    assert any(sizes(seed=2 + n).vertex_lengths.tolist() != first.vertex_lengths.tolist() for n in range(3))
    # Sentences of one length draw apart, and the same in any batch.
    drawn = torch.stack([sizes(update=update).vertex_lengths for update in range(20)])
    assert (drawn[:, 0] != drawn[:, 2]).any()
    alone = {"id": torch.tensor([2]), "target": torch.tensor([[5, 2]]), "net_input": {"src_lengths": torch.tensor([6])}}
    assert [int(sizes(update=update, batch=alone).vertex_lengths) for update in range(20)] == drawn[:, 2].tolist()
    # Nothing is drawn without an update.
    fixed = sizes(update=None)
    assert fixed.vertex_lengths.tolist() == [21, 10, 21] and fixed.update == 0
    assert fixed.vertex_lengths.tolist() == sizes(update=None, seed=9).vertex_lengths.tolist()
    assert sizes(update=None, rule=rule._replace(from_target=True)).vertex_lengths.tolist() == [9, 12, 5]
    assert sizes(update=None, rule=rule._replace(count_bos=True)).vertex_lengths.tolist() == [24, 14, 24]
    cut = sizes(update=None, rule=rule._replace(most=12))
    assert cut.vertex_lengths.tolist() == [12, 10, 12] and cut.clamped.tolist() == [True, False, True]


def test_the_task_hands_its_views_to_the_criterion(family, monkeypatch):
    """The update's number in training, nothing drawn in validation."""
    task = make_task(family)
    task.decoder, seen = family.dag(upsample_scale="4~8").decoder, []
    sample = {**family.sample([6, 3]), "target": torch.tensor([[5, 6, 2, 1], [5, 6, 7, 2]])}
    for name in ("train_step", "valid_step"):
        monkeypatch.setattr(TranslationTask, name, lambda self, sample, *rest: seen.append(sample["graph"]))
    task.train_step(sample, None, None, None, 11)
    task.valid_step(sample, None, None)
    assert [graph.update for graph in seen] == [11, 0]
    assert (
        seen[0].vertex_lengths.tolist()
        == task.graph(sample, 11).vertex_lengths.tolist()
        != task.graph(sample, 12).vertex_lengths.tolist()
    )
    assert seen[1].vertex_lengths.tolist() == [36, 18] and "graph" not in sample


def test_graphs_that_positions_cut_are_said_once_and_counted(family, caplog):
    task, criterion = make_task(family), make_nll(family)
    model = family.dag(upsample_scale="6", max_target_positions=20)
    task.decoder = model.decoder
    sample = {**family.sample([6, 3]), "target": torch.tensor([[5, 6, 2, 1], [5, 6, 7, 2]])}
    for _ in range(2):
        _, _, log = criterion(model, {**sample, "graph": task.graph(sample, None)})
        assert log["clamped"] == 1
    assert caplog.text.count("1 of 2 graphs of a batch are cut") == 1


@pytest.mark.parametrize("build", ["nll", "fuzzy"])
def test_a_training_step_asks_the_device_as_often_for_any_length(family, host_reads, build):
    """For the sizes of the graph, for the checks of each program and for the log; never in a loop."""
    model, found = family.dag().train(), []
    criterion = (
        make_nll(family, dag_glance_schedule="0.5") if build == "nll" else make_fuzzy(family, dag_glance_schedule="0.5")
    )
    for words in (2, 9):
        sample = family.sample([12, 12], seed=2)
        graph = family.graph(sample, [24, 22], [words, words])
        with host_reads() as reads:
            criterion(model, {**sample, "graph": graph})
        with host_reads() as stock:
            source = sample["net_input"]
            encoder_out = model.encoder(source["src_tokens"], src_lengths=source["src_lengths"])
            inputs = torch.full((2, 24), 3)
            for _ in range(2):
                model.decoder(inputs, encoder_out=encoder_out, features_only=True)
        found.append(reads.counts - stock.counts)
    assert found[0] == found[1]
    assert set(found[0]) == {"_local_scalar_dense"} and found[0]["_local_scalar_dense"] <= 6


def test_graph_sizes_of_the_task(family):
    task = make_task(family)
    targets = torch.tensor([[5, 6, 2, 1], [5, 6, 7, 2]])
    sample = family.sample([6, 3])
    sample.update(target=targets)
    for options, update, expected in (
        (dict(upsample_scale="8"), None, [48, 24]),
        (dict(upsample_scale="8", count_bos=True), None, [56, 32]),
        (dict(upsample_scale="4~8"), None, [36, 18]),
        (dict(upsample_scale="3", upsample_base="predict"), None, [8, 11]),
        (dict(upsample_scale="40"), None, [64, 64]),
    ):
        task.decoder = family.dag(**options).decoder
        graph = task.graph(sample, update)
        assert graph.vertex_lengths.tolist() == expected
        assert graph.targets.tolist() == [[0, 5, 6, 2, 1], [0, 5, 6, 7, 2]] and graph.target_lengths.tolist() == [4, 5]
    task.decoder = family.dag(upsample_scale="4~8").decoder
    sizes = torch.stack([task.graph(sample, update).vertex_lengths for update in range(300)])
    assert sizes.min(0).values.tolist() == [24, 12] and sizes.max(0).values.tolist() == [47, 23]
    task = make_task(family, decode_upsample_scale=2.5)
    task.decoder = family.dag(upsample_scale="4~8").decoder
    assert task.graph(sample, None).vertex_lengths.tolist() == [15, 7]


def test_filter_ratio(family, caplog):
    lengths = [(4, 8), (4, 7), (4, 2), (2, 4)]
    pairs = [tuple([torch.full((size,), 5) for _ in range(count)] for size in pair) for pair in lengths for count in (1,)]
    dataset = LanguagePairDataset(
        [source[0] for source, _ in pairs], torch.tensor([a for a, _ in lengths]).numpy(), family.dictionary(),
        [target[0] for _, target in pairs], torch.tensor([b for _, b in lengths]).numpy(), family.dictionary(),
    )  # fmt: skip
    indices = torch.arange(4).numpy()

    def kept(split="train", model=None, **options):
        task = make_task(family, **options)
        task.datasets[split] = dataset
        task.decoder = (model or family.dag(upsample_scale="4~8")).decoder
        return task.filter_indices_by_size(indices, dataset, (64, 64), True).tolist()

    assert kept(filter_ratio=2.0) == [1, 2] and "--dag-filter-ratio 2.0 leaves out 2 of 4" in caplog.text
    assert kept(filter_ratio_low=1.0) == [0, 1, 3] and kept(filter_ratio=2.0, filter_ratio_low=1.0) == [1]
    assert kept(max_vertices=31) == [3] and kept(max_vertices=32) == [0, 1, 2, 3]
    # 3 * (target words) + 2.
    predicts = family.dag(upsample_base="predict", upsample_scale="3")
    assert kept(max_vertices=11, model=predicts) == [2, 3] and kept(max_vertices=20, model=predicts) == [1, 2, 3]
    # Checkpoints are selected on whole validation sets, whatever else is skipped there.
    assert kept("valid", filter_ratio=2.0, filter_ratio_low=1.0, max_vertices=3) == [0, 1, 2, 3]
    for options, named in (
        (dict(filter_ratio=0.1), "--dag-filter-ratio 0.1 leaves no training pair: raise it"),
        (dict(filter_ratio_low=9.0), "--dag-filter-ratio-low 9.0 leaves no training pair: lower it"),
        (dict(filter_ratio=-1.0), "--dag-filter-ratio -1.0 must be greater than 0"),
        (dict(max_vertices=0), "--dag-max-vertices 0 must be greater than 0"),
    ):
        with pytest.raises(ValueError, match=named):
            kept(**options)


def test_batches_keep_to_their_vertices(family):
    sizes = torch.tensor([3, 5, 9, 9, 2, 6]).numpy()
    words = [torch.full((int(size),), 5) for size in sizes]
    dataset = LanguagePairDataset(words, sizes, family.dictionary(), words, sizes, family.dictionary())

    def batches(limit, split="train"):
        task = make_task(family, batch_vertices=limit)
        task.datasets[split] = dataset
        task.decoder = family.dag(upsample_scale="4").decoder
        iterator = task.get_batch_iterator(dataset, max_tokens=40, max_positions=(64, 64))
        assert "batch_by_size" not in vars(dataset)
        return [sizes[list(batch)].tolist() for batch in iterator.frozen_batches]

    whole = batches(None)
    assert max(4 * max(batch) * len(batch) for batch in whole) > 72
    divided = batches(72)
    assert all(4 * max(batch) * len(batch) <= 72 for batch in divided) and [9, 9] in divided
    assert sum(divided, []) == sum(whole, [])
    assert batches(72, "valid") == whole
    with pytest.raises(
        ValueError, match="--dag-batch-vertices 35 has no room for the largest graph, of 36 vertices: raise it, or"
    ):
        batches(35)


def test_given_translations_are_scored(family, batch):
    model, graph, grads = family.dag(), batch["graph"], []
    model.register_forward_hook(lambda *given: grads.append(torch.is_grad_enabled()))
    found = GraphScorer(family.dictionary(), lambda sample: sample["graph"]).generate([model], batch)
    assert len(found) == len(graph.targets) and grads == [False], "nothing is kept for a backward pass"
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
    batch["graph"] = family.graph(batch, [4, 4, 4], [4, 2, 6])
    scores = [
        best["log_likelihood"] for (best,) in GraphScorer(family.dictionary(), lambda s: s["graph"]).generate([model], batch)
    ]
    assert scores[0] == scores[2] == -math.inf and math.isfinite(scores[1])


def test_other_transformers_can_be_fine_tuned(family):
    plain, model = family.model(), family.dag(upsample_base="predict")
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
def test_models_that_cannot_be_built(family, options, named):
    with pytest.raises(ValueError, match=named):
        family.dag(**options)


def test_stock_decoding_is_refused(family):
    model = family.dag()
    with pytest.raises(ValueError, match="--task translation_dag"):
        model.decoder(torch.tensor([[2]]), encoder_out=None, incremental_state={})
    with pytest.raises(ValueError, match="--dag-decode-upsample-scale -1"):
        make_task(family, decode_upsample_scale=-1.0).decode_scale(model.decoder)
    with pytest.raises(ValueError, match="translation_dag"):
        make_nll(family)(model, family.sample([3]))
    with pytest.raises(ValueError, match="--dag-ngram-order 0"):
        make_fuzzy(family, 0)


def test_bert_initialisation(family):
    normal, bert = family.dag(seed=1), family.dag(seed=1, dag_bert_init=True)
    assert float(bert.decoder.links.query.weight.std()) == pytest.approx(2.5 * 0.02, rel=0.2)
    assert float(normal.decoder.links.query.weight.std()) > 0.1
