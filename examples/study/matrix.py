"""What the study trains and measures: what stands in the main table, and «students from plenty»."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from entries import AT_BEAM, EXACT, INT8, TEST, Fields, Matrix, best, dag, hrt, ib, system

TRANSFORMER = {
    "task": "translation",
    "arch": "transformer",
    "criterion": "autoregressive_loss",
    "label-smoothing": 0.1,
}
HRT = {
    "task": "translation_hrt",
    "arch": "hrt_transformer",
    "criterion": "hrt_loss",
    "label-smoothing": 0.1,
}
IB = {
    "task": "translation_bidirectional", "arch": "bidirectional_transformer",
    "criterion": "bidirectional_loss", "label-smoothing": 0.1, "bidirectional-directions": 2,
}  # fmt: skip
DAG = {
    "task": "translation_dag",
    "arch": "dag_transformer",
    "criterion": "dag_nll_loss",
    "dag-upsample-scale": "4",
}
NORMALISED = {"encoder-normalize-before": True, "decoder-normalize-before": True}
QUIET = {
    **TEST, "sources": "${en-de}/raw/test.en.gz", "codes": "${en-de}/bpe/codes", "repeats": 5,
    "speed-sentences": 100, "batch-sizes": "1,32", "memory": True,
}  # fmt: skip
LENPEN = "lenpen=0.6,1.0,1.4,1.8,2.4,3.2,4.2"
BETA = "dag_decode_beta=0.25,0.5,1.0,1.5"
LENGTH_BETA = "dag_decode_length_beta=0.8,1.0,1.2,1.5,2.0,2.5,3.0"
AT_GREEDY = "task=translation_autoregressive,beam=1"


# ---- The main table


def teachers(matrix: Matrix) -> None:
    """Data, the teacher, its translations, and the teacher that learns from them."""
    matrix.add(
        "en-de",
        "prepare",
        script="examples/multi30k/prepare.sh",
        environment={"SRC": "en", "TGT": "de", "MERGES": "5000"},
    )
    raw = {**TRANSFORMER, "dropout": 0.2}
    matrix.train(
        "search-256",
        raw,
        updates=600,
        lr=0.0015,
        warmup=200,
        save=200,
        average=2,
        criterion="label_smoothed_cross_entropy",
    )
    matrix.train("at-start", raw, updates=700, lr=0.0015, save=100, average=2, start="search-256")
    matrix.train("at", raw, updates=5000, lr=0.002, start="at-start")
    matrix.distill("distilled", "at", "en-de")
    matrix.tune("at-tuned", system("AT", "at", AT_BEAM), LENPEN)
    own = [
        system("AT beam 5", "at", AT_BEAM, best("at-tuned")),
        system("AT greedy", "at", AT_GREEDY),
    ]
    matrix.test("test-at", own, against={"AT greedy": "AT beam 5"})
    copy = (
        "mkdir -p $OUT/data-bin && cp ${en-de}/data-bin/* $OUT/data-bin && cp"
        " ${distilled}/data-bin/train.* $OUT/data-bin"
    )
    matrix.add("distilled-data", "command", command=["bash", "-c", copy], result="data-bin")
    matrix.train("at-distilled", raw, updates=5000, lr=0.0015, start="at", data="distilled-data")
    better = [
        system("AT distilled beam 5", "at-distilled", AT_BEAM, best("at-tuned")),
        system("AT distilled greedy", "at-distilled", AT_GREEDY),
    ]
    matrix.test(
        "test-at-distilled",
        own + better,
        against={"AT distilled beam 5": "AT beam 5", "AT distilled greedy": "AT greedy"},
    )


def hrt_students(matrix: Matrix) -> None:
    """HRT for all chunk sizes, for k = 2 alone, and for k = 2 from the better teacher."""
    distilled = {**HRT, "dropout": 0.2, "distilled-data": "${distilled}/data-bin"}
    alone = {**distilled, "hrt-chunk-sizes": "2", "hrt-curriculum-power": 0}
    every = {"raw-probability": 0.5, "hrt-chunk-sizes": "2,3"}
    matrix.train(
        "hrt", distilled, every, {"hrt-curriculum-steps": 5000}, updates=5000, lr=0.0015, start="at"
    )
    matrix.train("hrt-k2-distilled", alone, updates=2500, lr=0.001, start="hrt")
    matrix.train("hrt-k2-from-distilled", alone, updates=3000, lr=0.0015, start="at-distilled")
    for name in ("hrt", "hrt-k2-distilled", "hrt-k2-from-distilled"):
        for beam in (5, 1):
            matrix.tune(f"{name}-tuned-5-{beam}", hrt("HRT k=2", name, 2, (5, beam)), LENPEN)
    all_of_it = [
        system("HRT C_d=1", "hrt", "task=translation_hrt,beam=1,hrt_decode_chunk=1"),
        hrt("HRT k=2", "hrt", 2, (5, 5), "hrt-tuned-5-5"),
        hrt("HRT k=2", "hrt", 2, (5, 1), "hrt-tuned-5-1"), hrt("HRT k=2", "hrt", 2, (1, 1)),
        hrt("HRT k=3", "hrt", 3, (5, 1), "hrt-tuned-5-1"), hrt("HRT k=3", "hrt", 3, (1, 1)),
    ]  # fmt: skip
    matrix.test("test-hrt", all_of_it)
    for name in ("hrt-k2-distilled", "hrt-k2-from-distilled"):
        ways = [hrt("HRT k=2", name, 2, (5, beam), f"{name}-tuned-5-{beam}") for beam in (5, 1)]
        matrix.test(f"test-{name}", [*ways, hrt("HRT k=2", name, 2, (1, 1))])


def ib_students(matrix: Matrix) -> None:
    """IBDecoder and IB+SA(2)."""
    distilled = {**IB, "dropout": 0.3, "distilled-data": "${distilled}/data-bin"}
    for name, words, start in (
        ("ib", 1, "at"),
        ("ib-sa2", 2, "at"),
        ("ib-from-distilled", 1, "at-distilled"),
    ):
        matrix.train(
            name,
            distilled,
            updates=4000,
            lr=0.0015,
            start=start,
            bidirectional_tokens_per_step=words,
        )
        matrix.tune(f"{name}-tuned", ib("IBDecoder", name, 4), LENPEN)
        title, chosen, unique = (
            "IB+SA(2)" if words > 1 else "IBDecoder",
            best(f"{name}-tuned"),
            "bidirectional_deduplicate=true",
        )
        ways = [ib(f"{title} beam 4", name, 4, chosen), ib(f"{title} greedy", name, 1)]
        ways += [
            ib(f"{title} beam 4 without repeats", name, 4, unique, chosen),
            ib(f"{title} greedy without repeats", name, 1, unique),
        ]
        matrix.test(f"test-{name}", ways)


def graphs(matrix: Matrix) -> None:
    """DAG and FA-DAT, from raw targets."""
    matrix.train(
        "dag-3000",
        DAG,
        updates=3000,
        lr=0.0015,
        start="at-start",
        dropout=0.1,
        dag_glance_schedule="0.5:0.1@3000",
    )
    matrix.train(
        "dag",
        DAG,
        updates=4000,
        lr=0.0015,
        start="dag-3000",
        dropout=0.3,
        dag_glance_schedule="0.3:0.1@4000",
    )
    fuzzy = {**DAG, "criterion": "dag_fuzzy_loss", "dropout": 0.3, "dag-glance-schedule": "0.1"}
    matrix.train("fa-dat", fuzzy, updates=400, lr=0.0003, warmup=30, save=100, start="dag")
    for name in ("dag", "fa-dat"):
        title = name.upper()
        matrix.tune(f"{name}-tuned-lookahead", dag("DAG lookahead", name, "lookahead"), BETA)
        matrix.tune(
            f"{name}-tuned-viterbi", dag("DAG joint-viterbi", name, "joint-viterbi"), LENGTH_BETA
        )
        ways = [
            dag(f"{title} greedy", name, "greedy"),
            dag(f"{title} lookahead", name, "lookahead", best(f"{name}-tuned-lookahead")),
        ]
        matrix.test(
            f"test-{name}",
            [
                *ways,
                dag(f"{title} joint-viterbi", name, "joint-viterbi", best(f"{name}-tuned-viterbi")),
            ],
        )


def other_models(matrix: Matrix) -> None:
    """Two decoder layers, 12 + 1 layers, and Mask-Predict."""
    raw = {**TRANSFORMER, "dropout": 0.2}
    matrix.train(
        "at-2-layers", raw, updates=5000, lr=0.002, warmup=400, layers=(3, 2), data="distilled-data"
    )
    student = {
        **IB,
        "dropout": 0.3,
        "distilled-data": "${distilled}/data-bin",
        "bidirectional-tokens-per-step": 1,
    }
    matrix.train("ib-2-layers", student, updates=5000, lr=0.002, warmup=400, layers=(3, 2))
    two = [
        ib("IBDecoder 2 layers greedy", "ib-2-layers", 1),
        system("AT 2 layers greedy", "at-2-layers", AT_GREEDY),
    ]
    matrix.test("test-2-layers", two)
    matrix.train(
        "at-e12d1-start", raw, NORMALISED, updates=3500, lr=0.002, warmup=400, layers=(12, 1)
    )
    chunks = {
        **HRT,
        "dropout": 0.2,
        "distilled-data": "${distilled}/data-bin",
        "raw-probability": 0.5,
        "hrt-chunk-sizes": "2,3",
    }
    matrix.train(
        "hrt-e12d1",
        chunks,
        NORMALISED,
        updates=2000,
        lr=0.0015,
        layers=(12, 1),
        start="at-e12d1-start",
        hrt_curriculum_steps=2000,
    )
    deep = [
        system("AT E12D1 beam 5", "at-e12d1-start", AT_BEAM),
        system("AT E12D1 greedy", "at-e12d1-start", AT_GREEDY),
    ]
    deep.append(
        system("HRT E12D1 C_d=1", "hrt-e12d1", "task=translation_hrt,beam=1,hrt_decode_chunk=1")
    )
    matrix.test(
        "test-depth",
        [
            *deep,
            hrt("HRT E12D1 k=2", "hrt-e12d1", 2, (1, 1)),
            hrt("HRT E12D1 k=3", "hrt-e12d1", 3, (1, 1)),
        ],
    )
    start = ["python", "examples/common/nat_from_at.py", "${at}/model.pt", "${out}/model.pt"]
    matrix.add("nat-start", "command", command=start, result="model.pt")
    masked = {
        "task": "translation_lev", "arch": "cmlm_transformer", "criterion": "nat_loss",
        "noise": "random_mask", "length-loss-factor": 0.1, "pred-length-offset": True,
        "disable-validation": True, "dropout": 0.1, "label-smoothing": 0.1,
    }  # fmt: skip
    matrix.train(
        "mask-predict", masked, updates=2500, lr=0.0015, start="nat-start", data="distilled-data"
    )
    # All iterations: fairseq ends where two passes mask the same words, although short translations
    # keep their masks then.
    ways = (
        "task=translation_lev,beam=1,iter_decode_max_iter={},iter_decode_with_beam=5,"
        "iter_decode_force_max_iter=true,iter_decode_eos_penalty=0"
    )
    matrix.test(
        "test-mask-predict",
        [
            system(f"Mask-Predict {count}", "mask-predict", ways.format(count - 1), engine="")
            for count in (4, 10)
        ],
    )


def speed(matrix: Matrix) -> None:
    """Speed with int8 weights, to be measured while nothing else runs."""
    chunk = "hrt_decode_chunk"
    systems = [
        system("CTranslate2 int8 greedy", "at", "compute_type=int8,beam=1",
               engine="engine=ctranslate2,"),
        system("CTranslate2 int8 beam 5", "at", "compute_type=int8,beam=5", best("at-tuned"),
               engine="engine=ctranslate2,"),
        system("native AT beam 5", "at", AT_BEAM, best("at-tuned"), engine=INT8),
        system("native AT greedy", "at", AT_GREEDY, engine=INT8),
        system("native HRT C_d=1", "hrt", f"task=translation_hrt,beam=1,{chunk}=1", engine=INT8),
        system("native HRT C_d=1 by drafts of k=3", "hrt",
               f"task=translation_hrt,beam=1,{chunk}=1,hrt_draft_chunk=3", engine=INT8),
    ]  # fmt: skip

    def chunks(title: str, size: Any, beams: Tuple[int, int], *tuned: str) -> None:
        way = f"task=translation_hrt,beam={beams[0]},hrt_nat_beam={beams[1]},{chunk}={size}"
        systems.append(
            system(
                f"native {title} ({beams[0]} {beams[1]})",
                "hrt",
                way,
                *map(best, tuned),
                engine=INT8,
            )
        )

    def alone(beams: Tuple[int, int], *tuned: str) -> None:
        way = f"task=translation_hrt,{chunk}=2,beam={beams[0]},hrt_nat_beam={beams[1]}"
        systems.append(
            system(
                f"native HRT for k=2 alone ({beams[0]} {beams[1]})",
                "hrt-k2-distilled",
                way,
                *map(best, tuned),
                engine=INT8,
            )
        )

    chunks("HRT k=2", 2, (5, 5), "hrt-tuned-5-5")
    chunks("HRT k=2", 2, (5, 1), "hrt-tuned-5-1")
    chunks("HRT k=2", 2, (1, 1))
    alone((5, 5), "hrt-k2-distilled-tuned-5-5")
    alone((5, 1), "hrt-k2-distilled-tuned-5-1")
    alone((1, 1))
    for title, size in (("HRT k=3", 3), ("HRT auto", "auto")):
        chunks(title, size, (5, 1), "hrt-tuned-5-1")
        chunks(title, size, (1, 1))
    for title, name in (("IBDecoder", "ib"), ("IB+SA(2)", "ib-sa2")):
        systems.append(ib(f"native {title} beam 4", name, 4, best(f"{name}-tuned"), engine=INT8))
        systems.append(ib(f"native {title} greedy", name, 1, engine=INT8))
    for name in ("dag", "fa-dat"):
        title = f"native {name.upper()}"
        systems.append(dag(f"{title} greedy", name, "greedy", engine=INT8))
        systems.append(
            dag(
                f"{title} lookahead",
                name,
                "lookahead",
                best(f"{name}-tuned-lookahead"),
                engine=INT8,
            )
        )
        systems.append(
            dag(
                f"{title} joint-viterbi",
                name,
                "joint-viterbi",
                best(f"{name}-tuned-viterbi"),
                engine=INT8,
            )
        )
    matrix.test(
        "speed", systems, {**QUIET, "ratio-to": ["CTranslate2 int8 greedy", "native AT greedy"]}
    )


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


# 15 passes over so many captions, for a GPU: with 4,096 tokens it would wait for Python, and most
# for the losses of graphs, whose papers have the largest batches. Graphs pass as often over the
# translations, beside which raw pairs stand as often as was better in SHORT.
PLENTY = Budget("plenty", 4_800, 8_192, 16_384, {1: 1.2})
# As many tokens as the students of the main table had, whose sentences were a fifth, five times
# as often. Graphs have the same number of tokens, whatever their data.
SHORT = Budget("plenty-short", 2_000, 4_096, 4_096, {1: 1.0, 3: 1.0})


def plenty_data(matrix: Matrix) -> None:
    """English captions (PLENTY=file), the better teacher's translations of them, and both with raw
    pairs."""
    script = ["python", "examples/study/plenty.py"]
    matrix.add(
        "plenty-text",
        "command",
        command=[*script, "text", "${en-de}", "--lines", str(CAPTIONS), "--out", "${out}"],
        result="data-bin",
    )
    tuned = f",{best('at-tuned')}"
    matrix.distill("plenty-distilled", "at-distilled", "plenty-text", best=tuned, threads=2)
    for count in (0, *SHORT.shares):
        name = f"plenty-mixed-{count}" if count else "plenty-data"
        mix = [
            "mix",
            "${en-de}",
            "--translated",
            "${plenty-distilled}",
            "--raw",
            str(count),
            "--out",
            "${out}",
        ]
        matrix.add(name, "command", command=[*script, *mix], result="data-bin")


def plenty_samples(matrix: Matrix) -> None:
    """As many pairs that all students, but not their teacher, learnt from as there are validation
    sentences, and the teacher's translations of those."""

    for name, prefix, lines in (
        ("plenty-learnt", "${plenty-distilled}/train", VALIDATION),
        # Without those that the teacher learnt from.
        ("plenty-unseen-text", "${en-de}/bpe/valid", VALIDATION - 1),
    ):
        command = ["python", "examples/study/plenty.py", "take", "${en-de}", "--of", prefix]
        command += ["--lines", str(lines), "--out", "${out}"]
        matrix.add(name, "command", command=command, result="data-bin")
    tuned = f",{best('at-tuned')}"
    matrix.distill("plenty-unseen", "at-distilled", "plenty-unseen-text", best=tuned)


def plenty_student(budget: Budget) -> Fields:
    """What all trainings of students have in common."""
    return {
        "max_tokens": budget.tokens,
        # New sentences need less than the few of the main table.
        "dropout": 0.1,
        "updates": budget.updates,
        "lr": 0.0015,
        "save": budget.updates // 20,
        "start": "at-distilled",
        "data": "plenty-data",
    }


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
    name = budget.name
    every = plenty_student(budget)
    matrix.train(f"{name}-at", TRANSFORMER, **every)
    matrix.train(f"{name}-at-2", TRANSFORMER, **{**every, **FROM_NOTHING}, layers=(3, 2))
    for sizes in CHUNK_SIZES:
        matrix.train(hrt_name(name, sizes), hrt_options(budget, sizes), **every)
    matrix.train(f"{name}-ib", DISTINCT, **every)
    matrix.train(f"{name}-ib-sa2", IB, **every, bidirectional_tokens_per_step=2)
    for count in budget.shares:
        graph_students(matrix, budget, count)
        matrix.tune(
            f"{name}-fa-dat-{count}-tuned",
            dag("FA-DAT lookahead", f"{name}-fa-dat-{count}", "lookahead"),
            BETA,
        )
    # The share that is better on the validation set.
    for kind in ("dag", "fa-dat"):
        found = [
            part
            for count in budget.shares
            for part in (
                f"${{{name}-{kind}-{count}}}/model.pt",
                f"${{{name}-fa-dat-{count}-tuned}}/tuned.json",
            )
        ]
        matrix.add(
            f"{name}-{kind}",
            "command",
            command=["python", "examples/study/plenty.py", "choose", *found, "--out", "${out}"],
            result="model.pt",
        )


def graph_students(matrix: Matrix, budget: Budget, count: int, ends: str = "", **more: Any) -> None:
    """A graph by likelihood and the same after fuzzy alignment, with raw pairs ``count`` times
    beside the translations; ``ends`` are behind their names, ``more`` are options of both."""
    tokens = int(budget.shares[count] * budget.updates * budget.tokens)
    updates = tokens // budget.graph_tokens
    fuzzy = updates * 3 // 20
    likelihood, aligned = (f"{budget.name}-{kind}-{count}{ends}" for kind in ("dag", "fa-dat"))
    every = {**plenty_student(budget), "data": f"plenty-mixed-{count}", **more}
    every["max_tokens"] = budget.graph_tokens
    matrix.train(
        likelihood,
        DAG,
        **{**every, "updates": updates - fuzzy},
        dag_glance_schedule=f"0.5:0.1@{updates - fuzzy}",
    )
    every.update(updates=fuzzy, lr=0.0003, save=fuzzy // 9, start=likelihood)
    matrix.train(aligned, DAG, **every, criterion="dag_fuzzy_loss", dag_glance_schedule="0.1")


def hrt_name(name: str, sizes: str) -> str:
    """Of the HRT model of a budget for these chunk sizes."""
    return f"{name}-hrt-k2" if sizes == "2" else f"{name}-hrt"


def plenty_systems(budget: Budget, engine: str) -> List[str]:
    """Every model in its ways to decode, with what was chosen for it on the validation set."""
    systems = []
    own = budget.name
    for title, name in (("AT", f"{own}-at"), ("AT 3+2", f"{own}-at-2")):
        systems += [
            system(f"{title} beam 5", name, AT_BEAM, best(f"{name}-tuned"), engine=engine),
            system(f"{title} greedy", name, AT_GREEDY, engine=engine),
        ]
    for sizes in CHUNK_SIZES:
        name = hrt_name(own, sizes)
        for size in sizes.split(","):
            title = "HRT for k=2 alone" if sizes == "2" else f"HRT k={size}"
            for beams in ((5, 5), (5, 1), (1, 1)):
                tuned = [f"{name}-tuned-5-{beams[1]}"] if beams[0] > 1 else []
                systems.append(hrt(title, name, size, beams, *tuned, engine=engine))
    for title, name in (("IBDecoder", f"{own}-ib"), ("IB+SA(2)", f"{own}-ib-sa2")):
        systems += [
            ib(f"{title} beam 4", name, 4, best(f"{name}-tuned"), engine=engine),
            ib(f"{title} greedy", name, 1, engine=engine),
        ]
    graphs = (("DAG", f"{own}-dag"), ("FA-DAT", f"{own}-fa-dat"))
    for title, name in graphs:
        systems.append(dag(f"{title} greedy", name, "greedy", engine=engine))
        systems.append(
            dag(f"{title} lookahead", name, "lookahead", best(f"{name}-tuned"), engine=engine)
        )
    return systems


def plenty_figures(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """Choices on the validation set, then quality."""
    own = budget.name
    for name in (f"{own}-at", f"{own}-at-2"):
        matrix.tune(f"{name}-tuned", system("AT", name, AT_BEAM), LENPEN)
    for name in (hrt_name(own, sizes) for sizes in CHUNK_SIZES):
        for beam in (5, 1):
            matrix.tune(f"{name}-tuned-5-{beam}", hrt("HRT k=2", name, 2, (5, beam)), LENPEN)
    for name in (f"{own}-ib", f"{own}-ib-sa2"):
        matrix.tune(f"{name}-tuned", ib("IBDecoder", name, 4), LENPEN)
    for name in (f"{own}-dag", f"{own}-fa-dat"):
        matrix.tune(f"{name}-tuned", dag("DAG lookahead", name, "lookahead"), BETA)
    teacher = [
        system("teacher beam 5", "at-distilled", AT_BEAM, best("at-tuned"), engine=EXACT),
        system("teacher greedy", "at-distilled", AT_GREEDY, engine=EXACT),
    ]
    exact = [*teacher, *plenty_systems(budget, EXACT)]
    matrix.test(f"test-{own}", exact, against=against_at(exact))


def against_at(systems: Sequence[str]) -> Dict[str, str]:
    """What each is compared with: a search with a beam with the Transformer's, others with its
    greedy search."""
    titles = [text.split(",")[0].removeprefix("name=") for text in systems]
    against = {
        title: "AT beam 5" if "beam" in title or "(5" in title else "AT greedy" for title in titles
    }
    against["AT greedy"] = "AT beam 5"
    return {one: other for one, other in against.items() if one != other and other in titles}


def plenty_beams(budget: Budget, engine: str) -> Dict[str, str]:
    """Students, each with a search that finds several translations, of which another model can
    choose."""
    own = budget.name
    one, two, three = hrt_name(own, "2"), f"{own}-ib", f"{own}-ib-sa2"
    title, tuned = "HRT for k=2 alone", f"{one}-tuned-5-5"
    return {
        one: hrt(title, one, 2, (5, 5), tuned, engine=engine),
        two: ib("IBDecoder beam 8", two, 8, best(f"{two}-tuned"), engine=engine),
        three: ib("IB+SA(2) beam 8", three, 8, best(f"{three}-tuned"), engine=engine),
    }


def rescored(budget: Budget, way: str) -> str:
    """The same search, and the Transformer of the same data chooses."""
    title = way.split(",")[0]
    judge = f"rescore_path=${{{budget.name}-at}}/model.pt"
    return f"{way},{judge}".replace(title, f"{title} rescored", 1)


def plenty_causes(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """What students lose: what the Transformer of the same data finds in their beams, and how well
    they know translations that they learnt and others."""
    own = budget.name
    found = [system("AT beam 5", f"{own}-at", AT_BEAM, best(f"{own}-at-tuned"))]
    for name, way in plenty_beams(budget, EXACT).items():
        chosen, tuned = rescored(budget, way), f"{name}-rescored-tuned"
        matrix.tune(tuned, chosen, "rescore_lenpen=0.6,1.0,1.4,2.0,3.0")
        found += [way, f"{chosen},{best(tuned)}"]
    titles = [text.split(",")[0].removeprefix("name=") for text in found]
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
    own = budget.name
    every = plenty_student(budget)
    at, at_2, graph = f"{own}-at", f"{own}-at-2", f"{own}-fa-dat"
    hybrid, pair = hrt_name(own, "2"), f"{own}-ib"

    def transformer(first: str, name: str, title: str) -> List[str]:
        beam = system(f"{title} beam 5", name, AT_BEAM, best(f"{first}-tuned"))
        return [beam, system(f"{title} greedy", name, AT_GREEDY)]

    def hybrids(name: str, title: str) -> List[str]:
        tuned = f"{hybrid}-tuned-5-5"
        return [hrt(title, name, 2, (5, 5), tuned), hrt(title, name, 2, (1, 1))]

    def pairs(name: str, title: str) -> List[str]:
        beam = ib(f"{title} beam 4", name, 4, best(f"{pair}-tuned"))
        return [beam, ib(f"{title} greedy", name, 1)]

    def graphs(name: str, title: str) -> List[str]:
        lookahead = dag(f"{title} lookahead", name, "lookahead", best(f"{graph}-tuned"))
        return [dag(f"{title} greedy", name, "greedy"), lookahead]

    families: Dict[str, Tuple[str, Callable[[str, str], List[str]]]] = {
        at: ("AT", partial(transformer, at)),
        at_2: ("AT 3+2", partial(transformer, at_2)),
        hybrid: ("HRT for k=2 alone", hybrids),
        pair: ("IBDecoder", pairs),
        graph: ("FA-DAT", graphs),
    }
    baseline = transformer(at, at, "AT")
    found = {
        name: baseline + (ways(name, title) if name != at else [])
        for name, (title, ways) in families.items()
    }
    for seed in SEEDS:
        ends = f"-seed-{seed}"
        matrix.train(at + ends, TRANSFORMER, **every, seed=seed)
        matrix.train(
            at_2 + ends, TRANSFORMER, **{**every, **FROM_NOTHING}, layers=(3, 2), seed=seed
        )
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
    every = {**plenty_student(budget), **FROM_NOTHING}
    found = [system("AT greedy", f"{own}-at", AT_GREEDY)]
    for layers in (3, 6):
        name = f"{own}-ib-sa2-3-{layers}"
        matrix.train(name, IB, **every, layers=(3, layers), bidirectional_tokens_per_step=2)
        found.append(ib(f"IB+SA(2) 3+{layers} greedy", name, 1))
    matrix.test(f"test-{own}-capacity", found, against=against_at(found))


def plenty_speed(matrix: Matrix, budget: Budget = PLENTY) -> None:
    """Speed with int8 weights, to be measured while nothing else runs."""
    own = budget.name
    others = [
        system("CTranslate2 int8 beam 5", f"{own}-at", "compute_type=int8,beam=5",
               best(f"{own}-at-tuned"), engine="engine=ctranslate2,"),
        system("CTranslate2 int8 greedy", f"{own}-at", "compute_type=int8,beam=1",
               engine="engine=ctranslate2,"),
    ]  # fmt: skip
    chosen = [
        f"{rescored(budget, way)},{best(f'{name}-rescored-tuned')}"
        for name, way in plenty_beams(budget, INT8).items()
    ]
    ratios = {**QUIET, "ratio-to": ["CTranslate2 int8 greedy", "AT greedy"]}
    matrix.test(f"speed-{own}", [*others, *plenty_systems(budget, INT8), *chosen], ratios)


PLENTY_PARTS = (plenty_students, plenty_figures, plenty_causes, plenty_speed)
# Other seeds, and deeper decoders.
PLENTY_MORE = (plenty_seeds, plenty_capacity)
GROUPS: Dict[str, Sequence[Callable[[Matrix], None]]] = {
    "main": (teachers, hrt_students, ib_students, graphs, other_models, speed),
    "plenty": (plenty_data, plenty_samples, *PLENTY_PARTS),
    "plenty-more": PLENTY_MORE,
    "plenty-short": tuple(partial(part, budget=SHORT) for part in PLENTY_PARTS),
    "plenty-short-more": tuple(partial(part, budget=SHORT) for part in PLENTY_MORE),
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
