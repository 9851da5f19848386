"""fairseq's task options are those of the schema."""

from dataclasses import dataclass, fields

import pytest
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from fairseq_hrt.hrt.config import HRTModelConfig, HRTTaskConfig
from fairseq_hrt.native.families import FAMILIES
from fairseq_hrt.native.options.schema import EVERY_TASK
from fairseq_hrt.native.options.values import SCHEMA, options_of
from fairseq_hrt.training.task_options import _IN_TRAINING, checked_options, with_decoding_options


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_task_has_its_familys_options_and_no_others(family):
    config = TASK_DATACLASS_REGISTRY[family.task]
    own = {field.name: field for field in fields(config) if field.name in SCHEMA}
    assert set(own) == {
        item.name for origin in (family.name, EVERY_TASK) for item in options_of(origin)
    }
    for name, field in own.items():
        option = SCHEMA[name]
        assert field.metadata["help"] == option.help
        # Those that no checkpoint passes on have another condition as a training begins.
        same = field.metadata["option"].when is option.when
        assert same or name in _IN_TRAINING
        assert str(field.default) == str(family.default.get(name, option.default))


def test_the_class_stays_what_it_was():
    @with_decoding_options("hrt")
    @dataclass
    class Config(FairseqDataclass):
        """Prints this."""

        one: int = 3

    assert (Config.__name__, Config.__doc__, Config.__module__) == (
        "Config",
        "Prints this.",
        __name__,
    )
    made = Config()
    assert (made.one, made.hrt_decode_chunk, made.engine, made.rescore_lenpen) == (
        3,
        None,
        "auto",
        1.0,
    )
    assert not hasattr(made, "dag_decode_beta") and not hasattr(made, "beam"), (
        "fairseq has its own flags"
    )


@pytest.mark.parametrize("values, message", [
    (dict(raw_probability=7.0, distilled_data="d"), "--raw-probability 7.0 must be at most 1"),
    (dict(raw_probability=-0.1, distilled_data="d"), "--raw-probability -0.1 must be at least 0"),
    (dict(hrt_curriculum_power=-1.0), "--hrt-curriculum-power -1.0 must be at least 0"),
    (dict(hrt_curriculum_power=float("inf")), "--hrt-curriculum-power inf must be a finite number"),
    (dict(hrt_curriculum_steps=0), "--hrt-curriculum-steps 0 must be at least 1"),
    (dict(hrt_decode_chunk="2", hrt_chunk_table="9:1,inf:2"),
     "--hrt-chunk-table 9:1,inf:2 has an effect only with --hrt-decode-chunk auto"),
    (dict(rescore_path="at.pt"), "--rescore-path at.pt has an effect only with --eval-bleu"),
    (dict(engine="native"), "--engine native has an effect only with --eval-bleu"),
    (dict(weights="int8"), "--weights int8 has an effect only with --eval-bleu"),
    (dict(weights="int8", engine="torch", eval_bleu=True),
     "--weights int8 has an effect only with --engine other than torch"),
])  # fmt: skip
def test_options_of_a_training(values, message):
    with pytest.raises(ValueError, match=message):
        checked_options([HRTTaskConfig], [HRTTaskConfig(), values])


def test_what_is_not_given_has_its_default():
    """YAML names few options of a model; the later configuration goes before the earlier one."""
    found = checked_options(
        [HRTModelConfig, HRTTaskConfig], [HRTTaskConfig(), {"hrt_relative_window": 3}]
    )
    assert (found["hrt_relative_window"], found["hrt_chunk_sizes"]) == (3, [2])
    assert found["eval_bleu"] is False and "beam" not in found
