"""Conditions of options: each is met and missed once, and options without effect are refused or set
aside."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from fairseq_hrt.bidirectional.config import BidirectionalModelConfig, BidirectionalTaskConfig
from fairseq_hrt.dag.config import DagModelConfig, DagNllLossConfig, DagTaskConfig
from fairseq_hrt.hrt.config import HRTModelConfig, HRTTaskConfig
from fairseq_hrt.hrt.task import HRTTranslationTask
from fairseq_hrt.jacobi.config import JacobiTaskConfig
from fairseq_hrt.jacobi.task import JacobiTranslationTask
from fairseq_hrt.native.options.effects import read, set_aside, settled
from fairseq_hrt.native.options.option import options_in
from fairseq_hrt.native.options.schema import SCHEMA, STRATEGIES
from fairseq_hrt.native.options.values import DecodingOptions

TRAINING = options_in(
    HRTModelConfig, HRTTaskConfig, BidirectionalModelConfig, BidirectionalTaskConfig, DagModelConfig,
    DagTaskConfig, DagNllLossConfig,
)  # fmt: skip
# Decoding asks nothing of it.
OPTIONS = {**TRAINING, **SCHEMA, "rescore_path": TRAINING["rescore_path"]}


def dag(strategy, **more):
    return dict(
        dag_decode_strategy=strategy,
        dag_no_repeat_consecutive=0,
        no_repeat_ngram_size=0,
        dag_lm_path=None,
        **more,
    )


def except_by(*strategies, **more):
    return [dag(name, **more) for name in STRATEGIES if name not in strategies]


def words(directions, tokens, block=None):
    return dict(
        bidirectional_directions=directions,
        bidirectional_tokens_per_step=tokens,
        bidirectional_block=block,
    )


def chunks(size, table="10:1,30:2,inf:1"):
    return dict(hrt_decode_chunk=size, hrt_chunk_table=table)


PLAIN = dag("lookahead", dag_keep_repeats=False)
WORD_BY_WORD = [chunks("1"), chunks("01"), chunks("auto", "inf:1"), chunks("auto", "9:1, inf:01")]
# option: a value, what must stand beside it, beside what it does nothing, and how the message ends.
CASES = {
    "lenpen": (0.6, {}, [dict(unnormalized=True)], "scores divided by lengths: remove --unnormalized"),
    "raw_probability": (0.5, dict(distilled_data="d"), [dict(distilled_data=None)], "--distilled-data"),
    "rescore_path": ("at.pt", dict(eval_bleu=True), [dict(eval_bleu=False)], "--eval-bleu"),
    "eval_bleu_tokenizer": ("zh", dict(eval_bleu=True, eval_tokenized_bleu=False), [dict(eval_bleu=False, eval_tokenized_bleu=False), dict(eval_bleu=True, eval_tokenized_bleu=True)], "--eval-bleu, and without --eval-tokenized-bleu"),
    "rescore_lenpen": (0.6, dict(rescore_path="at.pt"), [dict(rescore_path=None)], "--rescore-path"),
    "weights": ("int8", dict(engine="auto"), [dict(engine="torch")], "--engine other than torch"),
    "hrt_curriculum_steps": (9, dict(hrt_curriculum_power=0.5), [dict(hrt_curriculum_power=0), dict(hrt_curriculum_power=0.0)], "--hrt-curriculum-power other than 0"),
    "hrt_eval_autoregressive": (True, dict(eval_bleu=True), [dict(eval_bleu=False)], "--eval-bleu"),
    "hrt_chunk_table": ("10:1,inf:2", dict(hrt_decode_chunk="auto"), [dict(hrt_decode_chunk=None), dict(hrt_decode_chunk="3")], "--hrt-decode-chunk auto"),
    "hrt_nat_beam": (1, chunks(None), WORD_BY_WORD, "another size than 1 in --hrt-chunk-table"),
    "hrt_eos_last_chunk": (True, chunks("auto"), WORD_BY_WORD, "another size than 1 in --hrt-chunk-table"),
    "hrt_scoring": ("eq2", dict(chunks("auto"), unnormalized=False), [*(dict(ones, unnormalized=False) for ones in WORD_BY_WORD), WORD_BY_WORD[0], dict(chunks(None), unnormalized=True)], ("remove --unnormalized", "size than 1 in --hrt-chunk-table")),
    "hrt_draft_width": (4, dict(hrt_draft_chunk=2), [dict(hrt_draft_chunk=None)], "--hrt-draft-chunk"),
    "bidirectional_distinct_starts": (True, words(2, 1), [words(1, 2)], "--bidirectional-directions 2 or more"),
    "bidirectional_vanilla_mask": (True, dict(words(1, 2), bidirectional_independent_directions=True), [dict(words(1, 1), bidirectional_independent_directions=False), dict(words(2, 1, 1), bidirectional_independent_directions=False), dict(words(2, 1), bidirectional_independent_directions=True)], "--bidirectional-independent-directions)"),
    "bidirectional_vanilla_positions": (True, words(2, 1), [words(1, 2)], "--bidirectional-directions 2 or more"),
    "bidirectional_middle_to_side": (True, words(2, 1), [words(1, 2), words(4, 1)], "--bidirectional-directions 2"),
    "bidirectional_independent_directions": (True, words(4, 1), [words(1, 2)], "--bidirectional-directions 2 or more"),
    "bidirectional_train_dead_slots": (True, words(2, 1), [words(1, 1), words(2, 2, 1)], "--bidirectional-block)"),
    "bidirectional_length_penalty": ("gnmt", dict(unnormalized=False), [dict(unnormalized=True)], "remove --unnormalized"),
    "marian_first_position": (1, dict(no_token_positional_embeddings=False, encoder_learned_pos=False, decoder_learned_pos=True), [dict(no_token_positional_embeddings=True, encoder_learned_pos=False, decoder_learned_pos=False), dict(no_token_positional_embeddings=False, encoder_learned_pos=True, decoder_learned_pos=True)], "--decoder-learned-pos out"),
    "dag_count_bos": (True, dict(dag_upsample_base="source"), [dict(dag_upsample_base="predict")], "--dag-upsample-base source"),
    "dag_absolute_lengths": (True, dict(dag_upsample_base="predict"), [dict(dag_upsample_base="source")], "--dag-upsample-base predict"),
    "dag_length_classes": (64, dict(dag_upsample_base="predict"), [dict(dag_upsample_base="source")], "--dag-upsample-base predict"),
    "dag_bert_init": (True, dict(encoder_embed_path=None, decoder_embed_path=None), [dict(encoder_embed_path="words", decoder_embed_path=None), dict(encoder_embed_path=None, decoder_embed_path="words")], "leave --encoder-embed-path and --decoder-embed-path out"),
    "dag_glance_schedule": ("0.4", dict(dag_glance_strategy="fix"), [dict(dag_glance_strategy="cmlm")], "other than cmlm, which draws its own shares"),
    "dag_glance_strategy": ("fix", dict(dag_glance_schedule="0:0.1@9k"), [dict(dag_glance_schedule="0"), dict(dag_glance_schedule="0.0:0@200k")], "a --dag-glance-schedule above 0"),
    "dag_glance_forcing": ("path", dict(dag_glance_schedule="0.1"), [dict(dag_glance_schedule="0")], "a --dag-glance-schedule above 0"),
    "dag_length_loss_factor": (0.5, dict(dag_upsample_base="predict"), [dict(dag_upsample_base="source")], "--dag-upsample-base predict"),
    "dag_decode_beta": (0.5, dag("beam"), except_by("lookahead", "sample", "beam"), "--dag-decode-strategy lookahead or sample or beam"),
    "dag_decode_length_beta": (1.2, dag("viterbi"), except_by("viterbi", "joint-viterbi"), "--dag-decode-strategy viterbi or joint-viterbi"),
    "dag_repeats": ("collapsed", PLAIN, [{**PLAIN, "dag_keep_repeats": True}, {**PLAIN, "no_repeat_ngram_size": 2}, *except_by("lookahead", "viterbi", "joint-viterbi", dag_keep_repeats=False)], "--no-repeat-ngram-size"),
    "dag_no_repeat_consecutive": (2, dag("lookahead"), except_by("lookahead", "sample"), "--dag-decode-strategy lookahead or sample"),
    "dag_candidates": (3, {**dag("lookahead"), "no_repeat_ngram_size": 2}, except_by("sample"), "--no-repeat-ngram-size"),
    "dag_sample_topp": (0.9, dag("sample"), except_by("sample"), "--dag-decode-strategy sample"),
    "dag_lm_path": ("lm.arpa", dag("beam"), except_by("beam"), "--dag-decode-strategy beam"),
    "dag_lm_weight": (0.3, {**dag("beam"), "dag_lm_path": "lm.arpa"}, [dag("beam")], "--dag-lm-path"),
    "ctc_lm_path": ("lm.arpa", dict(beam=2), [dict(beam=1)], "--beam 2 or more"),
    "ctc_lm_weight": (0.3, dict(beam=2, ctc_lm_path="lm.arpa"), [dict(beam=2, ctc_lm_path=None)], "--ctc-lm-path"),
    "beam": (7, dag("sample", nbest=2, rescore_path=None), [*except_by("beam", "sample", nbest=2, rescore_path="at.pt"), dag("sample", nbest=1, rescore_path=None)], ("--dag-decode-strategy beam or sample", "--nbest 2 or more, or --rescore-path, where paths are drawn")),
    "nbest": (2, dag("sample"), except_by("beam", "sample"), "--dag-decode-strategy beam or sample"),
    "temperature": (0.5, dag("sample"), except_by("sample"), "--dag-decode-strategy sample"),
    "no_repeat_ngram_size": (2, dag("sample"), except_by("lookahead", "sample"), "--dag-decode-strategy lookahead or sample"),
    "min_len": (2, dag("beam"), except_by("beam"), "--dag-decode-strategy beam"),
    "unkpen": (-1.0, dag("beam", dag_allow_unk=True), except_by(dag_allow_unk=False), "--dag-allow-unk"),
    "jacobi_block_size": (5, dict(jacobi_mode="hgj"), [dict(jacobi_mode="frontier"), dict(jacobi_mode="pj"), dict(jacobi_mode=None)], "--jacobi-mode pgj or hgj"),
    "jacobi_window": (4, dict(jacobi_mode="frontier"), [dict(jacobi_mode="pj")], "--jacobi-mode frontier"),
    "jacobi_prefix_length": (8, dict(jacobi_mode="hgj"), [dict(jacobi_mode="pgj")], "--jacobi-mode hgj"),
    "jacobi_known_length": (True, dict(jacobi_mode="pgj"), [dict(jacobi_mode="frontier"), dict(jacobi_mode="hgj"), dict(jacobi_mode=None)], "--jacobi-mode pj or pgj"),
    "jacobi_draft": ("ngram", dict(jacobi_mode="frontier", jacobi_window=None), [dict(jacobi_mode="pj", jacobi_window=None), dict(jacobi_mode="frontier", jacobi_window=1)], ("--jacobi-mode frontier", "--jacobi-window other than 1")),
    "jacobi_draft_path": ("hrt.pt", dict(jacobi_draft="hrt"), [dict(jacobi_draft="previous")], "--jacobi-draft hrt or bidirectional or dag"),
    "jacobi_draft_options": ("{'a': 1}", dict(jacobi_draft_path="hrt.pt"), [dict(jacobi_draft_path=None)], "--jacobi-draft-path"),
}  # fmt: skip


def test_every_condition_has_a_case():
    assert set(CASES) == {name for name, option in OPTIONS.items() if option.when is not None}


@pytest.mark.parametrize("name", CASES)
def test_an_option_without_effect_is_named(name, caplog):
    option, (value, beside, in_vain, needed) = OPTIONS[name], CASES[name]
    instead = option.default if option.acts_as is None else option.acts_as

    def left(values, given=None):
        return set_aside(values, given, {name: option})

    assert left({**beside, name: value}) == {}
    # Nothing speaks against what is not known.
    assert left({name: value}) == {}
    for values in in_vain:
        assert left({**values, name: option.default}) in ({}, {name: option.acts_as})
        assert left({**values, name: value}, ["another"]) == {name: instead}
        assert not caplog.messages
        if option.acts_as is None:
            with pytest.raises(ValueError) as error:
                left({**values, name: value}, [name])
            message = str(error.value)
        else:
            assert left({**values, name: value}, [name]) == {name: instead}
            message, reported = caplog.messages.pop().split(";")
            assert reported == f" here it acts as {instead}"
        shown = "" if value is True else f" {value}"
        beginning = f"--{name.replace('_', '-')}{shown} has an effect only with "
        assert message.startswith(beginning) and message.endswith(needed)
        caplog.clear()


def test_what_asks_for_nothing():
    graph = {**dag("greedy"), "min_len": 0, "unkpen": float("inf"), "dag_allow_unk": False}
    assert set_aside({**graph, "beam": 1}) == {"beam": 1}
    # fairseq's default of 5 may be one that nobody gave.
    assert set_aside({**graph, "beam": 5}) == {"beam": 1}
    factor = dict(dag_length_loss_factor=0, dag_upsample_base="source")
    assert set_aside(factor, None, TRAINING) == {}
    # The options of fairseq that strategies of graphs do not read are read by every other decoder.
    others = dict(beam=7, nbest=2, temperature=0.5, min_len=4, no_repeat_ngram_size=3, unkpen=-1.0)
    assert set_aside(others) == {}


def test_an_option_is_set_aside_with_the_one_that_it_needs():
    """And whoever gives one that needs the other is told."""
    left = dict(jacobi_mode="pj", jacobi_window=None, jacobi_draft="hrt", jacobi_draft_path="a.pt",
                jacobi_draft_options="{'a': 1}")  # fmt: skip
    aside = dict(jacobi_draft="previous", jacobi_draft_path=None, jacobi_draft_options="{}")
    assert set_aside(left, given=["jacobi_mode"]) == aside
    with pytest.raises(ValueError, match="--jacobi-draft-path a.pt has .* --jacobi-draft hrt or"):
        set_aside(left, given=["jacobi_draft_path"])


def test_options_as_a_family_has_them(caplog):
    left = DecodingOptions(hrt_decode_chunk="2", jacobi_window=4, dag_keep_repeats=True, beam=1)
    assert settled(left, "autoregressive", given=()) == DecodingOptions(beam=1)
    kept = DecodingOptions(beam=1, hrt_decode_chunk="2", scores=False)
    assert settled(replace(left, scores=False), "hrt", given=("hrt_decode_chunk",)) == kept
    assert settled(kept, "hrt") is kept
    belongs = "belongs to models of the family"
    for options, family, given, message in (
        (
            left,
            "hrt",
            ("dag_keep_repeats",),
            f"--dag-keep-repeats True {belongs} dag, and this model",
        ),
        (
            left,
            "autoregressive",
            None,
            f"--hrt-decode-chunk 2 {belongs} hrt, .* autoregressive; leave out --hrt-decode-chunk$",
        ),
        (DecodingOptions(jacobi_mode="pj"), "dag", None, f"--jacobi-mode pj {belongs} autoregr"),
        # Without --jacobi-mode there is no window.
        (left, "autoregressive", ("jacobi_window",), "--jacobi-window 4 has an effect only with"),
    ):
        with pytest.raises(ValueError, match=message):
            settled(options, family, given)
    assert not caplog.records
    graphs = DecodingOptions(beam=4, dag_decode_strategy="greedy")
    with caplog.at_level(logging.WARNING):
        assert settled(graphs, "dag", given=("beam",)) == replace(graphs, beam=1)
    assert len(caplog.messages) == 1


def test_values_are_read_from_any_configuration():
    found = read(
        {**SCHEMA, **options_in(DagModelConfig)},
        HRTTaskConfig(hrt_decode_chunk="3"),
        SimpleNamespace(beam=3, other=1),
        DagModelConfig(dag_count_bos=True),
    )
    assert (found["hrt_decode_chunk"], found["beam"], found["dag_count_bos"]) == ("3", 3, True)
    assert "other" not in found
    # And of the options that conditions read, but none that is still to be given.
    held = OmegaConf.create({"eval_bleu": True, "hrt_truncate_target": "???", "other": 1})
    assert read(options_in(HRTTaskConfig), held) == {"eval_bleu": True}


def decoded(task, models, sample, options):
    # The generator without that check.
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
def test_an_option_changes_what_is_decoded_where_its_condition_holds(
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
                set_aside(read(SCHEMA, tasks[1].cfg))
