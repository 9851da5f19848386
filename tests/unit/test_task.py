"""Lines that fairseq-interactive reads are cut as data sets are, so that a long one does not stop the program."""

import pytest
from fairseq.dataclass.configs import GenerationConfig

from fairseq_hrt.autoregressive.task import AutoregressiveTranslationConfig, AutoregressiveTranslationTask


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
    with pytest.raises(ValueError, match="--rescore-lenpen 2.0 has an effect only with --rescore-path"):
        task = AutoregressiveTranslationTask(
            AutoregressiveTranslationConfig(rescore_lenpen=2.0), tiny.dictionary(), tiny.dictionary()
        )
        task.build_generator([tiny.model()], GenerationConfig(beam=2))
