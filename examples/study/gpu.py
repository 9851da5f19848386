"""Figures of a GPU: ``measured/gpu.json``, as examples/common/gpu_speed.py wrote it, and for the
parts that it has not measured ``measured/gpu_updates.json``, of another run.

``gpu:PART/SYSTEM/WAY/KEY@NUMBER@LAYERS``   a figure of a row. WAY is left out where rows have none.
NUMBER is the batch size of decoding, the tokens of losses; LAYERS those of decoding, by default the
first that were measured.
``gpu:times/SYSTEM/OTHER/WAY@BATCH@LAYERS``   how many times as fast as the other it decodes; with
``best@BATCH`` in place of the way each in the faster one
``gpu:cost/SYSTEM/OTHER/WAY@BATCH@LAYERS``   how many of its decoder calls one of the first takes
``gpu:hours/SYSTEM/TOKENS/BATCH``   hours of 300,000 updates of so many tokens on one card, computed
from the time of batches of BATCH tokens, by default those of 4,096
``gpu:gpu``   of the environment

Tables and sentences of the pages are made from it by pages.py. What was not measured is a dash.
"""

import json
from contextlib import suppress
from pathlib import Path
from statistics import mean
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

# Updates of the papers, and of how many tokens those of gpu_speed.py are.
UPDATES, TOKENS = 300_000, 4096
# Bytes a parameter with fairseq's --fp16 and Adam: weights and gradients in half precision (4),
# both in float32 (8), two moments (8).
BYTES = 20
MIB = 2**20
# Share of a card's memory that a training can have: CUDA needs some of it, and pieces stay unused.
USABLE = 0.9
CARDS = (24, 40, 80)
# Batch sizes of the picture.
DRAWN = (1, 32, 128)
# Systems of the table of decoding: the label, the name in the file.
SYSTEMS = (
    ("Transformer", "Transformer greedy"),
    ("Transformer, beam 5", "Transformer beam 5"),
    ("Transformer, 2 decoder layers", "Transformer 6+2 greedy"),
    ("hrt k = 2", "hrt k=2"),
    ("hrt k = 3", "hrt k=3"),
    ("bidirectional", "bidirectional"),
    ("bidirectional, 2 words", "bidirectional 2 words"),
    ("dag, greedy", "dag greedy"),
    ("dag, lookahead", "dag lookahead"),
    ("dag, joint-Viterbi", "dag joint-viterbi"),
    ("ctc", "ctc greedy"),
    ("fairseq", "fairseq greedy"),
    ("Hugging Face", "Hugging Face greedy"),
)
BASE = "Transformer greedy"
# With CUDA graphs, without, and other programs.
CAPTURED, EAGER, STOCK = "captured", "eager", "stock"
# The faster one of the first two.
BEST = "best"
# Updates of other sizes, and the size that the table of trainings has beside 4,096.
OTHERS, LARGER = "other sizes", 16384
# Aims of decoding at batch size 1, set before it was measured: the system, the other one, and how
# many times as fast it should be.
AIMS = (
    ("Transformer greedy", "fairseq greedy", 30),
    ("Transformer greedy", "Hugging Face greedy", 30),
    ("hrt k=2", BASE, 1.7),
    ("hrt k=3", BASE, 2.4),
    ("bidirectional", BASE, 1.8),
    ("bidirectional 2 words", BASE, 3.2),
    ("dag greedy", BASE, 8),
    ("dag lookahead", BASE, 7),
    ("dag joint-viterbi", BASE, 4),
    ("dag greedy", "fairseq beam 5", 100),
)
# Share of a large matrix product's throughput that updates of 4,096 tokens were to have.
SHARES = (("dag likelihood", 0.35), ("Transformer", 0.30))
# A loss takes more than another one if two digits of the quotient show it.
MORE = 1.005
# Names of rows in the pages.
LABELS = {
    "dag likelihood": "dag (likelihood)", "dag fuzzy": "dag (fuzzy)", "alignment": "best alignment",
    "smoothed": "label smoothing", "fuzzy": "fuzzy alignment", "fairseq beam 5": "fairseq, beam 5",
    **{name: label for label, name in SYSTEMS},
}  # fmt: skip
DASH = "–"

Rows = List[List[str]]


class NotMeasured(ValueError):
    """A row that a run had no time for, or that failed."""


class GpuRun:
    """Documents of gpu_speed.py.

    Args:
        paths: of the files. A part is that of the first one which has it: figures of one part are
            always of one run.
    """

    def __init__(self, *paths: Path) -> None:
        documents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        self.document: Dict[str, Any] = documents[0]
        self.rows: List[Dict[str, Any]] = []
        # The document of each part.
        self.origins: Dict[str, Dict[str, Any]] = {}
        for document in documents:
            new = [row for row in document["rows"] if row["part"] not in self.origins]
            self.rows += new
            self.origins.update({row["part"]: document for row in new})

    def row(self, part: str, system: str, **labels: Any) -> Dict[str, Any]:
        """The row with these labels; of several sizes the one that was measured first.

        Raises:
            NotMeasured: there is none, or it has no figures.
        """
        wanted = {"part": part, "system": system, **labels}
        for row in self.rows:
            if all(row.get(name) == own for name, own in wanted.items()):
                if "not_run" in row or "failed" in row:
                    break
                return row
        raise NotMeasured(f"the GPU's run has no figures of {wanted}")

    def value(self, place: str) -> Any:
        """A figure by its place, see the module.

        Raises:
            NotMeasured: there is no such figure.
        """
        if place in self.document["environment"]:
            return self.document["environment"][place]
        part, *names = place.split("/")
        if part == "hours":
            return self.hours(names[0], *map(int, names[1:]))
        if part in ("times", "cost"):
            return self.quotient(part, names[0], names[1], names[2])
        if not 2 <= len(names) <= 3:
            raise NotMeasured(f"gpu:{place} is not the place of a figure")
        last, *numbers = names[-1].split("@")
        labels: Dict[str, Any] = {"way": names[1] if len(names) == 3 else None}
        if numbers:
            labels["batch" if part == "decoding" else "tokens"] = int(numbers[0])
        if numbers[1:]:
            labels["layers"] = numbers[1]
        row = self.row(part, names[0], **labels)
        if last not in row:
            raise NotMeasured(f"gpu:{place}: the row has {', '.join(row)}")
        return row[last]

    def quotient(self, part: str, system: str, other: str, where: str) -> float:
        """``times`` and ``cost``, see the module; ``where`` is WAY@BATCH@LAYERS.

        Raises:
            NotMeasured: one of the two was not measured.
        """
        way, _, sizes = where.partition("@")

        def of(name: str, key: str) -> float:
            return float(self.value(f"decoding/{name}/{way}/{key}@{sizes}"))

        if part == "times" and way == BEST:
            pair = [self.best(name, int(sizes))[0] for name in (system, other)]
            found = ratio(pair[1], pair[0])
            if found is None:
                raise NotMeasured(f"{system} or {other} was not measured at {sizes}")
            return found
        if part == "times":
            return of(other, "ms_a_sentence") / of(system, "ms_a_sentence")
        one, two = (of(name, "ms") / of(name, "calls") for name in (system, other))
        return one / two

    def hours(self, system: str, tokens: int, batch: int = TOKENS) -> float:
        """Hours of 300,000 updates, each of as many measured batches as make up its tokens."""
        return self.update(system, batch)["ms"] * tokens / batch * UPDATES / 3_600_000

    def rate(self, system: str, batch: int) -> int:
        """Tokens a second of updates of so many tokens."""
        found = self.update(system, batch)
        if "tokens_a_second" in found:
            return int(found["tokens_a_second"])
        return round(1000 * found["tokens"] / found["ms"])

    def figure(self, key: str, part: str, system: str, **labels: Any) -> Optional[float]:
        """A figure of a row, None where there is none."""
        with suppress(NotMeasured):
            return self.row(part, system, **labels).get(key)
        return None

    def decoded(self, key: str, system: str, way: str, batch: int) -> Optional[float]:
        """A figure of decoding with the layers measured first, None where there is none."""
        labels = {"way": way, "batch": batch, **self.size(system)}
        return self.figure(key, "decoding", system, **labels)

    def share(self, system: str, batch: int = TOKENS, *, busy: bool = False) -> Optional[float]:
        """Operations of an update as a share of those of a large matrix product in the same time,
        or in the part of it in which the card works; None where that was not measured."""
        share = self.figure("share_of_matrix_product", "training", system, way=None)
        with suppress(NotMeasured):
            if share is None or (batch == TOKENS and not busy):
                return share
            row = self.update(system, TOKENS)
            if busy:
                profile = self.row("training", system, way="profile")
                return share * row["ms"] / profile["busy_ms"]
            # Sentences are of one length, so the operations grow with the tokens.
            return share * self.rate(system, batch) / row["tokens_a_second"]
        return None

    def update(self, system: str, batch: int) -> Mapping[str, float]:
        """The figures of updates of so many tokens; of a few less, as sentences end.

        Raises:
            NotMeasured: there are none.
        """
        if batch == TOKENS:
            return self.row("training", system, way=None)
        grown = self.row("training", system, way=OTHERS)["by_tokens"]
        for tokens, found in grown.items():
            if 0.95 * batch < int(tokens) <= batch:
                return dict(found, tokens=float(tokens))
        raise NotMeasured(f"the GPU's run has no updates of {batch} tokens of {system}")

    def best(self, system: str, batch: int) -> Tuple[Optional[float], str]:
        """Milliseconds a sentence with CUDA graphs, without where that is faster, or of another
        program; and the way. Without graphs alone nothing is told."""
        found: Dict[str, float] = {}
        for way in (CAPTURED, STOCK, EAGER):
            if way == EAGER and CAPTURED not in found:
                break
            with suppress(NotMeasured):
                row = self.row("decoding", system, way=way, batch=batch, **self.size(system))
                found[way] = float(row["ms_a_sentence"])
        if not found:
            return None, ""
        way = min(found, key=lambda one: found[one])
        return found[way], way

    def size(self, system: str) -> Dict[str, str]:
        """The layers measured first."""
        layers = [row["layers"] for row in self.rows if row["part"] == "decoding"]
        return {"layers": layers[0]} if layers else {}


def number(value: Optional[float], shape: str = "") -> str:
    """A cell: three digits where no format is given, a dash where there is no figure."""
    if value is None:
        return DASH
    if shape:
        return format(value, shape)
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def ratio(upper: Optional[float], lower: Optional[float]) -> Optional[float]:
    """A quotient, None where one of the two is."""
    return None if upper is None or lower is None else upper / lower


def decoding(run: GpuRun) -> Tuple[List[str], Rows]:
    """Header and rows of the table of decoding."""
    header = ["system"]
    for batch in DRAWN:
        header += [f"ms a sentence, batch size {batch}", f"× Transformer at {batch}"]
    rows = []
    for label, name in SYSTEMS:
        found = {batch: run.best(name, batch)[0] for batch in DRAWN}
        if all(own is None for own in found.values()):
            continue
        rows.append([label])
        for batch, own in found.items():
            shape = ".3f" if own is not None and own < 1 else ""
            rows[-1] += [number(own, shape), number(ratio(run.best(BASE, batch)[0], own))]
    # A column in which nothing was measured is left out.
    kept = [place for place in range(len(header)) if any(row[place] != DASH for row in rows)]
    return [header[place] for place in kept], [[row[place] for place in kept] for row in rows]


def trainings(run: GpuRun) -> List[Dict[str, Any]]:
    """The rows of trainings that have figures."""
    return [
        row for row in run.rows
        if row["part"] == "training" and "tokens_a_second" in row and "way" not in row
    ]  # fmt: skip


def training(run: GpuRun) -> Tuple[List[str], Rows]:
    """Header and rows of the table of trainings."""
    header = [
        "family", "tokens/s", "ms an update", "of these busy", "hours, 4,096 tokens an update",
        "hours, 65,536 tokens an update", "tokens/s in batches of 16,384",
    ]  # fmt: skip
    rows = []
    for row in trainings(run):
        name, busy, larger = row["system"], None, None
        with suppress(NotMeasured):
            busy = run.row("training", name, way="profile")["busy_ms"]
        with suppress(NotMeasured):
            larger = run.rate(name, LARGER)
        rows.append([
            LABELS.get(name, name), number(row["tokens_a_second"], ",d"), number(row["ms"], ".0f"),
            number(busy, ".0f"), number(run.hours(name, TOKENS), ".0f"),
            number(run.hours(name, 65536), ".0f"), number(larger, ",d"),
        ])  # fmt: skip
    return header, rows


def shares(run: GpuRun) -> Tuple[List[str], Rows]:
    """Header and rows of the table of the matrix throughput that trainings have."""
    header = [
        "family", "TFLOP an update", "% of the throughput", "% while the card works",
        "% in batches of 16,384",
    ]  # fmt: skip
    rows = []
    for row in trainings(run):
        name = row["system"]
        own = [run.share(name), run.share(name, busy=True), run.share(name, LARGER)]
        rows.append([
            LABELS.get(name, name), number(row.get("tflop_an_update")),
            *(number(None if value is None else 100 * value, ".0f") for value in own),
        ])  # fmt: skip
    return header, rows


def parameters(layers: str = "6+6", width: int = 512, words: int = 32768) -> int:
    """Parameters of a Transformer with one table of embeddings and sinusoidal positions."""
    inner = 4 * width
    attention, norm = 4 * (width * width + width), 2 * width
    feed_forward = 2 * width * inner + inner + width
    encoder, decoder = map(int, layers.split("+"))
    return (
        words * width
        + encoder * (attention + feed_forward + 2 * norm)
        + decoder * (2 * attention + feed_forward + 3 * norm)
    )


def peaks(run: GpuRun, row: Mapping[str, Any]) -> Dict[int, float]:
    """MiB at the peak of a training, by the tokens of its updates."""
    found = {round(row["tokens_a_second"] * row["ms"] / 1000): float(row["peak_mib"])}
    with suppress(NotMeasured):
        grown = run.row("training", row["system"], way=OTHERS)["by_tokens"]
        found.update({int(tokens): own["peak_mib"] for tokens, own in grown.items()})
    return dict(sorted(found.items()))


def memory_of(run: GpuRun, row: Mapping[str, Any]) -> Tuple[float, float, Optional[float]]:
    """MiB that do not depend on the batch, MiB for each token, and the largest error of both beside
    what was measured: None where only one batch was.

    With one batch the first figure is that of the parameters, 20 bytes each. With several it is
    that of the line that is nearest to them.
    """
    held = BYTES * row.get("parameters", parameters(row["layers"])) / MIB
    found = peaks(run, row)
    if len(found) == 1:
        ((tokens, peak),) = found.items()
        return held, (peak - held) / tokens, None
    middle, height = mean(found), mean(found.values())
    slope = sum((size - middle) * (own - height) for size, own in found.items()) / sum(
        (size - middle) ** 2 for size in found
    )
    rest = height - slope * middle
    return rest, slope, max(abs(rest + slope * size - own) for size, own in found.items())


def memory(run: GpuRun) -> Tuple[List[str], Rows]:
    """Header and rows of the table of memory."""
    header = ["family", "peak, GiB", "fixed, GiB", "MiB for 1,000 tokens"]
    header += [f"tokens in {size} GB" for size in CARDS]
    rows = []
    for row in trainings(run):
        if "peak_mib" not in row:
            continue
        held, each, _ = memory_of(run, row)
        fit = [(USABLE * size * 1024 - held) / each for size in CARDS]
        rows.append([
            LABELS.get(row["system"], row["system"]), number(row["peak_mib"] / 1024, ".1f"),
            number(held / 1024, ".1f"), number(1000 * each, ",.0f"),
            *(number(int(own // 1000) * 1000, ",d") for own in fit),
        ])  # fmt: skip
    return header, rows


def losses(run: GpuRun) -> Tuple[List[str], Rows]:
    """Header and rows of the table of dag's losses, beside DA-Transformer's CUDA operations."""
    ways = (("ours", "ours"), ("reference", "DA-Transformer's"), ("pytorch", "PyTorch's"))
    header = ["loss", "source tokens", *(f"{label}, ms" for _, label in ways)]
    header += [f"{label}, MiB" for _, label in ways[:2]]
    rows = []
    found = [row for row in run.rows if row["part"] == "losses" and row.get("way") == "ours"]
    for row in found:
        if "ms" not in row:
            continue
        size = row["tokens"]
        line = [LABELS.get(row["system"], row["system"]), str(size)]
        for key, shape, chosen in (("ms", ".1f", ways), ("peak_mib", ",.0f", ways[:2])):
            for way, _ in chosen:
                own = None
                with suppress(NotMeasured):
                    own = run.row("losses", row["system"], way=way, tokens=size).get(key)
                line.append(number(own, shape))
        rows.append(line)
    return header, rows


def beside_reference(run: GpuRun, key: str) -> Dict[Tuple[str, int], Tuple[float, float]]:
    """A figure of our losses and of DA-Transformer's operations, by name and source tokens."""
    found = {}
    for row in run.rows:
        if row["part"] == "losses" and row.get("way") == "ours" and key in row:
            with suppress(NotMeasured):
                other = run.row("losses", row["system"], way="reference", tokens=row["tokens"])
                found[row["system"], row["tokens"]] = float(row[key]), float(other[key])
    return found


def losses_reading(run: GpuRun) -> str:
    """Which losses take more time or memory than DA-Transformer's operations."""
    said = []
    for key, text, unit, shape in (
        ("ms", "longer than DA-Transformer's operations", "ms", ".1f"),
        ("peak_mib", "more memory than they do", "MiB", ".0f"),
    ):
        found = beside_reference(run, key)
        if not found:
            return "DA-Transformer's operations were not measured in this run."
        more = [
            f"the {LABELS.get(name, name)} at {tokens} tokens ({own:{shape}} and {other:{shape}}"
            f" {unit})"
            for (name, tokens), (own, other) in found.items()
            if own > MORE * other
        ]
        said.append(
            f"{len(more)} of {len(found)} rows take {text}: {', '.join(more)}."
            if more
            else f"None of {len(found)} rows takes {text}."
        )
    return " ".join(said)


def decoding_memory(run: GpuRun) -> Tuple[List[str], Rows]:
    """Header and rows of the table of decoding's memory, with CUDA graphs and without."""
    ways = {CAPTURED: "", EAGER: ", no graphs"}
    header = ["system", *(f"{batch}{text}" for text in ways.values() for batch in DRAWN)]
    rows = []
    for label, name in SYSTEMS:
        line = [run.decoded("peak_mib", name, way, batch) for way in ways for batch in DRAWN]
        if any(line):
            rows.append([label, *(number(own, ".0f") for own in line)])
    return header, rows


def kept(run: GpuRun) -> str:
    """What CUDA graphs of one shape keep on the card, at least: what an earlier row had kept may
    have been freed meanwhile, so that the difference is too small, or even negative."""
    said = []
    for batch in (DRAWN[0], DRAWN[-1]):
        found = [run.decoded("kept_mib", name, CAPTURED, batch) for _, name in SYSTEMS]
        sizes = [size for size in found if size is not None and size > 0]
        if sizes:
            said.append(f"{min(sizes):.0f} to {max(sizes):,.0f} MiB at batch size {batch}")
    if not said:
        return "What graphs keep between batches was not measured in this run."
    return f"Between batches graphs and buffers of one shape keep at least {' and '.join(said)}."


def passes(run: GpuRun, system: str, other: str) -> str:
    """How many passes a system needs at batch size 1 for a sentence, and how many steps of the
    other each takes; the milliseconds of both where the other counts none, and why there are no
    figures."""
    (ms, calls), (time, steps) = (
        [run.decoded(key, name, run.best(name, 1)[1], 1) for key in ("ms", "calls")]
        for name in (system, other)
    )
    if ms is None or time is None:
        labels = {"part": "decoding", "system": system, "way": CAPTURED, "batch": 1}
        failed = any("failed" in row and labels.items() <= row.items() for row in run.rows)
        return "failed in this run" if failed else ""
    if calls is None or steps is None:
        return f"{number(ms)} and {number(time)} ms"
    each = f"as long as {ms / calls / (time / steps):.1f} of {steps:.0f} steps"
    return f"one pass, {each}" if calls == 1 else f"{calls:.0f} passes, each {each}"


def host(run: GpuRun, system: str) -> str:
    """For how much of an update of 4,096 tokens the card works and multiplies matrices."""
    with suppress(NotMeasured, KeyError):
        profile = run.row("training", system, way="profile")
        return (
            f"the card works {profile['busy_ms']:.0f} of {run.update(system, TOKENS)['ms']:.0f} ms,"
            f" {profile['groups']['matrix products']:.0f} of these in matrix products"
        )
    return ""


def aims(run: GpuRun) -> Tuple[List[str], Rows]:
    """Header and rows of the table of what was aimed at before anything was measured."""
    rows: Rows = []

    def add(text: str, least: float, own: Optional[float], unit: str, why: str) -> None:
        word = "not measured" if own is None else "met" if round(own, 2) >= least else "missed"
        shown = DASH if own is None else f"{number(own, '.0f' if unit == ' %' else '')}{unit}"
        rows.append([text, f"{least:g}{unit}", shown, word, "" if word == "met" else why])

    for system, other, least in AIMS:
        found = ratio(run.best(other, 1)[0], run.best(system, 1)[0])
        text = f"{LABELS[system]}, beside {LABELS[other]}"
        add(text, least, found, "×", passes(run, system, other))
    gains: Dict[str, float] = {}
    for label, name in SYSTEMS:
        pair = [run.decoded("ms", name, way, 128) for way in (EAGER, CAPTURED)]
        if (gain := ratio(*pair)) is not None:
            gains[label] = gain
    slow = ", ".join(label for label, gain in gains.items() if gain < 1)
    add("CUDA graphs beside none, batch size 128", 1, min(gains.values(), default=None), "×", slow)
    for key, text in (("ms", "time"), ("peak_mib", "memory")):
        pairs = beside_reference(run, key)
        least_of = min((other / own for own, other in pairs.values()), default=None)
        more = [
            f"{LABELS.get(name, name)} at {tokens} tokens"
            for (name, tokens), (own, other) in pairs.items() if own > MORE * other
        ]  # fmt: skip
        add(f"losses, DA-Transformer's {text} ÷ ours, the least", 1, least_of, "×", ", ".join(more))
    for name, share in SHARES:
        found = run.share(name)
        text = f"training, {LABELS.get(name, name)}: matrix throughput"
        own = None if found is None else 100 * found
        add(text, 100 * share, own, " %", host(run, name))
    return ["aim", "at least", "measured", "result", "why"], rows


def shares_reading(run: GpuRun) -> str:
    """Whether updates have the share of the matrix throughput that was aimed at, and the cause."""
    said = []
    for name, least in SHARES:
        own, busy = run.share(name), run.share(name, busy=True)
        if own is None:
            continue
        text = f"Aim for {LABELS.get(name, name)}: {100 * least:.0f} %. It has {100 * own:.0f} %"
        if own < least and busy is not None:
            text += (
                f": {host(run, name)}. Without waits for the host it would have {100 * busy:.0f} %"
            )
        said.append(f"{text}.")
    return " ".join(said)


def aims_reading(run: GpuRun) -> str:
    """How many aims were met."""
    words = [row[3] for row in aims(run)[1]]
    said = ", ".join(f"{words.count(word)} {word}" for word in ("met", "missed", "not measured"))
    return f"Of {len(words)} aims: {said}."


def correctness(run: GpuRun) -> str:
    """Whether CUDA graphs translate as their host does step by step, as this run found it."""
    kinds: Dict[str, List[Dict[str, Any]]] = {}
    for row in run.rows:
        if row["part"] == "correctness" and "way" in row:
            kinds.setdefault(row["way"], []).append(row)
    said, measured = [], False
    for kind, rows in kinds.items():
        left = [row["system"] for row in rows if "not_run" in row]
        ran = [row for row in rows if "not_run" not in row and "failed" not in row]
        counts = [row["equal"] for row in ran if row["equal"] < row["sentences"]]
        alike, tried = len(ran) - len(counts), len(rows) - len(left)
        parts = []
        if tried:
            word = "translates" if alike == 1 == tried else "translate"
            text = f"{alike} of {tried} searches {word} all sentences alike"
            if counts:
                largest = max(row["sentences"] for row in ran)
                span = "{}" if min(counts) == max(counts) else "{} to {}"
                text += f", the others {span.format(min(counts), max(counts))} of {largest}"
            parts, measured = [text], True
        if left:
            parts.append(f"not run: {', '.join(left)}")
        said.append(f"In {kind} {'; '.join(parts)}.")
    if not measured:
        return "Whether both translate alike was not measured in this run."
    return " ".join(said)


def memory_proof(run: GpuRun) -> str:
    """How well the model of memory holds, as far as the run can tell."""
    rows = [row for row in trainings(run) if "peak_mib" in row]
    errors = [error for row in rows if (error := memory_of(run, row)[2]) is not None]
    if not errors:
        return (
            "Only batches of 4,096 tokens were measured. So «fixed» is computed, as 20 bytes for"
            " each parameter (`--fp16` and Adam), and the rest is taken to grow with the tokens."
        )
    sizes = sorted({size for row in rows for size in peaks(run, row)})
    shown = " and ".join(", ".join(f"{size:,d}" for size in sizes).rsplit(", ", 1))
    held = BYTES * parameters() / 2**30
    return (
        f"Both were fitted to batches of {shown} tokens, and are off by {max(errors):.0f} MiB at"
        f" most. By count, `--fp16` and Adam hold 20 bytes for each parameter: {held:.1f} GiB."
    )


def provenance(run: GpuRun) -> str:
    """Card, versions, commit and date of the trainings, for the foot of their page."""
    document = run.origins["training"]
    known, settings = document["environment"], document["settings"]
    commit = known["commit"].replace("+", " with changes")
    return (
        f"{known['gpu']}, {known['cpu']}, PyTorch {known['torch']}, Triton {known['triton']},"
        f" driver {known['driver']}, Python {known['python']}, {settings['precision']}, seed"
        f" {settings['seed']}, commit {commit}, {document['date'][:10]}."
    )


TABLES: Dict[str, Callable[[GpuRun], Tuple[Sequence[str], Rows]]] = {
    "gpu-decoding": decoding,
    "gpu-training": training,
    "gpu-memory": memory,
    "gpu-losses": losses,
    "gpu-shares": shares,
    "gpu-aims": aims,
    "gpu-decoding-memory": decoding_memory,
}
TEXTS: Dict[str, Callable[[GpuRun], str]] = {
    "correctness": correctness,
    "memory": memory_proof,
    "losses": losses_reading,
    "aims": aims_reading,
    "kept": kept,
    "shares": shares_reading,
    "provenance": provenance,
}
