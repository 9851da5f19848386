"""Measures the dynamic programs of directed acyclic graphs against the loops that they replace, on
CPU or GPU.

Example:

    python examples/measure/ops_speed.py --threads 1 --repeats 7
"""

import argparse
import logging
import platform
import resource
import sys
import time
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple, cast

import torch
from torch import Tensor

from fairseq_hrt.cli.reporting import reporting
from fairseq_hrt.evaluation.speed import Spread
from fairseq_hrt.ops import (
    dag_log_likelihood,
    fuzzy_alignment,
    gather_log_probs,
    passing_probabilities,
)

Gradients = Tuple[Tensor, ...]


@dataclass(frozen=True)
class OpsResult:
    """One comparison.

    Attributes:
        name: what was computed.
        sizes: of its arguments.
        ours, loop: milliseconds of forward and backward pass.
        ratio: loop / ours, repeat by repeat.
        difference: the largest between the gradients of both.
    """

    name: str
    sizes: str
    ours: Spread
    loop: Spread
    ratio: Spread
    difference: float


def random_links(batch: int, size: int, device: torch.device, seed: int = 1) -> Tensor:
    """Log-links ``[B, L, L]`` of complete graphs."""
    generator = torch.Generator().manual_seed(seed)
    forward = torch.ones(size, size, dtype=torch.bool).triu(1)
    logits = torch.randn(batch, size, size, generator=generator).masked_fill(
        ~forward, float("-inf")
    )
    links = torch.log_softmax(logits, 2).masked_fill(~forward, float("-inf"))
    return links.to(device)


def compare_likelihood(
    device: torch.device, repeats: int, *, batch: int = 8, size: int = 256, tokens: int = 32
) -> OpsResult:
    """dag_log_likelihood against the same recursion in log space, recorded by autograd."""
    links = random_links(batch, size, device)
    match = (
        2 * torch.randn(batch, tokens, size, generator=torch.Generator().manual_seed(2)) - 8
    ).to(device)
    target_lengths = torch.full((batch,), tokens, device=device)
    vertex_lengths = torch.full((batch,), size, device=device)
    # -inf has no gradient in a logsumexp where a whole column is impossible.
    finite = torch.where(links > float("-inf"), links, -1e30)

    def ours() -> Gradients:
        scores, edges = match.clone().requires_grad_(), links.clone().requires_grad_()
        dag_log_likelihood(scores, edges, target_lengths, vertex_lengths).sum().backward()
        return _gradients(scores, edges)

    def loop() -> Gradients:
        scores, edges = match.clone().requires_grad_(), finite.clone().requires_grad_()
        state = scores[:, 0] + torch.full_like(scores[:, 0], -1e30).index_fill(
            1, torch.tensor([0], device=device), 0.0
        )
        for step in range(1, tokens):
            state = scores[:, step] + torch.logsumexp(state.unsqueeze(2) + edges, 1)
        state[:, -1].sum().backward()
        return _gradients(scores, edges)

    return _compare(
        "dag_log_likelihood", f"B={batch} L={size} T={tokens}", ours, loop, device, repeats
    )


def compare_passing(
    device: torch.device, repeats: int, *, batch: int = 4, size: int = 512
) -> OpsResult:
    """passing_probabilities against one vertex after the other, recorded by autograd."""
    links = random_links(batch, size, device)
    lengths = torch.full((batch,), size, device=device)

    def ours() -> Gradients:
        edges = links.clone().requires_grad_()
        passing_probabilities(edges, lengths).square().sum().backward()
        return _gradients(edges)

    def loop() -> Gradients:
        edges = links.clone().requires_grad_()
        probabilities = edges.exp()
        passing = [torch.ones(batch, device=device)]
        for vertex in range(1, size):
            passing.append((torch.stack(passing, 1) * probabilities[:, :vertex, vertex]).sum(1))
        torch.stack(passing, 1).square().sum().backward()
        return _gradients(edges)

    return _compare("passing_probabilities", f"B={batch} L={size}", ours, loop, device, repeats)


def _gradients(*leaves: Tensor) -> Gradients:
    return tuple(cast(Tensor, leaf.grad) for leaf in leaves)


def _compare(
    name: str,
    sizes: str,
    ours: Callable[[], Gradients],
    loop: Callable[[], Gradients],
    device: torch.device,
    repeats: int,
) -> OpsResult:
    found, expected = ours(), loop()
    difference = max(float((a - b).nan_to_num().abs().max()) for a, b in zip(found, expected))
    times: Tuple[List[float], List[float]] = ([], [])
    # In turns, so that a slow moment of the machine slows both.
    for _ in range(repeats):
        for function, seconds in zip((ours, loop), times):
            start = _now(device)
            function()
            seconds.append(1000 * (_now(device) - start))
    ratios = [other / own for own, other in zip(*times)]
    mine, theirs = map(Spread.of, times)
    return OpsResult(
        name, sizes, ours=mine, loop=theirs, ratio=Spread.of(ratios), difference=difference
    )


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@dataclass(frozen=True)
class FuzzyMemory:
    """A micro-batch of the fuzzy loss.

    Attributes:
        tokens: target tokens with ``<s>`` and ``</s>``.
        sizes: of the batch.
        seconds: forward and backward pass from the decoder's features on.
        gigabytes: peak of the process (CPU) or of the device's allocations.
        logits: gigabytes that all logits would fill once.
    """

    tokens: int
    sizes: str
    seconds: float
    gigabytes: float
    logits: float


def fuzzy_memory(
    device: torch.device,
    *,
    batch: int = 64,
    tokens: int = 32,
    scale: int = 8,
    width: int = 512,
    vocabulary: int = 40_000,
) -> FuzzyMemory:
    """A micro-batch as the papers train, λ = 8, from features to gradients of features, links and
    output weights."""
    size = scale * tokens
    features = torch.randn(batch, size, width, device=device).mul_(0.05).requires_grad_()
    weight = torch.randn(vocabulary, width, device=device).mul_(0.05).requires_grad_()
    links = random_links(batch, size, device).requires_grad_()
    targets = torch.randint(4, vocabulary, (batch, tokens), device=device)
    lengths = (
        torch.full((batch,), tokens, device=device),
        torch.full((batch,), size, device=device),
    )
    start = _now(device)
    match = gather_log_probs(features, weight, targets)
    (-fuzzy_alignment(match, links, targets, *lengths).score.mean()).backward()
    seconds = _now(device) - start
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device)
    else:
        # In kilobytes on Linux.
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sizes = f"B={batch} T={tokens} L={size} D={width} V={vocabulary}"
    return FuzzyMemory(batch * tokens, sizes, seconds, peak / 1e9, 4e-9 * batch * size * vocabulary)


def markdown(results: List[OpsResult], memory: FuzzyMemory, device: str) -> str:
    """The comparison as a table."""
    lines = [
        "| program | sizes | ours, ms | loop, ms | times as fast | gradients differ by |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for result in results:
        lines.append(
            f"| {result.name} | {result.sizes} | {result.ours.median:.1f} |"
            f" {result.loop.median:.1f} | {result.ratio.median:.1f}"
            f" ({result.ratio.low:.1f}–{result.ratio.high:.1f}) | {result.difference:.1e} |"
        )
    return "\n".join([
        *lines,
        "",
        f"Forward and backward pass, single precision, {torch.get_num_threads()} thread(s), "
        f"{device}; medians with minimum and maximum.",
        "",
        f"Fuzzy loss: {memory.tokens} target tokens ({memory.sizes}) in {memory.seconds:.1f} s "
        f"with a peak of {memory.gigabytes:.2f} GB; the logits alone would be "
        f"{memory.logits:.2f} GB.",
        "",
    ])  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", help="cpu or cuda (default: a GPU where there is one)")
    parser.add_argument(
        "--threads", type=int, default=1, help="threads of PyTorch (default: %(default)s)"
    )
    parser.add_argument(
        "--repeats", type=int, default=7, help="repeats, in turns (default: %(default)s)"
    )
    parser.add_argument(
        "--fuzzy-sentences",
        type=int,
        default=64,
        help="sentences of 32 tokens in the fuzzy loss (default: %(default)s)",
    )
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    if min(options.threads, options.repeats, options.fuzzy_sentences) < 1:
        parser.error("--threads, --repeats and --fuzzy-sentences must be at least 1")
    name = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        parser.error(f"--device {name}: {str(error).splitlines()[0]}")
    with reporting(parser):
        torch.set_num_threads(options.threads)
        results = [
            compare_likelihood(device, options.repeats),
            compare_passing(device, options.repeats),
        ]
        memory = fuzzy_memory(device, batch=options.fuzzy_sentences)
        shown = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
        sys.stdout.write(markdown(results, memory, shown))


if __name__ == "__main__":
    main()
