"""Drafters guess the next words of a translation. A wrong guess costs time, never quality: the
model checks every guess."""

from typing import Any, Callable, Dict, List, Tuple

from fairseq.data import Dictionary
from torch import Tensor

from ..engine.models import dictionary_option, load_other_model
from ..native.options.effects import read, set_aside
from ..native.options.schema import SCHEMA


class Drafter:
    """``--jacobi-draft previous``: guesses what the model predicted after a wrong guess in its last
    pass (call of the decoder). Base class of the other drafters."""

    def begin(self, net_input: Dict[str, Tensor]) -> None:
        """Prepares for guessing translations of a new batch.

        Args:
            net_input: the batch as fairseq gives it to models; ``src_tokens`` are its sources.
        """

    def propose(
        self, sentence: int, tokens: List[int], answers: List[int], count: int
    ) -> List[int]:
        """Guesses at most ``count`` tokens that follow ``tokens``.

        Args:
            sentence: index into the batch.
            tokens: the confirmed beginning of the translation.
            answers: the model's predictions of what follows, made in the last pass after a wrong
                guess.
            count: the most guesses wanted.
        """
        return answers[:count]

    def learn(self, tokens: List[int]) -> None:
        """Learns from ``tokens``, a finished translation, to guess the tokens of later
        translations."""

    def forget(self) -> None:
        """Forgets all translations learnt from."""


class NGramDrafter(Drafter):
    """``--jacobi-draft ngram``: guesses the words that followed the last two words of the
    translation, or else the last one, in an earlier translation.

    Args:
        longest: the most following words remembered for each context of one or two words.
        most: the most contexts remembered; the oldest are forgotten.
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
    """``--jacobi-draft source``: where the translation's last word occurs in the source, guesses
    the words that follow it there; for names, numbers and addresses.

    Args:
        dictionary: the one dictionary of both languages.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self.ignored = (dictionary.pad(), dictionary.eos())
        self.sources: List[List[int]] = []

    def begin(self, net_input: Dict[str, Tensor]) -> None:
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
    """Guesses the words of a draft, another model's translation of the sentence. Where a guess was
    wrong, the last confirmed words are looked up in the draft, and guessing continues behind them.

    Args:
        translate: function that takes the argument of :meth:`begin` and returns the draft of each
            sentence, ``</s>`` included.
    """

    # The most words by which the draft may be out of step with the translation.
    SHIFT = 4

    def __init__(self, translate: Callable[[Dict[str, Tensor]], List[List[int]]]) -> None:
        self.translate = translate
        self.drafts: List[List[int]] = []

    def begin(self, net_input: Dict[str, Tensor]) -> None:
        self.drafts = self.translate(net_input)
        # For each sentence: place reached in the draft, confirmed words at that time.
        self.reached = [(0, 0)] * len(self.drafts)

    def propose(
        self, sentence: int, tokens: List[int], answers: List[int], count: int
    ) -> List[int]:
        draft = self.drafts[sentence]
        place, verified = self.reached[sentence]
        expected = place + len(tokens) - verified
        if tokens and draft[expected - 1 : expected] != tokens[-1:]:
            expected = self._realign(draft, tokens, expected)
        self.reached[sentence] = (expected, len(tokens))
        return draft[expected : expected + count] or answers[:count]

    def _realign(self, draft: List[int], tokens: List[int], expected: int) -> int:
        """The index in the draft where guessing continues: just after the place, at most SHIFT from
        ``expected``, where the longest match with the last confirmed words (up to 3) ends. Without
        a match it is ``expected``, as if one word had been replaced by another.

        Args:
            draft: ids of the draft's words.
            tokens: ids of the confirmed words.
            expected: the index if no word had been inserted or left out.
        """
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
    """Loads a draft model with the task it was trained with.

    Args:
        path: the draft model's checkpoint.
        family: the family that ``--jacobi-draft`` names, one of MODEL_DRAFTS.
        beside: configuration of the task that checks the drafts; has the data folder and languages.
        source, target: dictionaries of the model that checks the drafts.
        options: the value of ``--jacobi-draft-options``: new values for options of the draft
            model's task, a Python dictionary as text.

    Returns:
        (the draft model's task, list of its models).

    Raises:
        ValueError: the checkpoint is of another family or has other dictionaries, ``options`` is
            not a dictionary, or an option in it is unknown or changes no draft.
    """
    overrides = dictionary_option("--jacobi-draft-options", options, "{'hrt_decode_chunk': '2'}")

    def choose(config: Any) -> Dict[str, Any]:
        if config._name != f"translation_{family}":
            raise ValueError(
                f"--jacobi-draft {family} with --jacobi-draft-path {path}: the checkpoint belongs"
                f" to the task {config._name}; give a checkpoint of translation_{family}"
            )
        # Options that all tasks have, such as --rescore-path, change no draft.
        own = {name for name, option in SCHEMA.items() if option.origin == family}
        own |= {"forced_start", "seed"} if family == "dag" else {"forced_start"}
        unknown = [name for name in overrides if name not in own]
        if unknown:
            raise ValueError(
                f"--jacobi-draft-options: the task {config._name} has no decoding option"
                f" {', '.join(unknown)}: leave it out"
            )
        try:
            set_aside({**read(SCHEMA, config), "beam": 1, **overrides}, given=overrides)
        except ValueError as error:
            raise ValueError(f"--jacobi-draft-options: {error}") from None
        return overrides

    return load_other_model(
        "--jacobi-draft-path", path, beside=beside, source=source, target=target, choose=choose
    )
