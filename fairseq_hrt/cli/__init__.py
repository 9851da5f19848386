"""Thin command-line verbs, a module each; the work is done elsewhere in the package."""

__all__ = ["option_help", "parser", "reporting"]
