"""Training at full size with fairseq's own trainer, one model after the other."""

import itertools
import re
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple
from unittest import mock

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from gpu_rows import HUNG, MIB, Journal, allocated, release, spread, synchronize
from gpu_systems import FULL, TINY, Size, dictionary_of, made_on
from torch.utils.flop_counter import FlopCounterMode

import fairseq_hrt  # noqa: F401  (registers the families)

TOKENS = 4096
WARMUPS, UPDATES, PROFILED = 3, 10, 2
# Tokens of other updates: how time and memory grow with the batch.
OTHER_TOKENS, OTHER_UPDATES = (2048, 16384), 3

# The most important first.
TRAININGS = {
    "Transformer": (
        "--task translation_autoregressive --arch transformer --criterion autoregressive_loss"
        " --label-smoothing 0.1"
    ),
    "dag likelihood": (
        "--task translation_dag --arch dag_transformer --criterion dag_nll_loss"
        " --dag-upsample-scale 8"
    ),
    "hrt": (
        "--task translation_hrt --arch hrt_transformer --criterion hrt_loss --hrt-chunk-sizes 2"
        " --label-smoothing 0.1"
    ),
    "bidirectional": (
        "--task translation_bidirectional --arch bidirectional_transformer"
        " --criterion bidirectional_loss --label-smoothing 0.1"
    ),
    "dag fuzzy": (
        "--task translation_dag --arch dag_transformer --criterion dag_fuzzy_loss"
        " --dag-upsample-scale 8"
    ),
    "ctc": (
        "--task translation_ctc --arch ctc_transformer --criterion ctc_nll_loss"
        " --ctc-upsample-scale 3"
    ),
}

# Groups of kernels by what their names hold; the first that fits counts.
GROUPS = (
    ("attention", r"flash|fmha|attention"),
    ("matrix products", r"gemm|gemv|cutlass|nvjet|xmma|wgrad|dgrad|splitk|::mm\b"),
    ("fairseq_hrt's kernels", r"triton|_kernel_\d|dag|gather_log|vocabulary"),
    ("softmax", r"softmax|logsumexp"),
    ("norm", r"layer_?norm|norm_kernel|gammabeta"),
    ("copies", r"memcpy|memset|copy|cat(array|_)|fill"),
    ("random numbers", r"dropout|philox|bernoulli|distribution|random"),
    ("embedding", r"embedding|index|gather|scatter"),
    ("reductions", r"reduce"),
    ("elementwise", r"elementwise|vectorized|foreach|multi_tensor"),
)


class Training:
    """A model with its trainer, and the batches of its updates.

    Args:
        name: key of :data:`TRAININGS`.
        folder: with the dictionaries.
        kind: type of the weights.
        layers: such as ``6+6``.
    """

    def __init__(
        self, name: str, folder: Path, size: Size, device: torch.device, kind: torch.dtype,
        layers: str, seed: int, tokens: int,
    ) -> None:  # fmt: skip
        self.held = allocated(device)
        words = [str(folder), *TRAININGS[name].split(), *self._sizes(size, layers)]
        words += [
            "--source-lang", "a", "--target-lang", "b", "--optimizer", "adam", "--lr", "0.0005",
            "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "4000", "--clip-norm", "1.0",
            "--adam-betas", "(0.9, 0.98)", "--dropout", "0.1", "--max-update", "300000",
            "--max-tokens", str(tokens), "--seed", str(seed), "--save-dir", str(folder / "saved"),
            "--no-save", "--distributed-world-size", "1", "--log-format", "none",
        ]  # fmt: skip
        words += {torch.float16: ["--fp16"], torch.bfloat16: ["--bf16"]}.get(kind, [])
        if device.type == "cpu":
            words.append("--cpu")
        parsed = options.parse_args_and_arch(options.get_training_parser(), words)
        config = convert_namespace_to_omegaconf(parsed)
        torch.manual_seed(seed)
        task = tasks.setup_task(config.task)
        model = made_on(device, lambda: task.build_model(config.model))
        self.trainer = Trainer(config, task, model, task.build_criterion(config.criterion))
        self.trainer.begin_epoch(1)
        # After an error it would write the model, and hide the error where it cannot.
        self.trainer.save_checkpoint = lambda *given, **named: None
        self.device, self.overflows = device, 0
        self.parameters = sum(one.numel() for one in model.parameters())
        self._made = lambda count: synthetic(task.source_dictionary, size, count, seed)
        self._length = size.length
        self.resize(tokens)

    def resize(self, tokens: int) -> None:
        """Makes updates of so many tokens, or a few less."""
        sentences = tokens // self._length
        self.tokens, self.batches = sentences * self._length, self._made(sentences)

    @staticmethod
    def _sizes(size: Size, layers: str) -> List[str]:
        words = ["--share-all-embeddings"]
        for side, count in zip(("encoder", "decoder"), layers.split("+")):
            for name, value in (
                ("layers", count), ("embed-dim", size.width), ("ffn-embed-dim", 4 * size.width),
                ("attention-heads", size.heads),
            ):  # fmt: skip
                words += [f"--{side}-{name}", str(value)]
        return words

    def update(self) -> None:
        """One update.

        Raises:
            MemoryError: the batch does not fit; fairseq would leave it out.
        """
        scaler = getattr(self.trainer.optimizer, "scaler", None)
        before = getattr(scaler, "_last_overflow_iter", None)
        if self.trainer.train_step([next(self.batches)]) is None:
            # After an overflow of fp16, too, in which case the scale of the loss is halved.
            if scaler is None or scaler._last_overflow_iter == before:
                raise MemoryError("the batch does not fit into the memory of the device")
            self.overflows += 1


def synthetic(dictionary: Any, size: Size, sentences: int, seed: int) -> Iterator[Dict[str, Any]]:
    """Batches of random sentences of ``size.length`` tokens with ``</s>``, and translations as
    long."""
    generator = torch.Generator().manual_seed(seed)
    shape = sentences, size.length
    for number in itertools.count():
        source, target = (
            torch.randint(dictionary.nspecial, size.words, shape, generator=generator)
            for _ in range(2)
        )  # [B, S]
        source[:, -1] = target[:, -1] = dictionary.eos()
        yield {
            "id": torch.arange(sentences) + number * sentences,
            "nsentences": sentences,
            "ntokens": target.numel(),
            "target": target,
            "net_input": {
                "src_tokens": source,
                "src_lengths": torch.full((sentences,), size.length),
                "prev_output_tokens": target.roll(1, 1),
            },
        }


def measure(journal: Journal, *, tiny: bool, seed: int, half: torch.dtype, layers: str) -> None:
    """Rows of tokens a second, milliseconds an update, memory, and where the time goes."""
    size, device = (TINY if tiny else FULL), journal.device
    kind = half if device.type == "cuda" else torch.float32
    tokens = 3 * size.length if tiny else TOKENS
    peak = journal.found("ceilings", "tflops")
    with tempfile.TemporaryDirectory() as folder:
        for side in ("a", "b"):
            dictionary_of(size.words).save(str(Path(folder, f"dict.{side}.txt")))

        def train(name: str, kept: List[Training]) -> Dict[str, Any]:
            kept.append(Training(name, Path(folder), size, device, kind, layers, seed, tokens))
            return trained(kept[0], peak, tiny)

        def grow(name: str) -> Dict[str, Any]:
            training = Training(name, Path(folder), size, device, kind, layers, seed, tokens)
            chosen = tuple(count * size.length for count in (1, 2)) if tiny else OTHER_TOKENS
            return {"by_tokens": other_sizes(training, chosen)}

        # When all have been measured, so that these cost none of them its time.
        others = [{"layers": layers, "system": name, "way": "other sizes"} for name in TRAININGS]
        journal.plan([{"layers": layers, "system": name} for name in TRAININGS] + others)
        for name in TRAININGS:
            labels, kept = {"layers": layers, "system": name}, []
            found = journal.row(labels, lambda name=name, kept=kept: train(name, kept))
            if found and kept and device.type == "cuda":
                # A row of its own: where the profiler hangs, the figures are there.
                explain(journal, labels, kept[0])
            del kept
            release(device)
        for labels in others:
            journal.row(labels, lambda name=labels["system"]: grow(name))
            release(device)


def explain(journal: Journal, labels: Dict[str, Any], training: Training) -> None:
    """The row of the profile, unless that made an earlier process hang."""
    way = {**labels, "way": "profile"}
    rows = journal.document["rows"]
    if not any(row.get("way") == "profile" and row.get("failed") == HUNG for row in rows):
        journal.row(way, lambda: profile(training.update, training.device), 45)


def trained(training: Training, peak: Optional[float], tiny: bool) -> Dict[str, Any]:
    """The figures of one training.

    Args:
        peak: TFLOP/s of a large matrix product, None if that is not known.
    """
    device = training.device
    begun = time.perf_counter()
    training.update()
    synchronize(device)
    first = 1000 * (time.perf_counter() - begun)
    for _ in range(1 if tiny else WARMUPS - 1):
        training.update()
    times = []
    for _ in range(2 if tiny else UPDATES):
        synchronize(device)
        begun = time.perf_counter()
        training.update()
        synchronize(device)
        times.append(1000 * (time.perf_counter() - begun))
    found: Dict[str, Any] = {"first_ms": round(first, 2), **spread(times)}
    found["repeats"] = len(times)
    found["tokens_a_second"] = round(1000 * training.tokens / found["ms"])
    if device.type == "cuda":
        found["peak_mib"] = peak_memory(training)
    found["overflows"] = training.overflows
    found["parameters"] = training.parameters
    # Counting must not cost what was measured.
    try:
        found.update(operations(training, found["ms"], peak))
    except Exception as error:
        found["not_counted"] = f"{type(error).__name__}: {str(error)[:200]}"
    return found


def other_sizes(training: Training, sizes: Sequence[int]) -> Dict[str, Dict[str, float]]:
    """Milliseconds an update and memory by the tokens of an update, as far as they fit."""
    found: Dict[str, Dict[str, float]] = {}
    for tokens in sizes:
        training.resize(tokens)
        times = []
        try:
            for _ in range(2 + OTHER_UPDATES):
                synchronize(training.device)
                begun = time.perf_counter()
                training.update()
                synchronize(training.device)
                times.append(1000 * (time.perf_counter() - begun))
            own = spread(times[2:])
            if training.device.type == "cuda":
                own["peak_mib"] = peak_memory(training)
        except MemoryError:
            break
        found[str(training.tokens)] = own
    return found


def operations(training: Training, milliseconds: float, peak: Optional[float]) -> Dict[str, float]:
    """Floating-point operations of an update's matrix products and attention, those of PyTorch
    alone, and how much of the card's matrix throughput that is."""
    with FlopCounterMode(display=False) as counter:
        training.update()
    found = {"tflop_an_update": float(f"{counter.get_total_flops() / 1e12:.4g}")}
    if peak:
        share = found["tflop_an_update"] / (milliseconds / 1000) / peak
        found["share_of_matrix_product"] = float(f"{share:.3g}")
    return found


def peak_memory(training: Training) -> float:
    """MiB of an update with model and optimiser. fairseq's trainer resets PyTorch's own record in
    every update, so the record is read where it does that."""
    torch.cuda.reset_peak_memory_stats()
    peaks: List[int] = []
    with mock.patch.object(
        torch.cuda,
        "reset_peak_memory_stats",
        lambda *given: peaks.append(torch.cuda.max_memory_allocated()),
    ):
        training.update()
    peaks.append(torch.cuda.max_memory_allocated())
    return round((max(peaks) - training.held) / MIB, 1)


def profile(update: Callable[[], None], device: torch.device) -> Dict[str, Any]:
    """Milliseconds an update that the device is busy, by kernel and by group of kernels; how many
    kernels there are."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    with profiler(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(PROFILED):
            update()
        synchronize(device)
    times: Dict[str, float] = {}
    count = 0
    for event in recorded.key_averages():
        own = float(getattr(event, "self_device_time_total", 0) or 0)
        if own > 0:
            times[event.key] = times.get(event.key, 0.0) + own / 1000 / PROFILED
            count += event.count
    return summary(times, count // PROFILED)


def summary(times: Dict[str, float], kernels: int) -> Dict[str, Any]:
    """Kernels that take longest, and sums by group.

    Args:
        times: {name of a kernel: milliseconds an update}.
        kernels: that an update launches.
    """
    groups: Dict[str, float] = {}
    for name, own in times.items():
        group = group_of(name)
        groups[group] = groups.get(group, 0.0) + own

    def largest(table: Dict[str, float], most: int) -> List[Tuple[str, float]]:
        order = sorted(table.items(), key=lambda entry: -entry[1])[:most]
        return [(name[:120], round(own, 3)) for name, own in order]

    return {
        "busy_ms": round(sum(times.values()), 3),
        "kernels": kernels,
        "groups": dict(largest(groups, len(groups))),
        "largest": largest(times, 8),
    }


def group_of(name: str) -> str:
    """The group of a kernel by its name."""
    for group, pattern in GROUPS:
        if re.search(pattern, name, re.IGNORECASE):
            return group
    return "others"
