"""Every family stands in the table once, and its entry for a family is true."""

import importlib
import re
from pathlib import Path

import pytest
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

import fairseq_hrt
from fairseq_hrt.native.families import (
    FAMILIES,
    LEFT_TO_RIGHT,
    MODEL_FAMILIES,
    family_of_task,
    tasks_for,
)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_what_a_family_names_is_registered(family):
    importlib.import_module(f"fairseq_hrt.{family.name}")
    assert TASK_REGISTRY[family.task].family == family.name
    assert not family.model or family.model in MODEL_REGISTRY
    assert set(family.losses) <= set(CRITERION_REGISTRY)
    assert family_of_task(family.task) is family and set(family.tasks) <= set(TASK_REGISTRY)


def test_the_kernel_counts_families_in_this_order():
    header = (Path(fairseq_hrt.__file__).parent / "runtime" / "kernel" / "runtime.h").read_text()
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
