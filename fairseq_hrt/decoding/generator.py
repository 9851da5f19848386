"""The generator contract of fairseq's command line, filled by the engine; and its plain autoregressive form."""

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..engine import EngineEnsemble, GenerationCounters, Memory
from .alignment import align
from .beam_search import SearchPlan, require_found, search
from .constraints import Constraints, length_limits
from .hypothesis import Hypothesis
from .options import DecodingOptions
from .rescoring import Rescorer
from .steps import StepHook, attached


class EngineGenerator:
    """Base of the families' generators: a family says how one encoded batch is decoded.

    Args:
        models: the ensemble; packed at the first batch, when fairseq has moved and cast it.
        dictionary: the target dictionary.
        options: what the user asked for.

    Attributes:
        counters: what was executed.
        step_hooks: called with every :class:`DecodingStep`.
        lexicon: see :meth:`align_words`; None while nobody wants to know where words come from.
        rescorer: see :meth:`rank_by`; None where hypotheses stay in the order of their search.
        eos: read by fairseq's command line to strip the end symbol from its output.
    """

    # How to get several translations of a sentence.
    more_candidates = "--beam 2 or more"

    def __init__(
        self, models: Sequence[FairseqEncoderDecoderModel], dictionary: Dictionary, options: DecodingOptions
    ) -> None:
        self.models = list(models)
        self.dictionary = dictionary
        self.options = options
        self.eos = dictionary.eos()
        self.symbols_to_strip_from_output = {self.eos}
        self.counters = GenerationCounters()
        self.step_hooks: List[StepHook] = []
        self._ensemble: Optional[EngineEnsemble] = None
        self.lexicon: Optional[Mapping[str, str]] = None
        self.rescorer: Optional[Rescorer] = None
        longest = self.decoder_positions - 1
        if options.min_len > longest:
            raise ValueError(
                f"--min-len {options.min_len} is greater than the {longest} words that the model can write; lower it"
            )

    @property
    def ensemble(self) -> EngineEnsemble:
        """The engines, built at first use."""
        if self._ensemble is None:
            static = self.options.static_weights
            self._ensemble = EngineEnsemble(self.models, self.counters, static_weights=static)
        return self._ensemble

    @ensemble.setter
    def ensemble(self, ensemble: EngineEnsemble) -> None:
        """Other engines of the same models."""
        self._ensemble = ensemble

    @torch.no_grad()
    def generate(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> List[List[Dict[str, Any]]]:
        """Translates a batch.

        Args:
            models: ignored as by fairseq's own generator; validation passes them wrapped for distributed training.
            sample: a batch of :class:`LanguagePairDataset`.
            prefix_tokens: LongTensor ``[B, P]``, see :class:`Constraints`.
            constraints: must be None.
            bos_token: start symbol instead of ``</s>``.

        Returns:
            For each sentence its hypotheses, best first, as :meth:`Hypothesis.to_fairseq` describes them.
        """
        if constraints is not None:
            raise ValueError("--constraints: not supported by this decoder; use --task translation for it")
        for model in self.models:
            # As fairseq's generator does; a training step switches the model back itself.
            if model.training:
                model.eval()
        # Once a batch: casting and moving a model replaces its weights.
        self.ensemble.refresh()
        with torch.inference_mode():
            hypotheses = require_found(self.decode(sample["net_input"], prefix=prefix_tokens, start=bos_token))
            hypotheses = self.ranked(sample["net_input"], hypotheses)
        self.counters.sentences += len(hypotheses)
        if self.lexicon is not None:
            align(self.ensemble, sample["net_input"], hypotheses, self.dictionary, start=bos_token)
        return [[self._finish(hypothesis) for hypothesis in best[: self.options.beam]] for best in hypotheses]

    @property
    def candidates(self) -> int:
        """Most translations of a sentence that :meth:`decode` finds."""
        return self.beam

    @property
    def wanted(self) -> int:
        """Translations of a sentence that a search has to find: all that it can where another model chooses."""
        return self.options.nbest if self.rescorer is None else self.candidates

    def require_candidates(self) -> None:
        """Raises ValueError where there is only one translation to choose from."""
        if self.candidates < 2:
            raise ValueError(f"--rescore-path: there is only one translation to choose from; give {self.more_candidates}")

    def rank_by(self, rescorer: Rescorer) -> None:
        """From now on another model says which of a sentence's translations is the best; see :meth:`require_candidates`."""
        self.require_candidates()
        self.rescorer = rescorer

    def align_words(self, lexicon: Mapping[str, str]) -> None:
        """From now on each hypothesis says which source word each of its words comes from.

        Args:
            lexicon: of words for ``<unk>``; kept for whoever writes the text.

        Raises:
            ValueError: a model does not write from left to right, which is how its words are aligned.
        """
        for model in self.models:
            if getattr(model.decoder, "only_task", None) is not None:
                raise ValueError(
                    f"--replace-unk: the words of a {type(model).__name__} are not aligned with the source; --unkpen inf forbids <unk>"
                )
        self.lexicon = lexicon

    def decode(
        self, net_input: Dict[str, Tensor], *, prefix: Optional[Tensor], start: Optional[int]
    ) -> List[List[Hypothesis]]:
        """Decodes one batch, in inference mode; best hypotheses first."""
        raise NotImplementedError

    def ranked(self, net_input: Dict[str, Tensor], hypotheses: List[List[Hypothesis]]) -> List[List[Hypothesis]]:
        """What :meth:`decode` has found, in the order that counts: its own, or that of the model which chooses."""
        return hypotheses if self.rescorer is None else self.rescorer.rank(net_input, hypotheses, like=self.models[0])

    @property
    def beam(self) -> int:
        """Hypotheses that are kept: fairseq never keeps more than there are words besides padding."""
        return min(self.options.beam, len(self.dictionary) - 1)

    def length_limits(self, memories: Sequence[Memory], *, capacity: Optional[int] = None) -> Tensor:
        """Most tokens of each translation before ``</s>``: LongTensor ``[B]``.

        Each sentence's own length counts, where fairseq counts the padding of the batch as well: the result must not depend on what a
        sentence is batched with.

        Args:
            memories: the encoded batch.
            capacity: positions for what is written; None: those of the models' decoders.
        """
        capacity = self.decoder_positions if capacity is None else capacity
        if self.rescorer is not None:
            capacity = min(capacity, self.rescorer.target_positions)
        return length_limits(
            memories[0].lengths, max_len_a=self.options.max_len_a, max_len_b=self.options.max_len_b, capacity=capacity
        )

    @property
    def decoder_positions(self) -> int:
        """Positions that all models have."""
        return min(model.max_decoder_positions() for model in self.models)

    @contextmanager
    def watched(self, hook: StepHook) -> Iterator[None]:
        """Calls ``hook`` with every :class:`DecodingStep` while the context lasts."""
        with attached(self.step_hooks, hook):
            yield

    def _finish(self, hypothesis: Hypothesis) -> Dict[str, Any]:
        if not self.options.retain_history:
            hypothesis.history = []
        return hypothesis.to_fairseq()


class AutoregressiveGenerator(EngineGenerator):
    """Left-to-right decoding, one token a step: what the other families are compared with."""

    def decode(
        self, net_input: Dict[str, Tensor], *, prefix: Optional[Tensor], start: Optional[int]
    ) -> List[List[Hypothesis]]:
        return self.decode_memories(self.ensemble.encode(net_input), prefix=prefix, start=start)

    def decode_memories(
        self, memories: List[Memory], *, prefix: Optional[Tensor] = None, start: Optional[int] = None
    ) -> List[List[Hypothesis]]:
        """Decodes sentences that are encoded already."""
        options = self.options
        rules = Constraints(
            self.dictionary,
            min_length=options.min_len,
            max_lengths=self.length_limits(memories),
            unkpen=options.unkpen,
            no_repeat_ngram_size=options.no_repeat_ngram_size,
            prefix=prefix,
        )
        self.ensemble.reserve_positions(rules.longest_limit + 1)
        plan = SearchPlan(
            start=self.eos if start is None else start,
            constraints=rules,
            beam=self.beam,
            lenpen=options.lenpen,
            normalize=options.normalize,
            temperature=options.temperature,
        )
        found = search(self.ensemble, memories, plan, hooks=self.step_hooks)
        if options.retain_history:
            for hypothesis in (hypothesis for best in found for hypothesis in best):
                hypothesis.history = [hypothesis.tokens[: i + 1] for i in range(len(hypothesis.tokens))]
        return found
