"""Decoding: whether recorded graphs translate as the eager way does, and how long both take."""

import itertools
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import torch
from gpu_rows import MIB, Journal, allocated, kept, release, timed
from gpu_systems import (
    FULL,
    SYSTEMS,
    TINY,
    Models,
    Size,
    Way,
    hugging_face,
    stock,
)

# Sentences of the comparison: batches of several sizes, and lengths that need padding.
COMPARED = ((1, 9), (8, 17), (5, 4), (17, 23))
BATCHES = (1, 32, 128, 8)
# Share of the device's memory from which on recorded graphs of earlier rows are dropped.
FULLEST = 0.25


def compare(journal: Journal, *, tiny: bool, seed: int, half: torch.dtype) -> None:
    """Rows with the number of sentences that both ways translate alike, in float32 and in half
    precision."""
    on_cpu = journal.device.type == "cpu"
    kinds = [torch.float32] if on_cpu else [torch.float32, half]
    layers, names = "2+2", [name for name in SYSTEMS if SYSTEMS[name].layers is None]
    for kind in kinds:
        models = Models(
            TINY if tiny else Size(width=128, words=1000, length=20, heads=4),
            journal.device, kind, seed=seed, lively=True,
        )  # fmt: skip
        compare_in(journal, models, layers, names, compared_batches(models, tiny))


def compare_in(
    journal: Journal,
    models: Models,
    layers: str,
    names: Sequence[str],
    batches: List[Dict[str, Any]],
) -> None:
    """The rows of one precision."""
    labels = [{"system": name, "way": str(models.kind).removeprefix("torch.")} for name in names]
    journal.plan(labels)
    for own in labels:
        journal.row(own, lambda name=own["system"]: equality(models, name, layers, batches))


def compared_batches(models: Models, tiny: bool) -> List[Dict[str, Any]]:
    """Batches of sentences of different lengths, the longest first."""
    found = []
    for number, (sentences, longest) in enumerate(COMPARED[:2] if tiny else COMPARED):
        most = min(longest, models.size.length)
        lengths = [max(1, most - place % most) for place in range(sentences)]
        found.append(models.padded(lengths, seed=number))
    return found


@torch.no_grad()
def equality(
    models: Models, name: str, layers: str, batches: List[Dict[str, Any]]
) -> Dict[str, Any]:
    """How many sentences have the same tokens both ways, and how far their scores lie apart.

    ``distinct`` counts different translations: equality of constant ones would mean nothing.
    """
    generator = models.generator(name, layers, forced=False)
    ways = []
    for captured in (False, True):
        way = Way(generator, captured)
        # Twice: the first translation of a shape records it, the second one replays it.
        passes = [[best[0] for batch in batches for best in generator.find(batch)] for _ in "ab"]
        way.check()
        ways.append(passes)
    (eager, again), (recorded, replayed) = ways
    pairs = list(zip(eager, replayed))
    unlike = [place for place, (one, other) in enumerate(pairs) if one.tokens != other.tokens]
    example: Dict[str, Any] = {
        name: [unlike[0], *pairs[unlike[0]][way].tokens]
        for way, name in enumerate(("eager_tokens", "captured_tokens"))
        if unlike
    }
    if way.reasons:
        example["step_by_step"] = "; ".join(way.reasons)
    return {
        **example,
        "sentences": len(pairs),
        "equal": sum(one.tokens == other.tokens for one, other in pairs),
        "equal_recording": sum(a.tokens == b.tokens for a, b in zip(eager, recorded)),
        "equal_eager_again": sum(a.tokens == b.tokens for a, b in zip(eager, again)),
        "distinct": len({tuple(one.tokens) for one, _ in pairs}),
        "words": sum(len(one.tokens) for one, _ in pairs),
        "largest_score_difference": float(
            f"{max(abs(one.score - other.score) for one, other in pairs):.3g}"
        ),
    }


def measure(
    journal: Journal, *, tiny: bool, seed: int, half: torch.dtype, layers: Tuple[str, ...]
) -> None:
    """Rows of milliseconds a batch; the most important first, since time may run out."""
    device = journal.device
    size, kind = (TINY, torch.float32) if tiny else (FULL, half)
    models = Models(size, device, kind, seed=seed)
    rows = list(plan(models, layers, (1, 2) if tiny else BATCHES))
    journal.plan([labels for labels, _ in rows])
    for labels, prepare in rows:
        before = {name: labels[name] for name in ("layers", "batch")}
        journal.row(labels, lambda p=prepare, b=before: timed_row(models, p, b["batch"], tiny))
        # Each time would cost seconds in all.
        if device.type == "cuda" and allocated(device) > FULLEST * total_memory(device):
            release(device)


# What is timed, the decoder calls so far, the model, the translations of the last call.
Prepared = Tuple[Callable[[], Any], Callable[[], int], Any, List[Any]]
Prepare = Callable[[Dict[str, Any]], Prepared]


def plan(
    models: Models, layers: Tuple[str, ...], batches: Tuple[int, ...]
) -> Iterator[Tuple[Dict[str, Any], Prepare]]:
    """Labels of every row, and what makes it."""
    for depth, batch in itertools.product(layers, batches):
        names = [name for name in SYSTEMS if not (SYSTEMS[name].layers and depth != layers[0])]
        labels = {"layers": depth, "batch": batch}
        for name in names:
            yield {**labels, "system": name, "way": "captured"}, _ours(models, name, depth, True)
        for beam in (1, 5):
            name = f"fairseq {'greedy' if beam == 1 else 'beam 5'}"
            yield {**labels, "system": name, "way": "stock"}, _stock(models, depth, beam)
        if depth == layers[0]:
            name = "Hugging Face greedy"
            yield {**labels, "system": name, "way": "stock"}, _hugging_face(models, depth)
            for name in names:
                yield {**labels, "system": name, "way": "eager"}, _ours(models, name, depth, False)


def total_memory(device: torch.device) -> int:
    """Bytes of a CUDA device."""
    return int(torch.cuda.get_device_properties(device).total_memory)


def timed_row(models: Models, prepare: Prepare, batch: int, tiny: bool) -> Dict[str, Any]:
    """Milliseconds a batch and a sentence, decoder calls, words with ``</s>``, memory."""
    sample = models.batch(batch)
    with torch.no_grad():
        run, calls, model, written = prepare(sample)
        # Graphs of earlier rows which nobody uses would be freed meanwhile.
        release(models.device)
        before, reserved = calls(), kept(models.device)
        found = timed(
            run, models.device, warmups=1 if tiny else 2, repeats=1 if tiny else 7,
            seconds=0.0 if tiny else 1.5,
        )  # fmt: skip
        made = calls() - before
    found["ms_a_sentence"] = round(found["ms"] / batch, 4)
    if written:
        # Of a dag and of ctc these are not 26: an untrained one writes few.
        count = sum(len(best[0]["tokens"]) for best in written)
        found["words_a_sentence"] = round(count / batch, 2)
    if made:
        found["calls"] = round(made / ((1 if tiny else 2) + found["repeats"]), 2)
    if models.device.type == "cuda":
        # Graphs with their pool and buffers stay for the next batch of this shape.
        found["kept_mib"] = round((kept(models.device) - reserved) / MIB, 1)
    if "peak_mib" in found:
        # Of this system alone: models of others lie on the card, too.
        held = sum(one.numel() * one.element_size() for one in model.parameters())
        found["peak_mib"] = round(found["peak_mib"] + held / MIB, 1)
    return found


def _ours(models: Models, name: str, layers: str, captured: bool) -> Prepare:
    def prepare(sample: Dict[str, Any]) -> Prepared:
        generator = models.generator(name, layers)
        way, written = Way(generator, captured), []
        counters = generator.counters

        def run() -> None:
            written[:] = generator.generate(generator.models, sample)
            # Otherwise the row is that of «eager».
            way.check()

        return (
            run,
            lambda: counters.decoder_calls,
            generator.models[0],
            written,
        )

    return prepare


def _stock(models: Models, layers: str, beam: int) -> Prepare:
    def prepare(sample: Dict[str, Any]) -> Prepared:
        run = stock(models, layers, beam)
        return lambda: run(sample), lambda: 0, models.model("transformer", layers), []

    return prepare


def _hugging_face(models: Models, layers: str) -> Prepare:
    def prepare(sample: Dict[str, Any]) -> Prepared:
        run, model = hugging_face(models, layers)
        return lambda: run(sample), lambda: 0, model, []

    return prepare
