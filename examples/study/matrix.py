"""What the study trains and measures: what stands in the main table, and «students from plenty»."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from entries import (
    AT_BEAM,
    AT_GREEDY,
    EXACT,
    INT8,
    TEST,
    Fields,
    Matrix,
    at_ways,
    best,
    dag,
    dag_ways,
    hrt,
    hrt_ways,
    ib,
    ib_ways,
    system,
)


def family(task: str, arch: str, criterion: str, **more: Any) -> Fields:
    """Options of a training; in ``more`` with _ for -."""
    options = {"task": task, "arch": arch, "criterion": criterion}
    return {**options, **{name.replace("_", "-"): value for name, value in more.items()}}


TRANSFORMER = family("translation", "transformer", "autoregressive_loss", label_smoothing=0.1)
HRT = family("translation_hrt", "hrt_transformer", "hrt_loss", label_smoothing=0.1)
IB = family(
    "translation_bidirectional", "bidirectional_transformer", "bidirectional_loss",
    label_smoothing=0.1, bidirectional_directions=2,
)  # fmt: skip
DAG = family("translation_dag", "dag_transformer", "dag_nll_loss", dag_upsample_scale="4")
CTC = family("translation_ctc", "ctc_transformer", "ctc_nll_loss", ctc_upsample_scale="3")
DISTILLED = {"distilled-data": "${distilled}/data-bin"}
NORMALISED = {"encoder-normalize-before": True, "decoder-normalize-before": True}
QUIET = {
    **TEST, "sources": "${en-de}/raw/test.en.gz", "codes": "${en-de}/bpe/codes", "repeats": 5,
    "speed-sentences": 100, "batch-sizes": "1,32", "memory": True,
}  # fmt: skip
LENPEN = "lenpen=0.6,1.0,1.4,1.8,2.4,3.2,4.2"
BETA = "dag_decode_beta=0.25,0.5,1.0,1.5"
LENGTH_BETA = "dag_decode_length_beta=0.8,1.0,1.2,1.5,2.0,2.5,3.0"
HRT_WORDS = "task=translation_hrt,beam=1,hrt_decode_chunk=1"


def tune_hrt(matrix: Matrix, name: str) -> None:
    """Length penalties for a beam in both stages, and in the first alone."""
    for beam in (5, 1):
        matrix.tune(f"{name}-tuned-5-{beam}", hrt("HRT k=2", name, 2, (5, beam)), LENPEN)


def ctranslate2(entry: str, tuned: str) -> Dict[str, str]:
    """CTranslate2 with int8 weights, by its search."""
    return {
        search: system(
            f"CTranslate2 int8 {search}", entry, f"compute_type=int8,beam={beam}", *options,
            engine="engine=ctranslate2,",
        )
        for search, beam, *options in (("greedy", 1), ("beam 5", 5, best(tuned)))
    }  # fmt: skip


# ---- The main table


def teachers(matrix: Matrix) -> None:
    """Data, the teacher, its translations, and the teacher that learns from them."""
    prepared = {"SRC": "en", "TGT": "de", "MERGES": "5000"}
    matrix.add("en-de", "prepare", script="examples/multi30k/prepare.sh", environment=prepared)
    raw = {**TRANSFORMER, "dropout": 0.2}
    smoothed = {"criterion": "label_smoothed_cross_entropy"}
    matrix.train(
        "search-256", raw, smoothed, updates=600, lr=0.0015, warmup=200, save=200, average=2
    )
    matrix.train("at-start", raw, updates=700, lr=0.0015, save=100, average=2, start="search-256")
    matrix.train("at", raw, updates=5000, lr=0.002, start="at-start")
    matrix.distill("distilled", "at", "en-de")
    matrix.tune("at-tuned", system("AT", "at", AT_BEAM), LENPEN)
    own = at_ways("AT", "at", "at-tuned")
    matrix.test("test-at", own, against={"AT greedy": "AT beam 5"})
    copy = (
        "mkdir -p $OUT/data-bin && cp ${en-de}/data-bin/* $OUT/data-bin && cp"
        " ${distilled}/data-bin/train.* $OUT/data-bin"
    )
    matrix.add("distilled-data", "command", command=["bash", "-c", copy], result="data-bin")
    matrix.train("at-distilled", raw, updates=5000, lr=0.0015, start="at", data="distilled-data")
    better = at_ways("AT distilled", "at-distilled", "at-tuned")
    against = {f"AT distilled {search}": f"AT {search}" for search in ("beam 5", "greedy")}
    matrix.test("test-at-distilled", own + better, against=against)


def hrt_students(matrix: Matrix) -> None:
    """HRT for all chunk sizes, for k = 2 alone, and for k = 2 from the better teacher."""
    distilled = {**HRT, **DISTILLED, "dropout": 0.2}
    alone = {**distilled, "hrt-chunk-sizes": "2", "hrt-curriculum-power": 0}
    every = {"raw-probability": 0.5, "hrt-chunk-sizes": "2,3", "hrt-curriculum-steps": 5000}
    matrix.train("hrt", distilled, every, updates=5000, lr=0.0015, start="at")
    matrix.train("hrt-k2-distilled", alone, updates=2500, lr=0.001, start="hrt")
    matrix.train("hrt-k2-from-distilled", alone, updates=3000, lr=0.0015, start="at-distilled")
    for name in ("hrt", "hrt-k2-distilled", "hrt-k2-from-distilled"):
        tune_hrt(matrix, name)
    words = system("HRT C_d=1", "hrt", HRT_WORDS)
    larger = hrt_ways("HRT k=3", "hrt", 3, ((5, 1), (1, 1)))
    matrix.test("test-hrt", [words, *hrt_ways("HRT k=2", "hrt", 2), *larger])
    for name in ("hrt-k2-distilled", "hrt-k2-from-distilled"):
        matrix.test(f"test-{name}", hrt_ways("HRT k=2", name, 2))


def ib_students(matrix: Matrix) -> None:
    """IBDecoder and IB+SA(2)."""
    distilled = {**IB, **DISTILLED, "dropout": 0.3}
    for name, words, start in (
        ("ib", 1, "at"), ("ib-sa2", 2, "at"), ("ib-from-distilled", 1, "at-distilled"),
    ):  # fmt: skip
        count = {"bidirectional-tokens-per-step": words}
        matrix.train(name, distilled, count, updates=4000, lr=0.0015, start=start)
        matrix.tune(f"{name}-tuned", ib("IBDecoder", name, 4), LENPEN)
        title, unique = "IB+SA(2)" if words > 1 else "IBDecoder", "bidirectional_deduplicate=true"
        ways = [*ib_ways(title, name), *ib_ways(title, name, unique, ends=" without repeats")]
        matrix.test(f"test-{name}", ways)


def tuned_graph(name: str) -> Dict[str, str]:
    """What chose the options of a graph's strategies."""
    return {"lookahead": f"{name}-tuned-lookahead", "joint-viterbi": f"{name}-tuned-viterbi"}


def graphs(matrix: Matrix) -> None:
    """DAG and FA-DAT, from raw targets."""
    for name, updates, start, dropout, share in (
        ("dag-3000", 3000, "at-start", 0.1, 0.5), ("dag", 4000, "dag-3000", 0.3, 0.3),
    ):  # fmt: skip
        own = {"dropout": dropout, "dag-glance-schedule": f"{share}:0.1@{updates}"}
        matrix.train(name, DAG, own, updates=updates, lr=0.0015, start=start)
    fuzzy = {**DAG, "criterion": "dag_fuzzy_loss", "dropout": 0.3, "dag-glance-schedule": "0.1"}
    matrix.train("fa-dat", fuzzy, updates=400, lr=0.0003, warmup=30, save=100, start="dag")
    for name in ("dag", "fa-dat"):
        tuned = tuned_graph(name)
        for (strategy, chosen), grid in zip(tuned.items(), (BETA, LENGTH_BETA)):
            matrix.tune(chosen, dag(f"DAG {strategy}", name, strategy), grid)
        matrix.test(f"test-{name}", dag_ways(name.upper(), name, tuned))


def other_models(matrix: Matrix) -> None:
    """Two decoder layers, 12 + 1 layers, and Mask-Predict."""
    raw = {**TRANSFORMER, "dropout": 0.2}
    few: Fields = dict(updates=5000, lr=0.002, warmup=400, layers=(3, 2))
    matrix.train("at-2-layers", raw, **few, data="distilled-data")
    student = {**IB, **DISTILLED, "dropout": 0.3, "bidirectional-tokens-per-step": 1}
    matrix.train("ib-2-layers", student, **few)
    two = [
        ib("IBDecoder 2 layers greedy", "ib-2-layers", 1),
        system("AT 2 layers greedy", "at-2-layers", AT_GREEDY),
    ]
    matrix.test("test-2-layers", two)
    start = {"updates": 3500, "lr": 0.002, "warmup": 400}
    matrix.train("at-e12d1-start", raw, NORMALISED, **start, layers=(12, 1))
    chunks = {**HRT, **DISTILLED, "dropout": 0.2, "raw-probability": 0.5, "hrt-chunk-sizes": "2,3"}
    matrix.train(
        "hrt-e12d1", chunks, NORMALISED, updates=2000, lr=0.0015, layers=(12, 1),
        start="at-e12d1-start", hrt_curriculum_steps=2000,
    )  # fmt: skip
    deep = at_ways("AT E12D1", "at-e12d1-start")
    deep.append(system("HRT E12D1 C_d=1", "hrt-e12d1", HRT_WORDS))
    deep += [hrt(f"HRT E12D1 k={size}", "hrt-e12d1", size, (1, 1)) for size in (2, 3)]
    matrix.test("test-depth", deep)
    command = ["python", "examples/common/nat_from_at.py", "${at}/model.pt", "${out}/model.pt"]
    matrix.add("nat-start", "command", command=command, result="model.pt")
    masked = family(
        "translation_lev", "cmlm_transformer", "nat_loss", noise="random_mask",
        length_loss_factor=0.1, pred_length_offset=True, disable_validation=True, dropout=0.1,
        label_smoothing=0.1,
    )  # fmt: skip
    matrix.train(
        "mask-predict", masked, updates=2500, lr=0.0015, start="nat-start", data="distilled-data"
    )
    # All iterations: fairseq ends where two passes mask the same words, although short translations
    # keep their masks then.
    ways = (
        "task=translation_lev,beam=1,iter_decode_max_iter={},iter_decode_with_beam=5,"
        "iter_decode_force_max_iter=true,iter_decode_eos_penalty=0"
    )
    passes = [
        system(f"Mask-Predict {count}", "mask-predict", ways.format(count - 1), engine="")
        for count in (4, 10)
    ]
    matrix.test("test-mask-predict", passes)


def speed(matrix: Matrix) -> None:
    """Speed with int8 weights, to be measured while nothing else runs."""
    systems = [
        *ctranslate2("at", "at-tuned").values(),
        *at_ways("native AT", "at", "at-tuned", engine=INT8),
        system("native HRT C_d=1", "hrt", HRT_WORDS, engine=INT8),
        system("native HRT C_d=1 by drafts of k=3", "hrt", HRT_WORDS, "hrt_draft_chunk=3",
               engine=INT8),
    ]  # fmt: skip
    beams, chunk = "beam={0},hrt_nat_beam={1}", "hrt_decode_chunk={2}"
    first, last = f"{chunk},{beams}", f"{beams},{chunk}"
    for title, entry, size, way in (
        ("k=2", "hrt", 2, last), ("for k=2 alone", "hrt-k2-distilled", 2, first),
        ("k=3", "hrt", 3, last), ("auto", "hrt", "auto", last),
    ):  # fmt: skip
        ways = hrt_ways(f"native HRT {title}", entry, size, engine=INT8, way=way)
        systems += ways if size == 2 else ways[1:]
    for title, name in (("IBDecoder", "ib"), ("IB+SA(2)", "ib-sa2")):
        systems += ib_ways(f"native {title}", name, engine=INT8)
    for name in ("dag", "fa-dat"):
        systems += dag_ways(f"native {name.upper()}", name, tuned_graph(name), INT8)
    ratios = {**QUIET, "ratio-to": ["CTranslate2 int8 greedy", "native AT greedy"]}
    matrix.test("speed", systems, ratios)


# ---- Students from plenty: what do the families lose where they learn from five times as many
# translations?

CAPTIONS, VALIDATION = 144_541, 1_014
# Of HRT's models.
CHUNK_SIZES = ("2", "2,3")


@dataclass(frozen=True)
class Budget:
    """What every student gets.

    Attributes:
        name: before the names of its entries.
        updates: of ``tokens`` tokens.
        tokens: of an update.
        graph_tokens: the same of graphs, which have the fewer updates.
        shares: how often raw pairs stand beside the translations in the data of graphs, and how
            many times as many tokens they get then.
    """

    name: str
    updates: int
    tokens: int
    graph_tokens: int
    shares: Mapping[int, float]

    def every(self) -> Fields:
        """What all trainings of students have in common."""
        return {
            "max_tokens": self.tokens, "updates": self.updates, "lr": 0.0015,
            # New sentences need less than the few of the main table.
            "dropout": 0.1,
            "save": self.updates // 20, "start": "at-distilled", "data": "plenty-data",
        }  # fmt: skip


# 15 passes over so many captions, for a GPU: with 4,096 tokens it would wait for Python, and most
# for the losses of graphs, whose papers have the largest batches. Graphs pass as often over the
# translations, beside which raw pairs stand as often as was better in SHORT.
PLENTY = Budget("plenty", 4_800, 8_192, 16_384, {1: 1.2})
# As many tokens as the students of the main table had, whose sentences were a fifth, five times
# as often. Graphs have the same number of tokens, whatever their data.
SHORT = Budget("plenty-short", 2_000, 4_096, 4_096, {1: 1.0, 3: 1.0})


def plenty_command(
    matrix: Matrix, name: str, verb: str, *words: str, result: str = "data-bin"
) -> None:
    """An entry that plenty.py makes."""
    command = ["python", "examples/study/plenty.py", verb, *words, "--out", "${out}"]
    matrix.add(name, "command", command=command, result=result)


def plenty_data(matrix: Matrix) -> None:
    """English captions (PLENTY=file), the better teacher's translations of them, and both with raw
    pairs."""
    plenty_command(matrix, "plenty-text", "text", "${en-de}", "--lines", str(CAPTIONS))
    tuned = f",{best('at-tuned')}"
    matrix.distill("plenty-distilled", "at-distilled", "plenty-text", best=tuned, threads=2)
    translated = ("${en-de}", "--translated", "${plenty-distilled}", "--raw")
    for count in (0, *SHORT.shares):
        name = f"plenty-mixed-{count}" if count else "plenty-data"
        plenty_command(matrix, name, "mix", *translated, str(count))


def plenty_samples(matrix: Matrix) -> None:
    """As many pairs that all students, but not their teacher, learnt from as there are validation
    sentences, and the teacher's translations of those."""
    for name, prefix, lines in (
        ("plenty-learnt", "${plenty-distilled}/train", VALIDATION),
        # Without those that the teacher learnt from.
        ("plenty-unseen-text", "${en-de}/bpe/valid", VALIDATION - 1),
    ):
        plenty_command(matrix, name, "take", "${en-de}", "--of", prefix, "--lines", str(lines))
    tuned = f",{best('at-tuned')}"
    matrix.distill("plenty-unseen", "at-distilled", "plenty-unseen-text", best=tuned)


def hrt_options(budget: Budget, sizes: str) -> Fields:
    """Of HRT for these chunk sizes."""
    curriculum = {"power": 0} if sizes == "2" else {"steps": budget.updates}
    own = {f"hrt-curriculum-{key}": value for key, value in curriculum.items()}
    return {**HRT, **own, "hrt-chunk-sizes": sizes}


DISTINCT = {**IB, "bidirectional-tokens-per-step": 1, "bidirectional-distinct-starts": True}
# For students that cannot start from the better teacher: they have other layers.
FROM_NOTHING: Fields = {"start": "", "lr": 0.002, "warmup": 400}


def plenty_students(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """All start from the better teacher, but for the one with two decoder layers, which cannot."""
    name, every = budget.name, budget.every()
    matrix.train(f"{name}-at", TRANSFORMER, **every)
    matrix.train(f"{name}-at-2", TRANSFORMER, **{**every, **FROM_NOTHING}, layers=(3, 2))
    for sizes in CHUNK_SIZES:
        matrix.train(hrt_name(name, sizes), hrt_options(budget, sizes), **every)
    matrix.train(f"{name}-ib", DISTINCT, **every)
    matrix.train(f"{name}-ib-sa2", IB, **every, bidirectional_tokens_per_step=2)
    for count in budget.shares:
        graph_students(matrix, budget, count)
        own = f"{name}-fa-dat-{count}"
        matrix.tune(f"{own}-tuned", dag("FA-DAT lookahead", own, "lookahead"), BETA)
    # The share that is better on the validation set.
    for kind in ("dag", "fa-dat"):
        found = [
            (f"${{{name}-{kind}-{count}}}/model.pt", f"${{{name}-fa-dat-{count}-tuned}}/tuned.json")
            for count in budget.shares
        ]
        plenty_command(matrix, f"{name}-{kind}", "choose", *sum(found, ()), result="model.pt")


def graph_students(matrix: Matrix, budget: Budget, count: int, ends: str = "", **more: Any) -> None:
    """A graph by likelihood and the same after fuzzy alignment, with raw pairs ``count`` times
    beside the translations; ``ends`` are behind their names, ``more`` are options of both."""
    tokens = int(budget.shares[count] * budget.updates * budget.tokens)
    updates = tokens // budget.graph_tokens
    fuzzy = updates * 3 // 20
    likelihood, aligned = (f"{budget.name}-{kind}-{count}{ends}" for kind in ("dag", "fa-dat"))
    every = {**budget.every(), "data": f"plenty-mixed-{count}", **more}
    every |= {"max_tokens": budget.graph_tokens, "updates": updates - fuzzy}
    schedule = {"dag-glance-schedule": f"0.5:0.1@{updates - fuzzy}"}
    matrix.train(likelihood, DAG, schedule, **every)
    every |= {"updates": fuzzy, "lr": 0.0003, "save": fuzzy // 9, "start": likelihood}
    matrix.train(aligned, DAG, **every, criterion="dag_fuzzy_loss", dag_glance_schedule="0.1")


def hrt_name(name: str, sizes: str) -> str:
    """Of the HRT model of a budget for these chunk sizes."""
    return f"{name}-hrt-k2" if sizes == "2" else f"{name}-hrt"


def plenty_systems(budget: Budget, engine: str) -> List[str]:
    """Every model in its ways to decode, with what was chosen for it on the validation set."""
    own, systems = budget.name, []
    for title, name in (("AT", f"{own}-at"), ("AT 3+2", f"{own}-at-2")):
        systems += at_ways(title, name, f"{name}-tuned", engine=engine)
    for sizes in CHUNK_SIZES:
        for size in sizes.split(","):
            title = "HRT for k=2 alone" if sizes == "2" else f"HRT k={size}"
            systems += hrt_ways(title, hrt_name(own, sizes), size, engine=engine)
    for title, name in (("IBDecoder", f"{own}-ib"), ("IB+SA(2)", f"{own}-ib-sa2")):
        systems += ib_ways(title, name, engine=engine)
    for title, name in (("DAG", f"{own}-dag"), ("FA-DAT", f"{own}-fa-dat")):
        systems += dag_ways(title, name, {"lookahead": f"{name}-tuned"}, engine)
    return systems


def plenty_figures(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """Choices on the validation set, then quality."""
    own = budget.name
    for name in (f"{own}-at", f"{own}-at-2"):
        matrix.tune(f"{name}-tuned", system("AT", name, AT_BEAM), LENPEN)
    for sizes in CHUNK_SIZES:
        tune_hrt(matrix, hrt_name(own, sizes))
    for name in (f"{own}-ib", f"{own}-ib-sa2"):
        matrix.tune(f"{name}-tuned", ib("IBDecoder", name, 4), LENPEN)
    for name in (f"{own}-dag", f"{own}-fa-dat"):
        matrix.tune(f"{name}-tuned", dag("DAG lookahead", name, "lookahead"), BETA)
    exact = [*at_ways("teacher", "at-distilled", "at-tuned"), *plenty_systems(budget, EXACT)]
    matrix.test(f"test-{own}", exact, against=against_at(exact))


def titles_of(systems: Sequence[str]) -> List[str]:
    """The names that the systems of a benchmark have in its tables."""
    return [text.split(",")[0].removeprefix("name=") for text in systems]


def against_at(systems: Sequence[str]) -> Dict[str, str]:
    """What each is compared with: a search with a beam with the Transformer's, others with its
    greedy search."""
    titles = titles_of(systems)
    against = {
        title: "AT beam 5" if "beam" in title or "(5" in title else "AT greedy" for title in titles
    }
    against["AT greedy"] = "AT beam 5"
    return {one: other for one, other in against.items() if one != other and other in titles}


def plenty_beams(budget: Budget, engine: str) -> Dict[str, str]:
    """Students, each with a search that finds several translations, of which another model can
    choose."""
    one, own = hrt_name(budget.name, "2"), budget.name
    found = {one: hrt("HRT for k=2 alone", one, 2, (5, 5), f"{one}-tuned-5-5", engine=engine)}
    for title, name in (("IBDecoder", f"{own}-ib"), ("IB+SA(2)", f"{own}-ib-sa2")):
        found[name] = ib(f"{title} beam 8", name, 8, best(f"{name}-tuned"), engine=engine)
    return found


def rescored(budget: Budget, way: str) -> str:
    """The same search, and the Transformer of the same data chooses."""
    title = way.split(",")[0]
    judge = f"rescore_path=${{{budget.name}-at}}/model.pt"
    return f"{way},{judge}".replace(title, f"{title} rescored", 1)


def plenty_causes(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """What students lose: what the Transformer of the same data finds in their beams, and how well
    they know translations that they learnt and others."""
    own = budget.name
    found = at_ways("AT", f"{own}-at", f"{own}-at-tuned")[:1]
    for name, way in plenty_beams(budget, EXACT).items():
        chosen, tuned = rescored(budget, way), f"{name}-rescored-tuned"
        matrix.tune(tuned, chosen, "rescore_lenpen=0.6,1.0,1.4,2.0,3.0")
        found += [way, f"{chosen},{best(tuned)}"]
    titles = titles_of(found)
    # Each search with the Transformer, and what that chooses with the search's own choice.
    against = dict.fromkeys(titles[1::2], "AT beam 5")
    against.update({two: one for one, two in zip(titles[1::2], titles[2::2])})
    matrix.test(f"test-{own}-rescored", found, against=against)
    models = {
        "Transformer": f"{own}-at",
        "Transformer with 2 decoder layers": f"{own}-at-2",
        "hrt for k = 2 alone": hrt_name(own, "2"),
        "bidirectional": f"{own}-ib",
        "bidirectional with 2 words": f"{own}-ib-sa2",
    }
    command = ["python", "examples/study/fit.py", "--learnt", "${plenty-learnt}/data-bin"]
    command += ["--unseen", "${plenty-unseen}/data-bin", "-s", "en", "-t", "de", "--out", "${out}"]
    for title, name in models.items():
        chunk = ",hrt_decode_chunk=2" if "hrt" in title else ""
        command += ["--system" if title != "Transformer" else "--baseline"]
        command += [f"name={title},path=${{{name}}}/model.pt{chunk}"]
    matrix.add(f"{own}-fit", "command", command=command, result="fit.md")


# Besides the first.
SEEDS = (2, 3)


def plenty_seeds(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """The Transformers and three families with other seeds; decoding as chosen for the first."""
    own, every = budget.name, budget.every()
    at, at_2, graph = f"{own}-at", f"{own}-at-2", f"{own}-fa-dat"
    hybrid, pair = hrt_name(own, "2"), f"{own}-ib"

    def hybrids(name: str, title: str) -> List[str]:
        return [
            hrt(title, name, 2, (5, 5), f"{hybrid}-tuned-5-5"), hrt(title, name, 2, (1, 1))
        ]  # fmt: skip

    families: Dict[str, Tuple[str, Callable[[str, str], List[str]]]] = {
        at: ("AT", lambda name, title: at_ways(title, name, f"{at}-tuned")),
        at_2: ("AT 3+2", lambda name, title: at_ways(title, name, f"{at_2}-tuned")),
        hybrid: ("HRT for k=2 alone", hybrids),
        pair: ("IBDecoder", lambda name, title: ib_ways(title, name, tuned=f"{pair}-tuned")),
        graph: (
            "FA-DAT",
            lambda name, title: dag_ways(title, name, {"lookahead": f"{graph}-tuned"}),
        ),
    }
    baseline = at_ways("AT", at, f"{at}-tuned")
    found = {
        name: baseline + (ways(name, title) if name != at else [])
        for name, (title, ways) in families.items()
    }
    for seed in SEEDS:
        ends = f"-seed-{seed}"
        matrix.train(at + ends, TRANSFORMER, **every, seed=seed)
        small = {**every, **FROM_NOTHING, "layers": (3, 2)}
        matrix.train(at_2 + ends, TRANSFORMER, **small, seed=seed)
        matrix.train(hybrid + ends, hrt_options(budget, "2"), **every, seed=seed)
        matrix.train(pair + ends, DISTINCT, **every, seed=seed)
        # With raw pairs once, as was better with the first seed.
        graph_students(matrix, budget, 1, ends, seed=seed)
        for name, (title, ways) in families.items():
            trained = f"{graph}-1" if name == graph else name
            found[name] += ways(trained + ends, f"{title} seed {seed}")
    for name, systems in found.items():
        matrix.test(f"test-{name}-seeds", systems, against=against_at(systems))


def plenty_capacity(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """What twice the decoder layers give IB+SA(2), which loses most: both start from nothing, since
    the teacher has three."""
    own = budget.name
    every = {**budget.every(), **FROM_NOTHING}
    found = [system("AT greedy", f"{own}-at", AT_GREEDY)]
    for layers in (3, 6):
        name = f"{own}-ib-sa2-3-{layers}"
        matrix.train(name, IB, **every, layers=(3, layers), bidirectional_tokens_per_step=2)
        found.append(ib(f"IB+SA(2) 3+{layers} greedy", name, 1))
    matrix.test(f"test-{own}-capacity", found, against=against_at(found))


def ctc_students(matrix: Matrix, budget: Budget, small: Fields) -> List[str]:
    """CTC by likelihood, with three decoder layers and with the options ``small``, and each after
    n-gram alignment, in the shares of graphs. Returns the names but that of n-grams with three."""
    aligned = budget.updates * 3 // 20
    first, second = f"{budget.name}-ctc", f"{budget.name}-ctc-2"
    every = {**budget.every(), "updates": budget.updates - aligned}
    after = {"updates": aligned, "lr": 0.0003, "save": aligned // 9, "criterion": "ctc_ngram_loss"}
    matrix.train(first, CTC, **every)
    matrix.train(f"{budget.name}-ctc-ngram", CTC, **{**every, **after, "start": first})
    every |= small
    matrix.train(second, CTC, **every)
    last = f"{budget.name}-ctc-ngram-2"
    matrix.train(last, CTC, **{**every, **after, "start": second})
    return [first, second, last]


CTC_GREEDY = "task=translation_ctc,beam=1"


def plenty_two_layers(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """What the families lose and gain with two decoder layers, beside the Transformer that has as
    few; and CTC, which is not in the other tables, with three as well."""
    own = budget.name
    every: Fields = {**FROM_NOTHING, "layers": (3, 2)}
    hybrid, pair = f"{hrt_name(own, '2')}-2", f"{own}-ib-2"
    best_two: Dict[str, Tuple[Fields, Callable[[str, str], str]]] = {
        hybrid: (
            hrt_options(budget, "2"),
            lambda name, seed: hrt(f"HRT for k=2 alone 3+2{seed}", name, 2, (1, 1)),
        ),
        pair: (DISTINCT, lambda name, seed: ib(f"IBDecoder 3+2{seed} greedy", name, 1)),
    }
    baseline = system("AT 3+2 greedy", f"{own}-at-2", AT_GREEDY)
    for name, (options, way) in best_two.items():
        matrix.train(name, options, **{**budget.every(), **every})
        seeds = [way(name, "")]
        for seed in SEEDS:
            other = f"{name}-seed-{seed}"
            matrix.train(other, options, **{**budget.every(), **every}, seed=seed)
            seeds.append(way(other, f" seed {seed}"))
        against = dict.fromkeys(titles_of(seeds), "AT 3+2 greedy")
        matrix.test(f"test-{name}-seeds", [baseline, *seeds], against=against)
    graph_students(matrix, budget, 1, "-2", **every)
    names = ctc_students(matrix, budget, every)
    outputs = dict(zip(("CTC", "CTC 3+2", "CTC n-grams 3+2"), names))
    greedy = system("AT greedy", f"{own}-at", AT_GREEDY)
    aligned = [
        system(f"{title} greedy", name, CTC_GREEDY)
        for title, name in (("CTC", names[0]), ("CTC n-grams", f"{own}-ctc-ngram"))
    ]
    against = dict.fromkeys(titles_of(aligned), "AT greedy")
    matrix.test(f"test-{own}-ctc-ngram", [greedy, *aligned], against=against)

    def systems(engine: str) -> List[str]:
        """The Transformers and all of these, greedily."""
        found = [
            system(title, name, AT_GREEDY, engine=engine)
            for title, name in (("AT greedy", f"{own}-at"), ("AT 3+2 greedy", f"{own}-at-2"))
        ]
        found.append(hrt("HRT for k=2 alone 3+2", hybrid, 2, (1, 1), engine=engine))
        found.append(ib("IBDecoder 3+2 greedy", pair, 1, engine=engine))
        graph = f"{own}-fa-dat-1-2"
        found.append(dag("FA-DAT 3+2 greedy", graph, "greedy", engine=engine))
        for title, name in outputs.items():
            found.append(system(f"{title} greedy", name, CTC_GREEDY, engine=engine))
        return found

    exact = systems(EXACT)
    against = dict.fromkeys(titles_of(exact[2:]), "AT 3+2 greedy")
    matrix.test(f"test-{own}-two", exact, against=against)
    ratios = {**QUIET, "ratio-to": ["AT greedy", "AT 3+2 greedy"]}
    matrix.test(f"speed-{own}-two", systems(INT8), ratios)


def plenty_base(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """A Transformer of the papers' base size, which is OPUS-MT's, with half of the updates; and its
    speed with int8 weights."""
    own = f"{budget.name}-at-base"
    size = {"embed-dim": 512, "ffn-embed-dim": 2048, "attention-heads": 8}
    base = {f"{side}-{key}": size[key] for side in ("encoder", "decoder") for key in size}
    every = {**budget.every(), **FROM_NOTHING, "lr": 0.001, "updates": budget.updates // 2}
    matrix.train(own, TRANSFORMER, base, **every, layers=(6, 6))
    found = [system("AT greedy", f"{budget.name}-at", AT_GREEDY)]
    found.append(system("AT 6+6 greedy", own, AT_GREEDY))
    matrix.test(f"test-{own}", found, against=against_at(found))
    fast = ctranslate2(own, "")["greedy"], system("AT 6+6 greedy", own, AT_GREEDY, engine=INT8)
    ratios = {**QUIET, "ratio-to": ["CTranslate2 int8 greedy"]}
    matrix.test(f"speed-{own}", fast, ratios)


def plenty_speed(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """Speed with int8 weights, to be measured while nothing else runs."""
    own = budget.name
    others = ctranslate2(f"{own}-at", f"{own}-at-tuned")
    chosen = [
        f"{rescored(budget, way)},{best(f'{name}-rescored-tuned')}"
        for name, way in plenty_beams(budget, INT8).items()
    ]
    systems = [others["beam 5"], others["greedy"], *plenty_systems(budget, INT8), *chosen]
    ratios = {**QUIET, "ratio-to": ["CTranslate2 int8 greedy", "AT greedy"]}
    matrix.test(f"speed-{own}", systems, ratios)


PLENTY_PARTS = (plenty_students, plenty_figures, plenty_causes, plenty_speed)
# Other seeds, and deeper decoders.
PLENTY_MORE = (plenty_seeds, plenty_capacity)
PLENTY_TWO = (plenty_two_layers,)
GROUPS: Dict[str, Sequence[Callable[[Matrix], None]]] = {
    "main": (teachers, hrt_students, ib_students, graphs, other_models, speed),
    "plenty": (plenty_data, plenty_samples, *PLENTY_PARTS),
    "plenty-more": PLENTY_MORE,
    "plenty-two": PLENTY_TWO,
    "plenty-base": (plenty_base,),
    "plenty-short": tuple(partial(part, budget=SHORT) for part in PLENTY_PARTS),
    "plenty-short-more": tuple(partial(part, budget=SHORT) for part in PLENTY_MORE),
    "plenty-short-two": tuple(partial(part, budget=SHORT) for part in PLENTY_TWO),
}


def read_matrix() -> Tuple[Matrix, Dict[str, List[str]]]:
    """All entries, and the names of those that each group adds."""
    matrix, groups = Matrix(), {}
    for group, parts in GROUPS.items():
        before = set(matrix.entries)
        for part in parts:
            part(matrix)
        groups[group] = [name for name in matrix.entries if name not in before]
    return matrix, groups
