"""One error for NaN, whichever engine finds it."""

from fairseq_hrt.native.decoding.errors import NumericalError
from fairseq_hrt.native.runtime import engine


def test_both_engines_raise_the_same_error():
    assert engine.NumericalError is NumericalError and issubclass(
        NumericalError, (ValueError, ArithmeticError)
    )
