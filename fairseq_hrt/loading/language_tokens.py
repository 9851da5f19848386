"""Adds the language tokens that models of fairseq's multilingual task
``translation_multi_simple_epoch`` need, e.g. MBart-50, which the Jacobi paper decodes.

That task adds a token for each language to the dictionaries, and puts one before the source and
another before the translation. A checkpoint holds the task's options in ``cfg.model``.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.data.multilingual.multilingual_utils import augment_dictionary, get_lang_tok
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from ..native.options.values import DecodingOptions, UnsupportedOption, flag
from .checkpoints import value_of

TASK = "translation_multi_simple_epoch"
# Tasks that add language tokens, too, and put them elsewhere: behind the source, or in place of
# ``</s>``.
_OTHERS = ("multilingual_translation", "translation_from_pretrained_bart")


class LanguageTokens(NamedTuple):
    """The language tokens for one translation direction.

    Attributes:
        source: the id of the token that is added to each source; None: none is.
        target: the id of the token that every translation begins with; None: none does.
        at_ends: True if the tokens replace the source's ``</s>`` and the decoder's start symbol;
            False if they are put before the first word.
    """

    source: Optional[int]
    target: Optional[int]
    at_ends: bool

    def mark(self, row: Tensor) -> Tensor:
        """Returns a source, LongTensor ``[S]`` ending in ``</s>``, with the language token added:
        ``[S]`` if ``at_ends``, else ``[S + 1]``. If ``source`` is None, the source stays as it
        is."""
        if self.source is None:
            return row
        token = row.new_tensor([self.source])
        return torch.cat([row[:-1], token] if self.at_ends else [token, row])

    @property
    def more(self) -> int:
        """By how many tokens :meth:`mark` lengthens a source: 0 or 1."""
        return int(self.source is not None and not self.at_ends)

    def mark_sources(self, dataset: LanguagePairDataset) -> LanguagePairDataset:
        """Adds the language token to all sources of a data set, in place; returns the data set."""
        dataset.src = _Marked(dataset.src, self.mark)
        dataset.src_sizes = np.asarray(dataset.src_sizes) + self.more
        dataset.sizes = (
            dataset.src_sizes
            if dataset.tgt is None
            else np.vstack((dataset.src_sizes, dataset.tgt_sizes)).T
        )
        return dataset


class MultilingualTask(TranslationTask):
    """fairseq's translation task, which can also decode models of fairseq's multilingual task.

    Attributes:
        language: the language tokens of a multilingual model, once it is loaded; None for others.
    """

    language: Optional[LanguageTokens] = None

    def inference_step(
        self,
        generator: Any,
        models: Sequence[FairseqEncoderDecoderModel],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
    ) -> Any:
        """Translates a batch as fairseq's task does; if the model is multilingual, each translation
        begins with the token of the target language."""
        language = self.language
        if language is None or language.target is None:
            return super().inference_step(generator, models, sample, prefix_tokens, constraints)
        tokens = sample["net_input"]["src_tokens"]  # [B, S]
        with torch.no_grad():
            if language.at_ends:
                return generator.generate(
                    models, sample, constraints=constraints, bos_token=language.target
                )
            first = tokens.new_full((len(tokens), 1), language.target)  # [B, 1]
            return generator.generate(models, sample, prefix_tokens=first, constraints=constraints)

    def build_dataset_for_inference(
        self, src_tokens: List[Tensor], src_lengths: List[int], constraints: Any = None
    ) -> Any:
        """Makes fairseq's data set of the sources to translate; those for a multilingual model get
        their language token."""
        if self.language is not None:
            src_tokens = [self.language.mark(row) for row in src_tokens]
            src_lengths = [len(row) for row in src_tokens]
        return super().build_dataset_for_inference(src_tokens, src_lengths, constraints)

    def require_own_references(self) -> None:
        """Raises ValueError for ``--score-reference``, if the model's references begin with a
        language token."""
        if self.language is not None:
            raise ValueError(
                "--score-reference: the references of this model begin with language tokens;"
                f" use --task {TASK}"
            )

    def require_own_start(self, options: DecodingOptions) -> None:
        """Raises ValueError for options that give a translation's first words, if the model's
        translations begin with a language token."""
        if self.language is None:
            return
        for name in ("prefix_size", "forced_start"):
            value = getattr(options, name)
            if value:
                raise ValueError(
                    f"{flag(name)} {value}: the translations of this model begin with a language"
                    f" token; leave it out, or use --task {TASK}"
                )

    def stripped(self, generator: Any) -> Any:
        """Returns the generator, after telling fairseq's commands to leave a target language token
        out of what they print."""
        if self.language is not None and self.language.target is not None:
            generator.symbols_to_strip_from_output = {generator.eos, self.language.target}
        return generator

    def require_usual_start(self) -> None:
        """Raises UnsupportedOption if a language token is the decoder's start symbol, which only
        PyTorch's engine supports."""
        if self.language is not None and self.language.at_ends:
            raise UnsupportedOption(
                "the model's decoder begins with a language token, which the native engine does not"
                " support"
            )


class _Marked(torch.utils.data.Dataset):
    def __init__(self, rows: Any, mark: Callable[[Tensor], Tensor]) -> None:
        self.rows, self.mark = rows, mark
        self.supports_prefetch = getattr(rows, "supports_prefetch", False)

    def __getitem__(self, number: int) -> Tensor:
        return self.mark(self.rows[number])

    def __len__(self) -> int:
        return len(self.rows)

    def prefetch(self, numbers: Any) -> None:
        self.rows.prefetch(numbers)


def language_tokens(
    cfg: Any,
    languages: List[Optional[str]],
    source: Dictionary,
    target: Dictionary,
) -> Optional[LanguageTokens]:
    """The language tokens of a checkpoint's model for one translation direction; None if the model
    was not trained by the multilingual task. Also adds the tokens of all languages to the
    dictionaries.

    Args:
        cfg: ``cfg.model`` of the checkpoint.
        languages: the source and the target language; None if one is not given, which is refused
            for a multilingual model.
        source, target: the dictionaries, changed in place.

    Raises:
        ValueError: the model does not support a language, or was trained by a task or with language
            tokens of a kind that this module does not support.
    """
    task = value_of(cfg, "task")
    if task in _OTHERS:
        raise ValueError(
            f"the model was trained by the task {task}, which is not supported here: give --task"
            f" {task}, fairseq's own"
        )
    if task != TASK:
        return None
    known, style = _languages(cfg), str(value_of(cfg, "lang_tok_style") or "multilingual")
    for language in languages:
        if language not in known:
            raise ValueError(
                f"the model translates {', '.join(known)}: give --source-lang and --target-lang"
                f" among them, not {language}"
            )
    if value_of(cfg, "langtoks") or list(value_of(cfg, "langtoks_specs") or ["main"]) != ["main"]:
        raise ValueError(
            "the model was trained with --langtoks or --langtoks-specs, which are not supported"
            f" here: give --task {TASK}"
        )
    for dictionary in {id(own): own for own in (source, target)}.values():
        augment_dictionary(dictionary, known, style, extra_data=value_of(cfg, "extra_data"))
    spec = value_of(cfg, "encoder_langtok")
    marks = dict(zip(("src", "tgt"), languages))
    return LanguageTokens(
        source.index(get_lang_tok(str(marks[str(spec)]), style)) if spec else None,
        target.index(get_lang_tok(str(marks["tgt"]), style))
        if value_of(cfg, "decoder_langtok")
        else None,
        bool(value_of(cfg, "lang_tok_replacing_bos_eos")),
    )


def _languages(cfg: Any) -> List[str]:
    """The model's languages in the order in which their tokens are added to the dictionaries;
    ValueError if ``cfg``, the checkpoint's ``cfg.model``, names a file that lists them."""
    given, file = value_of(cfg, "langs"), value_of(cfg, "lang_dict")
    if file is not None:
        raise ValueError(
            f"the model's languages are listed in the file {file} of its training, which is not"
            " opened: give them in that order by --model-overrides \"{'lang_dict': None, 'langs':"
            " 'en,de'}\""
        )
    if given is None:
        pairs = value_of(cfg, "lang_pairs") or []
        pairs = pairs.split(",") if isinstance(pairs, str) else pairs
        return sorted({language for pair in pairs for language in pair.split("-")})
    return given.split(",") if isinstance(given, str) else list(map(str, given))
