"""Generation flags: fairseq's defaults, and everything unsupported refused by name."""

import copy
import dataclasses
from argparse import Namespace

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf

from fairseq_hrt.autoregressive.task import (
    AutoregressiveTranslationConfig,
    AutoregressiveTranslationTask,
)
from fairseq_hrt.engine import AutoregressiveGenerator, NativeGenerator
from fairseq_hrt.engine.fairseq_options import (
    HONOURED,
    LEFT_TO_THE_COMMAND,
    check_ranges,
    options_of_command,
)
from fairseq_hrt.engine.precision import follow_precision
from fairseq_hrt.hrt.config import HRTTaskConfig
from fairseq_hrt.native.options.values import DecodingOptions


def read(args, **task):
    """The options of a command with a task that has these of its own."""
    return options_of_command(args, Namespace(**task))


def test_a_bare_namespace_means_the_defaults_of_fairseq():
    """Validation BLEU passes one."""
    assert read(Namespace()) == DecodingOptions()
    assert read(GenerationConfig()) == DecodingOptions()
    assert read(OmegaConf.structured(GenerationConfig())) == DecodingOptions()


def test_every_option_is_read():
    options = read(
        Namespace(
            beam=4, nbest=2, lenpen=0.6, unkpen=1.0, min_len=3, max_len_a=1.2, max_len_b=10,
            temperature=0.7, unnormalized=True, no_repeat_ngram_size=3, retain_iter_history=True,
        )
    )  # fmt: skip
    assert options == DecodingOptions(
        beam=4, nbest=2, lenpen=0.6, unkpen=1.0, min_len=3, max_len_a=1.2, max_len_b=10,
        temperature=0.7, unnormalized=True, no_repeat_ngram_size=3, retain_iter_history=True,
    )  # fmt: skip


def something_else(field):
    """A value that is not the default of a generation flag."""
    if isinstance(field.default, bool):
        return not field.default
    if field.name == "print_alignment":
        return "hard"
    return "x" if field.default is None else field.default + 1


FLAGS = [field for field in dataclasses.fields(GenerationConfig) if not field.name.startswith("_")]


@pytest.mark.parametrize("field", FLAGS, ids=lambda field: field.name)
def test_every_flag_of_fairseq_is_honoured_or_refused_by_name(field):
    value = something_else(field)
    if field.name in HONOURED | LEFT_TO_THE_COMMAND:
        read(Namespace(**{field.name: value}))
        return
    with pytest.raises(ValueError, match="--" + field.name.replace("_", "-") + "[,:]"):
        read(Namespace(**{field.name: value}))
    # Its default asks for nothing.
    read(Namespace(**{field.name: field.default}))


@pytest.mark.parametrize(
    "asked",
    [
        dict(retain_dropout=True),
        dict(replace_unk=""),
        dict(sampling=True, beam=2),
        dict(next_years_flag=1),
    ],
)
def test_nothing_is_ignored(asked):
    flag = "--" + next(iter(asked)).replace("_", "-")
    with pytest.raises(ValueError, match=flag):
        read(Namespace(**asked))


@pytest.mark.parametrize(
    "field",
    [field for field in FLAGS if field.name.startswith("iter_decode_")],
    ids=lambda field: field.name,
)
def test_iterations_have_no_other_task_for_these_models(field):
    flag = "--" + field.name.replace("_", "-")
    with pytest.raises(
        ValueError, match=f"{flag}: an option of fairseq's iterative models .*: leave it out"
    ):
        read(Namespace(**{field.name: something_else(field)}))


def test_a_mistyped_flag_is_told_the_right_one():
    with pytest.raises(
        ValueError, match="--beem: fairseq's search has no such option; did you mean beam"
    ):
        read(Namespace(beem=4))


def test_the_allow_list_names_flags_of_fairseq():
    assert {
        field.name for field in dataclasses.fields(GenerationConfig)
    } >= HONOURED | LEFT_TO_THE_COMMAND


def test_options_of_the_task_stand_beside_those_of_the_command():
    """As texts or as values of fairseq's enumerations; what a task does not have keeps its
    default."""
    config = HRTTaskConfig(hrt_decode_chunk="3", hrt_nat_beam=2)
    # A structured configuration, whose references to others lead nowhere here.
    for task in (config, OmegaConf.structured(config)):
        read_now = options_of_command(Namespace(beam=4), task)
        assert read_now == DecodingOptions(beam=4, hrt_decode_chunk="3", hrt_nat_beam=2)
        assert type(read_now.engine) is str
    assert read(Namespace(beam=3), engine="torch", hrt_nat_beam="2") == DecodingOptions(
        beam=3, engine="torch", hrt_nat_beam=2
    )
    # fairseq's options are the command's, whatever a task calls its own; and some are the caller's.
    assert read(Namespace(), beam=2, other=1) == DecodingOptions()
    assert options_of_command(Namespace(beam=2), config, beam=1, scores=False).changed() == {
        "beam": 1,
        "hrt_decode_chunk": "3",
        "hrt_nat_beam": 2,
        "scores": False,
    }


def test_ranges_are_checked_for_other_generators():
    """Whatever else is asked of them, which they may know."""
    check_ranges(Namespace(sampling=True, beam=2))
    for values in (dict(beam=0), dict(beam=2, nbest=3), dict(lenpen=float("inf"))):
        with pytest.raises(ValueError, match=f"--{[*values][-1]} "):
            check_ranges(Namespace(**values))
        with pytest.raises(ValueError, match=f"--{[*values][-1]} "):
            read(Namespace(**values))


@pytest.fixture
def task(tiny):
    return make_task(tiny, "auto")


def make_task(tiny, engine):
    config = AutoregressiveTranslationConfig(engine=engine)
    return AutoregressiveTranslationTask(config, tiny.dictionary(), tiny.dictionary())


@pytest.mark.parametrize(
    "engine, kind", [("torch", AutoregressiveGenerator), ("native", NativeGenerator)]
)
def test_the_four_callers_of_build_generator(tiny, engine, kind):
    task, model = make_task(tiny, engine), tiny.model().float()
    none = {"lm_model": None, "lm_weight": 1.0}
    for built in (
        task.build_generator(
            [model], GenerationConfig(), extra_gen_cls_kwargs=none
        ),  # fairseq-generate
        task.build_generator([model], GenerationConfig()),  # fairseq-interactive
        task.build_generator([model], Namespace()),  # validation BLEU
        task.build_generator([model], GenerationConfig(), prefix_allowed_tokens_fn=None),  # the hub
    ):
        assert type(built) is kind
    task.cfg.engine = "auto"
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


@pytest.mark.parametrize("flag, dtype", [("bf16", torch.bfloat16), ("cpu", torch.float64)])
def test_bfloat16_is_honoured_where_fairseq_ignores_it(tiny, flag, dtype):
    model = tiny.model()
    follow_precision(model)
    model.prepare_for_inference_(inference(flag))
    assert next(model.parameters()).dtype == dtype
    # A copy, such as that of the moving average, prepares itself.
    twin = copy.deepcopy(tiny.model())
    follow_precision(twin)
    twin = copy.deepcopy(twin)
    twin.prepare_for_inference_(inference("bf16"))
    assert next(twin.parameters()).dtype == torch.bfloat16


def inference(flag):
    return OmegaConf.create({"common": {"bf16": False, "amp": False, flag: True}, "generation": {}})


def test_mixed_precision_is_refused(tiny):
    model = tiny.model()
    follow_precision(model)
    with pytest.raises(ValueError, match="--amp"):
        model.prepare_for_inference_(inference("amp"))


def test_an_option_of_the_task_in_eval_bleu_args_names_its_place():
    """They hold fairseq's options alone."""
    message = "hrt_decode_chunk: an option of the task.*; give --hrt-decode-chunk 3 on the command"
    with pytest.raises(ValueError, match=message):
        read(Namespace(beam=3, hrt_decode_chunk="3"))
