"""Every decoding option once: name, type, default, range, help text, and who honours it.

The fields of :class:`DecodingOptions` are the schema. fairseq's task options are made from them (:mod:`.task_options`), the fields of
the kernel's ``fh_options`` (:mod:`.runtime.binding`), what a bundle may set (:mod:`.loading.data_options`) and what a request of the
server may choose (:mod:`.server.requests`). So a new option stands here, in the generator that reads it, and in the kernel's file.

Standard library only: the native engine needs neither PyTorch nor fairseq.
"""

import math
from dataclasses import Field, dataclass, field, fields
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union, get_args, get_type_hints

from .families import FAMILIES

# Where an option comes from: fairseq-generate's own flags, a family's task, every task of ours, or a caller in Python.
FAIRSEQ, CALLER, EVERY_TASK = "fairseq", "caller", "task"
# Numbers beyond these overflow.
LARGEST_COUNT = (1 << 30) - 1
LARGEST_WEIGHT = 1e6
LARGEST_PENALTY = 20.0

STRATEGIES = ("greedy", "lookahead", "viterbi", "joint-viterbi", "beam", "sample")
NATIVE_STRATEGIES = STRATEGIES[:4]
JACOBI_MODES = ("frontier", "hgj", "pgj", "pj")
MODEL_DRAFTS = ("hrt", "bidirectional", "dag")
JACOBI_DRAFTS = ("previous", "source", "ngram", *MODEL_DRAFTS)
NATIVE_DRAFTS = JACOBI_DRAFTS[:2]
ENGINES = ("auto", "torch", "native")
WEIGHTS = ("float32", "int8")


class UnsupportedOption(ValueError):
    """An option that one engine does not honour; the message names it and what does."""


@dataclass(frozen=True)
class Option:
    """What is known of an option beside its name, type and default.

    Attributes:
        origin: FAIRSEQ, CALLER, EVERY_TASK, or the family whose task declares it.
        help: its help text; empty where fairseq has it, or no command line.
        least, most: of a number.
        choices: of a text.
        native: whether the native engine honours it; the choices that it honours.
        torch: whether PyTorch's engine honours it.
        kernel: its field in ``fh_options``, if it has one.
        request: what a request of the server may choose: (least, most) of a number, words, or True for a switch.
        task_default: the default where a task declares it, if that is another.
    """

    origin: str
    help: str = ""
    least: Optional[float] = None
    most: Optional[float] = None
    choices: Tuple[str, ...] = ()
    native: Union[bool, Tuple[str, ...]] = True
    torch: bool = True
    kernel: str = ""
    request: Any = None
    task_default: Optional[str] = None


def _option(default: Any, origin: str, help: str = "", **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(origin, help, **more)})


@dataclass(frozen=True)
class DecodingOptions:
    """What is decoded and how, for both engines; names and defaults of ``fairseq-generate`` and of our tasks.

    Attributes:
        unkpen: subtracted from the log-probability of ``<unk>``; infinity forbids it.
        min_len: fewest tokens before ``</s>``; a sentence whose own maximum is lower is held to that maximum.
        scores: False leaves scores out, which saves the native engine a logsumexp over the vocabulary in greedy decoding.
        batch_size: most sentences decoded together.
        alignments: the source token that each token comes from, by one more pass; for models that write from left to right.
        graphs: the graph of each sentence; for dag.
        static_weights: the models do not change while they are decoded; False for validation during training.
        hrt_draft_chunk: lossless drafts; the tokens are those of ``hrt_decode_chunk="1"``, ``beam=1``.
        jacobi_mode: None decodes word by word.
        jacobi_window: None: as many as were right lately. Then ``steps`` may differ from call to call.
    """

    # ---- fairseq-generate's own
    beam: int = _option(5, FAIRSEQ, least=1, most=LARGEST_COUNT, kernel="beam", request=(1, 16))
    nbest: int = _option(1, FAIRSEQ, least=1, most=LARGEST_COUNT, kernel="nbest", request=(1, 16))
    lenpen: float = _option(
        1.0, FAIRSEQ, least=-LARGEST_WEIGHT, most=LARGEST_WEIGHT, kernel="lenpen", request=(0, 10)
    )
    unkpen: float = _option(0.0, FAIRSEQ, kernel="unkpen")
    min_len: int = _option(1, FAIRSEQ, least=0, most=LARGEST_COUNT, kernel="min_len", request=(0, 256))
    max_len_a: float = _option(0.0, FAIRSEQ, least=0, most=LARGEST_WEIGHT, kernel="max_len_a", request=(0, 4))
    max_len_b: int = _option(200, FAIRSEQ, least=0, most=LARGEST_COUNT, kernel="max_len_b", request=(0, 512))
    unnormalized: bool = _option(False, FAIRSEQ, request=True)
    temperature: float = _option(1.0, FAIRSEQ, native=False)
    no_repeat_ngram_size: int = _option(0, FAIRSEQ, least=0, most=LARGEST_COUNT, native=False)
    retain_iter_history: bool = _option(False, FAIRSEQ, native=False)
    print_alignment: Optional[str] = _option(None, FAIRSEQ, choices=("hard",))

    # ---- every task of ours
    rescore_path: Optional[str] = _option(
        None,
        EVERY_TASK,
        "checkpoint of an autoregressive model with the same dictionaries (several: an ensemble, separated by colons), mostly the "
        "teacher: it scores the translations of the beam in one pass, and its favourite comes first",
    )
    rescore_lenpen: float = _option(
        1.0,
        EVERY_TASK,
        "length penalty of that model: its log-probability is divided by the length to this power; only with --rescore-path",
        least=-LARGEST_PENALTY,
        most=LARGEST_PENALTY,
    )

    engine: str = _option(
        "auto",
        EVERY_TASK,
        "what decodes: native, the C engine for CPUs; torch, PyTorch, on any device; auto: native on a CPU wherever it has the "
        "model's and the command's options, else torch",
        choices=ENGINES,
    )
    weights: str = _option(
        "float32",
        EVERY_TASK,
        "weights of the native engine: float32 translates as PyTorch does, int8 is about twice as fast and changes a few "
        "translations in a hundred",
        choices=WEIGHTS,
    )

    # ---- hrt
    hrt_decode_chunk: Optional[str] = _option(
        None,
        "hrt",
        "chunk size of decoding: one of the trained ones, 1 for autoregressive decoding with the same model, or auto to choose by "
        "the source length (see --hrt-chunk-table); default: the smallest trained one",
        request=("auto", *map(str, range(1, 17))),
    )
    hrt_chunk_table: str = _option(
        "10:1,30:2,inf:1",
        "hrt",
        "for --hrt-decode-chunk auto: upper limit of the source length in subwords and the chunk size used up to it, ascending; "
        "the last limit is inf",
    )
    hrt_nat_beam: Optional[int] = _option(
        None,
        "hrt",
        "how many of the best hypotheses of the first stage are completed in the second; at most --beam; default: --beam",
        least=1,
        most=LARGEST_COUNT,
        kernel="nat_beam",
        request=(1, 16),
    )
    hrt_eos_last_chunk: bool = _option(
        False,
        "hrt",
        "forbid </s> in the second stage before the last chunk, where it contradicts the first stage",
        kernel="eos_last_chunk",
    )
    hrt_draft_chunk: Optional[int] = _option(
        None,
        "hrt",
        "lossless drafts (native engine): draft with this chunk size, correct the draft word by word with the same model; the "
        "translation is that of --hrt-decode-chunk 1 --beam 1",
        least=2,
        most=LARGEST_COUNT,
        torch=False,
        kernel="draft_chunk",
    )
    hrt_draft_width: int = _option(
        0,
        "hrt",
        "most words of a draft that are checked in one pass; 0: as many as were right lately",
        least=0,
        most=4096,
        torch=False,
        kernel="draft_width",
    )

    # ---- bidirectional
    bidirectional_scoring: str = _option(
        "canonical",
        "bidirectional",
        "beam search: canonical ends a hypothesis at its first </s> (one sentence, one place in the beam); paper also counts what "
        "the step wrote behind it and searches as the code released with the paper does",
        choices=("canonical", "paper"),
        native=("canonical",),
    )
    bidirectional_length_penalty: str = _option(
        "power",
        "bidirectional",
        "what the log-probability of t tokens is divided by: power is t to the power of --lenpen; gnmt is (5 + t) / 6 to the "
        "power of --lenpen, as published with --lenpen 0.6",
        choices=("power", "gnmt"),
        native=("power",),
    )
    bidirectional_deduplicate: bool = _option(
        False,
        "bidirectional",
        "collapse immediately repeated n-grams, n from 4 down to 1, in finished translations",
        request=True,
    )

    # ---- dag
    dag_decode_upsample_scale: Optional[float] = _option(
        None,
        "dag",
        "scale of the graph in decoding; default: that of the training, the middle of a range",
        most=LARGEST_WEIGHT,
        kernel="scale",
    )
    dag_decode_strategy: str = _option(
        "lookahead",
        "dag",
        "greedy: follow the best link; lookahead: the best link times the best token behind it; viterbi, joint-viterbi: the best "
        "whole path, without or with its tokens; beam: the most probable text over all paths (--beam, --lenpen, --nbest); "
        "sample: draw links and tokens (--temperature)",
        choices=STRATEGIES,
        native=NATIVE_STRATEGIES,
        kernel="strategy",
        request=STRATEGIES[:5],
    )
    dag_decode_beta: float = _option(
        1.0,
        "dag",
        "weight of the token's log-probability in lookahead, sample and beam; to be tuned on the validation set for each model "
        "(fairseq-hrt tune)",
        least=0,
        most=LARGEST_WEIGHT,
        kernel="beta",
        request=(0, 10),
    )
    dag_decode_length_beta: float = _option(
        1.0,
        "dag",
        "viterbi, joint-viterbi: paths are ranked by log-probability / (inner vertices to this power); larger: longer output. To "
        "be tuned on the validation set for each model (fairseq-hrt tune)",
        least=-LARGEST_WEIGHT,
        most=LARGEST_WEIGHT,
        kernel="length_beta",
        request=(0, 10),
    )
    dag_keep_repeats: bool = _option(
        False,
        "dag",
        "print words that immediately repeat the word before. Without it they are left out, and the searches take that into "
        "account: they count and rank what is printed",
        kernel="keep_repeats",
        request=True,
    )
    dag_allow_unk: bool = _option(
        False, "dag", "vertices may write the unknown word, less --unkpen; without it they write their best known word"
    )
    dag_no_repeat_consecutive: int = _option(
        0,
        "dag",
        "lookahead, sample: no n-gram of up to this size may immediately repeat itself (0: no rule); n-grams anywhere are "
        "suppressed by --no-repeat-ngram-size",
        least=0,
        most=LARGEST_COUNT,
        native=False,
    )
    dag_candidates: int = _option(
        5,
        "dag",
        "tokens of each vertex and steps that are candidates under repeat suppression and in sample",
        least=1,
        most=LARGEST_COUNT,
        native=False,
    )
    dag_sample_topp: float = _option(
        1.0,
        "dag",
        "sample: draw from the most probable candidates that together have this share",
        native=False,
    )
    dag_lm_path: Optional[str] = _option(
        None, "dag", "beam: n-gram language model of target subwords, read by the package kenlm", native=False
    )
    dag_lm_weight: float = _option(
        0.1, "dag", "beam: weight of the language model's log-probability (natural logarithm)", native=False
    )

    # ---- jacobi
    jacobi_mode: Optional[str] = _option(
        None,
        "jacobi",
        "frontier: a window slides with the first token that is not proved; pj: the whole sentence (up to --max-len-a/-b); pgj: "
        "blocks one after the other; hgj: blocks up to --jacobi-prefix-length, then word by word",
        choices=JACOBI_MODES,
        kernel="jacobi_mode",
        task_default="frontier",
    )
    jacobi_block_size: int = _option(
        3, "jacobi", "pgj, hgj: tokens of a block (b)", least=1, most=LARGEST_COUNT, kernel="jacobi_block"
    )
    jacobi_window: Optional[int] = _option(
        None,
        "jacobi",
        "frontier: tokens guessed and checked at a time (w); 1 is ordinary greedy decoding. Default: as many as were right lately",
        least=1,
        most=LARGEST_COUNT,
        kernel="jacobi_window",
    )
    jacobi_prefix_length: Optional[int] = _option(
        None,
        "jacobi",
        "hgj: tokens decoded in blocks before it continues word by word (m); default: all",
        least=0,
        most=LARGEST_COUNT,
        kernel="jacobi_prefix",
    )
    jacobi_draft: str = _option(
        "previous",
        "jacobi",
        "frontier: where guesses come from. previous: the model's own answers to wrong guesses; ngram: what followed the last "
        "words in earlier sentences; source: what follows the last word in the source (one dictionary for both sides); hrt, "
        "bidirectional, dag: the translation of such a model (--jacobi-draft-path)",
        choices=JACOBI_DRAFTS,
        native=NATIVE_DRAFTS,
        kernel="jacobi_draft",
    )
    jacobi_draft_path: Optional[str] = _option(
        None,
        "jacobi",
        "checkpoint of the model whose translation is checked; greedy, with its own task",
        native=False,
    )
    jacobi_draft_options: str = _option(
        "{}",
        "jacobi",
        "options of that model's task as a Python dictionary, e.g. \"{'hrt_decode_chunk': '3'}\"",
        native=False,
    )

    # ---- what a caller wants besides
    scores: bool = _option(True, CALLER, kernel="scores")
    batch_size: int = _option(32, CALLER, least=1, most=LARGEST_COUNT, kernel="batch_size")
    alignments: bool = _option(False, CALLER, kernel="alignments")
    graphs: bool = _option(False, CALLER, kernel="graphs")
    static_weights: bool = _option(True, CALLER)

    def __post_init__(self) -> None:
        for name, option in SCHEMA.items():
            _check_type(name, getattr(self, name))
            _check_choice(name, getattr(self, name), option)
        if self.beam < 1:
            raise ValueError(f"--beam {self.beam}: at least one hypothesis has to be kept; --beam 1 is greedy search")
        if not 1 <= self.nbest <= self.beam:
            raise ValueError(f"--nbest {self.nbest} with --beam {self.beam}: --nbest must lie between 1 and --beam")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"--temperature {self.temperature} must be greater than 0 and finite")
        if not (abs(self.unkpen) <= LARGEST_WEIGHT or self.unkpen == math.inf):
            raise ValueError(f"--unkpen {self.unkpen}: give a number between ±{LARGEST_WEIGHT:g}, or inf to forbid <unk>")
        if not 0 < self.dag_sample_topp <= 1:
            raise ValueError(f"--dag-sample-topp {self.dag_sample_topp} must be greater than 0 and at most 1")
        scale = self.dag_decode_upsample_scale
        if scale is not None and not scale > 0:
            raise ValueError(f"--dag-decode-upsample-scale {scale} must be greater than 0")
        for name, option in SCHEMA.items():
            _check_range(name, getattr(self, name), option)
        if self.max_len_a == 0 and self.min_len > self.max_len_b:
            raise ValueError(
                f"--min-len {self.min_len} is greater than the maximum length {self.max_len_b} of a sentence; "
                "lower --min-len or raise --max-len-a/--max-len-b"
            )

    @property
    def normalize(self) -> bool:
        """Whether hypotheses are ranked by their log-probability over a power of their length."""
        return not self.unnormalized

    @classmethod
    def parse(cls, options: Mapping[str, Any], **own: Any) -> "DecodingOptions":
        """Reads options by the names of ``fairseq-generate`` (``{"beam": "1", "hrt_decode_chunk": "3"}``), values as text or as they are.

        Args:
            options: those that do not change what is decoded (``cpu``, ``post_process``, …) are the caller's to leave out.
            own: values of this class that go before ``options``.

        Raises:
            UnsupportedOption: an option that is not known here, by name.
            ValueError: a value that cannot be read.
        """
        values: Dict[str, Any] = {}
        for name, value in options.items():
            if name in SCHEMA:
                values[name] = read_value(name, value)
            elif _text(value) not in _NEUTRAL.get(name, ()):
                raise UnsupportedOption(f"{flag(name)} {_text(value)}: the native engine has no such option; use --engine torch")
        return cls(**{**values, **own})

    def of_family(self, name: str) -> Dict[str, Any]:
        """The options that the models of a family have, as :mod:`.option_effects` reads them."""
        own = {family.name for family in FAMILIES if name in (family.name, family.decodes)}
        chosen = {key: getattr(self, key) for key, option in SCHEMA.items() if option.origin in {FAIRSEQ, EVERY_TASK, *own}}
        return {**chosen, "normalize": self.normalize}

    def changed(self) -> Dict[str, Any]:
        """The values that are not the defaults, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if getattr(self, own.name) != own.default}


def flag(name: str) -> str:
    """The flag of an option on the command line."""
    return "--" + name.replace("_", "-")


def read_value(name: str, value: Any) -> Any:
    """The value of an option from its text, or from what fairseq holds.

    Raises:
        ValueError: by name.
    """
    kind, optional = KINDS[name]
    text = _text(value)
    if optional and text == "None":
        return None
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0", ""):
            raise ValueError(f"{flag(name)} {text!r} is neither true nor false")
        return text.lower() in ("true", "1", "")
    if kind is str:
        return text
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{flag(name)} {text!r} is not {_a(kind)}") from None


def options_of(origin: str) -> List["Field[Any]"]:
    """The fields of one origin: those that a family's task declares, for example."""
    return [own for own in fields(DecodingOptions) if SCHEMA[own.name].origin == origin]


def require_native(options: DecodingOptions) -> None:
    """Refuses what the native engine does not honour.

    Raises:
        UnsupportedOption: by name.
    """
    for name, value in options.changed().items():
        native = SCHEMA[name].native
        if native is False:
            raise UnsupportedOption(f"{flag(name)} {value}: the native engine has no such option; use --engine torch")
        if isinstance(native, tuple) and value not in native:
            raise UnsupportedOption(
                f"{flag(name)} {value}: the native engine has {', '.join(native)}; use --engine torch for others"
            )


def require_torch(options: DecodingOptions) -> None:
    """Refuses what PyTorch's engine does not honour.

    Raises:
        UnsupportedOption: by name.
    """
    for name, value in options.changed().items():
        if not SCHEMA[name].torch:
            raise UnsupportedOption(f"{flag(name)} {value}: only the native engine has this option; use --engine native")


def chunk_table(options: DecodingOptions, trained: Sequence[int]) -> List[Tuple[float, int]]:
    """What ``--hrt-decode-chunk`` and ``--hrt-chunk-table`` ask for: (longest source in subwords without ``</s>``, chunk size) pairs,
    ascending, the last limit infinite.

    Args:
        trained: the chunk sizes of the model.

    Raises:
        ValueError: a value that cannot be read, or a chunk size that was not trained.
    """
    choice = options.hrt_decode_chunk
    if choice == "auto":
        table = _parse_chunk_table(options.hrt_chunk_table)
    elif choice is None:
        table = [(math.inf, min(trained))]
    elif not choice.isdecimal() or int(choice) < 1:
        raise ValueError(f"--hrt-decode-chunk {choice!r} is neither a chunk size (1, 2, …) nor auto")
    else:
        table = [(math.inf, int(choice))]
    for size in [*(size for _, size in table), options.hrt_draft_chunk or 1]:
        if size != 1 and size not in trained:
            raise untrained(size, trained)
    return table


def check_hrt(options: DecodingOptions, table: Sequence[Tuple[float, int]]) -> int:
    """How many hypotheses of the first stage the second one completes.

    Args:
        table: :func:`chunk_table`.

    Raises:
        ValueError: options that do not go together.
    """
    sizes = {size for _, size in table}
    completed = options.beam if options.hrt_nat_beam is None or sizes == {1} else options.hrt_nat_beam
    if completed > options.beam:
        raise ValueError(
            f"--hrt-nat-beam {completed} with --beam {options.beam}: the second stage completes hypotheses of the first, so it takes "
            "at least 1 and at most --beam of them"
        )
    if options.nbest > completed and sizes != {1}:
        raise ValueError(
            f"--nbest {options.nbest} with --hrt-nat-beam {completed}: there are only as many translations as the second stage "
            "completes; raise --hrt-nat-beam"
        )
    if options.no_repeat_ngram_size and sizes != {1}:
        raise ValueError(
            "--no-repeat-ngram-size: the first stage does not see neighbouring tokens and the second decodes them all at once; use "
            "--hrt-decode-chunk 1 for it"
        )
    if options.hrt_draft_chunk is not None and (options.beam != 1 or sizes != {1}):
        raise ValueError(
            "--hrt-draft-chunk: drafts are corrected by greedy decoding word by word; give --beam 1 and --hrt-decode-chunk 1"
        )
    return completed


def check_dag(options: DecodingOptions) -> None:
    """Raises ValueError for a beam that would rank nothing; its other limits stand in :mod:`.option_effects`."""
    if options.dag_decode_strategy == "beam" and not options.dag_decode_beta > 0:
        raise ValueError(
            f"--dag-decode-beta {options.dag_decode_beta} must be greater than 0 with --dag-decode-strategy beam"
        )


def check_jacobi(options: DecodingOptions) -> None:
    """Raises ValueError for options that Jacobi decoding cannot honour, naming them."""
    if options.beam > 1:
        raise ValueError(
            f"--beam {options.beam}: parallel decoding is exact for greedy search only; give --beam 1, or decode with --task "
            "translation_autoregressive"
        )


def untrained(size: int, trained: Sequence[int]) -> ValueError:
    """The error for a chunk size that a model was not trained for."""
    known = ", ".join(map(str, trained))
    return ValueError(f"chunk size {size} was not trained: this model has 1 (autoregressive) and {known}")


def _parse_chunk_table(text: str) -> List[Tuple[float, int]]:
    try:
        table = [(float(limit), int(size)) for limit, size in (entry.split(":") for entry in text.split(","))]
    except ValueError:
        table = []
    limits = [limit for limit, _ in table]
    # Compared pair by pair: no order of a list with nan in it means anything.
    ascending = all(lower < upper for lower, upper in zip(limits, limits[1:]))
    if not table or not ascending or limits[-1] != math.inf or any(size < 1 for _, size in table):
        raise ValueError(
            f"--hrt-chunk-table {text!r}: expected ascending source lengths with their chunk sizes, "
            "the last one inf, such as 10:1,30:2,inf:1"
        )
    return table


def _text(value: Any) -> str:
    # Members of fairseq's ChoiceEnum are written as their values.
    return str(getattr(value, "value", value))


def _a(kind: type) -> str:
    return "an integer" if kind is int else "a number"


def _check_type(name: str, value: Any) -> None:
    kind, optional = KINDS[name]
    if kind in (int, float) and not (value is None and optional):
        accepted: Any = (int, float) if kind is float else int
        if not isinstance(value, accepted) or isinstance(value, bool):
            raise ValueError(f"{flag(name)} {value!r} is not {_a(kind)}")


def _check_choice(name: str, value: Any, option: Option) -> None:
    if option.choices and value is not None and value not in option.choices:
        raise ValueError(f"{flag(name)} {value}: choose one of {', '.join(option.choices)}")


def _check_range(name: str, value: Any, option: Option) -> None:
    if value is None or (option.least is None and option.most is None):
        return
    least = -math.inf if option.least is None else option.least
    most = math.inf if option.most is None else option.most
    # No comparison with nan is true.
    if not least <= value <= most:
        raise ValueError(f"{flag(name)} {value}: give a number from {least:g} to {most:.10g}")


def _kind(hint: Any) -> Tuple[type, bool]:
    """(type, whether None is a value) of an annotation."""
    inner = [own for own in get_args(hint) if own is not type(None)]
    return (inner[0], True) if inner else (hint, False)


SCHEMA: Dict[str, Option] = {own.name: own.metadata["option"] for own in fields(DecodingOptions)}
KINDS: Dict[str, Tuple[type, bool]] = {
    name: _kind(hint) for name, hint in get_type_hints(DecodingOptions).items() if name in SCHEMA
}
# Flags of fairseq-generate that are not in the schema, with the values that ask for nothing.
_NEUTRAL: Dict[str, Tuple[str, ...]] = {
    "sampling": ("False", "false"),
    "diverse_beam_groups": ("-1",),
    "diversity_rate": ("-1.0", "-1"),
    "constraints": ("None",),
    "match_source_len": ("False", "false"),
    "lm_path": ("None",),
    "prefix_size": ("0",),
    "score_reference": ("False", "false"),
}
