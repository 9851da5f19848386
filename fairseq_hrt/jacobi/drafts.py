"""Where guesses come from. A guess is never wrong in the result, only more or less useful."""

from typing import Any, Callable, Dict, List, Sequence, Tuple

from fairseq.data import Dictionary
from torch import Tensor

from ..engine import Memory
from ..engine.models import dictionary_option, load_other_model
from ..native.options.effects import read, set_aside
from ..native.options.schema import SCHEMA


class Drafter:
    """``previous``: what the model answered to earlier guesses; the base of the others."""

    def begin(self, net_input: Dict[str, Tensor], memories: Sequence[Memory] = ()) -> None:
        """A new batch, for which guesses will be wanted.

        Args:
            memories: the batch as the models that check have encoded it.
        """

    def propose(
        self, sentence: int, tokens: List[int], answers: List[int], count: int
    ) -> List[int]:
        """At most ``count`` guesses of what follows.

        Args:
            sentence: index into the batch.
            tokens: what is proved.
            answers: what the model said in the last pass about what follows, from wrong guesses.
            count: how many are wanted.
        """
        return answers[:count]

    def learn(self, tokens: List[int]) -> None:
        """A translation is finished."""

    def forget(self) -> None:
        """Forgets all translations."""


class NGramDrafter(Drafter):
    """``ngram``: what followed the last two words, or the last one, in this and earlier
    translations.

    Args:
        longest: guesses that are remembered for a context.
        most: contexts that are remembered; the oldest are forgotten.
    """

    def __init__(self, *, longest: int = 8, most: int = 200_000) -> None:
        self.longest, self.most = longest, most
        self.following: Dict[Tuple[int, ...], List[int]] = {}

    def propose(
        self, sentence: int, tokens: List[int], answers: List[int], count: int
    ) -> List[int]:
        for size in (2, 1):
            known = self.following.get(tuple(tokens[-size:])) if len(tokens) >= size else None
            if known:
                return known[:count]
        return answers[:count]

    def learn(self, tokens: List[int]) -> None:
        for size in (1, 2):
            for end in range(size, len(tokens)):
                context = tuple(tokens[end - size : end])
                # Newest last, as dictionaries keep their order.
                self.following.pop(context, None)
                self.following[context] = tokens[end : end + self.longest]
        while len(self.following) > self.most:
            del self.following[next(iter(self.following))]

    def forget(self) -> None:
        self.following.clear()


class SourceDrafter(Drafter):
    """``source``: what follows the last word in the source, for names, numbers and addresses.

    Args:
        dictionary: of both sides.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self.ignored = (dictionary.pad(), dictionary.eos())
        self.sources: List[List[int]] = []

    def begin(self, net_input: Dict[str, Tensor], memories: Sequence[Memory] = ()) -> None:
        rows = net_input["src_tokens"].tolist()
        self.sources = [[token for token in row if token not in self.ignored] for row in rows]

    def propose(
        self, sentence: int, tokens: List[int], answers: List[int], count: int
    ) -> List[int]:
        source = self.sources[sentence]
        if tokens and tokens[-1] in source:
            # The occurrence nearest to where the translation stands.
            places = [place for place, token in enumerate(source) if token == tokens[-1]]
            place = min(places, key=lambda place: abs(place + 1 - len(tokens)))
            found = source[place + 1 : place + 1 + count]
            if found:
                return found
        return answers[:count]


class ModelDrafter(Drafter):
    """The whole translation of another model; after each correction it continues behind the proved
    words.

    Args:
        translate: from ``net_input`` and the memories of :meth:`begin` to the tokens of each
            sentence, ``</s>`` included.
    """

    # How far a correction may have shifted the words that follow it.
    SHIFT = 4

    def __init__(
        self, translate: Callable[[Dict[str, Tensor], Sequence[Memory]], List[List[int]]]
    ) -> None:
        self.translate = translate
        self.drafts: List[List[int]] = []

    def begin(self, net_input: Dict[str, Tensor], memories: Sequence[Memory] = ()) -> None:
        self.drafts = self.translate(net_input, memories)
        # Place in the draft that the proved words have reached, and how many words that was.
        self.reached = [(0, 0)] * len(self.drafts)

    def propose(
        self, sentence: int, tokens: List[int], answers: List[int], count: int
    ) -> List[int]:
        draft = self.drafts[sentence]
        place, proved = self.reached[sentence]
        expected = place + len(tokens) - proved
        if tokens and draft[expected - 1 : expected] != tokens[-1:]:
            expected = self._realign(draft, tokens, expected)
        self.reached[sentence] = (expected, len(tokens))
        return draft[expected : expected + count] or answers[:count]

    def _realign(self, draft: List[int], tokens: List[int], expected: int) -> int:
        """The place behind the word of the draft, near ``expected``, that agrees with the last
        proved one; else ``expected``, as if one word had been replaced by another."""
        best, closest = expected, (0, 0)
        for place in range(
            max(expected - self.SHIFT, 1), min(expected + self.SHIFT, len(draft)) + 1
        ):
            agreed = 0
            while (
                agreed < min(3, place, len(tokens))
                and draft[place - 1 - agreed] == tokens[-1 - agreed]
            ):
                agreed += 1
            if (agreed, -abs(place - expected)) > closest and agreed:
                best, closest = place, (agreed, -abs(place - expected))
        return best


def load_draft_model(
    path: str, family: str, *, beside: Any, source: Dictionary, target: Dictionary, options: str
) -> Any:
    """The task and the models of a draft, built through the task it was trained with.

    Args:
        path: checkpoint.
        family: one of MODEL_DRAFTS.
        beside: configuration of the task that checks: its data folder and languages.
        source, target: the dictionaries of the model that checks.
        options: of the draft's task, a Python dictionary as text.

    Returns:
        (task, models).

    Raises:
        ValueError: another family, other dictionaries, options that are no dictionary, or one
            without effect.
    """
    overrides = dictionary_option("--jacobi-draft-options", options, "{'hrt_decode_chunk': '2'}")

    def choose(config: Any) -> Dict[str, Any]:
        if config._name != f"translation_{family}":
            raise ValueError(
                f"--jacobi-draft {family} with --jacobi-draft-path {path}: the checkpoint belongs"
                f" to the task {config._name}"
            )
        unknown = [name for name in overrides if name not in config]
        if unknown:
            raise ValueError(
                f"--jacobi-draft-options: the task {config._name} has no option"
                f" {', '.join(unknown)}"
            )
        try:
            set_aside({**read(SCHEMA, config), "beam": 1, **overrides}, given=overrides)
        except ValueError as error:
            raise ValueError(f"--jacobi-draft-options: {error}") from None
        return overrides

    return load_other_model(
        "--jacobi-draft-path", path, beside=beside, source=source, target=target, choose=choose
    )
