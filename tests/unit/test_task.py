"""What tasks share in training: empty translations have a BLEU, options without effect are refused
before anything begins."""

import sys

import pytest
import sacrebleu
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.data import LanguagePairDataset, ListDataset
from fairseq.dataclass.configs import GenerationConfig
from fairseq.logging import metrics
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from fairseq.tasks.translation import EVAL_BLEU_ORDER, TranslationTask
from omegaconf import OmegaConf

from fairseq_hrt.autoregressive.task import (
    AutoregressiveTranslationConfig,
    AutoregressiveTranslationTask,
)
from fairseq_hrt.ctc.config import CtcNgramLossConfig, CtcTaskConfig
from fairseq_hrt.ctc.task import CtcTranslationTask
from fairseq_hrt.dag.config import DagNllLossConfig, DagTaskConfig
from fairseq_hrt.dag.task import DagTranslationTask
from fairseq_hrt.engine.models import build_generator
from fairseq_hrt.hrt.config import HRTTaskConfig
from fairseq_hrt.hrt.task import HRTTranslationTask
from fairseq_hrt.native.families import BY_NAME, FAMILIES
from fairseq_hrt.task import log_bleu
from fairseq_hrt.training.config import SmoothedLossConfig


class Silent:
    """A criterion that logs nothing."""

    reduce_metrics = staticmethod(lambda logging_outputs: None)


def bleu_log(correct, total, references):
    """What validation counts in a batch: equal numbers of n-grams of each order."""
    log = {"_bleu_sys_len": total, "_bleu_ref_len": references, "ntokens": 5, "nsentences": 1}
    for order in range(EVAL_BLEU_ORDER):
        log.update({f"_bleu_counts_{order}": correct, f"_bleu_totals_{order}": total})
    return log


@pytest.mark.parametrize(
    "batches, bleu",
    [
        ([[bleu_log(0, 0, 7)]], 0.0),
        ([[bleu_log(0, 0, 7)], [bleu_log(0, 0, 3)]], 0.0),
        ([[bleu_log(5, 5, 5)]], 100.0),
        # The references of a batch without a word count as those of any other: exp(1 - 10 / 5).
        ([[bleu_log(5, 5, 5)], [bleu_log(0, 0, 5)]], 36.79),
        ([[bleu_log(5, 5, 5), bleu_log(0, 0, 5)]], 36.79),
        ([[{"ntokens": 5, "nsentences": 1}]], None),
    ],
)
@pytest.mark.parametrize("eval_bleu", [True, False])
def test_empty_translations_have_a_bleu(tiny, batches, bleu, eval_bleu):
    """Otherwise ``--best-checkpoint-metric bleu`` ends a young training; training updates, which
    count none, log none."""
    task = AutoregressiveTranslationTask(
        AutoregressiveTranslationConfig(eval_bleu=eval_bleu), tiny.dictionary(), tiny.dictionary()
    )
    with metrics.aggregate(new_root=True) as values:
        for batch in batches:
            task.reduce_metrics(batch, Silent())
            log_bleu(
                [
                    {name.replace("_bleu", "_other"): value for name, value in log.items()}
                    for log in batch
                ],
                "_other",
                "other",
            )
    found = values.get_smoothed_values()
    assert found.get("bleu") == found.get("other") == bleu


def test_options_of_an_ordinary_transformer_from_yaml(tiny):
    """Groups do not replace the preset's values for others, and unknown names are not ignored; a
    trained model keeps its options."""
    task = AutoregressiveTranslationTask(
        AutoregressiveTranslationConfig(), tiny.dictionary(), tiny.dictionary()
    )
    given = {
        "_name": "transformer_iwslt_de_en",
        "encoder": {"layers": 1, "embed_dim": 16},
        "decoder_layers": 2,
    }
    given["decoder"] = {"embed_dim": 16}
    model = task.build_model(OmegaConf.create(given))
    sides = [
        (len(side.layers), side.layers[0].fc1.in_features, side.layers[0].fc1.out_features)
        for side in (model.encoder, model.decoder)
    ]
    assert sides == [(1, 16, 1024), (2, 16, 1024)]
    with pytest.raises(
        ValueError,
        match=r"model\.droput: transformer_iwslt_de_en has no such option; did you mean dropout\?",
    ):
        task.build_model(OmegaConf.create({**given, "droput": 0.5}))
    assert task.build_model(OmegaConf.create({**given, "droput": 0.5}), from_checkpoint=True)
    with pytest.raises(
        ValueError, match=r"model: transformer is a name alone; write model: \{_name: transformer\}"
    ):
        task.build_model("transformer")


def hrt_task(tiny, **options):
    config = HRTTaskConfig(max_update=9, seed=1, **options)
    config.eval_bleu = options.get("eval_bleu", False)
    return HRTTranslationTask(config, tiny.dictionary(), tiny.dictionary())


@pytest.mark.parametrize("options, message", [
    (dict(raw_probability=0.5), "--raw-probability 0.5 has an effect only with --distilled-data"),
    (dict(hrt_eval_autoregressive=True),
     "--hrt-eval-autoregressive has an effect only with --eval-bleu"),
    (dict(hrt_curriculum_power=-1.0), "--hrt-curriculum-power -1.0 must be at least 0"),
    (dict(hrt_chunk_table="9:1,inf:2"),
     "--hrt-chunk-table 9:1,inf:2 has an effect only with --hrt-decode-chunk auto"),
    (dict(eval_bleu_tokenizer="zh"), "--eval-bleu-tokenizer zh has an effect only with"
     " --eval-bleu, and without --eval-tokenized-bleu"),
])  # fmt: skip
def test_a_training_does_not_begin_with_an_option_without_effect(tiny, options, message):
    """One that is loaded is over, and so is what its options did; only what decodes is looked at
    then."""
    task, arguments = hrt_task(tiny, **options), tiny.arguments("hrt_transformer")
    with pytest.raises(ValueError, match=message):
        task.build_model(arguments)
    model = task.build_model(arguments, from_checkpoint=True)
    if "hrt_curriculum_power" not in options:
        # Its training objective would have to be possible.
        task.build_criterion(SmoothedLossConfig(_name="hrt_loss"))
    if "hrt_chunk_table" in options:
        with pytest.raises(ValueError, match=message):
            task.build_generator([model], GenerationConfig())
    else:
        with pytest.raises(ValueError, match="an option of training, which changes no translation"):
            task.build_generator([model], GenerationConfig())


@pytest.mark.parametrize("options, message", [
    (dict(load_alignments=True), "--load-alignments: no loss of a hrt_transformer reads"),
    (dict(eval_bleu_args='{"beam": 4}'), "--eval-bleu-args has an effect only with --eval-bleu"),
    (dict(eval_bleu_remove_bpe="@@ "), "--eval-bleu-remove-bpe has an effect only with"),
    (dict(eval_bleu=True, eval_bleu_args='{"prefix_size": 2}'), "prefix_size changes no BLEU"),
])  # fmt: skip
def test_fairseqs_options_without_effect_are_refused(tiny, options, message):
    task, arguments = hrt_task(tiny, **options), tiny.arguments("hrt_transformer")
    with pytest.raises(ValueError, match=message):
        task.build_model(arguments)
    assert task.build_model(arguments, from_checkpoint=True)


@pytest.mark.parametrize("architecture, options, message", [
    ("transformer", dict(no_decoder_final_norm=True), "has an effect only with --decoder-normalize"),
    ("hrt_transformer", dict(char_inputs=True), "--char-inputs: no Transformer of fairseq reads"),
    ("marian_transformer", dict(no_token_positional_embeddings=True, marian_first_position=1),
     "--marian-first-position 1 has an effect only with sinusoidal positions: leave --no-token-p"),
    ("bidirectional_transformer",
     dict(bidirectional_directions=1, encoder_learned_pos=True, decoder_learned_pos=True,
          marian_first_position=0),
     "--marian-first-position 0 has an effect only with sinusoidal positions"),
    ("dag_transformer", dict(dag_bert_init=True, decoder_embed_path="words"),
     "--dag-bert-init has an effect only with new embeddings"),
    ("bidirectional_transformer",
     dict(bidirectional_vanilla_mask=True, bidirectional_independent_directions=True),
     "--bidirectional-vanilla-mask has an effect only with two or more words a step that see each"),
])  # fmt: skip
def test_options_of_a_model_without_effect_are_refused(tiny, architecture, options, message):
    """As its training begins, not where its checkpoint is decoded."""
    kind = ARCH_MODEL_REGISTRY[architecture]
    family = next((one for one in FAMILIES if one.model == architecture), BY_NAME["autoregressive"])
    config = TASK_DATACLASS_REGISTRY[family.task]()
    config.eval_bleu = False
    task = TASK_REGISTRY[family.task](config, tiny.dictionary(), tiny.dictionary())
    with pytest.raises(ValueError, match=message):
        task.build_model(tiny.arguments(architecture, **options))
    if "decoder_embed_path" not in options:
        built = task.build_model(tiny.arguments(architecture, **options), from_checkpoint=True)
        assert isinstance(built, kind)


def test_models_of_other_plugins_may_read_other_options(tiny, monkeypatch):
    """Models that they derive from fairseq's Transformer or from ours."""
    kind = ARCH_MODEL_REGISTRY["ctc_transformer"]
    theirs = type("Theirs", (kind,), {"__module__": "other_plugin"})
    monkeypatch.setitem(ARCH_MODEL_REGISTRY, "ctc_transformer", theirs)
    task = CtcTranslationTask(CtcTaskConfig(), tiny.dictionary(), tiny.dictionary())
    task.cfg.eval_bleu = False
    built = task.build_model(tiny.arguments("ctc_transformer", char_inputs=True))
    assert type(built) is theirs


def test_a_presets_values_count_as_given_in_yaml(tiny):
    """hrt_transformer_e6d1 has pre-norm, and with it a last normalisation to leave out."""
    options = OmegaConf.create(
        {"_name": "hrt_transformer_e6d1", "encoder": {"layers": 1}, "no_decoder_final_norm": True}
    )
    model = hrt_task(tiny).build_model(options)
    assert model.decoder.layer_norm is None and len(model.encoder.layers) == 1
    options = OmegaConf.create({"_name": "hrt_transformer_e6d1", "decoder": {"layrs": 1}})
    with pytest.raises(ValueError, match="model.decoder_layrs: hrt_transformer_e6d1 has no such"):
        hrt_task(tiny).build_model(options)


@pytest.mark.parametrize("config, name", [
    (CtcTaskConfig(ctc_lm_path="a.arpa"), "ctc"),
    (DagTaskConfig(dag_lm_path="a.arpa", dag_decode_strategy="beam"), "dag"),
])  # fmt: skip
def test_a_language_model_is_for_validation_alone(tiny, config, name):
    """A checkpoint does not pass it on."""
    kind = {"ctc": CtcTranslationTask, "dag": DagTranslationTask}[name]
    task = kind(config, tiny.dictionary(), tiny.dictionary())
    with pytest.raises(ValueError, match=f"--{name}-lm-path a.arpa has an effect only with --eval"):
        task.build_model(tiny.arguments(f"{name}_transformer"))


def test_padded_targets_are_not_cut(tiny, monkeypatch):
    """fairseq has padded them to buckets, and </s> would be looked for behind that."""
    monkeypatch.setattr(TranslationTask, "load_dataset", lambda self, split, **own: None)
    task = hrt_task(tiny, hrt_truncate_target=True, num_batch_buckets=3)
    task.datasets["train"] = None
    with pytest.raises(ValueError, match="--hrt-truncate-target cannot be combined with --num-b"):
        task.load_dataset("train")


def test_options_that_come_with_a_checkpoint_are_nobodys_mistake(tiny):
    """fairseq's own ``from_pretrained`` decodes with what the training held; a command names a
    checkpoint beside the task."""
    whole = OmegaConf.create(
        {
            "task": {
                **vars(hrt_task(tiny, hrt_chunk_table="9:1,inf:2").cfg),
                "seed": 1,
                "max_update": 9,
            }
        }
    )
    for path, allowed in (("model.pt", False), (None, True)):
        whole.common_eval = {"path": path}
        task = HRTTranslationTask(whole.task, tiny.dictionary(), tiny.dictionary())
        built = task.build_model(tiny.arguments("hrt_transformer"), from_checkpoint=True)
        if allowed:
            for engine in ("native", "torch"):
                task.cfg.engine = engine
                options = task.build_generator([built], GenerationConfig()).options
                assert options.hrt_chunk_table == HRTTaskConfig().hrt_chunk_table
        else:
            with pytest.raises(ValueError, match="--hrt-chunk-table 9:1,inf:2"):
                task.build_generator([built], GenerationConfig())


def test_the_options_of_a_criterion_are_seen_with_those_of_the_model(tiny):
    config = DagTaskConfig()
    config.seed, config.eval_bleu = 1, False
    task = DagTranslationTask(config, tiny.dictionary(), tiny.dictionary())
    arguments = tiny.arguments("dag_transformer", dag_upsample_base="source")
    task.build_model(arguments)
    loss = DagNllLossConfig(_name="dag_nll_loss", dag_length_loss_factor=0.3)
    with pytest.raises(
        ValueError,
        match="--dag-length-loss-factor 0.3 has an effect only with --dag-upsample-base predict",
    ):
        task.build_criterion(loss)
    task.build_model(tiny.arguments("dag_transformer", dag_upsample_base="predict"))
    task.build_criterion(loss)


@pytest.mark.parametrize("loss", ["dag_nll_loss", "dag_fuzzy_loss"])
@pytest.mark.parametrize("strategy, schedule, message", [
    ("cmlm", "0.4", "--dag-glance-schedule 0.4 has an effect only with a --dag-glance-strategy oth"),
    ("cmlm", "0", "--dag-glance-strategy cmlm has an effect only with a --dag-glance-schedule abo"),
    ("fix", "0.4", None),
])  # fmt: skip
def test_a_schedule_that_the_strategy_does_not_read_is_refused(
    tiny, loss, strategy, schedule, message
):
    task = DagTranslationTask(DagTaskConfig(seed=1), tiny.dictionary(), tiny.dictionary())
    task._trained_options = {}
    config = CRITERION_DATACLASS_REGISTRY[loss](
        _name=loss, dag_glance_strategy=strategy, dag_glance_schedule=schedule
    )
    if message is None:
        task.build_criterion(config)
        return
    with pytest.raises(ValueError, match=message):
        task.build_criterion(config)


@pytest.mark.parametrize("family, options, loss", [
    (DagTranslationTask, DagTaskConfig, DagNllLossConfig(_name="dag_nll_loss")),
    (CtcTranslationTask, CtcTaskConfig, CtcNgramLossConfig(_name="ctc_ngram_loss")),
])  # fmt: skip
def test_a_loss_that_is_always_by_sentence_refuses_the_option(tiny, family, options, loss):
    task = family(options(seed=1), tiny.dictionary(), tiny.dictionary())
    # As fairseq puts it there, from --sentence-avg.
    config = OmegaConf.create(
        {"optimization": {"sentence_avg": True}, "criterion": OmegaConf.structured(loss)}
    )
    task._trained_options = {}
    with pytest.raises(ValueError, match=f"--sentence-avg: {loss._name} is always divided by the"):
        task.build_criterion(config.criterion)
    task._trained_options = None
    task.build_criterion(config.criterion)
    config.optimization.sentence_avg, task._trained_options = False, {}
    task.build_criterion(config.criterion)


def test_options_that_nobody_gives_now_are_set_aside(tiny):
    """A bundle's table of chunk sizes does not stand in the way of whoever asks for one chunk
    size."""
    task = hrt_task(tiny, hrt_chunk_table="9:1,inf:2", hrt_decode_chunk="2")
    task.cfg = OmegaConf.create({**vars(task.cfg), "seed": 1, "max_update": 9})
    config = OmegaConf.create({"generation": {"beam": 2, "unnormalized": False}})
    models = [tiny.model("hrt_transformer")]
    with pytest.raises(ValueError, match="--hrt-chunk-table"):
        build_generator(task, models, config)
    with pytest.raises(ValueError, match="--hrt-chunk-table"):
        build_generator(task, models, config, ["hrt_chunk_table"])
    generator = build_generator(task, models, config, ["hrt_decode_chunk"])
    assert generator.options.hrt_chunk_table == HRTTaskConfig().hrt_chunk_table


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_sentences_to_decode_come_from_this_process(tiny, asked):
    """Unless several workers are asked for, or a model is trained."""
    task, arguments = hrt_task(tiny), tiny.arguments("hrt_transformer")
    sentences = ListDataset([torch.tensor([5, tiny.EOS])], [2])
    data = LanguagePairDataset(sentences, sentences.sizes, task.source_dictionary)
    for trained, workers in ((False, 0 if asked == 1 else asked), (True, asked)):
        task.build_model(arguments, from_checkpoint=not trained)
        batches = task.get_batch_iterator(
            data, max_sentences=1, num_workers=asked, disable_iterator_cache=True
        )
        assert batches.num_workers == workers


WRITTEN = [[5, 6, 7, 8, 2], [4, 3, 9, 2], [6, 7, 2]]
REFERENCES = [[5, 6, 7, 9, 2], [4, 3, 9, 2], [6, 7, 8, 2]]


def validated(tiny, monkeypatch, symbols, **options):
    """The BLEU of three translations in which ``symbols`` are the words 4, 5, …"""
    dictionary = tiny.dictionary(0)
    for symbol in symbols:
        dictionary.add_symbol(symbol)
    config = AutoregressiveTranslationConfig(eval_bleu=True, **options)
    task = AutoregressiveTranslationTask(config, dictionary, dictionary)
    task.build_model(tiny.arguments("transformer"))
    found = [[{"tokens": torch.tensor(row)}] for row in WRITTEN]
    monkeypatch.setattr(task, "inference_step", lambda *given, **named: found)
    pad = dictionary.pad()
    width = max(map(len, REFERENCES))
    target = torch.tensor([row + [pad] * (width - len(row)) for row in REFERENCES])
    return task._inference_with_bleu(None, {"target": target}, None)


@pytest.mark.parametrize("tokenizer, fairseqs", [("13a", {}), ("none", {"eval_tokenized_bleu": 1})])
def test_validation_with_a_tokenizer_is_fairseqs_where_that_has_it(
    tiny, monkeypatch, tokenizer, fairseqs
):
    words = ["a,", "b", "c.d", "e-f", "(g)", "h"]
    expected = validated(tiny, monkeypatch, words, **fairseqs)
    found = validated(
        tiny, monkeypatch, words, eval_bleu_tokenizer=tokenizer, eval_bleu_print_samples=True
    )
    assert vars(found) == vars(expected) and 0 < found.score < 100


def test_chinese_is_validated_by_its_signs(tiny, monkeypatch):
    """A sentence without spaces is one word for 13a. The unknown word of a translation is not that
    of its reference."""
    words = ["一@@", "个@@", "人@@", "骑@@", "车", "。"]
    found = validated(
        tiny, monkeypatch, words, eval_bleu_tokenizer="zh", eval_bleu_remove_bpe="@@ "
    )
    written = ["个人骑车", "一UNKNOWNTOKENINHYP 。", "人骑"]
    references = ["个人骑。", "一UNKNOWNTOKENINREF 。", "人骑车"]
    by_signs, by_words = (
        sacrebleu.corpus_bleu(written, [references], tokenize=name) for name in ("zh", "13a")
    )
    assert vars(found) == vars(by_signs) and found.score > by_words.score == 0


@pytest.mark.parametrize("tokenizer, message", [
    ("chinese", "--eval-bleu-tokenizer chinese is not a tokeniser of sacreBLEU: give one of none,"),
    ("ja-mecab", r"--eval-bleu-tokenizer ja-mecab cannot .*pip install sacrebleu\[ja\]"),
])  # fmt: skip
def test_a_tokenizer_that_is_not_there_is_refused_before_the_training(
    tiny, monkeypatch, tokenizer, message
):
    if tokenizer == "ja-mecab":
        # As where the package is not installed.
        monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(ValueError, match=message):
        hrt_task(tiny, eval_bleu=True, eval_bleu_tokenizer=tokenizer).build_model(
            tiny.arguments("hrt_transformer")
        )


@pytest.mark.parametrize("name", ["eval_bleu_args", "eval_bleu_detok_args"])
@pytest.mark.parametrize("text", ["beam=5", "[5]", ""])
def test_options_of_validation_are_json(tiny, name, text):
    with pytest.raises(ValueError, match=rf"^--{name.replace('_', '-')} .* is not a JSON object"):
        hrt_task(tiny, eval_bleu=True, **{name: text}).build_model(
            tiny.arguments("hrt_transformer")
        )
