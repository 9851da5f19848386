"""What the graphs of a training batch depend on."""

import pytest
import torch
from simulated_device import SimulatedDevice

from fairseq_hrt.dag.graph_size import UpsampleScale
from fairseq_hrt.dag.sample import SizeRule, graph_sample, vertex_inputs


def test_the_views_are_a_function_of_batch_update_and_seed(family):
    sample = {
        **family.sample([6, 3, 6]),
        "target": torch.tensor([[5, 6, 2, 1], [5, 6, 7, 2], [5, 2, 1, 1]]),
    }
    rule = SizeRule(UpsampleScale(2, 9), from_target=False, count_bos=False, most=40)

    def sizes(update=7, seed=1, batch=sample, rule=rule, fixed=None):
        return graph_sample(batch, rule, update=update, fixed=fixed, seed=seed, bos=0, pad=1)

    first = sizes()
    assert first.vertex_lengths.tolist() == sizes().vertex_lengths.tolist() and first.update == 7
    assert any(
        sizes(update=8 + n).vertex_lengths.tolist() != first.vertex_lengths.tolist()
        for n in range(3)
    )
    assert any(
        sizes(seed=2 + n).vertex_lengths.tolist() != first.vertex_lengths.tolist() for n in range(3)
    )
    # Sentences of one length draw apart, and the same in any batch.
    drawn = torch.stack([sizes(update=update).vertex_lengths for update in range(20)])
    assert (drawn[:, 0] != drawn[:, 2]).any()
    alone = {
        "id": torch.tensor([2]),
        "target": torch.tensor([[5, 2]]),
        "net_input": {"src_lengths": torch.tensor([6])},
    }
    assert [int(sizes(update=update, batch=alone).vertex_lengths) for update in range(20)] == drawn[
        :, 2
    ].tolist()
    # Nothing is drawn where lambda is given.
    fixed = sizes(0, fixed=3.5)
    assert fixed.vertex_lengths.tolist() == [21, 10, 21] and fixed.update == 0
    assert fixed.vertex_lengths.tolist() == sizes(0, seed=9, fixed=3.5).vertex_lengths.tolist()
    assert sizes(0, fixed=3.5, rule=rule._replace(from_target=True)).vertex_lengths.tolist() == [
        9,
        12,
        5,
    ]
    assert sizes(0, fixed=3.5, rule=rule._replace(count_bos=True)).vertex_lengths.tolist() == [
        24,
        14,
        24,
    ]
    assert not sizes(0, fixed=3.5, rule=rule._replace(most=21)).clamped.any(), (
        "as many as there may be"
    )
    cut = sizes(0, fixed=3.5, rule=rule._replace(most=12))
    assert cut.vertex_lengths.tolist() == [12, 10, 12] and cut.clamped.tolist() == [
        True,
        False,
        True,
    ]


def test_vertex_inputs():
    inputs = vertex_inputs(torch.tensor([5, 2, 3]), bos=0, unk=3, eos=2, pad=1)
    assert inputs.tolist() == [[0, 3, 3, 3, 2], [0, 2, 1, 1, 1], [0, 3, 2, 1, 1]]
    wider = vertex_inputs(torch.tensor([3, 2]), bos=0, unk=3, eos=2, pad=1, width=5)
    assert wider.tolist() == [[0, 3, 2, 1, 1], [0, 2, 1, 1, 1]]


@pytest.mark.parametrize("from_target", [False, True])
@pytest.mark.parametrize("count_bos", [False, True])
@pytest.mark.parametrize("scale", ["0.5~3.7", "2.6"])
def test_the_most_vertices_are_known_without_the_lengths(from_target, count_bos, scale):
    rule = SizeRule(
        UpsampleScale.parse(scale), from_target=from_target, count_bos=count_bos, most=60
    )
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        sources, words = torch.randint(1, 25, (2, 6), generator=generator)
        drawn = rule.scale.at(torch.rand(6, generator=generator, dtype=torch.double))
        found = int(rule.wanted(drawn, sources, words).clamp(max=rule.most).max())
        most = rule.most_wanted(rule.scale.high, int(sources.max()), int(words.max()) + 2)
        assert found <= most <= 60 and (found == most or "~" in scale)


def test_on_a_device_the_host_does_not_ask_for_the_width(family):
    sample = {**family.sample([6, 3]), "target": torch.tensor([[5, 6, 2], [5, 2, 1]])}
    rule = SizeRule(UpsampleScale(2, 2), from_target=False, count_bos=False, most=40)
    assert graph_sample(sample, rule, update=3, seed=1, bos=0, pad=1).width is None
    with SimulatedDevice() as device:
        graph = graph_sample(device.send(sample), rule, update=3, seed=1, bos=0, pad=1)
        inputs = vertex_inputs(graph.vertex_lengths, bos=0, unk=3, eos=2, pad=1, width=graph.width)
        assert inputs.shape == (2, 16) and not device.reads
        rule = rule._replace(most=14)
        graph = graph_sample(device.send(sample), rule, update=3, seed=1, bos=0, pad=1)
        assert graph.width == 14
