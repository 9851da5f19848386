"""The task takes what writes word by word from left to right, and makes the drafter that the
options name."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.options import get_generation_parser, get_training_parser, parse_args_and_arch

from fairseq_hrt.jacobi import task as module
from fairseq_hrt.jacobi.config import JacobiTaskConfig
from fairseq_hrt.jacobi.drafts import Drafter, ModelDrafter, NGramDrafter, SourceDrafter
from fairseq_hrt.jacobi.task import JacobiTranslationTask
from fairseq_hrt.native.options.schema import JACOBI_DRAFTS, MODEL_DRAFTS
from fairseq_hrt.native.options.values import DecodingOptions


def make_task(tiny, *, target_symbols=12, **options):
    config = JacobiTaskConfig(
        data="corpus", **{f"jacobi_{name}": value for name, value in options.items()}
    )
    return JacobiTranslationTask(config, tiny.dictionary(), tiny.dictionary(target_symbols))


def drafter_of(task, tiny):
    return task.make_drafter([tiny.model()], task.decoding_options(GenerationConfig(beam=1)))


@pytest.mark.parametrize(
    "draft, kind", [("previous", Drafter), ("ngram", NGramDrafter), ("source", SourceDrafter)]
)
def test_the_drafter_is_the_named_one(tiny, draft, kind):
    assert type(drafter_of(make_task(tiny, draft=draft), tiny)) is kind


def test_the_source_drafts_with_one_dictionary_only(tiny):
    with pytest.raises(ValueError, match="--jacobi-draft source .* one dictionary for both sides"):
        drafter_of(make_task(tiny, draft="source", target_symbols=9), tiny)


@pytest.mark.parametrize("draft", [name for name in JACOBI_DRAFTS if name != "previous"])
def test_a_draft_that_would_never_be_asked_is_refused_before_it_is_loaded(tiny, monkeypatch, draft):
    monkeypatch.setattr(module, "load_draft_model", lambda *_, **__: pytest.fail("loaded"))
    path = "draft.pt" if draft in MODEL_DRAFTS else None
    for options in (dict(window=1), dict(mode="pj")):
        task = make_task(tiny, draft=draft, draft_path=path, **options)
        with pytest.raises(
            ValueError,
            match=f"--jacobi-draft {draft} has an effect only with --jacobi-(window other than 1|mode frontier)",
        ):
            task.build_generator([tiny.model()], GenerationConfig(beam=1))


@pytest.mark.parametrize("draft", JACOBI_DRAFTS)
def test_models_draft_from_a_checkpoint_and_nothing_else_does(tiny, draft):
    of_model = draft in MODEL_DRAFTS
    task = make_task(tiny, draft=draft, draft_path=None if of_model else "draft.pt")
    message = (
        f"draft {draft} needs --jacobi-draft-path"
        if of_model
        else "draft-path draft.pt has an effect only with"
    )
    with pytest.raises(ValueError, match=f"--jacobi-{message}"):
        task.build_generator([tiny.model()], GenerationConfig(beam=1))


@pytest.mark.parametrize("family", MODEL_DRAFTS)
def test_a_draft_model_is_loaded_as_the_options_say(tiny, monkeypatch, family):
    """With the data and the dictionaries of this task; it is moved to where the model that checks
    is, translates greedily, and its translation is what is proposed."""
    asked, made, draft = [], [], tiny.model(seed=2).float()
    generator = SimpleNamespace(find=lambda sample: [[SimpleNamespace(tokens=[5, 2])]])
    drafting = SimpleNamespace(
        make_generator=lambda models, options: made.append((models, options)) or generator,
        decoding_options=lambda args, **own: DecodingOptions(**vars(args), **own),
    )

    def load(path, name, **more):
        asked.append((path, name, more))
        return drafting, [draft]

    monkeypatch.setattr(module, "load_draft_model", load)
    task = make_task(tiny, draft=family, draft_path="draft.pt", draft_options="{'beta': 2}")
    drafter = drafter_of(task, tiny)
    dictionaries = dict(source=task.source_dictionary, target=task.target_dictionary)
    assert asked == [
        ("draft.pt", family, dict(beside=task.cfg, options="{'beta': 2}", **dictionaries))
    ]
    ((models, options),) = made
    assert type(drafter) is ModelDrafter and models == [draft] and options.beam == 1
    drafter.begin({})
    assert drafter.propose(0, [], [], 3) == [5, 2]
    assert next(draft.parameters()).dtype == torch.float64


def test_other_decoders_are_refused(tiny):
    decoder = SimpleNamespace(only_task="translation_dag")
    with pytest.raises(ValueError, match="decode it with --task translation_dag"):
        make_task(tiny).make_generator([SimpleNamespace(decoder=decoder)], DecodingOptions())


def test_the_generator_has_the_options_of_the_task(tiny):
    task = make_task(tiny, mode="pgj", block_size=5)
    generator = task.build_generator([tiny.model()], GenerationConfig(beam=1, max_len_b=7))
    assert (generator.plan.mode, generator.plan.block, generator.options.max_len_b) == ("pgj", 5, 7)


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_greedy_search_is_the_default(tiny, engine):
    """Of commands, whose parser tells a given 5 from fairseq's default, and of validation."""
    parser = get_generation_parser()
    arguments = ["data", "--task", "translation_jacobi"]
    assert parse_args_and_arch(parser, arguments).beam == 1
    assert parse_args_and_arch(get_generation_parser(), [*arguments, "--beam", "5"]).beam == 5
    assert not hasattr(
        parse_args_and_arch(get_training_parser(), [*arguments, "--arch", "transformer"]), "beam"
    )
    task = make_task(tiny)
    task.cfg.engine = engine
    for args in (Namespace(), Namespace(beam=1), Namespace(beam=None)):
        assert task.build_generator([tiny.model().float()], args).options.beam == 1
    with pytest.raises(ValueError, match="--beam 5: parallel decoding is exact for greedy"):
        task.build_generator([tiny.model().float()], Namespace(beam=5))
