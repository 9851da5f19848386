"""fairseq's task options are those of the schema."""

from dataclasses import dataclass, fields

import pytest
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import TASK_DATACLASS_REGISTRY

import fairseq_hrt.hrt.task  # noqa: F401
from fairseq_hrt.native.families import FAMILIES
from fairseq_hrt.native.options.schema import EVERY_TASK
from fairseq_hrt.native.options.values import SCHEMA, options_of
from fairseq_hrt.training.task_options import with_decoding_options


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
        assert str(field.default) == str(option.task_default or getattr(type(config())(), name))


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
