"""Generation flags: fairseq's defaults, and everything unsupported refused by name."""

from argparse import Namespace

import pytest
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf

from fairseq_hrt.autoregressive.task import AutoregressiveTranslationConfig, AutoregressiveTranslationTask
from fairseq_hrt.common.generator import AutoregressiveGenerator
from fairseq_hrt.common.options import REFUSED, DecodingOptions


def test_a_bare_namespace_means_the_defaults_of_fairseq():
    """Validation BLEU passes one."""
    assert DecodingOptions.from_args(Namespace()) == DecodingOptions()
    assert DecodingOptions.from_args(GenerationConfig()) == DecodingOptions()
    assert DecodingOptions.from_args(OmegaConf.structured(GenerationConfig())) == DecodingOptions()


def test_every_option_is_read():
    options = DecodingOptions.from_args(
        Namespace(
            beam=4, nbest=2, lenpen=0.6, unkpen=1.0, min_len=3, max_len_a=1.2, max_len_b=10, temperature=0.7,
            unnormalized=True, no_repeat_ngram_size=3, retain_iter_history=True,
        )
    )  # fmt: skip
    assert options == DecodingOptions(
        beam=4, nbest=2, lenpen=0.6, unkpen=1.0, min_len=3, max_len_a=1.2, max_len_b=10, temperature=0.7,
        normalize=False, no_repeat_ngram_size=3, retain_history=True,
    )  # fmt: skip


@pytest.mark.parametrize("field, flag", [(field, flag) for field, _, flag in REFUSED])
def test_other_searches_are_refused_by_name(field, flag):
    asked = {"sampling": True, "match_source_len": True, "diversity_rate": 0.5, "diverse_beam_groups": 2}
    with pytest.raises(ValueError, match=f"{flag}.*--task translation"):
        DecodingOptions.from_args(Namespace(**{field: asked.get(field, "x")}))


@pytest.mark.parametrize(
    "values, message",
    [
        (dict(beam=0), "--beam 0"),
        (dict(beam=2, nbest=3), "--nbest 3 with --beam 2"),
        (dict(nbest=0), "--nbest 0"),
        (dict(temperature=0.0), "--temperature 0.0"),
    ],
)
def test_bad_values_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(**values)


@pytest.fixture
def task(tiny):
    return AutoregressiveTranslationTask(AutoregressiveTranslationConfig(), tiny.dictionary(), tiny.dictionary())


def test_the_four_callers_of_build_generator(tiny, task):
    model = tiny.model()
    none = {"lm_model": None, "lm_weight": 1.0}
    for built in (
        task.build_generator([model], GenerationConfig(), extra_gen_cls_kwargs=none),  # fairseq-generate
        task.build_generator([model], GenerationConfig()),  # fairseq-interactive
        task.build_generator([model], Namespace()),  # validation BLEU
        task.build_generator([model], GenerationConfig(), prefix_allowed_tokens_fn=None),  # the hub
    ):
        assert isinstance(built, AutoregressiveGenerator)
    scorer = task.build_generator([model], GenerationConfig(score_reference=True))
    assert type(scorer).__name__ == "SequenceScorer"


@pytest.mark.parametrize(
    "extra",
    [
        dict(extra_gen_cls_kwargs={"lm_model": object()}),
        dict(prefix_allowed_tokens_fn=lambda *_: []),
        dict(seq_gen_cls=object),
    ],
)
def test_what_a_caller_may_not_ask_for(tiny, task, extra):
    with pytest.raises(ValueError, match="--task translation"):
        task.build_generator([tiny.model()], GenerationConfig(), **extra)
