"""Tiny models of the family and batches with targets."""

import functools
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from tiny_weights import TINY, built_once, seed_host, sharpen

from fairseq_hrt.dag.config import DagTaskConfig
from fairseq_hrt.dag.model import DagTransformerModel
from fairseq_hrt.dag.sample import GraphSample, whole_targets
from fairseq_hrt.dag.task import DagTranslationTask

BOS, PAD, EOS, UNK = 0, 1, 2, 3


def make_model(tiny, *, symbols=12, seed=1, **overrides):
    """A dag_transformer in float64 with peaked, different distributions; flags of the family
    without their prefix."""
    seed_host(seed)
    names = (
        "upsample_base",
        "upsample_scale",
        "count_bos",
        "read_bos",
        "absolute_lengths",
        "max_transition_length",
        "link_features",
        "length_classes",
    )
    # Graphs have as many vertices.
    settings = {**TINY, "max_target_positions": 64}
    settings.update(
        {f"dag_{name}" if name in names else name: value for name, value in overrides.items()}
    )
    args = Namespace(**settings)
    ARCH_CONFIG_REGISTRY["dag_transformer"](args)
    task = Namespace(
        source_dictionary=tiny.dictionary(symbols), target_dictionary=tiny.dictionary(symbols)
    )
    model = DagTransformerModel.build_model(args, task).double().eval()
    sharpen(model)
    return model


def make_graph(sample, vertex_lengths, target_lengths, *, symbols=12, seed=3, update=0):
    """A :class:`GraphSample` with random targets of so many words."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.full((len(target_lengths), max(target_lengths) + 1), PAD)
    for row, words in zip(targets, target_lengths):
        row[:words] = torch.randint(4, 4 + symbols, (words,), generator=generator)
        row[words] = EOS
    whole = whole_targets(targets, bos=BOS)
    return GraphSample(
        ids=sample["id"],
        update=update,
        targets=whole,
        target_lengths=whole.ne(PAD).sum(1),
        source_lengths=sample["net_input"]["src_lengths"],
        vertex_lengths=torch.tensor(vertex_lengths),
    )


def make_task(tiny, **options):
    """The task; options of the family without their prefix."""
    config = DagTaskConfig(**{f"dag_{name}": value for name, value in options.items()})
    config.seed, config.eval_bleu, config.train_subset = 1, False, "train"
    return DagTranslationTask(config, tiny.dictionary(), tiny.dictionary())


def plain_scores(model, source, graph, inputs):
    """(match, links, logits) by the whole log-softmax."""
    encoder_out = model.encoder(source["src_tokens"], src_lengths=source["src_lengths"])
    features, _ = model.decoder(inputs, encoder_out=encoder_out, features_only=True)
    logits = model.decoder.output_layer(features)
    log_probs = torch.log_softmax(logits, -1)
    index = graph.targets.unsqueeze(1).expand(-1, log_probs.size(1), -1)
    return (
        log_probs.gather(2, index).transpose(1, 2),
        model.decoder.links(features, graph.vertex_lengths),
        logits,
    )


@pytest.fixture(scope="session")
def family(tiny):
    """The builders of this file and those of ``tiny``."""
    return SimpleNamespace(
        **{**vars(tiny), "BOS": BOS, "UNK": UNK},
        dag=built_once(functools.partial(make_model, tiny)),
        graph=make_graph,
        task=lambda **options: make_task(tiny, **options),
        plain_scores=plain_scores,
    )


@pytest.fixture
def batch(family):
    sample = family.sample([5, 3, 4], seed=2)
    return {**sample, "graph": family.graph(sample, [10, 6, 8], [4, 2, 6], update=7)}
