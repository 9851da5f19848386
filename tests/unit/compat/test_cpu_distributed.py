"""The repair `cpu-distributed`; that two processes train without further options is an integration
test."""

import types
from argparse import Namespace

import pytest
import torch
from omegaconf import OmegaConf

from fairseq_hrt.compat import cpu_distributed


def wrapped(model):
    """The arguments with which a model reaches the original `DistributedDataParallel`."""
    module = types.ModuleType("fairseq.models.distributed_fairseq_model")
    module.DistributedDataParallel = lambda **kwargs: kwargs
    cpu_distributed.REPAIR.apply(module)
    return module.DistributedDataParallel(
        module=model, device_ids=[0], output_device=0, find_unused_parameters=True
    )


def test_no_device_numbers_for_the_cpu():
    assert set(wrapped(torch.nn.Linear(2, 2))) == {"module", "find_unused_parameters"}


def test_other_devices_keep_theirs():
    assert wrapped(torch.nn.Linear(2, 2, device="meta"))["device_ids"] == [0]


def connected(monkeypatch, *, backend, cpu=False, gpu=False, flat=False):
    """The backend with which processes are connected."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    module = types.ModuleType("fairseq.distributed.utils")
    module.distributed_init = lambda cfg: (
        (cfg if flat else cfg.distributed_training).distributed_backend
    )
    cpu_distributed.REPAIR.apply(module)
    common, distributed = {"cpu": cpu}, {"distributed_backend": backend}
    return module.distributed_init(
        Namespace(**common, **distributed)
        if flat
        else OmegaConf.create({"common": common, "distributed_training": distributed})
    )


@pytest.mark.parametrize("cpu, gpu", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("flat", [False, True])
def test_processes_on_a_cpu_are_connected_by_gloo(monkeypatch, cpu, gpu, flat):
    assert connected(monkeypatch, backend="nccl", cpu=cpu, gpu=gpu, flat=flat) == "gloo"


def test_gpus_and_other_backends_are_left_alone(monkeypatch):
    assert connected(monkeypatch, backend="nccl", gpu=True) == "nccl"
    assert connected(monkeypatch, backend="mpi", cpu=True) == "mpi"
