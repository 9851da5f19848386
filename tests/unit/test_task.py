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
