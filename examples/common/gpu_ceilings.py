"""What the card itself can do: the bounds of everything else that gpu_speed.py measures."""

import time
from typing import Any, Dict

import torch
from gpu_rows import Journal, spread, timed

# Kernels of a recorded graph: about as many as a decoder step of 6 + 6 layers has.
KERNELS = 150


def measure(journal: Journal, *, tiny: bool) -> None:
    """Copying, a matrix product, the launch of a kernel."""
    device = journal.device
    journal.row({"system": "copy"}, lambda: copy(device, 2**20 if tiny else 2**30))
    journal.row({"system": "matrix product"}, lambda: product(device, 64 if tiny else 8192))
    journal.row({"system": "empty kernel", "way": "eager"}, lambda: launch(device))
    journal.row({"system": "empty kernel", "way": "captured"}, lambda: replay(device))


def copy(device: torch.device, size: int) -> Dict[str, Any]:
    """Copies ``size`` bytes on the device; ``gb_a_second`` counts bytes read and written."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    found = timed(lambda: target.copy_(source), device, warmups=3, repeats=9, events=True)
    return {**found, "gb_a_second": float(f"{2 * size / found['ms'] / 1e6:.4g}")}


def product(device: torch.device, size: int) -> Dict[str, Any]:
    """The product of two square matrices of random numbers: fp16, on a CPU float32."""
    kind = torch.float16 if device.type == "cuda" else torch.float32
    # Zeros would be faster than what anybody multiplies.
    left, right = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    result = torch.empty_like(left)
    found = timed(
        lambda: torch.mm(left, right, out=result), device, warmups=3, repeats=9, events=True
    )
    return {**found, "tflops": float(f"{2 * size**3 / found['ms'] / 1e9:.4g}")}


def launch(device: torch.device, count: int = 1000) -> Dict[str, Any]:
    """Milliseconds a kernel that does nothing, launched from Python one after the other."""
    value = torch.zeros(1, device=device)

    def run() -> None:
        for _ in range(count):
            value.add_(1)

    found = timed(run, device, warmups=2, repeats=5)
    return spread([found[name] / count for name in ("ms", "low", "high")], 6)


def replay(device: torch.device) -> Dict[str, Any]:
    """Milliseconds a kernel that does nothing, in a recorded graph of them."""
    if device.type != "cuda":
        return {"not_run": "only a CUDA device records graphs"}
    value, graph = torch.zeros(1, device=device), torch.cuda.CUDAGraph()
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        value.add_(1)
    torch.cuda.current_stream(device).wait_stream(side)
    begun = time.perf_counter()
    with torch.cuda.graph(graph):
        for _ in range(KERNELS):
            value.add_(1)
    captured = time.perf_counter() - begun

    def run() -> None:
        for _ in range(20):
            graph.replay()

    found = timed(run, device, warmups=2, repeats=7)
    times = [found[name] / (20 * KERNELS) for name in ("ms", "low", "high")]
    return {**spread(times, 6), "capture_ms": round(1000 * captured, 2)}
