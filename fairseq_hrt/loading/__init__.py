"""Safe reading of checkpoints and options of unknown origin, and averaging of checkpoints."""

__all__ = ["averaging", "checkpoints", "data_options", "json_objects"]
