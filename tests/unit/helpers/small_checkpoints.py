"""Checkpoints with two parameters, as a training writes them, for tests that average them."""

from argparse import Namespace

import torch


def save(
    path,
    value,
    *,
    update=1,
    metric=0.0,
    maximise=False,
    dtype=torch.float32,
    options=(),
    kind=Namespace,
    task=(),
    **more,
):
    checkpoint = {"best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": maximise}
    torch.save(
        {
            "args": None,
            "cfg": {
                "checkpoint": checkpoint,
                "model": kind(**{"arch": "of_a_plugin", **dict(options)}),
                "common": {},
                "task": kind(**dict(task)),
            },
            "model": {
                "w": torch.full((2,), value, dtype=dtype),
                "count": torch.tensor([int(value)]),
                **more,
            },
            "optimizer_history": [
                {
                    "num_updates": update,
                    "criterion_name": "c",
                    "optimizer_name": "adam",
                    "lr_scheduler_state": {},
                }
            ],
            "extra_state": {"val_loss": metric, "train_iterator": {"epoch": 1}},
            "last_optimizer_state": {"moment": 1},
        },
        path,
    )
