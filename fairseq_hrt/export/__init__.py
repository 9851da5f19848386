"""Makes bundles and models for other engines from trained or imported checkpoints; needs PyTorch
and fairseq."""
