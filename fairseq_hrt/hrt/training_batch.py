"""From a batch to its training samples: one function of batch, update and settings, without state
and without the task around it."""

from dataclasses import dataclass
from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from ..training import choose_targets, draw_raw
from .curriculum import draw_chunk_sizes, draw_masks
from .sample import TrainingViews, training_views


@dataclass(frozen=True)
class ViewSettings:
    """What the samples depend on besides the batch and the update.

    Attributes:
        seed: of all draws.
        chunk_sizes: the trained ones.
        starts: the start symbol of each.
        eos, mask, pad: ids; ``eos`` is the start symbol of chunk size 1, too.
        learn_tail: see :func:`.sample.training_views`.
        raw_probability: of the raw target where there is a distilled one.
    """

    seed: int
    chunk_sizes: Tuple[int, ...]
    starts: Tuple[int, ...]
    eos: int
    mask: int
    pad: int
    learn_tail: bool = True
    raw_probability: float = 0.0

    def start_symbols(self, chunk_sizes: Tensor) -> Tensor:
        """The start symbol of each element of a LongTensor of chunk sizes."""
        symbols = torch.full_like(chunk_sizes, self.eos)
        for size, start in zip(self.chunk_sizes, self.starts):
            symbols = torch.where(chunk_sizes == size, start, symbols)
        return symbols


def draw_views(
    sample: Dict[str, Any], update: int, share: float, settings: ViewSettings
) -> TrainingViews:
    """The training samples of a batch; every choice is a hash of seed, update and sentence alone
    (HRT, Algorithm 1).

    Args:
        sample: ``id`` ``[B]``, ``target`` ``[B, T]`` and perhaps ``distilled_target`` ``[B, T']``,
            right-padded.
        update: number of the update.
        share: share of sentences that are trained with chunks.
        settings: see there.
    """
    ids, targets = sample["id"], sample["target"]
    if "distilled_target" in sample:
        use_raw = draw_raw(settings.seed, update, ids, settings.raw_probability)
        targets = choose_targets(targets, sample["distilled_target"], use_raw, pad=settings.pad)
    chunk_sizes = draw_chunk_sizes(settings.seed, update, ids, share, settings.chunk_sizes)
    return training_views(
        targets,
        chunk_sizes,
        starts=settings.start_symbols(chunk_sizes),
        masked=draw_masks(
            settings.seed, update, ids, targets.ne(settings.pad).sum(1), targets.size(1)
        ),
        eos=settings.eos,
        mask=settings.mask,
        pad=settings.pad,
        learn_tail=settings.learn_tail,
    )
