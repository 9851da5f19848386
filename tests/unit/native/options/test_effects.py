"""The table of options is complete, and its contents are checked: by command lines, checkpoints,
bundles and grids."""

from dataclasses import MISSING, fields
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from fairseq_hrt.autoregressive.config import MarianModelConfig
from fairseq_hrt.autoregressive.task import AutoregressiveTranslationConfig
from fairseq_hrt.bidirectional.config import (
    BidirectionalModelConfig,
    BidirectionalTaskConfig,
)
from fairseq_hrt.dag.config import (
    DagFuzzyLossConfig,
    DagModelConfig,
    DagNllLossConfig,
    DagTaskConfig,
)
from fairseq_hrt.hrt.config import HRTModelConfig, HRTTaskConfig
from fairseq_hrt.hrt.task import HRTTranslationTask
from fairseq_hrt.jacobi.config import JacobiTaskConfig
from fairseq_hrt.jacobi.task import JacobiTranslationTask
from fairseq_hrt.native.options import effects
from fairseq_hrt.native.options.effects import (
    DECODING,
    EVERYTHING,
    MODEL,
    OPTIONS,
    TRAINING,
    check,
    in_effect,
    read,
    set_aside,
)
from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.training.config import SmoothedLossConfig

CONFIGS = (
    HRTModelConfig, HRTTaskConfig, SmoothedLossConfig, BidirectionalModelConfig,
    BidirectionalTaskConfig, DagModelConfig, DagTaskConfig,
    DagNllLossConfig, DagFuzzyLossConfig, JacobiTaskConfig, AutoregressiveTranslationConfig,
    MarianModelConfig,
)  # fmt: skip
# Defaults that differ by criterion or engine.
OTHER_DEFAULTS = {
    "dag_glance_schedule": ("0.1",),
    "dag_length_loss_factor": (0.0,),
    "jacobi_mode": (None,),
}
OTHER_DEFAULTS.update(
    marian_first_position=(0,), marian_epsilon=(1e-6,), marian_output_bias=("yes",)
)


def own_fields(config):
    """What this package declares: fairseq's own options, and values that stand for them, are not
    meant."""
    for field in fields(config):
        owner = next(
            base
            for base in reversed(config.__mro__)
            if field.name in getattr(base, "__annotations__", {})
        )
        if owner.__module__.startswith("fairseq_hrt.") and not str(field.default).startswith("${"):
            yield field


@pytest.mark.parametrize("config", CONFIGS)
def test_every_option_has_a_row(config):
    rows = {option.name: option for option in OPTIONS}
    found = [field.name for field in own_fields(config)]
    assert found or config is AutoregressiveTranslationConfig
    for field in own_fields(config):
        default = field.default_factory() if field.default is MISSING else field.default
        assert default in (
            rows[field.name].default,
            *OTHER_DEFAULTS.get(field.name, ()),
        ), field.name


def test_no_row_is_left_over():
    known = {field.name for config in CONFIGS for field in fields(config)}
    known |= {field.name for field in fields(DecodingOptions)}
    assert {option.name for option in OPTIONS} <= known
    assert len({(option.name, option.stage) for option in OPTIONS}) == len(OPTIONS)


def dag(strategy, **more):
    return dict(
        dag_decode_strategy=strategy,
        dag_no_repeat_consecutive=0,
        no_repeat_ngram_size=0,
        dag_lm_path=None,
        **more,
    )


def words(directions, tokens, block=None):
    return dict(
        bidirectional_directions=directions,
        bidirectional_tokens_per_step=tokens,
        bidirectional_block=block,
    )


# (option, stage): a value, what must stand beside it, beside what it does nothing, and how the
# message ends.
CASES = {
    ("raw_probability", TRAINING): (0.5, dict(distilled_data="d"), [dict(distilled_data=None)],
                                    "--distilled-data"),
    ("rescore_path", TRAINING): ("at.pt", dict(eval_bleu=True), [dict(eval_bleu=False)],
                                 "--eval-bleu"),
    ("eval_bleu_tokenizer", TRAINING): (
        "zh", dict(eval_bleu=True, eval_tokenized_bleu=False),
        [dict(eval_bleu=False, eval_tokenized_bleu=False),
              dict(eval_bleu=True, eval_tokenized_bleu=True)],
        "--eval-bleu, and without --eval-tokenized-bleu"),
    ("rescore_lenpen", DECODING): (0.6, dict(rescore_path="at.pt"), [dict(rescore_path=None)],
                                   "--rescore-path"),
    ("weights", DECODING): ("int8", dict(engine="auto"), [dict(engine="torch")],
                            "--engine other than torch"),
    ("hrt_curriculum_steps", TRAINING): (9, dict(hrt_curriculum_power=0.5),
                                         [dict(hrt_curriculum_power=0),
                                         dict(hrt_curriculum_power=0.0)],
                                         "--hrt-curriculum-power other than 0"),
    ("hrt_eval_autoregressive", TRAINING): (True, dict(eval_bleu=True), [dict(eval_bleu=False)],
                                            "--eval-bleu"),
    ("hrt_chunk_table", DECODING): ("10:1,inf:2", dict(hrt_decode_chunk="auto"),
                                    [dict(hrt_decode_chunk=None), dict(hrt_decode_chunk="3")],
                                    "--hrt-decode-chunk auto"),
    ("hrt_nat_beam", DECODING): (1, dict(hrt_decode_chunk=None), [dict(hrt_decode_chunk="1")],
                                 "--hrt-decode-chunk other than 1"),
    ("hrt_eos_last_chunk", DECODING): (True, dict(hrt_decode_chunk="auto"),
                                       [dict(hrt_decode_chunk="1")],
                                       "--hrt-decode-chunk other than 1"),
    ("hrt_scoring", DECODING): ("eq2", dict(hrt_decode_chunk="auto", normalize=True),
                                [dict(hrt_decode_chunk="1", normalize=True),
                                 dict(hrt_decode_chunk=None, normalize=False)],
                                 "remove --unnormalized"),
    ("hrt_draft_width", DECODING): (4, dict(hrt_draft_chunk=2), [dict(hrt_draft_chunk=None)],
                                    "--hrt-draft-chunk"),
    ("bidirectional_distinct_starts", MODEL): (True, words(2, 1), [words(1, 2)],
                                               "--bidirectional-directions 2 or more"),
    ("bidirectional_vanilla_mask", MODEL): (True, words(1, 2), [words(1, 1), words(2, 1, 1)],
                                            "--bidirectional-block)"),
    ("bidirectional_vanilla_positions", MODEL): (True, words(2, 1), [words(1, 2)],
                                                 "--bidirectional-directions 2 or more"),
    ("bidirectional_middle_to_side", MODEL): (True, words(2, 1), [words(1, 2), words(4, 1)],
                                              "--bidirectional-directions 2"),
    ("bidirectional_independent_directions", MODEL): (True, words(4, 1), [words(1, 2)],
                                                      "--bidirectional-directions 2 or more"),
    ("bidirectional_train_dead_slots", TRAINING): (True, words(2, 1),
                                                   [words(1, 1), words(2, 2, 1)], "--bidirectional-block)"),
    ("bidirectional_length_penalty", DECODING): ("gnmt", dict(normalize=True),
                                                 [dict(normalize=False)], "remove --unnormalized"),
    ("dag_count_bos", MODEL): (True, dict(dag_upsample_base="source"),
                               [dict(dag_upsample_base="predict")], "--dag-upsample-base source"),
    ("dag_length_classes", MODEL): (64, dict(dag_upsample_base="predict"),
                                    [dict(dag_upsample_base="source")],
                                    "--dag-upsample-base predict"),
    ("dag_glance_strategy", TRAINING): ("fix", dict(dag_glance_schedule="0:0.1@9k"),
                                        [dict(dag_glance_schedule="0"),
                                        dict(dag_glance_schedule="0.0:0@200k")],
                                        "a --dag-glance-schedule above 0"),
    ("dag_glance_forcing", TRAINING): ("path", dict(dag_glance_schedule="0.1"),
                                       [dict(dag_glance_schedule="0")],
                                       "a --dag-glance-schedule above 0"),
    ("dag_length_loss_factor", TRAINING): (0.5, dict(dag_upsample_base="predict"),
                                           [dict(dag_upsample_base="source")],
                                           "--dag-upsample-base predict"),
    ("dag_decode_beta", DECODING): (0.5, dag("beam"),
                                    [dag("greedy"), dag("viterbi"), dag("joint-viterbi")],
                                    "--dag-decode-strategy lookahead or sample or beam"),
    ("dag_decode_length_beta", DECODING): (1.2, dag("viterbi"),
                                           [dag(name) for name in ("greedy", "lookahead", "beam",
                                           "sample")],
                                           "--dag-decode-strategy viterbi or joint-viterbi"),
    ("dag_repeats", DECODING): ("collapsed", dag("lookahead", dag_keep_repeats=False), [
        dag("lookahead", dag_keep_repeats=True),
        {**dag("lookahead", dag_keep_repeats=False), "no_repeat_ngram_size": 2},
        *(dag(name, dag_keep_repeats=False) for name in ("greedy", "beam", "sample")),
    ], "--no-repeat-ngram-size"),
    ("dag_no_repeat_consecutive", DECODING): (2, dag("lookahead"),
                                              [dag("greedy"), dag("beam"), dag("viterbi")],
                                              "--dag-decode-strategy lookahead or sample"),
    ("dag_candidates", DECODING): (3, {**dag("lookahead"), "no_repeat_ngram_size": 2},
                                   [dag("lookahead"), dag("beam")], "--no-repeat-ngram-size"),
    ("dag_sample_topp", DECODING): (0.9, dag("sample"), [dag("lookahead"), dag("beam")],
                                    "--dag-decode-strategy sample"),
    ("dag_lm_path", DECODING): ("lm.arpa", dag("beam"), [dag("greedy"), dag("sample")],
                                "--dag-decode-strategy beam"),
    ("dag_lm_weight", DECODING): (0.3, {**dag("beam"), "dag_lm_path": "lm.arpa"}, [dag("beam")],
                                  "--dag-lm-path"),
    ("beam", DECODING): (7, dag("beam"), [dag("greedy"), dag("viterbi")],
                         "--dag-decode-strategy beam or sample"),
    ("nbest", DECODING): (2, dag("sample"), [dag("lookahead")],
                          "--dag-decode-strategy beam or sample"),
    ("temperature", DECODING): (0.5, dag("sample"), [dag("lookahead"), dag("beam")],
                                "--dag-decode-strategy sample"),
    ("no_repeat_ngram_size", DECODING): (2, dag("sample"), [dag("beam"), dag("joint-viterbi")],
                                         "--dag-decode-strategy lookahead or sample"),
    ("min_len", DECODING): (2, dag("beam"), [dag("lookahead"), dag("sample")],
                            "--dag-decode-strategy beam"),
    ("unkpen", DECODING): (-1.0, dag("beam", dag_allow_unk=True),
                           [dag("beam", dag_allow_unk=False)], "--dag-allow-unk"),
    ("jacobi_block_size", DECODING): (5, dict(jacobi_mode="hgj"),
                                      [dict(jacobi_mode="frontier"), dict(jacobi_mode="pj"),
                                       dict(jacobi_mode=None)], "--jacobi-mode pgj or hgj"),
    ("jacobi_window", DECODING): (4, dict(jacobi_mode="frontier"), [dict(jacobi_mode="pj")],
                                  "--jacobi-mode frontier"),
    ("jacobi_prefix_length", DECODING): (8, dict(jacobi_mode="hgj"), [dict(jacobi_mode="pgj")],
                                         "--jacobi-mode hgj"),
    ("jacobi_known_length", DECODING): (True, dict(jacobi_mode="pgj"),
                                        [dict(jacobi_mode="frontier"), dict(jacobi_mode="hgj"),
                                         dict(jacobi_mode=None)], "--jacobi-mode pj or pgj"),
    ("jacobi_draft", DECODING): ("ngram", dict(jacobi_mode="frontier", jacobi_window=None),
                                 [dict(jacobi_mode="pj", jacobi_window=None),
                                  dict(jacobi_mode="frontier", jacobi_window=1)],
                                  "--jacobi-mode frontier and --jacobi-window other than 1"),
    ("jacobi_draft_path", DECODING): ("hrt.pt", dict(jacobi_draft="hrt"),
                                      [dict(jacobi_draft="previous")],
                                      "--jacobi-draft hrt or bidirectional or dag"),
    ("jacobi_draft_options", DECODING): ("{'a': 1}", dict(jacobi_draft_path="hrt.pt"),
                                         [dict(jacobi_draft_path=None)], "--jacobi-draft-path"),
}  # fmt: skip


def test_every_condition_has_a_case():
    assert set(CASES) == {
        (option.name, option.stage) for option in OPTIONS if option.when is not None
    }


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if option.when], ids=lambda option: option.name
)
def test_an_option_without_effect_is_named(option):
    value, beside, in_vain, needed = CASES[option.name, option.stage]
    check({**beside, option.name: value}, [option.stage])
    for values in in_vain:
        # What is not given, or not given now, does no harm.
        check({**values, option.name: option.default}, EVERYTHING)
        check({**values, option.name: value}, EVERYTHING, names=["another"])
        if option.acts_as is not None:
            check({**values, option.name: value}, [option.stage])
            effective, messages = in_effect({**values, option.name: value})
            assert effective == {option.name: option.acts_as}
        else:
            with pytest.raises(ValueError) as error:
                check({**values, option.name: value}, [option.stage])
            messages = [str(error.value)]
        shown = "" if value is True else f" {value}"
        beginning = f"--{option.name.replace('_', '-')}{shown} has an effect only with "
        assert messages[0].startswith(beginning) and messages[0].partition(";")[0].endswith(needed)
        if option.stage == DECODING:
            assert set_aside({**values, option.name: value}, ()) == {option.name: option.default}
            assert set_aside({**values, option.name: value}, [option.name]) == {}
        else:
            check({**values, option.name: value})
    # Where the values of others are not known, nothing speaks against it.
    check({option.name: value}, [option.stage])


@pytest.mark.parametrize("values, message", [
    (dict(raw_probability=7.0, distilled_data="d"), "--raw-probability 7.0 must be at most 1"),
    (dict(raw_probability=-0.1, distilled_data="d"), "--raw-probability -0.1 must be at least 0"),
    (dict(hrt_curriculum_power=-1.0), "--hrt-curriculum-power -1.0 must be at least 0"),
    (dict(hrt_curriculum_power=float("inf")), "--hrt-curriculum-power inf must be a finite number"),
    (dict(hrt_curriculum_steps=0, hrt_curriculum_power=1.0),
     "--hrt-curriculum-steps 0 must be at least 1"),
])  # fmt: skip
def test_limits(values, message):
    with pytest.raises(ValueError, match=message):
        check(values, EVERYTHING)


def test_what_asks_for_nothing():
    check(
        {**dag("greedy"), "beam": 1, "min_len": 0, "unkpen": float("inf"), "dag_allow_unk": False}
    )
    check(dict(dag_length_loss_factor=0, dag_upsample_base="source"), EVERYTHING)
    assert in_effect({**dag("greedy"), "beam": 1}) == ({"beam": 1}, ()) and in_effect(
        dict(beam=7)
    ) == ({}, ())
    # The options of fairseq that strategies of graphs do not read are read by every other decoder.
    check(dict(nbest=2, temperature=0.5, min_len=4, no_repeat_ngram_size=3, unkpen=-1.0))


def test_values_are_read_from_any_configuration():
    found = read(
        HRTTaskConfig(hrt_decode_chunk="3"),
        SimpleNamespace(beam=3, other=1),
        DagModelConfig(dag_count_bos=True),
    )
    assert (found["hrt_decode_chunk"], found["beam"], found["dag_count_bos"]) == (
        "3",
        3,
        True,
    ) and "other" not in found
    # As a mapping, too, without a value that is still to be given.
    assert read(OmegaConf.create({"hrt_nat_beam": 2, "beam": "???", "other": 1})) == {
        "hrt_nat_beam": 2
    }
    assert effects.defaults_of_model("dag")["dag_upsample_base"] == "source"
    assert effects.defaults_of_model("") == {}


def decoded(task, models, sample, options):
    # The generator without its check.
    chosen = task.decoding_options(SimpleNamespace(**options))
    found = task.make_generator(models, chosen).generate(models, sample)
    return [
        [
            (h["tokens"].tolist(), round(float(h["score"]), 9), h["token_steps"].tolist())
            for h in best
        ]
        for best in found
    ]


@pytest.mark.parametrize("config, task_class, arch, name, value, beside, in_vain", [
    (HRTTaskConfig, HRTTranslationTask, "hrt_transformer", "hrt_chunk_table", "3:1,inf:2",
     dict(hrt_decode_chunk="auto"), dict(hrt_decode_chunk="2")),
    (HRTTaskConfig, HRTTranslationTask, "hrt_transformer", "hrt_nat_beam", 1,
     dict(hrt_decode_chunk="2"), dict(hrt_decode_chunk="1")),
    (JacobiTaskConfig, JacobiTranslationTask, "transformer", "jacobi_block_size", 5,
     dict(jacobi_mode="pgj"), dict(jacobi_mode="pj")),
    (JacobiTaskConfig, JacobiTranslationTask, "transformer", "jacobi_prefix_length", 2,
     dict(jacobi_mode="hgj"), dict(jacobi_mode="pgj")),
    (JacobiTaskConfig, JacobiTranslationTask, "transformer", "jacobi_window", 2,
     dict(jacobi_mode="frontier"), dict(jacobi_mode="pj")),
])  # fmt: skip
def test_an_option_changes_what_is_decoded_where_the_table_says_so(
    tiny, config, task_class, arch, name, value, beside, in_vain
):
    model = tiny.model(arch) if arch != "transformer" else tiny.lively()
    sample, options = (
        tiny.sample([9, 5, 3, 2]),
        dict(beam=3 if arch != "transformer" else 1, max_len_b=12),
    )
    for values, changes in ((beside, True), (in_vain, False)):
        if name == "jacobi_window" and changes:
            # The default has one: one word a pass is what it is compared with.
            values = {**values, name: 1}
        tasks = [
            task_class(config(**own), tiny.dictionary(), tiny.dictionary())
            for own in (values, {**values, name: value})
        ]
        plain, changed = (decoded(task, [model], sample, options) for task in tasks)
        assert (plain != changed) is changes
        # And the check agrees.
        if not changes:
            with pytest.raises(ValueError, match="has an effect only with"):
                check(read(tasks[1].cfg))
