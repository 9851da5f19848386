"""What a task gives to every system."""

from types import SimpleNamespace

import torch

from fairseq_hrt.engine import GenerationCounters
from fairseq_hrt.systems import System, SystemSpec
from fairseq_hrt.systems.task_system import TaskSystem


def test_their_base_is_complete_when_it_is_made():
    config = SimpleNamespace(dataset=SimpleNamespace(gen_subset="test"), common_eval=SimpleNamespace(post_process=None))
    made = TaskSystem(
        SystemSpec("AT", "a.pt", None, {}), config, None, None,
        task_name="translation", device=torch.device("cpu"), dtype="float32", counters=GenerationCounters(),
    )  # fmt: skip
    assert [name for name in System.__annotations__ if not hasattr(made, name)] == []
    assert (made.name, made.subset, made.models, made.generator) == ("AT", "test", [], None)
