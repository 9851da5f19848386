"""Graph sizes, training pairs that are left out, and batches that are divided."""

from argparse import Namespace

import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks.translation import TranslationTask

from fairseq_hrt.dag.generator import decode_scale
from fairseq_hrt.native.options.values import DecodingOptions


def test_the_task_hands_its_views_to_the_criterion(family, monkeypatch):
    """The update's number in training, nothing drawn in validation."""
    task = family.task()
    task.decoder, seen = family.dag(upsample_scale="4~8").decoder, []
    sample = {**family.sample([6, 3]), "target": torch.tensor([[5, 6, 2, 1], [5, 6, 7, 2]])}
    for name in ("train_step", "valid_step"):
        monkeypatch.setattr(
            TranslationTask, name, lambda self, sample, *rest: seen.append(sample["graph"])
        )
    task.train_step(sample, None, None, None, 11)
    task.valid_step(sample, None, None)
    assert [graph.update for graph in seen] == [11, 0]
    assert (
        seen[0].vertex_lengths.tolist()
        == task.graph(sample, 11).vertex_lengths.tolist()
        != task.graph(sample, 12).vertex_lengths.tolist()
    )
    assert seen[1].vertex_lengths.tolist() == [36, 18] and "graph" not in sample


def test_graph_sizes_of_the_task(family):
    task = family.task()
    targets = torch.tensor([[5, 6, 2, 1], [5, 6, 7, 2]])
    sample = family.sample([6, 3])
    sample.update(target=targets)
    for options, update, expected in (
        (dict(upsample_scale="8"), None, [48, 24]),
        (dict(upsample_scale="8", count_bos=True), None, [56, 32]),
        (dict(upsample_scale="8", read_bos=True), None, [56, 32]),
        (dict(upsample_scale="8", upsample_base="source-words"), None, [41, 17]),
        (dict(upsample_scale="8", upsample_base="source-words", read_bos=True), None, [42, 18]),
        (dict(upsample_scale="4~8"), None, [36, 18]),
        (dict(upsample_scale="3", upsample_base="predict"), None, [8, 11]),
        (dict(upsample_scale="40"), None, [64, 64]),
    ):
        task.decoder = family.dag(**options).decoder
        graph = task.graph(sample, update)
        assert graph.vertex_lengths.tolist() == expected
        assert graph.targets.tolist() == [
            [0, 5, 6, 2, 1],
            [0, 5, 6, 7, 2],
        ] and graph.target_lengths.tolist() == [4, 5]
    task.decoder = family.dag(upsample_scale="4~8").decoder
    sizes = torch.stack([task.graph(sample, update).vertex_lengths for update in range(300)])
    assert sizes.min(0).values.tolist() == [24, 12] and sizes.max(0).values.tolist() == [47, 23]
    task = family.task(decode_upsample_scale=2.5)
    task.decoder = family.dag(upsample_scale="4~8").decoder
    assert task.graph(sample, None).vertex_lengths.tolist() == [15, 7]


def test_filter_ratio(family, caplog):
    lengths = [(4, 8), (4, 7), (4, 2), (2, 4)]
    pairs = [
        tuple([torch.full((size,), 5) for _ in range(count)] for size in pair)
        for pair in lengths
        for count in (1,)
    ]
    dataset = LanguagePairDataset(
        [source[0] for source, _ in pairs], torch.tensor([a for a, _ in lengths]).numpy(),
        family.dictionary(), [target[0] for _, target in pairs],
        torch.tensor([b for _, b in lengths]).numpy(), family.dictionary(),
    )  # fmt: skip
    indices = torch.arange(4).numpy()

    def kept(split="train", model=None, **options):
        task = family.task(**options)
        task.datasets[split] = dataset
        task.decoder = (model or family.dag(upsample_scale="4~8")).decoder
        return task.filter_indices_by_size(indices, dataset, (64, 64), True).tolist()

    assert (
        kept(filter_ratio=2.0) == [1, 2]
        and "--dag-filter-ratio 2.0 leaves out 2 of 4" in caplog.text
    )
    # Where the graph counts <s> of the source, so does the ratio.
    counts = family.dag(upsample_scale="4~8", count_bos=True)
    assert kept(filter_ratio=1.7, model=counts) == [1, 2, 3] and kept(filter_ratio=1.7) == [2]
    assert kept(filter_ratio_low=1.0) == [0, 1, 3] and kept(
        filter_ratio=2.0, filter_ratio_low=1.0
    ) == [1]
    assert kept(max_vertices=31) == [3] and kept(max_vertices=32) == [0, 1, 2, 3]
    # 3 * (target words) + 2.
    predicts = family.dag(upsample_base="predict", upsample_scale="3")
    assert kept(max_vertices=11, model=predicts) == [2, 3] and kept(
        max_vertices=20, model=predicts
    ) == [1, 2, 3]
    # Checkpoints are selected on whole validation sets, whatever else is skipped there.
    assert kept("valid", filter_ratio=2.0, filter_ratio_low=1.0, max_vertices=3) == [0, 1, 2, 3]
    for options, named in (
        (dict(filter_ratio=0.1), "--dag-filter-ratio 0.1 leaves no training pair: raise it"),
        (
            dict(filter_ratio_low=9.0),
            "--dag-filter-ratio-low 9.0 leaves no training pair: lower it",
        ),
        (dict(filter_ratio=-1.0), "--dag-filter-ratio -1.0 must be greater than 0"),
        (dict(max_vertices=0), "--dag-max-vertices 0 must be greater than 0"),
        # Not only when training validates, hours later.
        (dict(decode_upsample_scale=0.0), "--dag-decode-upsample-scale 0.0 must be greater"),
    ):
        with pytest.raises(ValueError, match=named):
            kept(**options)


def test_pairs_without_a_path_are_named(family, caplog):
    """Graphs of 0.5, 1 and 3 vertices a source token, for targets of 2 to 7 words and ``</s>``."""
    lengths = [(4, 3), (4, 8)]
    sources, targets = ([torch.full((size,), 5) for size in column] for column in zip(*lengths))
    sizes = [torch.tensor(column).numpy() for column in zip(*lengths)]
    dataset = LanguagePairDataset(
        sources, sizes[0], family.dictionary(), targets, sizes[1], family.dictionary()
    )

    def kept(**model):
        task = family.task()
        task.datasets["train"] = dataset
        task.decoder = family.dag(**model).decoder
        return task.filter_indices_by_size(torch.arange(2).numpy(), dataset, (64, 64), True)

    named = "--dag-upsample-scale 0.5: 2 of 2 training pairs have no path through their graph"
    with pytest.raises(ValueError, match=named):
        kept(upsample_scale="0.5")
    assert not caplog.text and kept(upsample_scale="3").tolist() == [0, 1] and not caplog.text
    assert kept(upsample_scale="0.5~1").tolist() == [0, 1]
    assert "--dag-upsample-scale 0.5~1: 1 of 2 training pairs have no path" in caplog.text
    # 12 vertices: 3 steps of at most 3 do not reach the last one, 8 do.
    assert kept(upsample_scale="3", max_transition_length=3).tolist() == [0, 1]
    assert "--dag-max-transition-length 3: 1 of 2 training pairs have no path" in caplog.text


def test_padding_of_buckets_makes_no_path(family, caplog):
    """Sources of 3 and 9 tokens in one bucket, of 9: a graph has as many vertices as its own."""
    sizes = [torch.tensor(column).numpy() for column in ((3, 9), (6, 6))]
    sides = [ListDataset([torch.full((int(size),), 5) for size in own], own) for own in sizes]
    dataset = LanguagePairDataset(
        sides[0], sizes[0], family.dictionary(), sides[1], sizes[1], family.dictionary(),
        num_buckets=1,
    )  # fmt: skip

    def kept(**options):
        task = family.task(**options)
        task.cfg.num_batch_buckets = 1
        task.datasets["train"] = dataset
        task.decoder = family.dag(upsample_scale="2").decoder
        indices = torch.arange(2).numpy()
        return task.filter_indices_by_size(indices, dataset, (64, 64), True).tolist()

    assert kept() == [0, 1] and "1 of 2 training pairs have no path" in caplog.text
    assert kept(filter_ratio=2.0) == [1]
    # Their batches' graphs are as wide as the padded sources.
    assert kept(max_vertices=18) == [0, 1]
    with pytest.raises(ValueError, match="--dag-max-vertices 17"):
        kept(max_vertices=17)


def test_batches_keep_to_their_vertices(family):
    sizes = torch.tensor([3, 5, 9, 9, 2, 6]).numpy()
    words = [torch.full((int(size),), 5) for size in sizes]
    dataset = LanguagePairDataset(
        words, sizes, family.dictionary(), words, sizes, family.dictionary()
    )

    def batches(limit, split="train"):
        task = family.task(batch_vertices=limit)
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
        ValueError,
        match=(
            "--dag-batch-vertices 35 has no room for the largest graph, of 36 vertices: raise"
            " it, or"
        ),
    ):
        batches(35)


def test_a_scale_of_decoding_that_is_none_is_named(family):
    model = family.dag(upsample_scale="4~8")
    for options, scale in (({}, 6), (dict(decode_upsample_scale=2.5), 2.5)):
        task = family.task(**options)
        assert decode_scale(model.decoder, task.decoding_options(Namespace())) == scale
        assert task.build_generator([model], GenerationConfig()).scale == scale
    assert decode_scale(model.decoder, DecodingOptions()) == 6
    for scale in (0.0, -1.0):
        with pytest.raises(
            ValueError, match=f"--dag-decode-upsample-scale {scale} must be greater than 0"
        ):
            family.task(decode_upsample_scale=scale).build_generator([model], GenerationConfig())


def test_a_beam_weighs_its_tokens(family):
    task = family.task(decode_strategy="beam", decode_beta=0.0)
    with pytest.raises(
        ValueError,
        match="--dag-decode-beta 0.0 must be greater than 0 with --dag-decode-strategy beam",
    ):
        task.build_generator([family.dag()], GenerationConfig())


def test_the_beam_of_a_single_path_is_shown_as_one(family, caplog):
    """Whoever gives one beam to several decoders need not leave it out here; what is printed is
    what was done."""
    models = [family.dag()]
    for strategy, beam, nbest, shown, warned in (
        ("greedy", 7, 1, 1, True),
        ("greedy", 5, 1, 1, False),
        ("beam", 7, 1, 7, False),
        # One translation is drawn.
        ("sample", 7, 1, 1, True),
        ("sample", 7, 2, 7, False),
    ):
        caplog.clear()
        args = GenerationConfig(beam=beam, nbest=nbest)
        family.task(decode_strategy=strategy).build_generator(models, args)
        assert args.beam == shown
        needed = "--dag-decode-strategy beam or sample"
        if strategy == "sample":
            needed = "--nbest 2 or more, or --rescore-path, where paths are drawn"
        message = f"--beam 7 has an effect only with {needed}; here it acts as 1"
        warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
        assert warnings == [message] * warned
