"""The task decodes, with the engine's search, what writes word by word from left to right."""

from dataclasses import fields
from types import SimpleNamespace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationConfig

from fairseq_hrt.autoregressive.task import (
    AutoregressiveTranslationConfig,
    AutoregressiveTranslationTask,
)
from fairseq_hrt.engine.generator import AutoregressiveGenerator


@pytest.fixture
def task(tiny):
    return AutoregressiveTranslationTask(
        AutoregressiveTranslationConfig(), tiny.dictionary(), tiny.dictionary()
    )


class Writer(torch.nn.Module):
    """A model as far as the task looks at it before it decodes."""

    def __init__(self, only_task):
        super().__init__()
        self.decoder = SimpleNamespace(only_task=only_task)

    def max_positions(self):
        return 64, 64


def test_models_with_a_search_of_their_own_are_refused(tiny, task):
    """One of an ensemble is enough; the message names the model and the task that decodes it."""
    for only_task in ("translation_dag", "translation_bidirectional"):
        with pytest.raises(
            ValueError,
            match=f"a Writer does not write .* left to right: decode it with --task {only_task}",
        ):
            task.build_generator([tiny.model(), Writer(only_task)], SimpleNamespace())


@pytest.mark.parametrize(
    "arch, options", [("transformer", {}), ("hrt_transformer", dict(hrt_chunk_sizes=[2]))]
)
@pytest.mark.parametrize("beam, lenpen", [(1, 1.0), (3, 0.6)])
def test_the_search_of_the_task_is_that_of_fairseq(tiny, task, arch, options, beam, lenpen):
    """For any family whose decoder can go from left to right; the options reach the search."""
    model, sample = tiny.lively(arch, seed=3, **options), tiny.sample([5, 3, 6])
    generator = task.build_generator(
        [model], SimpleNamespace(beam=beam, lenpen=lenpen, max_len_b=9)
    )
    assert isinstance(generator, AutoregressiveGenerator)
    stock = SequenceGenerator(
        [model], tiny.dictionary(), beam_size=beam, len_penalty=lenpen, max_len_b=9
    )
    for mine, theirs in zip(generator.generate(None, sample), stock.generate([model], sample)):
        assert mine[0]["tokens"].tolist() == theirs[0]["tokens"].tolist()
        assert float(mine[0]["score"]) == pytest.approx(float(theirs[0]["score"]), abs=2e-5)


def test_only_what_every_task_has_is_added():
    assert [field.name for field in fields(AutoregressiveTranslationConfig)] == [
        *[field.name for field in fields(TranslationConfig)],
        "rescore_path",
        "rescore_lenpen",
        "engine",
        "weights",
        "forced_start",
        "eval_bleu_tokenizer",
    ]
