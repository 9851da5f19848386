"""Every family stands in the table once, and its entry for a family is true."""

import importlib
import re
from dataclasses import fields
from pathlib import Path

import pytest
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_hrt.engine import NativeParts
from fairseq_hrt.native import runtime
from fairseq_hrt.native.families import (
    BY_NAME,
    FAMILIES,
    FIRST_WORDS_BY,
    GRAPH_MODELS,
    LEFT_TO_RIGHT,
    MODEL_FAMILIES,
    ModelFields,
    family_of_task,
    tasks_for,
)
from fairseq_hrt.native.runtime.header import Header


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_what_a_family_names_is_registered(family):
    importlib.import_module(f"fairseq_hrt.{family.name}")
    assert TASK_REGISTRY[family.task].family == family.name
    assert not family.model or family.model in MODEL_REGISTRY
    assert set(family.losses) <= set(CRITERION_REGISTRY)
    assert family_of_task(family.task) is family and set(family.tasks) <= set(TASK_REGISTRY)


def test_the_kernel_counts_families_in_this_order():
    header = (Path(runtime.__file__).parent / "kernel" / "runtime.h").read_text()
    named = re.search(r"typedef enum \{([^}]*)\} fh_family;", header)[1]
    assert re.findall(r"FH_(\w+) = (\d)", named) == [
        (name.upper(), str(n)) for n, name in enumerate(MODEL_FAMILIES)
    ]


def test_tasks_of_a_familys_models():
    assert tasks_for("autoregressive") == (
        "translation_autoregressive",
        "translation",
        "translation_jacobi",
    )
    assert tasks_for("hrt") == ("translation_hrt",)
    assert (
        family_of_task("translation").name == "autoregressive"
        and family_of_task("translation_lev") is None
    )
    assert set(LEFT_TO_RIGHT) == {
        "translation",
        "translation_autoregressive",
        "translation_jacobi",
        "translation_hrt",
    }


def test_fields_belong_to_one_family():
    names = [name for family in FAMILIES for name in family.own_fields]
    assert len(set(names)) == len(names) and "chunk_sizes" in BY_NAME["hrt"].own_fields
    common = {item.name for item in fields(ModelFields)}
    assert {item.name for item in fields(Header)} == common.union(names)


@pytest.mark.parametrize(
    "arch, family",
    [("transformer", None), ("marian_transformer", "autoregressive"),
     *((BY_NAME[name].model, name) for name in MODEL_FAMILIES if BY_NAME[name].model)],
)  # fmt: skip
def test_a_decoder_tells_the_fields_of_its_family(tiny, arch, family):
    decoder = tiny.model(arch).decoder
    assert isinstance(decoder, NativeParts) == (family is not None)
    if family is not None:
        assert decoder.family == family
        assert set(decoder.native_fields(9)) == set(BY_NAME[family].own_fields)


def test_what_messages_say_of_families():
    assert GRAPH_MODELS == "dag_transformer"
    assert FIRST_WORDS_BY == "hrt with --hrt-decode-chunk 1, bidirectional with one direction"
