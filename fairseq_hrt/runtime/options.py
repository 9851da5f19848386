"""Decoding options of the runtime: those of ``fairseq-generate`` that it honours; the rest is refused by name."""

import ctypes as C
import logging
import math
from dataclasses import dataclass, fields, replace
from typing import Any, Container, Dict, List, Mapping, Optional, Tuple

from .. import decoding_rules, option_effects
from ..option_effects import flag
from . import binding
from .format import Header

logger = logging.getLogger(__name__)

# Penalties and exponents beyond this overflow.
LARGEST_WEIGHT = 1e6
MOST_DRAFT_WIDTH = 4096
# Sizes of Jacobi decoding, and the least that they may be.
JACOBI_SIZES = {"jacobi_block_size": 1, "jacobi_window": 1, "jacobi_prefix_length": 0}
# Options of one family begin with its name; Jacobi decoding is a way of decoding autoregressive models.
FAMILIES = {"hrt_": "hrt", "bidirectional_": "bidirectional", "dag_": "dag", "jacobi_": "autoregressive"}


class UnsupportedOption(ValueError):
    """An option that only the eager engine honours."""


@dataclass(frozen=True)
class DecodeOptions:
    """What is decoded and how; names and defaults of ``fairseq-generate``.

    Attributes:
        scores: compute scores and positional scores. False saves the logsumexp over the vocabulary of greedy decoding; scores
            of the results are then None.
        batch_size: most sentences decoded together.
        alignments: the source token that each token comes from (most of the last layer's attention), by one more pass; for models that
            write from left to right.
        graphs: the graph of each sentence; for dag.
        hrt_draft_chunk: lossless drafts: decode with this chunk, correct the draft by the same model's C_d = 1, greedily. The
            tokens are those of ``hrt_decode_chunk="1"``, ``beam=1``. None: no drafts.
        hrt_draft_width: most draft tokens that are checked in one pass, which never takes more than 32; 0: as many as were right
            lately, and plain greedy decoding, whose tokens and scores are the same, where it is measured to be quicker. Then
            ``steps`` tell what was done, and may differ from call to call.
        jacobi_mode: lossless parallel decoding of an autoregressive model, greedily: ``frontier``, ``pj``, ``pgj`` or ``hgj``; the tokens
            are those of ``beam=1``. None: word by word.
        jacobi_block_size: of ``pgj`` and ``hgj``.
        jacobi_window: tokens that a pass of ``frontier`` may settle; None: as many as were right lately, and plain greedy decoding where
            it is measured to be quicker. Then ``steps`` may differ from call to call.
        jacobi_prefix_length: tokens that ``hgj`` decodes in blocks; None: all.
        jacobi_draft: where guesses of ``frontier`` come from: ``previous`` or ``source``.
        dag_decode_upsample_scale: None: that of the training.
        dag_allow_unk: vertices may write the unknown word, less ``unkpen``.
    """

    beam: int = 5
    nbest: int = 1
    lenpen: float = 1.0
    normalize: bool = True
    unkpen: float = 0.0
    min_len: int = 1
    max_len_a: float = 0.0
    max_len_b: int = 200
    scores: bool = True
    batch_size: int = 32
    alignments: bool = False
    graphs: bool = False
    hrt_decode_chunk: Optional[str] = None
    hrt_chunk_table: str = "10:1,30:2,inf:1"
    hrt_nat_beam: Optional[int] = None
    hrt_eos_last_chunk: bool = False
    hrt_draft_chunk: Optional[int] = None
    hrt_draft_width: int = 0
    jacobi_mode: Optional[str] = None
    jacobi_block_size: int = 3
    jacobi_window: Optional[int] = None
    jacobi_prefix_length: Optional[int] = None
    jacobi_draft: str = "previous"
    bidirectional_deduplicate: bool = False
    dag_decode_strategy: str = "lookahead"
    dag_decode_beta: float = 1.0
    dag_decode_length_beta: float = 1.0
    dag_decode_upsample_scale: Optional[float] = None
    dag_keep_repeats: bool = False
    dag_allow_unk: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, Any], **own: Any) -> "DecodeOptions":
        """Reads options by the names of ``fairseq-generate`` (``{"beam": "1", "hrt_decode_chunk": "3"}``), values as text or as
        numbers; options that do not change what is decoded (``batch_size`` of fairseq, ``cpu``, …) are the caller's to leave out.

        Args:
            own: values of this class that go before ``options``.

        Raises:
            UnsupportedOption: an option that only the eager engine honours, by name.
            ValueError: a value that cannot be read.
        """
        values: Dict[str, Any] = {}
        known = {item.name: item for item in fields(cls)}
        for name, value in options.items():
            if name in NEUTRAL and _text(value) in NEUTRAL[name]:
                continue
            if name == "unnormalized":
                values["normalize"] = not _truth(name, value)
            elif name in known:
                values[name] = _read(name, known[name].type, value)
            else:
                raise UnsupportedOption(f"{flag(name)} {_text(value)}: the runtime does not know it; use --engine torch")
        return cls(**{**values, **own})

    def __post_init__(self) -> None:
        for name in ("beam", "nbest", "min_len", "max_len_b", "batch_size", "hrt_draft_width"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{flag(name)} {getattr(self, name)!r} is no whole number")
        if self.beam < 1:
            raise ValueError(f"--beam {self.beam}: at least one hypothesis has to be kept; --beam 1 is greedy search")
        if not 1 <= self.nbest <= self.beam:
            raise ValueError(f"--nbest {self.nbest} with --beam {self.beam}: --nbest must lie between 1 and --beam")
        self._check_ranges()
        self._check_windows()

    def _check_ranges(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size}: at least one sentence has to be decoded at a time")
        for name in ("beam", "min_len", "max_len_b", "batch_size", "hrt_draft_width"):
            if not 0 <= getattr(self, name) < 1 << 30:
                raise ValueError(f"{flag(name)} {getattr(self, name)}: give a number from 0 to {(1 << 30) - 1}")
        if self.hrt_draft_width > MOST_DRAFT_WIDTH:
            raise ValueError(f"hrt_draft_width={self.hrt_draft_width}: give a number from 0 to {MOST_DRAFT_WIDTH}")
        for name in ("lenpen", "max_len_a", "dag_decode_beta", "dag_decode_length_beta"):
            if not abs(getattr(self, name)) <= LARGEST_WEIGHT:
                raise ValueError(f"{flag(name)} {getattr(self, name)}: give a number between ±{LARGEST_WEIGHT:g}")
        if self.max_len_a < 0:
            raise ValueError(f"--max-len-a {self.max_len_a}: give a length of at least 0")
        if not (abs(self.unkpen) <= LARGEST_WEIGHT or self.unkpen == math.inf):
            raise ValueError(f"--unkpen {self.unkpen}: give a number between ±{LARGEST_WEIGHT:g}, or inf to forbid <unk>")

    def _check_windows(self) -> None:
        for name, least in JACOBI_SIZES.items():
            value = getattr(self, name)
            if value is None and name != "jacobi_block_size":
                continue
            if not isinstance(value, int):
                raise ValueError(f"{flag(name)} {value!r} is no whole number")
            if not least <= value < 1 << 30:
                raise ValueError(f"{flag(name)} {value}: give a number from {least} to {(1 << 30) - 1}")


# Options whose value asks for nothing: name -> such values, as text.
NEUTRAL = {
    "sampling": ("False",), "temperature": ("1", "1.0"), "no_repeat_ngram_size": ("0",), "diverse_beam_groups": ("-1",),
    "diversity_rate": ("-1.0", "-1"), "constraints": ("None",), "match_source_len": ("False",), "lm_path": ("None",),
    "print_alignment": ("None",), "prefix_size": ("0",), "retain_iter_history": ("False",), "score_reference": ("False",),
    "bidirectional_scoring": ("canonical",), "dag_no_repeat_consecutive": ("0",), "dag_lm_path": ("None",),
    "hrt_nat_beam": ("None",), "hrt_decode_chunk": ("None",), "dag_decode_upsample_scale": ("None",), "jacobi_window": ("None",),
    "jacobi_prefix_length": ("None",), "jacobi_draft_path": ("None",), "jacobi_draft_options": ("{}",),
    "rescore_path": ("None",), "rescore_lenpen": ("1", "1.0"),
}  # fmt: skip


def _text(value: Any) -> str:
    return value.name if hasattr(value, "name") else str(value)


def _truth(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false", "1", "0", ""):
        raise ValueError(f"{flag(name)} {value!r} is neither true nor false")
    return text in ("true", "1", "")


def _read(name: str, kind: Any, value: Any) -> Any:
    """A value, or its text, as a field's type."""
    if kind is bool:
        return _truth(name, value)
    if kind in (str, Optional[str]):
        return _text(value)
    try:
        if kind in (int, Optional[int]):
            return int(str(value))
        return float(str(value))
    except ValueError:
        raise ValueError(f"{flag(name)} {_text(value)!r} is no number") from None


def chunk_table(header: Header, options: DecodeOptions) -> List[Tuple[float, int]]:
    """(longest source without ``</s>``, chunk size) pairs, ascending, the last limit infinite; as the eager engine reads them.

    Raises:
        ValueError: a value that cannot be read, or a chunk size that was not trained.
    """
    choice = None if options.hrt_decode_chunk is None else str(options.hrt_decode_chunk)
    table = decoding_rules.chunk_table(choice, options.hrt_chunk_table, header.chunk_sizes)
    for size in [size for _, size in table] + ([options.hrt_draft_chunk] if options.hrt_draft_chunk is not None else []):
        if size != 1 and size not in header.chunk_sizes:
            trained = ", ".join(map(str, header.chunk_sizes))
            raise ValueError(f"chunk size {size} was not trained: this model knows 1 (autoregressive) and {trained}")
    return table


def _check_hrt(options: DecodeOptions, table: List[Tuple[float, int]], nat_beam: int) -> None:
    if not 1 <= nat_beam <= options.beam:
        raise ValueError(
            f"--hrt-nat-beam {nat_beam} with --beam {options.beam}: the second stage completes hypotheses of the first, so it takes at "
            "least 1 and at most --beam of them"
        )
    if options.nbest > nat_beam and {size for _, size in table} != {1}:
        raise ValueError(
            f"--nbest {options.nbest} with --hrt-nat-beam {nat_beam}: there are only as many translations as the second stage completes; "
            "raise --hrt-nat-beam"
        )
    if options.hrt_draft_chunk is not None:
        if options.hrt_draft_chunk < 2:
            raise ValueError(f"hrt_draft_chunk={options.hrt_draft_chunk}: drafts are made with a chunk size of 2 or more")
        if options.beam != 1 or table != [(math.inf, 1)]:
            raise ValueError(
                'hrt_draft_chunk: drafts are corrected by greedy decoding word by word; give beam=1 and hrt_decode_chunk="1"'
            )


def _check_dag(options: DecodeOptions, scale: float) -> None:
    strategy = options.dag_decode_strategy
    if strategy not in binding.STRATEGIES:
        raise UnsupportedOption(
            f"--dag-decode-strategy {strategy}: the runtime knows {', '.join(binding.STRATEGIES)}; use --engine torch for others"
        )
    if not 0 < scale <= 1e6:
        raise ValueError(f"--dag-decode-upsample-scale {scale} must be greater than 0 and at most 1000000")


def _check_jacobi(header: Header, options: DecodeOptions) -> None:
    mode, draft = options.jacobi_mode, options.jacobi_draft
    if mode is None:
        return
    if mode not in binding.JACOBI_MODES:
        raise ValueError(f"--jacobi-mode {mode}: choose one of {', '.join(binding.JACOBI_MODES)}")
    if options.beam > 1:
        raise ValueError(f"--beam {options.beam}: parallel decoding is exact for greedy search only; give --beam 1")
    if draft not in binding.JACOBI_DRAFTS:
        raise UnsupportedOption(
            f"--jacobi-draft {draft}: the runtime knows {', '.join(binding.JACOBI_DRAFTS)}; use --engine torch for others"
        )
    if draft == "source" and header.source_vocabulary != header.target_vocabulary:
        raise ValueError(
            "--jacobi-draft source copies words of the source: it needs one dictionary for both sides; this model has "
            f"{header.source_vocabulary} source and {header.target_vocabulary} target words"
        )


def writes_in_order(header: Header) -> bool:
    """Whether the model can write one word after the other: plainly, or as hrt with C_d = 1."""
    return header.family != "dag" and (header.family != "bidirectional" or (header.block, header.directions) == (1, 1))


def _known_to(header: Header, options: DecodeOptions) -> Dict[str, Any]:
    """The options that a model of the family knows."""
    others = tuple(prefix for prefix, family in FAMILIES.items() if family != header.family)
    return {item.name: getattr(options, item.name) for item in fields(options) if not item.name.startswith(others)}


def settled(header: Header, options: DecodeOptions, given: Container[str]) -> DecodeOptions:
    """The options without those that have no effect and that nobody gives now; others of them amount to something, which is said.

    Args:
        given: names of the options that are given now; the others are a bundle's, a grid's or a system's.

    Raises:
        ValueError: one that is given has no effect.
    """
    known = _known_to(header, options)
    left = {item.name: item.default for item in fields(options) if not (item.name in known or item.name in given)}
    options = replace(options, **{**left, **option_effects.set_aside(known, given)})
    check_effects(header, options)
    effective, messages = option_effects.in_effect(_known_to(header, options))
    for message in messages:
        logger.warning(message)
    return replace(options, **effective)


def check_effects(header: Header, options: DecodeOptions) -> None:
    """Refuses options that have no effect with a model, those of other families among them.

    Raises:
        ValueError: by name.
    """
    known = _known_to(header, options)
    for item in fields(options):
        value = getattr(options, item.name)
        if item.name not in known and value != item.default:
            family = next(family for prefix, family in FAMILIES.items() if item.name.startswith(prefix))
            raise ValueError(
                f"{flag(item.name)} {value} belongs to models of the family {family}, and this one is of the family "
                f"{header.family}"
            )
    option_effects.check(known)


def options_for(header: Header, options: DecodeOptions) -> Tuple[binding.Options, Any]:
    """The options for C, checked against the model, and what has to stay while they are used.

    Raises:
        UnsupportedOption, ValueError: by name.
    """
    check_effects(header, options)
    table: List[Tuple[float, int]] = [(math.inf, 1)]
    nat_beam = options.beam if options.hrt_nat_beam is None else options.hrt_nat_beam
    scale = header.scale if options.dag_decode_upsample_scale is None else options.dag_decode_upsample_scale
    if header.family == "hrt":
        table = chunk_table(header, options)
        _check_hrt(options, table, nat_beam)
    _check_jacobi(header, options)
    if header.family == "dag":
        _check_dag(options, scale)
    if options.alignments and not writes_in_order(header):
        raise ValueError(
            f"alignments: the words of a {header.family}_transformer are not aligned with the source; --unkpen inf forbids <unk>"
        )
    if options.graphs and header.family != "dag":
        raise ValueError(f"graphs: a model of the family {header.family} writes no graph; give a dag_transformer")
    # Vertices never write the unknown word unless they are allowed to.
    unkpen = math.inf if header.family == "dag" and not options.dag_allow_unk else options.unkpen
    limits = (C.c_double * len(table))(*(limit for limit, _ in table))
    chunks = (C.c_int32 * len(table))(*(size for _, size in table))
    values = binding.Options(
        beam=options.beam, nbest=options.nbest, min_len=options.min_len, max_len_b=options.max_len_b, normalize=options.normalize,
        scores=options.scores, batch_size=options.batch_size, nat_beam=nat_beam, eos_last_chunk=options.hrt_eos_last_chunk,
        draft_chunk=options.hrt_draft_chunk or 0, draft_width=options.hrt_draft_width, table_size=len(table),
        strategy=binding.STRATEGIES.index(options.dag_decode_strategy) if header.family == "dag" else 0,
        keep_repeats=options.dag_keep_repeats, alignments=options.alignments, graphs=options.graphs, lenpen=options.lenpen, unkpen=unkpen,
        jacobi_mode=0 if options.jacobi_mode is None else 1 + binding.JACOBI_MODES.index(options.jacobi_mode),
        jacobi_draft=0 if options.jacobi_mode is None else binding.JACOBI_DRAFTS.index(options.jacobi_draft),
        jacobi_block=options.jacobi_block_size, jacobi_window=options.jacobi_window or 0,
        jacobi_prefix=-1 if options.jacobi_prefix_length is None else options.jacobi_prefix_length,
        max_len_a=options.max_len_a, beta=options.dag_decode_beta, length_beta=options.dag_decode_length_beta, scale=scale or 1.0,
    )  # fmt: skip
    values.table_limits, values.table_chunks = C.cast(limits, C.POINTER(C.c_double)), C.cast(chunks, C.POINTER(C.c_int32))
    return values, (limits, chunks)
