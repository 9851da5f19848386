"""Glancing: in training the decoder reads some target tokens, at the vertices where its best path
puts them (Qian et al., 2021; DA-Transformer, section 3.4).

A first pass without gradient finds the best path for the target. By default, the more of its tokens
are predicted wrongly, the more are shown to the second pass, which is trained.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..training import Purpose, hash_uniform

STRATEGIES = ("number-random", "bernoulli", "fix", "cmlm")
FORCINGS = ("vertex", "path", "none")


class Glanced(NamedTuple):
    """The tokens shown to the second pass.

    Attributes:
        shown: BoolTensor ``[B, L]``, the vertices that read their target token.
        alignment: LongTensor ``[B, L]``, index of the target token that the best path puts at each
            vertex; -1 for vertices off the path.
        tokens: LongTensor ``[B, L]``, id of that target token; 0 off the path.
        right: LongTensor ``[B]``, number of vertices on the path whose most probable token is that
            target token.
    """

    shown: Tensor
    alignment: Tensor
    tokens: Tensor
    right: Tensor


def choose_glanced(
    alignment: Tensor,
    right: Tensor,
    targets: Tensor,
    target_lengths: Tensor,
    *,
    share: float,
    strategy: str,
    ids: Tensor,
    update: int,
    seed: int,
) -> Glanced:
    """Draws the vertices that are shown their target token; the random numbers are hashes of
    seed, update, sentence id and vertex.

    Args:
        alignment: LongTensor ``[B, L]``, index of the target token that the best path puts at each
            vertex; -1 for vertices off the path.
        right: BoolTensor ``[B, L]``, True for vertices on the path whose best token is the aligned
            one.
        targets: LongTensor ``[B, T]``.
        target_lengths: LongTensor ``[B]``, tokens of each target.
        share: tau, the value of ``--dag-glance-schedule`` at this update.
        strategy: ``--dag-glance-strategy``, one of STRATEGIES.
        ids: LongTensor ``[B]``, indices of the sentences in the data set.
        update: number of the update.
        seed: ``--seed``.
    """
    on_path = alignment >= 0  # [B, L]
    tokens = targets.gather(1, alignment.clamp(min=0)).masked_fill(~on_path, 0)  # [B, L]
    vertex = torch.arange(alignment.size(1), device=alignment.device)  # [L]
    drawn = hash_uniform(seed, update, ids.unsqueeze(1), Purpose.GLANCED_VERTEX, vertex)  # [B, L]
    length = target_lengths.double()  # [B]
    right_vertices = right.sum(1)  # [B]
    wrong = length - right_vertices  # [B]
    if strategy == "bernoulli":
        shown = on_path & (drawn < (wrong / length * share).unsqueeze(1))  # [B, L]
    else:
        if strategy == "number-random":
            count = wrong * share
        elif strategy == "fix":
            count = length * share
        else:
            count = length * hash_uniform(seed, update, ids, Purpose.GLANCED_SHARE)
        count = (count + 0.5).floor()
        # Rank the vertices of the path in random order, before all others.
        rank = drawn.masked_fill(~on_path, 2.0).argsort(1).argsort(1)  # [B, L]
        shown = on_path & (rank < count.unsqueeze(1))  # [B, L]
    return Glanced(shown, alignment, tokens, right_vertices)


def force(match: Tensor, glanced: Glanced, forcing: str) -> Tensor:
    """``match`` ``[B, T, L]``, the second pass's log P(y_i | v), with -inf for the target tokens
    that a shown vertex may not write.

    Args:
        glanced: the shown vertices and their tokens.
        forcing: ``--dag-glance-forcing``. vertex: a shown vertex writes its own token only, without
            a gradient; path: moreover with probability 1, and no other vertex writes that token;
            none: ``match`` is returned unchanged.
    """
    if forcing == "none":
        return match
    step = torch.arange(match.size(1), device=match.device)  # [T]
    shown = glanced.shown.unsqueeze(1)  # [B, 1, L]
    own = shown & (step.view(1, -1, 1) == glanced.alignment.unsqueeze(1))  # [B, T, L]
    if forcing == "path":
        # The vertex emits its token with probability 1, and no other vertex can emit that token.
        taken = own.any(2, keepdim=True)  # [B, T, 1]
        return match.masked_fill(taken | shown, float("-inf")).masked_fill(own, 0.0)
    return torch.where(own, match.detach(), match.masked_fill(shown, float("-inf")))
