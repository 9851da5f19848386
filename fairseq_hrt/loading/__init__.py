"""Checkpoints and options of unknown origin: read safely, checked against allow-lists, averaged."""

__all__ = ["averaging", "checkpoints", "data_options", "json_objects"]
