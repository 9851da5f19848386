"""The graph of a training batch: one pass, or two of which the first decides what the second is
shown."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from fairseq_hrt.dag.generator import DagGenerator
from fairseq_hrt.dag.glancing import Glanced
from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.ops import dag_best_alignment
from fairseq_hrt.training import same_random_numbers_afterwards


def test_both_passes_draw_the_same_dropout(family, batch):
    """With everything right at the first glance and nothing shown, the second pass repeats the
    first."""
    model = family.dag(dropout=0.3).train()
    seen = []

    def glance(alignment, best):
        seen.append(alignment)
        return SimpleNamespace(
            shown=torch.zeros_like(alignment, dtype=torch.bool), tokens=torch.zeros_like(alignment)
        )

    source = batch["net_input"]
    output = model(source["src_tokens"], source["src_lengths"], graph=batch["graph"], glance=glance)
    sizes = (batch["graph"].target_lengths, batch["graph"].vertex_lengths)
    assert torch.equal(
        dag_best_alignment(output.match.detach(), output.links.detach(), *sizes), seen[0]
    )
    with same_random_numbers_afterwards(torch.device("cpu")):
        first = torch.rand(5)
    assert torch.equal(first, torch.rand(5))


def test_bert_initialisation(family):
    normal, bert = family.dag(seed=1), family.dag(seed=1, dag_bert_init=True)
    assert float(bert.decoder.links.query.weight.std()) == pytest.approx(2.5 * 0.02, rel=0.2)
    assert float(normal.decoder.links.query.weight.std()) > 0.1


@pytest.mark.parametrize("base", ["source", "predict"])
@torch.no_grad()
def test_scores_are_those_of_the_whole_softmax(family, batch, base):
    """Of the target's tokens at each vertex, and the links; lengths where there is a head for them;
    fairseq's call without a graph."""
    model, graph, source = (
        family.dag(upsample_base=base, length_classes=8),
        batch["graph"],
        batch["net_input"],
    )
    output = model(source["src_tokens"], source["src_lengths"], graph=graph)
    inputs = model.decoder.vertex_inputs(graph.vertex_lengths)
    match, links, logits = family.plain_scores(model, source, graph, inputs)
    real = (torch.arange(match.size(2)) < graph.vertex_lengths.unsqueeze(1)).unsqueeze(1)
    torch.testing.assert_close(output.match.where(real, 0.0), match.where(real, 0.0))
    torch.testing.assert_close(output.links, links)
    assert output.glanced is None and (output.length_logits is None) == (base == "source")
    if base == "predict":
        encoded = model.encoder(source["src_tokens"], src_lengths=source["src_lengths"])
        states, padding = (
            encoded["encoder_out"][0].transpose(0, 1),
            encoded["encoder_padding_mask"][0],
        )
        mean = torch.stack([row[~hidden].mean(0) for row, hidden in zip(states, padding)])
        torch.testing.assert_close(output.length_logits, model.decoder.length_head.output(mean))
    torch.testing.assert_close(model(**source, prev_output_tokens=inputs)[0], logits)


@torch.no_grad()
def test_the_second_pass_sees_what_the_glancer_shows(family, batch):
    """The glancer is given the best path and where its words are the vertices' best ones already;
    the encoder runs once."""
    model, graph, source = family.dag(seed=4), batch["graph"], batch["net_input"]
    inputs, encoded, given = model.decoder.vertex_inputs(graph.vertex_lengths), [], []
    # Some vertices like <s> best, whether they are on the path or not.
    model.decoder.output_projection.weight[family.BOS].mul_(4)
    model.encoder.register_forward_hook(lambda *_: encoded.append(1))

    def glance(alignment, right):
        given.append((alignment, right))
        shown = torch.zeros_like(right)
        shown[:, 2] = True
        return Glanced(shown, alignment, torch.full_like(alignment, 7), right.sum(1))

    output = model(source["src_tokens"], source["src_lengths"], graph=graph, glance=glance)
    assert encoded == [1] and output.glanced.shown[:, 2].all()
    match, links, logits = family.plain_scores(model, source, graph, inputs)
    alignment = dag_best_alignment(match, links, graph.target_lengths, graph.vertex_lengths)
    assert torch.equal(given[0][0], alignment)
    for row, vertex in itertools.product(range(3), range(10)):
        place = int(alignment[row, vertex])
        best = int(logits[row, vertex].argmax())
        assert bool(given[0][1][row, vertex]) == (
            place >= 0 and best == int(graph.targets[row, place])
        )
    assert ((alignment < 0) & (logits.argmax(2) == family.BOS)).any()
    inputs[:, 2] = 7
    match, links, _ = family.plain_scores(model, source, graph, inputs)
    torch.testing.assert_close(output.links, links)
    torch.testing.assert_close(output.match[0], match[0])


@pytest.mark.parametrize("left", [True, False])
@torch.no_grad()
def test_a_start_symbol_that_the_encoder_reads(family, left):
    """--dag-read-bos: the same as data that begin with <s>, wherever their padding stands, in
    training and decoding; a source may have a token less."""
    model, plain = (family.dag(read_bos=own, upsample_scale="3") for own in (True, False))
    sample = family.sample([5, 2, 4], seed=2, left_pad=left)
    rows = [row[row != 1].tolist() for row in sample["net_input"]["src_tokens"]]
    marked = torch.full((3, 6), 1)
    for row, words in zip(marked, rows):
        place = 5 - len(words) if left else 0
        row[place : place + len(words) + 1] = torch.tensor([0, *words])
    tokens, lengths = (sample["net_input"][name] for name in ("src_tokens", "src_lengths"))
    graph = family.graph(sample, [10, 6, 8], [4, 2, 6])
    assert torch.equal(model.decoder.read_source(tokens, lengths)[0], marked)
    for name in ("match", "links"):
        found = getattr(model(tokens, lengths, graph=graph), name)
        expected = getattr(plain(marked, lengths + 1, graph=graph), name)
        assert torch.equal(found, expected)
    best = []
    for own, net_input in (
        (model, sample["net_input"]),
        (plain, {"src_tokens": marked, "src_lengths": lengths + 1}),
    ):
        generator = DagGenerator([own], family.dictionary(), DecodingOptions())
        found = generator.generate([own], {**sample, "net_input": net_input})
        best.append([(one[0]["tokens"].tolist(), float(one[0]["score"])) for one in found])
    assert best[0] == best[1]
    assert model.max_positions()[0] == plain.max_positions()[0] - 1
