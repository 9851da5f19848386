"""The verbs of the command ``fairseq-hrt``, a module each. They only read options and print
results; the work is done elsewhere in the package."""

__all__ = ["option_help", "parser", "reporting"]
