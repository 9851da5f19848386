"""All systems can do what one of them can."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_hrt.engine import GenerationCounters
from fairseq_hrt.systems import FairseqSystem, System, SystemSpec
from fairseq_hrt.systems.ctranslate2_system import CTranslate2System
from fairseq_hrt.systems.runtime_system import RuntimeSystem
from fairseq_hrt.systems.task_system import TaskSystem

METHODS = {name for name in vars(System) if not name.startswith("_")}


@pytest.mark.parametrize("kind", [FairseqSystem, CTranslate2System, RuntimeSystem])
def test_every_system_has_every_method(kind):
    assert {"collate", "decode", "signature"} <= METHODS
    assert [name for name in METHODS if not hasattr(kind, name)] == []


def test_their_base_is_complete_when_it_is_made():
    config = SimpleNamespace(dataset=SimpleNamespace(gen_subset="test"), common_eval=SimpleNamespace(post_process=None))
    made = TaskSystem(
        SystemSpec("AT", "a.pt", None, {}), config, None, None,
        task_name="translation", device=torch.device("cpu"), dtype="float32", counters=GenerationCounters(),
    )  # fmt: skip
    assert [name for name in System.__annotations__ if not hasattr(made, name)] == []
    assert (made.name, made.subset, made.models, made.generator) == ("AT", "test", [], None)
