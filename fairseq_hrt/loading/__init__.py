"""Reads checkpoints and options of unknown origin safely, and averages checkpoints."""

__all__ = ["averaging", "checkpoints", "data_options", "language_tokens"]
