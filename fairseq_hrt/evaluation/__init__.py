"""Comparing translation systems: one machine, one run, one table (``python -m fairseq_hrt.cli.benchmark``)."""
