"""Errors while a sentence is decoded."""


class NumericalError(ArithmeticError, ValueError):
    """The model computed NaN (not a number) where a probability was needed."""

    @classmethod
    def because(cls, found: str) -> "NumericalError":
        """Makes an error whose message is ``found``, a clause about what is wrong with the model,
        followed by the likely causes and what to do."""
        return cls(
            f"{found}: its weights are broken (a diverged or truncated training?) or overflow in"
            " half precision; try an earlier checkpoint or decode without --fp16"
        )
