"""Turns a batch into HRT's training samples, as a pure function of batch, update and decoder."""

from typing import Any, Dict

from ..training import drawn_targets
from .curriculum import draw_chunk_sizes, draw_masks
from .decoder import HRTDecoder
from .sample import TrainingViews, training_views


def draw_views(
    sample: Dict[str, Any],
    update: int,
    share: float,
    decoder: HRTDecoder,
    *,
    seed: int,
    raw_probability: float = 0.0,
) -> TrainingViews:
    """The training samples of a batch (HRT, Algorithm 1); random choices are hashes of seed, update
    and sentence id.

    Args:
        sample: fairseq's batch, right-padded, perhaps with distilled targets; see
            :func:`~..training.drawn_targets`.
        update: number of the update.
        share: p_k, the probability that a sentence is trained with chunks.
        decoder: the model's decoder, which has the chunk sizes to draw from.
        seed: seed of the hashes.
        raw_probability: the probability that a sentence with both a raw and a distilled target is
            trained on the raw one.
    """
    ids, pad = sample["id"], decoder.padding_idx
    targets = drawn_targets(
        sample, seed=seed, update=update, raw_probability=raw_probability, pad=pad
    )
    chunk_sizes = draw_chunk_sizes(seed, update, ids, share, decoder.chunk_sizes)
    return training_views(
        targets,
        chunk_sizes,
        starts=decoder.start_symbols(chunk_sizes),
        masked=draw_masks(seed, update, ids, targets.ne(pad).sum(1), targets.size(1)),
        eos=decoder.eos,
        mask=decoder.mask,
        pad=pad,
        learn_tail=decoder.learn_tail,
    )
