"""Models and what is known of them, from files of unknown origin: checkpoints, their options, and the models themselves."""

__all__ = ["checkpoints", "data_options", "models"]
