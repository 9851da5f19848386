"""Thin command-line verbs, run as ``python -m fairseq_hrt.cli.VERB``; the work is done elsewhere in
the package."""

__all__ = ["option_help", "parser", "reporting"]
