"""Trained models as things that translate raw text: bundles, the text on both sides of a model, and the Python interface."""
