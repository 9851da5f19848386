"""What is asked of a model so that its answers can be recorded and compared: translations, scores
and graphs, in every way of decoding.

Only through interfaces for users: ``fairseq_hrt.from_pretrained`` and the stock
``fairseq-generate``. A hypothesis is a list of ``FIELDS``; a record holds each of them once, and of
each call the numbers of its hypotheses, or why it was refused.
"""

import contextlib
import gzip
import io
import json
import math
import os
import re
import sys
from itertools import product
from unittest import mock

from fairseq_cli import generate

import fairseq_hrt

FIELDS = (
    "tokens",
    "text",
    "score",
    "positional_scores",
    "steps",
    "token_steps",
    "alignment",
    "history",
)
SCORES = FIELDS.index("score"), FIELDS.index("positional_scores")
# Scores are written with so many digits, may differ by so much, and so many of a hundred hypotheses
# may be others of the same score.
DIGITS, NEAR, TIES = 5, 1e-4, 0.5
# fairseq-generate prints four digits: what is nearly equal may be rounded to different sides.
PRINTED = 1e-4
# (engine, weights of the runtime, instruction set): rounded to int8, sums in another order are
# other numbers.
ENGINES = (("torch", "float32", ""), ("runtime", "float32", ""), ("runtime", "int8", "plain"))
# Names of files in a folder of models begin with this sign.
FILE = "@"


# ---------------------------------------------------------------------- what is asked


def with_base(base, *choices):
    return [{**base, **choice} for choice in choices]


GREEDY, BEAM = {"beam": 1}, {"beam": 4}
# Of every model; of every family; where several hypotheses are searched for.
ALL = [
    {},
    *with_base(GREEDY, {}, {"max_len_a": 0.5, "max_len_b": 2}, {"unkpen": 0}, {"min_len": 6}),
    {**BEAM, "nbest": 3},
]
COMMON = [
    *ALL,
    *with_base(GREEDY, {"batch_size": 3}, {"no_repeat_ngram_size": 2},
               {"replace_unk": True, "min_len": 4}, {"prefix_size": 1}, {"nbest": 2}),
]  # fmt: skip
SEARCHED = [
    {**GREEDY, "sampling": True},
    *with_base(
        BEAM,
        {"nbest": 2, "batch_size": 3}, {"lenpen": 0.6, "nbest": 2}, {"unnormalized": True},
        {"min_len": 6}, {"max_len_a": 0.5, "max_len_b": 2}, {"unkpen": 1.5, "nbest": 2},
        {"temperature": 1.7}, {"no_repeat_ngram_size": 2},
        {"replace_unk": "@lexicon", "unkpen": 0},
    ),
]  # fmt: skip
CHOSEN = {**BEAM, "rescore_path": "@autoregressive.pt", "nbest": 2}
RESCORED = {**BEAM, "rescore_path": "@autoregressive.pt", "rescore_lenpen": 0.4}
HRT_TABLE = {"hrt_decode_chunk": "auto", "hrt_chunk_table": "4:1,8:2,inf:3"}
HRT = [
    *(
        {**base, **chunk}
        for base, chunk in product((GREEDY, BEAM),
                                   ({"hrt_decode_chunk": size} for size in (1, 2, 3)))
    ),
    {**GREEDY, **HRT_TABLE}, {**BEAM, **HRT_TABLE, "nbest": 2}, {**GREEDY, "hrt_decode_chunk": 4},
    {**GREEDY, "hrt_decode_chunk": 1, "unkpen": 0, "min_len": 5},
    {**GREEDY, "hrt_decode_chunk": 1, "replace_unk": True, "min_len": 4},
    *with_base(BEAM, {"hrt_nat_beam": 2}, {"hrt_nat_beam": 1, "lenpen": 0.6},
               {"hrt_nat_beam": 2, "nbest": 3}),
    {**GREEDY, "hrt_eos_last_chunk": True},
    {**BEAM, "hrt_eos_last_chunk": True, "hrt_decode_chunk": 3, "nbest": 2},
    # Where the width is left open the steps may differ.
    *(
        {**GREEDY, "hrt_decode_chunk": 1, "hrt_draft_chunk": chunk, "hrt_draft_width": width}
        for chunk, width in ((2, 0), (2, 3), (3, 8))
    ),
    {**GREEDY, "hrt_decode_chunk": 2, "hrt_draft_chunk": 2},
]  # fmt: skip
BIDIRECTIONAL = [
    {**GREEDY, "bidirectional_deduplicate": True},
    *with_base(
        BEAM,
        {"bidirectional_deduplicate": True, "nbest": 2},
        {"bidirectional_scoring": "paper", "nbest": 2},
        {"bidirectional_length_penalty": "gnmt", "lenpen": 0.6},
        {"bidirectional_scoring": "paper", "lenpen": 0.6, "unkpen": 0},
    ),
]  # fmt: skip
# A reward: no vertex would write it otherwise.
UNKNOWN = {"dag_allow_unk": True, "unkpen": -3}
STRATEGIES = ("greedy", "lookahead", "viterbi", "joint-viterbi")
DAG = [
    *(
        {**GREEDY, "dag_decode_strategy": strategy, **choice}
        for strategy, choice in product(STRATEGIES, ({}, {"dag_keep_repeats": True}, UNKNOWN))
    ),
    *({**GREEDY, "dag_decode_strategy": strategy,
       "dag_decode_upsample_scale": 2.5} for strategy in STRATEGIES),
    *({**GREEDY, "dag_decode_strategy": "lookahead", "dag_decode_beta": beta} for beta in (0.3,
                                                                                           2.0)),
    *(
        {**GREEDY, "dag_decode_strategy": strategy, "dag_decode_length_beta": beta}
        for strategy, beta in product(STRATEGIES[2:], (0.5, 2.0))
    ),
    *(
        {**BEAM, "nbest": 3, "dag_decode_strategy": "beam", **choice}
        for choice in ({}, {"dag_keep_repeats": True}, {"dag_decode_beta": 0.5, "lenpen": 0.6},
                       {"min_len": 12}, UNKNOWN)
    ),
    {**BEAM, "dag_decode_strategy": "beam", "rescore_path": "@autoregressive.pt"},
    {**BEAM, "nbest": 2, "dag_decode_strategy": "sample", "temperature": 0.7, "seed": 3},
    {**GREEDY, "dag_no_repeat_consecutive": 2, "dag_candidates": 3},
    {**GREEDY, "dag_decode_upsample_scale": -1},
    {**GREEDY, "dag_decode_strategy": "lookahead", "lenpen": 0.0, "max_len_b": 3},
]  # fmt: skip
CTC = [
    {**BEAM, "min_len": 6, "nbest": 3},
    {**BEAM, "rescore_path": "@autoregressive.pt", "nbest": 2},
]
JACOBI = [
    {"task": "translation_jacobi", **GREEDY, **choice}
    for choice in (
        {}, {"jacobi_window": 1}, {"jacobi_window": 2}, {"jacobi_window": 5, "unkpen": 0},
        {"jacobi_window": 4, "min_len": 6}, {"jacobi_mode": "pj"}, {"jacobi_mode": "pgj", "jacobi_block_size": 5},
        {"jacobi_mode": "hgj", "jacobi_block_size": 4, "jacobi_prefix_length": 6},
        {"jacobi_mode": "pj", "jacobi_draft": "source"},
        {"jacobi_window": 4, "jacobi_draft": "source"},
        {"jacobi_window": 4, "jacobi_draft": "ngram"}, {"beam": 2},
        {
            "jacobi_window": 6, "jacobi_draft": "hrt", "jacobi_draft_path": "@hrt.pt",
            "jacobi_draft_options": "{'hrt_decode_chunk': '3'}",
        },
        {"jacobi_window": 6, "jacobi_draft": "bidirectional",
         "jacobi_draft_path": "@bidirectional_2x1.pt"},
        {"jacobi_window": 6, "jacobi_draft": "dag", "jacobi_draft_path": "@dag.pt"},
        {"jacobi_draft": "hrt"},
    )
] + [{**GREEDY, "jacobi_mode": "pj"}]  # fmt: skip
ALIGNED = [{**GREEDY, "alignments": True}]
# model: options of translate, of score, of graphs
OF_MODEL = {
    "autoregressive": (
        COMMON + SEARCHED + [RESCORED] + ALIGNED + JACOBI,
        [{}, {"task": "translation_jacobi"}],
        [{}],
    ),
    "hrt": (
        COMMON + SEARCHED + [CHOSEN] + ALIGNED + HRT,
        [{}, *({"hrt_decode_chunk": size} for size in (1, 3)), HRT_TABLE],
        [],
    ),
    "bidirectional_2x1": (COMMON + SEARCHED + BIDIRECTIONAL, [{}], []),
    "bidirectional_2x2": (ALL + BIDIRECTIONAL, [{}], []),
    "bidirectional_1x2": (ALL + [{**BEAM, "lenpen": 0.6}], [{}], []),
    "dag": (
        COMMON + DAG,
        [{}, {"dag_decode_upsample_scale": 3.0}],
        [{}, {"dag_decode_strategy": "joint-viterbi"}],
    ),
    "dag_length": (
        ALL + [{**GREEDY, "dag_decode_strategy": strategy} for strategy in STRATEGIES],
        [{}],
        [{}],
    ),
    "ctc": (COMMON + SEARCHED + CTC, [{}], []),
}
# model: options of fairseq-generate, which prints what the engines find
GENERATE = {
    "autoregressive": [
        "--beam 4 --nbest 2 --print-step --retain-iter-history --batch-size 3",
        "--beam 4 --prefix-size 2 --unkpen inf", "--score-reference",
        "--task translation_jacobi --beam 1 --jacobi-window 3 --print-step --retain-iter-history --prefix-size 1", "--task translation_jacobi --beam 1 --jacobi-window 3 --jacobi-draft hrt --jacobi-draft-path @hrt.pt --print-step",
    ],
    "hrt": [
        "--beam 4 --nbest 2 --hrt-decode-chunk 3 --print-step --retain-iter-history",
        "--hrt-decode-chunk 1 --beam 4 --prefix-size 2", "--beam 1 --prefix-size 2",
        "--score-reference",
    ],
    "bidirectional_2x1": [
        "--beam 4 --nbest 2 --print-step --retain-iter-history", "--score-reference",
        "--beam 1 --prefix-size 2",
    ],
    "dag": [
        "--beam 1 --print-step --retain-iter-history", "--score-reference",
        "--beam 1 --prefix-size 1",
    ],
    "ctc": ["--beam 4 --nbest 2 --print-step", "--score-reference"],
}  # fmt: skip
# For the runtime, and for PyTorch; which one decodes is left open.
OPEN = [GREEDY, {**GREEDY, "no_repeat_ngram_size": 2}]
OPENED = ("autoregressive", "dag")


def steps_vary(options):
    """Whether the width of a pass is chosen by the clock, so that the number of passes is not
    determined."""
    if "hrt_draft_chunk" in options:
        return not options.get("hrt_draft_width")
    frontier = (
        options.get("jacobi_mode", "frontier") == "frontier" and "jacobi_window" not in options
    )
    return options.get("task") == "translation_jacobi" and frontier


# ---------------------------------------------------------------------- asking


def calls(folder, model, family, lines, pairs):
    """Yields (name of the call, a function that makes it) for a model.

    Args:
        folder: of bundles ``MODEL_WEIGHTS`` and checkpoints ``MODEL.pt``; binarised data in
            ``data/bin``.
        lines: raw sources.
        pairs: raw sources and targets.
    """
    translate, score, graphs = OF_MODEL[model]
    for engine, weights, instructions in ENGINES:
        with mock.patch.dict(os.environ, FAIRSEQ_HRT_RUNTIME_ISA=instructions):
            translator = fairseq_hrt.from_pretrained(
                folder / f"{model}_{weights}", device="cpu", engine=engine
            )
        name = f"{engine} {weights}"
        for options in translate:
            yield (
                f"{name} translate {shown(options)}",
                asking(translations, translator, folder, options, lines),
            )
        # Without a request for scores, decoding may take another way.
        for options in (GREEDY, BEAM, translate[-1]):
            yield (
                f"{name} texts {shown(options)}",
                asking(texts, translator, folder, options, lines),
            )
        for options in score:
            yield (
                f"{name} score {shown(options)}",
                asking(scores, translator, folder, options, pairs),
            )
        for options in graphs:
            yield (
                f"{name} graphs {shown(options)}",
                asking(drawings, translator, folder, options, lines[:4]),
            )
    for options in OPEN if model in OPENED else ():
        yield (
            f"opened with {shown(options)}",
            asking(opened, folder / f"{model}_float32", folder, options, lines),
        )
    for options in GENERATE.get(model, ()):
        yield f"fairseq-generate {options}", asking(generated, model, folder, options, family)


def shown(options):
    return " ".join(f"{name}={value}" for name, value in options.items())


def asking(function, subject, folder, options, *others):
    """A call of ``function`` with names of files as paths."""
    if isinstance(options, str):
        return lambda: function(subject, folder, options.replace(FILE, f"{folder}/"), *others)
    paths = {
        name: (
            str(folder / value[1:]) if isinstance(value, str) and value.startswith(FILE) else value
        )
        for name, value in options.items()
    }
    return lambda: function(subject, paths, *others)


def translations(translator, options, lines):
    found = translator.translate(lines, details=True, **options)
    return [[hypothesis(each, options) for each in (one, *one.alternatives)] for one in found]


def opened(bundle, options, lines):
    return translations(
        fairseq_hrt.from_pretrained(bundle, device="cpu", threads=1, **options), {}, lines
    )


def texts(translator, options, lines):
    return [
        [[None, text, None, [], 0, [], [], []]] for text in translator.translate(lines, **options)
    ]


def scores(translator, options, pairs):
    return [[hypothesis(one, {})] for one in translator.score(*map(list, zip(*pairs)), **options)]


def hypothesis(one, options):
    steps, token_steps = (0, []) if steps_vary(options) else (one.steps, list(one.token_steps))
    tokens, numbers = " ".join(one.tokens), list(one.positional_scores)
    return [tokens, one.text, one.score, numbers, steps, token_steps, list(one.alignment), []]


def drawings(translator, options, lines):
    """Graphs as hypotheses: what they hold besides translation and score stands in the place of the
    history."""
    found = []
    for documents in translator.graphs(lines, **options):
        found.append([
            [None, document["translation"], document["score"], numbers_of(document), 0, [], [],
             words_of(document)]
            for document in documents
        ])  # fmt: skip
    return found


def numbers_of(document):
    vertices, links = document["vertices"], document["links"]
    words = [token["probability"] for vertex in vertices for token in vertex["tokens"][:1]]
    return [
        *(vertex["passing"] for vertex in vertices),
        *words,
        *(link["probability"] for link in links),
    ]


def words_of(document):
    vertices, links = document["vertices"], document["links"]
    path = " ".join(f"{link['from']}-{link['to']}" for link in links if link["chosen"])
    words = " ".join(token["token"] for vertex in vertices for token in vertex["tokens"][:1])
    return [path, words, " ".join(f"{link['from']}-{link['to']}" for link in links)]


def generated(model, folder, options, family):
    """The translations that ``fairseq-generate`` prints of the test set."""
    task = [] if "--task" in options else ["--task", f"translation_{family}"]
    output = run(
        generate.cli_main, "fairseq-generate", folder / "data" / "bin", *task, "--path",
        folder / f"{model}.pt", "--cpu", "--gen-subset", "test", "--post-process", "subword_nmt",
        "--max-len-b", "16", "--num-workers", 0, *options.split(),
    )  # fmt: skip
    found = {}
    for kind, number, text in re.findall(r"^([HDPIE])-(\d+)(?:_\d+)?\t(.*)$", output, re.M):
        best = found.setdefault(int(number), [])
        if kind == "H":
            score, _, words = text.partition("\t")
            best.append([words, None, float(score), [], 0, [], [], []])
        elif kind == "D":
            best[-1][1] = text.partition("\t")[2]
        elif kind == "P":
            best[-1][3] = [float(score) for score in text.split()]
        elif kind == "I":
            best[-1][4] = int(text)
        else:
            best[-1][7].append(text)
    return [found[number] for number in sorted(found)]


def run(entry, *command):
    """Calls the entry point of a command in this process; returns what it prints."""
    before, output = sys.argv, io.StringIO()
    sys.argv = [*map(str, command)]
    try:
        with contextlib.redirect_stdout(output):
            entry()
    finally:
        sys.argv = before
    return output.getvalue()


def answer(call):
    """What a call returns, or the built-in type of the error with which it is refused."""
    try:
        return call()
    except (Exception, SystemExit) as error:
        return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


# ---------------------------------------------------------------------- recording and comparing


class Record:
    """The answers to calls, by names of models and of calls.

    Attributes:
        hypotheses: each of them once; scores that differ by less than what is written are the same.
        answers: ``{model: {call: [[number of a hypothesis, …] of each line] or an error's type}}``.
    """

    def __init__(self, hypotheses=(), answers=None):
        self.hypotheses, self.answers = list(hypotheses), answers or {}
        self._places = {}

    def add(self, model, call, found):
        if not isinstance(found, str):
            found = [[self._place(one) for one in best] for best in found]
        self.answers.setdefault(model, {})[call] = found

    def _place(self, one):
        one = [rounded(value) if number in SCORES else value for number, value in enumerate(one)]
        alike = self._places.setdefault(json.dumps(exact(one)), [])
        for place in alike:
            if difference(one, self.hypotheses[place]) <= 2 * 10**-DIGITS:
                return place
        alike.append(len(self.hypotheses))
        self.hypotheses.append(one)
        return alike[-1]

    def forget_what_is_alike(self, model):
        """Leaves out PyTorch's answers that are the native engine's, but for every fourth: other
        tests compare the engines."""
        answers = self.answers[model]
        alike = []
        for call, found in answers.items():
            native = call.replace("torch float32", "runtime float32")
            if native != call and not isinstance(found, str):
                both = Comparison()
                both.compare(call, self.get(model, native), self.get(model, call))
                if not both.differences and not both.ties:
                    alike.append(call)
        for number, call in enumerate(alike):
            if number % 4:
                del answers[call]

    def get(self, model, call):
        found = self.answers[model][call]
        return (
            found
            if isinstance(found, str)
            else [[self.hypotheses[place] for place in best] for best in found]
        )

    def write(self, path):
        text = json.dumps(
            {"answers": self.answers, "hypotheses": self.hypotheses}, separators=(",", ":")
        )
        # The same record is the same file.
        path.write_bytes(gzip.compress(text.encode(), mtime=0))

    @classmethod
    def read(cls, path):
        return cls(**json.loads(gzip.decompress(path.read_bytes())))


def rounded(value):
    return (
        [round(each, DIGITS) for each in value]
        if isinstance(value, list)
        else value and round(value, DIGITS)
    )


def exact(one):
    return [value for number, value in enumerate(one) if number not in SCORES]


def difference(one, other):
    """The largest one of the scores of two hypotheses; infinite where one has scores that the other
    has not."""
    mine, theirs = ([each[number] for number in SCORES] for each in (one, other))
    if (mine[0] is None, len(mine[1])) != (theirs[0] is None, len(theirs[1])):
        return math.inf
    pairs = [*zip(mine[1], theirs[1]), *([] if mine[0] is None else [(mine[0], theirs[0])])]
    return max((0.0 if a == b else abs(a - b) for a, b in pairs), default=0.0)


class Comparison:
    """Counts hypotheses that are not the recorded ones.

    Attributes:
        calls, hypotheses: how many were compared.
        ties: hypotheses with other tokens whose score is that of the recorded one.
        differences: what else differs, in words.
    """

    def __init__(self):
        self.calls = self.hypotheses = self.ties = 0
        self.differences = []

    def compare(self, call, expected, found):
        """Compares two answers to a call."""
        self.calls += 1
        if isinstance(expected, str) or isinstance(found, str):
            if expected != found:
                self.differences.append(f"{call}: {brief(found)} instead of {brief(expected)}")
            return
        if [*map(len, expected)] != [*map(len, found)]:
            self.differences.append(
                f"{call}: {[*map(len, found)]} hypotheses instead of {[*map(len, expected)]}"
            )
            return
        near = NEAR + (PRINTED if call.startswith("fairseq-generate") else 0.0)
        for line, (best, other) in enumerate(zip(expected, found)):
            for rank, (one, two) in enumerate(zip(best, other)):
                self.hypotheses += 1
                if exact(one) == exact(two) and difference(one, two) <= near:
                    continue
                if (
                    one[0] != two[0]
                    and None not in (one[2], two[2])
                    and abs(one[2] - two[2]) < NEAR
                ):
                    self.ties += 1
                    continue
                fields = [name for name, a, b in zip(FIELDS, one, two) if a != b]
                self.differences.append(
                    f"{call}: line {line}, hypothesis {rank}: {two} instead of {one}"
                    f" ({', '.join(fields)})"
                )

    @property
    def too_many_ties(self):
        return 100 * self.ties > TIES * self.hypotheses


def brief(found):
    return found if isinstance(found, str) else f"{len(found)} translations"
