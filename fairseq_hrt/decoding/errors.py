"""Errors while a sentence is decoded."""


class NumericalError(ArithmeticError, ValueError):
    """The model computed NaN where a probability was needed."""
