"""Makes ``fairseq-generate --num-shards N --shard-id I`` decode only its shard.

fairseq 0.12.2 uses the number of processes, which is always 1, as the number of shards
(fairseq_cli/generate.py:152), so that every shard is the whole set. Now the larger of that number
and ``--num-shards`` is used, as in fairseq_cli/eval_lm.py:296.
"""

from typing import Any

from .display import refuse
from .importing import around


def _its_shard(generate: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    shards, shard = cfg.dataset.num_shards, cfg.dataset.shard_id
    if not 0 <= shard < shards:
        refuse(f"--shard-id {shard}: with --num-shards {shards} give 0 to {shards - 1}")
    workers = cfg.distributed_training
    workers.distributed_world_size = max(shards, workers.distributed_world_size)
    workers.distributed_rank = max(shard, workers.distributed_rank)
    return generate(cfg, *args, **kwargs)


REPAIR = around(
    "generated-shards",
    "fairseq-generate decodes everything whatever the shard",
    {"fairseq_cli.generate:_main": _its_shard},
)
