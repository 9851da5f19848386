"""Declares every decoding option: name, type, default, range, help text, the condition under which
it has an effect, and the engines that support it.

Derived from this schema are fairseq's task options (``training/task_options.py``), the fields of
``fh_options``, a C structure of the kernel (:mod:`..runtime.binding`), the options that a bundle
may set (:mod:`..bundles.data_options`) and those that a request to the server may choose
(:mod:`..server.requests`). So a new option is added here, to the generator that reads it, and to
the kernel (the native engine's C library).

Standard library only: the native engine needs neither PyTorch nor fairseq.
"""

import math
from dataclasses import dataclass, replace
from typing import Dict, Optional

from .conditions import (
    FRONTIER,
    IN_CHUNKS,
    MERGING,
    NORMALISED,
    SEVERAL_DRAWN,
    SUPPRESSING,
    WITH_CANDIDATES,
    at_least,
    chosen,
    given,
    other_than,
)
from .option import CALLER as CALLER
from .option import EVERY_TASK as EVERY_TASK
from .option import FAIRSEQ as FAIRSEQ
from .option import LARGEST_PENALTY, LARGEST_WEIGHT, Option, count, option, options_in

STRATEGIES = ("greedy", "lookahead", "viterbi", "joint-viterbi", "beam", "sample")
NATIVE_STRATEGIES = STRATEGIES[:4]
# Strategies that find several translations of a sentence.
SEVERAL_PATHS = STRATEGIES[4:]
JACOBI_MODES = ("frontier", "hgj", "pgj", "pj")
NATIVE_MODES = JACOBI_MODES[:1]
MODEL_DRAFTS = ("hrt", "bidirectional", "dag")
JACOBI_DRAFTS = ("previous", "source", "ngram", *MODEL_DRAFTS)
NATIVE_DRAFTS = JACOBI_DRAFTS[:2]
SCORINGS = ("canonical", "algorithm1", "paper")
ENGINES = ("auto", "torch", "native")
WEIGHTS = ("float32", "int8")
_SEVERAL = chosen("dag_decode_strategy", *SEVERAL_PATHS)


@dataclass(frozen=True)
class Schema:
    """The decoding options of both engines, with the names and defaults that ``fairseq-generate``
    and this package's tasks give them. Options that are not listed here have a help text below.

    Attributes:
        unkpen: subtracted from the log-probability of ``<unk>``; infinity forbids it.
        min_len: fewest tokens before ``</s>``; a sentence whose own maximum is lower is held to
            that maximum.
        scores: whether to return scores; without them the native engine saves a logsumexp over the
            vocabulary in greedy decoding.
        batch_size: most sentences decoded together.
        alignments: whether to find the source token that each target token is aligned with, by one
            more decoder pass; for models that write from left to right.
        graphs: whether to return the graph of each sentence; for dag models.
        static_weights: whether the models stay unchanged while they decode; False for validation
            during training.
        hrt_draft_chunk: chunk size of drafts, which the same model then corrects word by word: the
            translation is the one that ``hrt_decode_chunk="1"`` and ``beam=1`` give. None: no
            drafts.
        jacobi_mode: how words are guessed in parallel and checked; None: decode word by word.
        jacobi_window: words guessed per pass. None: 3 in PyTorch; in the native engine as many as
            were right in recent passes, so the number of passes may differ from call to call.
    """

    # ---- fairseq-generate's own. Their conditions depend on options of dag alone, so that one beam
    # may be given to several decoders, or tuned together with a strategy, and since fairseq's
    # default of 5 cannot be told from a given 5.
    beam: int = count(
        5,
        "hypotheses that the search keeps; 1 is greedy search",
        origin=FAIRSEQ,
        when=_SEVERAL & SEVERAL_DRAWN,
        neutral=(1,),
        acts_as=1,
        kernel="beam",
        request=(1, 16),
    )
    nbest: int = count(
        1,
        "translations of each sentence; at most --beam",
        origin=FAIRSEQ,
        when=_SEVERAL,
        kernel="nbest",
        request=(1, 16),
    )
    lenpen: float = option(
        1.0,
        "length penalty: above 1, longer ones win",
        origin=FAIRSEQ,
        when=NORMALISED,
        least=-LARGEST_WEIGHT,
        most=LARGEST_WEIGHT,
        kernel="lenpen",
        request=(0, 10),
    )
    # Without --dag-allow-unk, <unk> is forbidden, as with --unkpen inf.
    unkpen: float = option(
        0.0, origin=FAIRSEQ, when=given("dag_allow_unk"), neutral=(math.inf,), kernel="unkpen"
    )
    min_len: int = count(
        1,
        "fewest tokens of a translation",
        origin=FAIRSEQ,
        least=0,
        when=chosen("dag_decode_strategy", "beam"),
        neutral=(0,),
        kernel="min_len",
        request=(0, 256),
    )
    max_len_a: float = option(
        0.0,
        "most tokens: A per source token + B",
        origin=FAIRSEQ,
        least=0,
        most=LARGEST_WEIGHT,
        kernel="max_len_a",
        request=(0, 4),
    )
    max_len_b: int = count(
        200, "B of --max-len-a", origin=FAIRSEQ, least=0, kernel="max_len_b", request=(0, 512)
    )
    unnormalized: bool = option(
        False, "rank by log-probability, not divided by length", origin=FAIRSEQ, request=True
    )
    temperature: float = option(
        1.0, origin=FAIRSEQ, when=chosen("dag_decode_strategy", "sample"), native=False
    )
    no_repeat_ngram_size: int = count(0, origin=FAIRSEQ, least=0, when=SUPPRESSING, native=False)
    retain_iter_history: bool = option(False, origin=FAIRSEQ, native=False)
    prefix_size: int = count(0, origin=FAIRSEQ, least=0)
    print_alignment: Optional[str] = option(None, origin=FAIRSEQ, choices=("hard",))

    # ---- every task of ours
    rescore_path: Optional[str] = option(
        None,
        "checkpoint of an autoregressive model with the same dictionaries (several: an ensemble,"
        " separated by colons), usually the teacher: it scores the translations of the beam in one"
        " pass, and its favourite comes first",
        origin=EVERY_TASK,
    )
    rescore_lenpen: float = option(
        1.0,
        "length penalty of that model: its log-probability is divided by the length to this power;"
        " only with --rescore-path",
        origin=EVERY_TASK,
        least=-LARGEST_PENALTY,
        most=LARGEST_PENALTY,
        when=given("rescore_path"),
    )

    engine: str = option(
        "auto",
        "the engine: native, the C engine for CPUs; torch, PyTorch, on any device; auto: native"
        " on a CPU wherever it has the model's and the command's options, else torch",
        origin=EVERY_TASK,
        choices=ENGINES,
    )
    weights: str = option(
        "float32",
        "weights of the native engine: float32 translates as PyTorch does, int8 is about twice as"
        " fast and changes a few translations in a hundred",
        origin=EVERY_TASK,
        choices=WEIGHTS,
        when=other_than("engine", "torch"),
        torch=False,
    )

    forced_start: Optional[str] = option(
        None,
        "words of the target dictionary that every translation begins with, such as a language"
        " token; in its score they count as certain",
        origin=EVERY_TASK,
    )

    # ---- hrt
    hrt_decode_chunk: Optional[str] = option(
        None,
        "chunk size of decoding: one of the trained ones, 1 for autoregressive decoding with the"
        " same model, or auto to choose by the source length (see --hrt-chunk-table); default: the"
        " smallest trained one",
        request=("auto", *map(str, range(1, 17))),
        rates=True,
    )
    hrt_chunk_table: str = option(
        "10:1,30:2,inf:1",
        "for --hrt-decode-chunk auto: upper limit of the source length in subwords and the chunk"
        " size used up to it, ascending; the last limit is inf",
        when=chosen("hrt_decode_chunk", "auto"),
        rates=True,
    )
    hrt_nat_beam: Optional[int] = count(
        None,
        "how many of the best hypotheses of the first stage are completed in the second; at most"
        " --beam; default: --beam",
        kernel="nat_beam",
        request=(1, 16),
        several=True,
        when=IN_CHUNKS,
    )
    hrt_eos_last_chunk: bool = option(
        False,
        "forbid </s> in the second stage before the last chunk, where it contradicts the first"
        " stage",
        kernel="eos_last_chunk",
        when=IN_CHUNKS,
    )
    hrt_scoring: str = option(
        "normalized",
        "the score that ranks the translations of the second stage: normalized, the"
        " log-probability of both stages divided by the length to the power of --lenpen; eq2, the"
        " sum itself, as HRT's Eq. 2 has it. --lenpen ranks the first stage in both",
        choices=("normalized", "eq2"),
        kernel="hrt_scoring",
        when=IN_CHUNKS & NORMALISED,
    )
    hrt_draft_chunk: Optional[int] = count(
        None,
        "lossless drafts (native engine): draft with this chunk size, correct the draft word by"
        " word with the same model; the translation is that of --hrt-decode-chunk 1 --beam 1",
        least=2,
        torch=False,
        kernel="draft_chunk",
    )
    hrt_draft_width: int = option(
        0,
        "most words of a draft that are checked in one pass; 0: as many as were right lately",
        least=0,
        most=32,
        torch=False,
        kernel="draft_width",
        when=given("hrt_draft_chunk"),
    )

    # ---- bidirectional
    bidirectional_scoring: str = option(
        "canonical",
        "beam search: canonical ends a hypothesis at its first </s> (one sentence, one place in the"
        " beam); the others also count what the step wrote behind it. algorithm1 searches as"
        " IBDecoder's Algorithm 1 is printed, paper as the code released with it does",
        choices=SCORINGS,
        native=SCORINGS[:2],
        kernel="block_scoring",
    )
    bidirectional_length_penalty: str = option(
        "power",
        "what the log-probability of t tokens is divided by: power is t to the power of --lenpen;"
        " gnmt is (5 + t) / 6 to the power of --lenpen, as in the released code with --lenpen 0.6",
        choices=("power", "gnmt"),
        native=("power",),
        when=NORMALISED,
    )
    bidirectional_deduplicate: bool = option(
        False,
        "collapse immediately repeated n-grams, n = 4 to 1, in finished translations",
        request=True,
    )

    # ---- dag
    dag_decode_upsample_scale: Optional[float] = option(
        None,
        "scale of the graph in decoding; default: that of the training, the middle of a range",
        most=LARGEST_WEIGHT,
        kernel="scale",
        rates=True,
    )
    dag_max_graph: Optional[int] = count(
        None,
        "most vertices of a graph in decoding: bounds time and memory of long sentences, whose"
        " translations it may cut; default: the decoder's maximum positions",
        least=2,
        kernel="max_graph",
    )
    dag_decode_strategy: str = option(
        "lookahead",
        "greedy: follow the best link; lookahead: the best link times the best token behind it;"
        " viterbi, joint-viterbi: the best whole path, without or with its tokens; beam: the most"
        " probable text over all paths (--beam, --lenpen, --nbest); sample: draw links and tokens"
        " (--temperature)",
        choices=STRATEGIES,
        native=NATIVE_STRATEGIES,
        kernel="strategy",
        several="beam",
        request=STRATEGIES[:5],
    )
    dag_decode_beta: float = option(
        1.0,
        "weight of the token's log-probability in lookahead, sample and beam; to be tuned on the"
        " validation set for each model (fairseq-hrt tune)",
        least=0,
        most=LARGEST_WEIGHT,
        kernel="beta",
        request=(0, 10),
        when=chosen("dag_decode_strategy", "lookahead", "sample", "beam"),
    )
    dag_decode_length_beta: float = option(
        1.0,
        "viterbi, joint-viterbi: paths are ranked by log-probability / (inner vertices to this"
        " power); larger: longer output. To be tuned on the validation set for each model"
        " (fairseq-hrt tune)",
        least=-LARGEST_WEIGHT,
        most=LARGEST_WEIGHT,
        kernel="length_beta",
        request=(0, 10),
        when=chosen("dag_decode_strategy", "viterbi", "joint-viterbi"),
    )
    dag_keep_repeats: bool = option(
        False,
        "print words that immediately repeat the previous word. Without it they are left out, and"
        " the searches take that into account: they count and rank what is printed",
        kernel="keep_repeats",
        request=True,
    )
    dag_no_repeat_consecutive: int = count(
        0,
        "lookahead, sample: no n-gram of up to this size may immediately repeat itself (0: no"
        " rule); n-grams anywhere are suppressed by --no-repeat-ngram-size",
        least=0,
        native=False,
        when=SUPPRESSING,
    )
    dag_repeats: str = option(
        "merged",
        "what lookahead, viterbi and joint-viterbi do with a word that repeats the previous one:"
        " merged searches the graph from one printed word to the next, summed over the repeats"
        " between them; collapsed searches the graph itself and drops repeats from the path that it"
        " found, as DA-Transformer and FA-DAT do",
        choices=("merged", "collapsed"),
        kernel="repeats",
        when=MERGING,
    )
    dag_allow_unk: bool = option(
        False,
        "vertices may write the unknown word, less --unkpen; without it they write their best known"
        " word",
    )
    dag_candidates: int = count(
        5,
        "tokens of each vertex and steps that are candidates under repeat suppression and in"
        " sample",
        native=False,
        when=WITH_CANDIDATES,
    )
    dag_sample_topp: float = option(
        1.0,
        "sample: draw from the most probable candidates that together have this share",
        native=False,
        when=chosen("dag_decode_strategy", "sample"),
    )
    dag_lm_path: Optional[str] = option(
        None,
        "beam: n-gram language model of target subwords, read by the package kenlm",
        native=False,
        when=chosen("dag_decode_strategy", "beam"),
    )
    dag_lm_weight: float = option(
        0.1,
        "beam: weight of the language model's log-probability (natural logarithm)",
        native=False,
        when=given("dag_lm_path"),
    )

    # ---- ctc
    ctc_lm_path: Optional[str] = option(
        None,
        "n-gram language model of target subwords that scores the prefixes of the beam, read by the"
        " package kenlm",
        native=False,
        when=at_least("beam", 2),
    )
    ctc_lm_weight: float = option(
        0.1,
        "weight of that model's log-probability (natural logarithm)",
        native=False,
        when=given("ctc_lm_path"),
    )

    # ---- jacobi
    jacobi_mode: Optional[str] = option(
        None,
        "frontier: a window slides with the first token that is not proved; pj: the whole sentence"
        " (up to --max-len-a/-b); pgj: blocks one after the other; hgj: blocks up to"
        " --jacobi-prefix-length, then word by word",
        choices=JACOBI_MODES,
        native=NATIVE_MODES,
        kernel="jacobi",
    )
    jacobi_block_size: int = count(
        3,
        "pgj, hgj: tokens of a block (b)",
        native=False,
        when=chosen("jacobi_mode", "pgj", "hgj"),
    )
    jacobi_window: Optional[int] = count(
        None,
        "frontier: tokens guessed and checked at a time (w); 1 is ordinary greedy decoding. "
        "Default: 3; in the native engine as many as were right lately",
        kernel="jacobi_window",
        when=FRONTIER,
    )
    jacobi_prefix_length: Optional[int] = count(
        None,
        "hgj: tokens decoded in blocks before it continues word by word (m); default: all",
        least=0,
        native=False,
        when=chosen("jacobi_mode", "hgj"),
    )
    jacobi_draft: str = option(
        "previous",
        "frontier: where guesses come from. previous: the model's own answers to wrong guesses;"
        " ngram: what followed the last words in earlier sentences; source: what follows the last"
        " word in the source (one dictionary for both sides); hrt, bidirectional, dag: the"
        " translation of such a model (--jacobi-draft-path)",
        choices=JACOBI_DRAFTS,
        native=NATIVE_DRAFTS,
        kernel="jacobi_draft",
        when=FRONTIER & other_than("jacobi_window", 1),
    )
    jacobi_draft_path: Optional[str] = option(
        None,
        "checkpoint of the model whose translation is checked; greedy, with its own task",
        native=False,
        when=chosen("jacobi_draft", *MODEL_DRAFTS),
    )
    jacobi_draft_options: str = option(
        "{}",
        "options of that model's task as a Python dictionary, e.g. \"{'hrt_decode_chunk': '3'}\"",
        native=False,
        when=given("jacobi_draft_path"),
    )

    jacobi_known_length: bool = option(
        False,
        "pj, pgj: decode greedily first, for the length alone, and then exactly as many positions,"
        " all of them <pad> at first: the paper's ideal condition, for counting iterations. A"
        " sentence's steps are then those of the paper: in the last one of a block nothing changes",
        native=False,
        when=chosen("jacobi_mode", "pj", "pgj"),
    )

    # ---- arguments of callers in Python, without flags
    scores: bool = option(True, origin=CALLER, kernel="scores")
    batch_size: int = count(32, origin=CALLER, kernel="batch_size")
    alignments: bool = option(False, origin=CALLER, kernel="alignments")
    graphs: bool = option(False, origin=CALLER, kernel="graphs")
    static_weights: bool = option(True, origin=CALLER)


SCHEMA: Dict[str, Option] = {
    name: replace(known, origin=known.origin or name.partition("_")[0])
    for name, known in options_in(Schema).items()
}
