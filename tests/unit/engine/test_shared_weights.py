"""Weights that lie in one piece of memory."""

import copy

import pytest
import torch

from fairseq_hrt.engine.shared_weights import fuse_rows


def test_fused_rows_share_memory_and_survive_copies():
    parameters = [torch.nn.Parameter(torch.full((2, 3), float(n))) for n in range(3)]
    stacked = fuse_rows(parameters)
    assert fuse_rows(parameters).data_ptr() == stacked.data_ptr()
    parameters[1].data.add_(5)
    assert stacked[2:4].eq(6).all() and stacked[4:].eq(2).all()
    stacked[0, 0] = 9
    assert parameters[0][0, 0] == 9
    twins = copy.deepcopy(parameters)
    twins[0].data.zero_()
    assert stacked[0, 0] == 9 and twins[2].eq(2).all()


def test_rows_of_different_width_are_not_fused():
    with pytest.raises(ValueError, match=r"\[2, 4\].*\[2, 3\]"):
        fuse_rows([torch.nn.Parameter(torch.zeros(2, 3)), torch.nn.Parameter(torch.zeros(2, 4))])
