"""N-gram language models, whose scores the beam searches of one-pass models add to their own."""

from typing import Any, List, Optional, Tuple


class LanguageModel:
    """An n-gram model read by ``kenlm``.

    Args:
        path: an ARPA file or KenLM's binary one, of a model of the target's subwords.
        symbols: the symbols of the target dictionary.
        weight: factor of the model's natural log-probabilities.
        option: the option that names the file, for messages.

    Raises:
        ValueError: the package is not installed, or the file cannot be read.
    """

    def __init__(self, path: str, symbols: List[str], weight: float, *, option: str) -> None:
        try:
            import kenlm
        except ImportError as error:
            raise ValueError(f"{option} needs the package kenlm: pip install kenlm") from error
        try:
            self.model = kenlm.Model(path)
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{option} {path}: {error}; give an ARPA or KenLM file") from error
        self.new_state, self.symbols, self.weight = kenlm.State, symbols, weight

    def start(self) -> Any:
        """The state at the beginning of a sentence."""
        state = self.new_state()
        self.model.BeginSentenceWrite(state)
        return state

    def step(self, state: Any, token: Optional[int]) -> Tuple[Any, float]:
        """(next state, weighted natural log-probability) of a token; None is the end of
        sentence."""
        following = self.new_state()
        word = "</s>" if token is None else self.symbols[token]
        # KenLM returns log10: times ln 10.
        return following, 2.302585092994046 * self.weight * self.model.BaseScore(
            state, word, following
        )
