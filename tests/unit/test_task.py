"""Lines that fairseq-interactive reads are cut as data sets are, so that a long one does not stop the program."""

import pytest
from fairseq.dataclass.configs import GenerationConfig
from fairseq.logging import metrics
from fairseq.tasks.translation import EVAL_BLEU_ORDER
from omegaconf import OmegaConf

from fairseq_hrt.autoregressive.task import AutoregressiveTranslationConfig, AutoregressiveTranslationTask
from fairseq_hrt.task import log_bleu


@pytest.mark.parametrize("task_limit, model_limit, kept", [(10, 64, 10), (200, 16, 16), (1, 64, 1)])
def test_long_lines_are_cut_to_what_task_and_model_can_read(tiny, task_limit, model_limit, kept):
    config = AutoregressiveTranslationConfig(truncate_source=True, max_source_positions=task_limit)
    task = AutoregressiveTranslationTask(config, tiny.dictionary(), tiny.dictionary())
    task.build_generator([tiny.model(max_source_positions=model_limit)], GenerationConfig())
    line = "w1 w2 w3 w4 " * 10
    (short, long), lengths = task.get_interactive_tokens_and_lengths(["w5", line], str.strip)
    whole = tiny.dictionary().encode_line(line, add_if_not_exist=False).tolist()
    assert long.tolist() == [*whole[: kept - 1], tiny.EOS] and lengths == [len(short), kept]
    assert short.tolist()[-1] == tiny.EOS and (kept == 1 or len(short) == 2)


def test_without_the_option_lines_stay_as_they_are(tiny):
    task = AutoregressiveTranslationTask(
        AutoregressiveTranslationConfig(max_source_positions=5), tiny.dictionary(), tiny.dictionary()
    )
    task.build_generator([tiny.model()], GenerationConfig())
    assert task.get_interactive_tokens_and_lengths(["w1 " * 30], str.strip)[1] == [31]


def test_a_model_that_chooses_limits_what_is_read(tiny, monkeypatch):
    """Where it reads less than the task and the model that is decoded."""
    config = AutoregressiveTranslationConfig(rescore_path="a.pt:b.pt", truncate_source=True, max_source_positions=40)
    task = AutoregressiveTranslationTask(config, tiny.dictionary(), tiny.dictionary())
    others = {"a.pt": tiny.model(seed=2, max_source_positions=30), "b.pt": tiny.model(seed=3, max_source_positions=20)}
    monkeypatch.setattr("fairseq_hrt.task.load_other_model", lambda option, path, **more: (None, [others[path]]))
    assert task.max_positions()[0] == 40
    generator = task.build_generator([tiny.model()], GenerationConfig(beam=2))
    assert generator.rescorer.models == list(others.values()) and task.max_positions()[0] == 20
    assert task.get_interactive_tokens_and_lengths(["w1 " * 30], str.strip)[1] == [20]
    with pytest.raises(ValueError, match="--rescore-lenpen 2.0 needs --rescore-path"):
        task = AutoregressiveTranslationTask(
            AutoregressiveTranslationConfig(rescore_lenpen=2.0), tiny.dictionary(), tiny.dictionary()
        )
        task.build_generator([tiny.model()], GenerationConfig(beam=2))


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
    """Otherwise ``--best-checkpoint-metric bleu`` ends a young training; training updates, which count none, log none."""
    task = AutoregressiveTranslationTask(
        AutoregressiveTranslationConfig(eval_bleu=eval_bleu), tiny.dictionary(), tiny.dictionary()
    )
    with metrics.aggregate(new_root=True) as values:
        for batch in batches:
            task.reduce_metrics(batch, Silent())
            log_bleu(
                [{name.replace("_bleu", "_other"): value for name, value in log.items()} for log in batch], "_other", "other"
            )
    found = values.get_smoothed_values()
    assert found.get("bleu") == found.get("other") == bleu


def test_options_of_an_ordinary_transformer_from_yaml(tiny):
    """Groups do not replace what the preset says of others, and unknown names are not ignored; a trained model keeps its options."""
    task = AutoregressiveTranslationTask(AutoregressiveTranslationConfig(), tiny.dictionary(), tiny.dictionary())
    given = {"_name": "transformer_iwslt_de_en", "encoder": {"layers": 1, "embed_dim": 16}, "decoder_layers": 2}
    given["decoder"] = {"embed_dim": 16}
    model = task.build_model(OmegaConf.create(given))
    sides = [
        (len(side.layers), side.layers[0].fc1.in_features, side.layers[0].fc1.out_features)
        for side in (model.encoder, model.decoder)
    ]
    assert sides == [(1, 16, 1024), (2, 16, 1024)]
    with pytest.raises(
        ValueError, match=r"model\.droput: transformer_iwslt_de_en has no such option; did you mean dropout\?"
    ):
        task.build_model(OmegaConf.create({**given, "droput": 0.5}))
    assert task.build_model(OmegaConf.create({**given, "droput": 0.5}), from_checkpoint=True)
    with pytest.raises(ValueError, match=r"model: transformer is a name alone; write model: \{_name: transformer\}"):
        task.build_model("transformer")
