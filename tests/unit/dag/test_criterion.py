"""The losses of graphs against what they are made of."""

import math

import pytest
import torch
from fairseq.logging import metrics

from fairseq_hrt.dag.config import DagFuzzyLossConfig
from fairseq_hrt.dag.criterion import DagFuzzyLoss, DagNllLoss
from fairseq_hrt.dag.glancing import STRATEGIES, force
from fairseq_hrt.ops import dag_best_alignment, dag_log_likelihood, fuzzy_alignment

NLL = dict(dag_glance_schedule="0", dag_glance_strategy="number-random", dag_length_loss_factor=0.1)


def make_nll(family, forcing="vertex", **options):
    return DagNllLoss(family.task(), dag_glance_forcing=forcing, **{**NLL, **options})


def test_nll_is_the_mean_over_sentences(family, batch):
    model, graph = family.dag(), batch["graph"]
    loss, size, log = make_nll(family)(model, batch)
    match, links, _ = family.plain_scores(
        model, batch["net_input"], graph, model.decoder.vertex_inputs(graph.vertex_lengths)
    )
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
    alone["net_input"] = {
        "src_tokens": sample["net_input"]["src_tokens"][1:, 2:],
        "src_lengths": torch.tensor([3]),
    }
    alone["graph"] = type(both["graph"])(
        *(part[1:] if torch.is_tensor(part) else part for part in both["graph"])
    )
    expected, _, _ = build(family)(model, alone)
    assert float(loss) == pytest.approx(float(expected), abs=1e-9)
    torch.testing.assert_close(
        gradient, torch.autograd.grad(expected, model.decoder.links.query.weight)[0]
    )
    none = {**sample, "graph": family.graph(sample, [2, 2], [6, 2])}
    loss, size, _ = build(family)(model, none)
    assert size == 0 and float(loss) == 0
    loss.backward()
    assert all(
        parameter.grad is None or parameter.grad.isfinite().all()
        for parameter in model.parameters()
    )


def make_fuzzy(family, order=2, **options):
    return DagFuzzyLoss(family.task(), dag_ngram_order=order, **{**NLL, **options})


@pytest.mark.parametrize("order", [1, 2, 3, 9])
def test_fuzzy_loss(family, batch, order):
    model, graph = family.dag(), batch["graph"]
    loss, size, log = make_fuzzy(family, order)(model, batch)
    match, links, _ = family.plain_scores(
        model, batch["net_input"], graph, model.decoder.vertex_inputs(graph.vertex_lengths)
    )
    truth = fuzzy_alignment(
        match, links, graph.targets, graph.target_lengths, graph.vertex_lengths, order=order
    )
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
    match, links, logits = family.plain_scores(model, batch["net_input"], graph, inputs)
    alignment = dag_best_alignment(match, links, graph.target_lengths, graph.vertex_lengths)
    right = (alignment >= 0) & (logits.argmax(2) == graph.targets.gather(1, alignment.clamp(min=0)))
    glanced = criterion.glancer(graph, 0.6)(alignment, right)
    assert glanced.shown.any()
    assert log["path_right"] == int(right.sum())
    match, links, _ = family.plain_scores(
        model, batch["net_input"], graph, torch.where(glanced.shown, glanced.tokens, inputs)
    )
    likelihood = dag_log_likelihood(
        force(match, glanced, forcing), links, graph.target_lengths, graph.vertex_lengths
    )
    assert float(loss) == pytest.approx(float(-(likelihood / graph.target_lengths).sum()), abs=1e-9)
    assert log["shown"] == int(glanced.shown.sum()) and log["path_vertices"] == 6 + 4 + 8
    # Nothing is shown in validation, whatever the schedule.
    loss, _, log = criterion(model.eval(), batch)
    assert "shown" not in log
    assert float(loss) == pytest.approx(float(make_nll(family)(model, batch)[0]), abs=1e-9)


def test_the_length_head_learns(family, batch):
    model = family.dag(upsample_base="predict", length_classes=8)
    loss, _, log = make_nll(family)(model, batch)
    assert float(log["length_loss"]) > 0
    without = make_nll(family, dag_length_loss_factor=0.0)(model, batch)[0]
    assert float(loss - without) == pytest.approx(0.1 * float(log["length_loss"]), abs=1e-6)
    loss.backward()
    assert model.decoder.length_head.output.weight.grad.abs().sum() > 0
    head = model.decoder.length_head
    words = head.label(torch.tensor([9, 2, 40]), torch.tensor([7, 7, 7]))
    assert words.tolist() == [6, 0, 7]


def test_the_length_loss_counts_the_sentences_of_the_likelihood(family):
    """Of two sentences the first is longer than its graph."""
    model, sample = (
        family.dag(upsample_base="predict", length_classes=8),
        family.sample([5, 3], seed=2),
    )
    graph = family.graph(sample, [6, 6], [6, 2])
    _, size, log = make_nll(family)(model, {**sample, "graph": graph})
    source = sample["net_input"]
    output = model(source["src_tokens"], source["src_lengths"], graph=graph)
    label = model.decoder.length_head.label(graph.target_lengths - 2, graph.source_lengths)
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
    logs = [
        {
            "nsentences": 3,
            "skipped": 1,
            "vertices": 40,
            "tokens": 10,
            "sample_size": 2,
            "nll_loss": 1.0,
        }
    ] * 2
    with metrics.aggregate() as found:
        DagNllLoss.reduce_metrics(logs)
    values = dict(found.get_smoothed_values())
    assert (values["skipped_share"], values["skipped_sentences"], values["vertices_per_token"]) == (
        0.333,
        2,
        4.0,
    )
    assert values.keys().isdisjoint(
        {"length_loss", "clamped_graphs", "glance_accuracy", "glance_rate"}
    )
    logs = [
        *logs,
        {
            "length_loss": 4 * math.log(2),
            "sample_size": 0,
            "clamped": 2,
            "path_vertices": 8,
            "path_right": 6,
            "shown": 2,
        },
    ]
    with metrics.aggregate() as found:
        DagNllLoss.reduce_metrics(logs)
    values = dict(found.get_smoothed_values())
    assert (
        values["length_loss"],
        values["clamped_graphs"],
        values["glance_accuracy"],
        values["glance_rate"],
    ) == (
        1.0,
        2,
        0.75,
        0.25,
    )


@pytest.mark.parametrize(
    "strategy, schedule, shown",
    [("cmlm", "0", False), ("cmlm", "0.1", True), ("number-random", "0", False)],
)
def test_a_schedule_of_0_switches_glancing_off(family, batch, strategy, schedule, shown):
    criterion = make_nll(family, dag_glance_schedule=schedule, dag_glance_strategy=strategy)
    log = criterion(family.dag().train(), batch)[2]
    assert ("shown" in log) == shown
    # cmlm draws its share regardless of today's schedule.
    late = make_nll(family, dag_glance_schedule="0.5:0@5", dag_glance_strategy=strategy)(
        family.dag().train(), batch
    )[2]
    assert ("shown" in late) == (strategy == "cmlm")


def test_graphs_that_positions_cut_are_said_once_and_counted(family, caplog):
    task, criterion = family.task(), make_nll(family)
    model = family.dag(upsample_scale="6", max_target_positions=20)
    task.decoder = model.decoder
    sample = {**family.sample([6, 3]), "target": torch.tensor([[5, 6, 2, 1], [5, 6, 7, 2]])}
    for _ in range(2):
        _, _, log = criterion(model, {**sample, "graph": task.graph(sample, None)})
        assert log["clamped"] == 1
    assert caplog.text.count("1 of 2 graphs of a batch are cut") == 1


@pytest.mark.parametrize("build", ["nll", "fuzzy"])
def test_a_training_step_asks_the_device_as_often_for_any_length(family, host_reads, build):
    """For the sizes of the graph, for the checks of each program and for the log; never in a
    loop."""
    model, found = family.dag().train(), []
    criterion = (
        make_nll(family, dag_glance_schedule="0.5")
        if build == "nll"
        else make_fuzzy(family, dag_glance_schedule="0.5")
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


def test_the_loss_needs_n_grams_of_a_length(family):
    with pytest.raises(ValueError, match="--dag-ngram-order 0"):
        make_fuzzy(family, 0)
