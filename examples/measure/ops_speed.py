"""Measures the dynamic programs of directed acyclic graphs against the loops that they replace, on
CPU or GPU.

Example:

    python examples/measure/ops_speed.py --threads 1 --repeats 7
"""

import argparse
import platform
import resource
import sys
import time
from dataclasses import dataclass
from typing import Callable, Dict, Sequence, Tuple

import torch
from number_options import require
from timed_rows import Clock, Row
from torch import Tensor

from fairseq_hrt.cli.command import add_numbers, command
from fairseq_hrt.cli.parser import HelpFormatter
from fairseq_hrt.evaluation.speed import Timing, measure
from fairseq_hrt.ops import dag_log_likelihood, fuzzy_alignment, gather_log_probs
from fairseq_hrt.ops.fuzzy import passing_probabilities

Gradients = Tuple[Tensor, ...]


@dataclass(frozen=True)
class Program:
    """What is computed, forward and backward, in two ways.

    Attributes:
        name: of the function.
        sizes: of its arguments.
        ours, loop: return the gradients of the arguments.
    """

    name: str
    sizes: str
    ours: Callable[[], Gradients]
    loop: Callable[[], Gradients]


def random_links(batch: int, size: int, device: torch.device, seed: int = 1) -> Tensor:
    """Log-links ``[B, L, L]`` of complete graphs."""
    generator = torch.Generator().manual_seed(seed)
    forward = torch.ones(size, size, dtype=torch.bool).triu(1)
    logits = torch.randn(batch, size, size, generator=generator)
    logits = logits.masked_fill(~forward, float("-inf"))
    links = torch.log_softmax(logits, 2).masked_fill(~forward, float("-inf"))
    return links.to(device)


def gradients_of(
    result: Callable[..., Tensor], arguments: Sequence[Tensor]
) -> Callable[[], Gradients]:
    """A function that computes the gradients of the sum of what ``result`` returns."""

    def run() -> Gradients:
        leaves = [argument.clone().requires_grad_() for argument in arguments]
        return torch.autograd.grad(result(*leaves).sum(), leaves)

    return run


def likelihood(
    device: torch.device, *, batch: int = 8, size: int = 256, tokens: int = 32
) -> Program:
    """dag_log_likelihood against the same recursion in log space, recorded by autograd."""
    links = random_links(batch, size, device)
    drawn = torch.randn(batch, tokens, size, generator=torch.Generator().manual_seed(2))
    match = (2 * drawn - 8).to(device)
    lengths = [torch.full((batch,), length, device=device) for length in (tokens, size)]
    # -inf has no gradient in a logsumexp where a whole column is impossible.
    finite = torch.where(links > float("-inf"), links, -1e30)

    def loop(scores: Tensor, edges: Tensor) -> Tensor:
        begin = torch.full_like(scores[:, 0], -1e30)
        begin[:, 0] = 0
        state = scores[:, 0] + begin
        for step in range(1, tokens):
            state = scores[:, step] + torch.logsumexp(state.unsqueeze(2) + edges, 1)
        return state[:, -1]

    return Program(
        "dag_log_likelihood",
        f"B={batch} L={size} T={tokens}",
        gradients_of(lambda *own: dag_log_likelihood(*own, *lengths), (match, links)),
        gradients_of(loop, (match, finite)),
    )


def passing(device: torch.device, *, batch: int = 4, size: int = 512) -> Program:
    """passing_probabilities against one vertex after the other, recorded by autograd."""
    links = random_links(batch, size, device)

    def loop(edges: Tensor) -> Tensor:
        probabilities = edges.exp()
        passing = [torch.ones(batch, device=device)]
        for vertex in range(1, size):
            passing.append((torch.stack(passing, 1) * probabilities[:, :vertex, vertex]).sum(1))
        return torch.stack(passing, 1).square()

    return Program(
        "passing_probabilities",
        f"B={batch} L={size}",
        gradients_of(lambda edges: passing_probabilities(edges.exp()).square(), (links,)),
        gradients_of(loop, (links,)),
    )


def now(device: torch.device) -> float:
    """Seconds, when everything that was begun is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def compared(
    program: Program, device: torch.device, repeats: int
) -> Tuple[float, Dict[str, Timing]]:
    """The largest difference between the gradients of both, and their times, taken in turns."""
    difference = max(
        float((a - b).nan_to_num().abs().max()) for a, b in zip(program.ours(), program.loop())
    )
    rows = [
        Row(name, [None], lambda _, run=run: run(), Clock())
        for name, run in (("ours", program.ours), ("loop", program.loop))
    ]
    return difference, measure(rows, [[0]], repeats=repeats, clock=lambda: now(device))


def fuzzy_memory(
    device: torch.device, *, batch: int = 64, tokens: int = 32, scale: int = 8, width: int = 512,
    vocabulary: int = 40_000,
) -> str:  # fmt: skip
    """Time and memory of a micro-batch as the papers train, λ = 8, from features to gradients of
    features, links and output weights. Memory is the peak of the process (CPU) or of the device's
    allocations."""
    size = scale * tokens
    features = torch.randn(batch, size, width, device=device).mul_(0.05).requires_grad_()
    weight = torch.randn(vocabulary, width, device=device).mul_(0.05).requires_grad_()
    links = random_links(batch, size, device).requires_grad_()
    targets = torch.randint(4, vocabulary, (batch, tokens), device=device)
    lengths = [torch.full((batch,), length, device=device) for length in (tokens, size)]
    start = now(device)
    match = gather_log_probs(features, weight, targets)
    (-fuzzy_alignment(match, links, targets, *lengths).score.mean()).backward()
    seconds = now(device) - start
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device)
    else:
        # In kilobytes on Linux.
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (
        f"Fuzzy loss: {batch * tokens} target tokens (B={batch} T={tokens} L={size} D={width}"
        f" V={vocabulary}) in {seconds:.1f} s with a peak of {peak / 1e9:.2f} GB; the logits alone"
        f" would be {4e-9 * batch * size * vocabulary:.2f} GB.\n"
    )


def row(program: Program, device: torch.device, repeats: int) -> str:
    """A line of the table."""
    difference, timings = compared(program, device, repeats)
    ratio = timings["ours"].ratio_to(timings["loop"])
    times = " | ".join(f"{timings[name].mean_milliseconds():.1f}" for name in ("ours", "loop"))
    return (
        f"| {program.name} | {program.sizes} | {times} | {ratio.median:.1f}"
        f" ({ratio.low:.1f}–{ratio.high:.1f}) | {difference:.1e} |\n"
    )


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    parser.add_argument("--device", help="cpu or cuda (default: a GPU where there is one)")
    add_numbers(
        parser, ("--threads", 1, "threads of PyTorch"), ("--repeats", 7, "repeats, in turns"),
        ("--fuzzy-sentences", 64, "sentences of 32 tokens in the fuzzy loss"),
    )  # fmt: skip
    return parser


def run(options: argparse.Namespace) -> None:
    """Measures and prints.

    Raises:
        ValueError: a number below 1, or no such device.
    """
    require(options, 1, "threads", "repeats", "fuzzy-sentences")
    name = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"--device {name}: {str(error).splitlines()[0]}") from None
    torch.set_num_threads(options.threads)
    shown = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    rows = [row(made(device), device, options.repeats) for made in (likelihood, passing)]
    sys.stdout.write(
        "| program | sizes | ours, ms | loop, ms | times as fast | gradients differ by |\n"
        f"|---|---|---:|---:|---:|---:|\n{''.join(rows)}\nForward and backward pass, single"
        f" precision, {torch.get_num_threads()} thread(s), {shown}; medians with minimum and"
        f" maximum.\n\n{fuzzy_memory(device, batch=options.fuzzy_sentences)}"
    )


main = command(build_parser, run)
