"""The package kenlm, as far as searches ask for it."""

from collections import defaultdict
from types import SimpleNamespace


class StubLanguageModel:
    """A bigram model with kenlm's interface."""

    def __init__(self, path):
        if path == "missing":
            raise OSError("cannot read missing")
        self.scores = defaultdict(
            float, {("<s>", "w0"): -3.0, ("w1", "w2"): -5.0, ("w2", "</s>"): -1.0}
        )

    def BeginSentenceWrite(self, state):
        state.word = "<s>"

    def BaseScore(self, state, word, following):
        following.word = word
        return self.scores[state.word, word]


MODULE = SimpleNamespace(Model=StubLanguageModel, State=type("State", (), {}))
