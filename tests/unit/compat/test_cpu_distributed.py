"""The repair `cpu-distributed`; that two processes train with the default backend is an integration test."""

import types

import torch

from fairseq_hrt.compat import cpu_distributed


def wrapped(model):
    """The arguments with which a model reaches the original `DistributedDataParallel`."""
    module = types.ModuleType("stand_in")
    module.DistributedDataParallel = lambda **kwargs: kwargs
    cpu_distributed.REPAIR.apply(module)
    return module.DistributedDataParallel(module=model, device_ids=[0], output_device=0, find_unused_parameters=True)


def test_no_device_numbers_for_the_cpu():
    assert set(wrapped(torch.nn.Linear(2, 2))) == {"module", "find_unused_parameters"}


def test_other_devices_keep_theirs():
    assert wrapped(torch.nn.Linear(2, 2, device="meta"))["device_ids"] == [0]
