"""Trained checkpoints as bundles, and as models of other engines: needs PyTorch and fairseq."""
