"""The repair `generated-shards`; that the shards make up the whole set is an integration test."""

import types

import pytest
from omegaconf import OmegaConf

from fairseq_hrt.compat.generated_shards import REPAIR


def seen_by_generate(shards=1, shard=0, workers=1, rank=0):
    """(number of shards, shard) as fairseq-generate takes them from its configuration."""
    module = types.ModuleType("fairseq_cli.generate")
    module._main = lambda cfg, file: (
        cfg.distributed_training.distributed_world_size,
        cfg.distributed_training.distributed_rank,
    )
    REPAIR.apply(module)
    cfg = {
        "dataset": {"num_shards": shards, "shard_id": shard},
        "distributed_training": {"distributed_world_size": workers, "distributed_rank": rank},
    }
    return module._main(OmegaConf.create(cfg), None)


def test_shards_are_those_of_the_options():
    assert seen_by_generate() == (1, 0)
    assert [seen_by_generate(3, shard) for shard in range(3)] == [(3, 0), (3, 1), (3, 2)]
    # As before for those who found the other options.
    assert seen_by_generate(workers=4, rank=2) == (4, 2)


@pytest.mark.parametrize("shards, shard", [(2, 2), (2, -1), (1, 1), (0, 0)])
def test_a_shard_that_is_none_is_refused(shards, shard, capsys):
    with pytest.raises(SystemExit) as stopped:
        seen_by_generate(shards, shard)
    assert stopped.value.code == 2
    assert f"--shard-id {shard}" in capsys.readouterr().err
