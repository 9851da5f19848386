"""The operations behind the losses: by Triton's kernels where they run, by PyTorch, and beside
DA-Transformer's own CUDA operations where these have been built."""

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Dict, Optional, Sequence, Tuple
from unittest import mock

import torch
import torch.nn.functional as F
from gpu_rows import Journal, timed
from torch import Tensor

from fairseq_hrt.ops import (
    dag_best_alignment,
    dag_log_likelihood,
    fused,
    fuzzy_alignment,
    gather_log_probs,
)
from fairseq_hrt.training import smoothed_cross_entropy

# Words of a source sentence, of which a batch has TOKENS; vertices for each of them.
LENGTHS, TOKENS, SCALE = (26, 104), 4096, 8
# The functions that a folder of reference operations has to have.
REFERENCE = ("dag_loss", "dag_best_alignment", "dag_logsoftmax_gather_inplace")


@dataclass(frozen=True)
class Batch:
    """Random arguments of the operations.

    Attributes:
        features: ``[B, L, D]``, in half precision on a GPU.
        weight: ``[V, D]``, likewise.
        targets: LongTensor ``[B, T]``.
        match: ``[B, T, L]``, float32.
        links: ``[B, L, L]``, float32.
        target_lengths, vertex_lengths: LongTensors ``[B]``.
        logits: of a Transformer's decoder, ``[B * T, V]``, in half precision on a GPU.
    """

    features: Tensor
    weight: Tensor
    targets: Tensor
    match: Tensor
    links: Tensor
    target_lengths: Tensor
    vertex_lengths: Tensor
    logits: Tensor

    @property
    def lengths(self) -> Tuple[Tensor, Tensor]:
        """Those of targets and graphs."""
        return self.target_lengths, self.vertex_lengths


def random_batch(
    device: torch.device, kind: torch.dtype, *, tokens: int, sentences: int, width: int, words: int
) -> Batch:
    """Sentences whose targets have ``tokens`` tokens, their graphs SCALE times as many vertices."""
    torch.manual_seed(1)
    size = SCALE * tokens
    ahead = torch.ones(size, size, dtype=torch.bool, device=device).triu(1)
    logits = torch.randn(sentences, size, size, device=device).masked_fill_(~ahead, float("-inf"))
    # The last vertex leads nowhere: a softmax over nothing is NaN.
    links = torch.log_softmax(logits, 2).masked_fill_(~ahead, float("-inf"))  # [B, L, L]
    return Batch(
        features=torch.randn(sentences, size, width, device=device).to(kind),
        weight=(torch.randn(words, width, device=device) / width**0.5).to(kind),
        targets=torch.randint(4, words, (sentences, tokens), device=device),
        match=2 * torch.randn(sentences, tokens, size, device=device) - 8,
        links=links,
        target_lengths=torch.full((sentences,), tokens, device=device),
        vertex_lengths=torch.full((sentences,), size, device=device),
        logits=torch.randn(sentences * tokens, words, device=device).to(kind),
    )


def measure(journal: Journal, *, tiny: bool, half: torch.dtype, reference: Optional[Path]) -> None:
    """Rows of our operations and, with ``reference``, of the others and how far both differ."""
    device = journal.device
    kind = half if device.type == "cuda" else torch.float32
    width, words, total = (8, 40, 24) if tiny else (512, 32768, TOKENS)
    others = None
    if reference is not None:
        found = journal.row({"system": "reference"}, lambda: imported(reference))
        others = loaded(reference) if found else None
    for tokens in (4, 6) if tiny else LENGTHS:
        batch = random_batch(
            device, kind, tokens=tokens, sentences=total // tokens, width=width, words=words
        )
        compared(journal, batch, others, tokens, tiny)
        del batch


def compared(
    journal: Journal, batch: Batch, others: Optional[ModuleType], tokens: int, tiny: bool
) -> None:
    """The rows of one length."""
    rows = {"ours": ours(batch)}
    if others is not None:
        rows["reference"] = theirs(batch, others)
    if fused.available(journal.device):
        rows["pytorch"] = {name: plainly(run) for name, run in rows["ours"].items()}
    for name in rows["ours"]:
        for way, programs in rows.items():
            if name in programs:
                labels = {"system": name, "way": way, "tokens": tokens}
                journal.row(
                    labels, lambda run=programs[name]: operation(run, journal.device, tiny), 45
                )
    for way in list(rows)[1:]:
        labels = {"system": "difference", "way": way, "tokens": tokens}
        journal.row(labels, lambda other=rows[way]: differences(rows["ours"], other))


def operation(run: Callable[[], Any], device: torch.device, tiny: bool) -> Dict[str, Any]:
    """Milliseconds by the device's clock, and memory beyond the arguments."""
    return timed(
        run, device, warmups=1 if tiny else 2, repeats=7, seconds=0.0 if tiny else 2.0, events=True
    )


def gradients(result: Callable[..., Tensor], *arguments: Tensor) -> Tuple[Tensor, ...]:
    """What ``result`` returns, and the gradients of its sum."""
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    value = result(*leaves)
    return (value.detach(), *torch.autograd.grad(value.sum(), leaves))


def ours(batch: Batch) -> Dict[str, Callable[[], Any]]:
    """Our operations; but for the alignment, forward and backward."""
    return {
        "likelihood": lambda: gradients(
            lambda match, links: dag_log_likelihood(match, links, *batch.lengths),
            batch.match, batch.links,
        ),
        "alignment": lambda: dag_best_alignment(batch.match, batch.links, *batch.lengths),
        "vocabulary": lambda: gradients(
            lambda features, weight: gather_log_probs(features, weight, batch.targets),
            batch.features, batch.weight,
        ),
        "smoothed": lambda: gradients(
            lambda logits: smoothed_cross_entropy(logits, batch.targets.flatten(), 0.1)[0],
            batch.logits,
        ),
        "fuzzy": lambda: gradients(
            lambda match, links: fuzzy_alignment(
                match, links, batch.targets, *batch.lengths
            ).score,
            batch.match, batch.links,
        ),
    }  # fmt: skip


def plainly(run: Callable[[], Any]) -> Callable[[], Any]:
    """The same without Triton's kernels."""

    def program() -> Any:
        with mock.patch.object(fused, "available", lambda device: False):
            return run()

    return program


def theirs(batch: Batch, others: ModuleType) -> Dict[str, Callable[[], Any]]:
    """DA-Transformer's operations on the same arguments, in its own layout."""
    size, (targets, vertices) = batch.links.size(1), batch.lengths
    # Its links[b, u, d] lead from u to u + 1 + d.
    start = torch.arange(size, device=batch.links.device)
    ends = start.unsqueeze(1) + 1 + start[:-1]  # [L, L - 1]
    outside = ends >= size
    links = batch.links.gather(
        2, ends.clamp(max=size - 1).expand(len(batch.links), -1, -1)
    ).masked_fill(outside, float("-inf"))  # [B, L, L - 1]
    chosen = batch.targets.unsqueeze(1).expand(-1, size, -1)  # [B, L, T]

    def vocabulary(features: Tensor, weight: Tensor) -> Tensor:
        logits = F.linear(features, weight)  # [B, L, V]
        _, found = others.dag_logsoftmax_gather_inplace(logits, chosen.contiguous())
        return found.transpose(1, 2)  # [B, T, L]

    return {
        "likelihood": lambda: gradients(
            lambda match, own: others.dag_loss(match, own, vertices, targets), batch.match, links
        ),
        "alignment": lambda: others.dag_best_alignment(batch.match, links, vertices, targets),
        "vocabulary": lambda: gradients(vocabulary, batch.features, batch.weight),
    }


def differences(
    mine: Dict[str, Callable[[], Any]], others: Dict[str, Callable[[], Any]]
) -> Dict[str, Any]:
    """The largest difference of what both return, as a share of the largest value, and of the
    alignments the share of vertices that are aligned otherwise."""

    def apart(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
        # The gradient in the links has another layout in the reference.
        pairs = [(a.float(), b.float()) for a, b in zip(one, other) if a.shape == b.shape]
        return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)

    found = {"alignment": float((mine["alignment"]() != others["alignment"]()).float().mean())}
    for name in ("likelihood", "vocabulary", "smoothed", "fuzzy"):
        if name in others:
            found[name] = apart(mine[name](), others[name]())
    return {name: float(f"{value:.3g}") for name, value in found.items()}


def loaded(folder: Path) -> ModuleType:
    """The package ``folder``.

    Raises:
        ValueError: there is none, or it lacks a function.
    """
    folder = folder.resolve()
    if not (folder / "__init__.py").is_file():
        raise ValueError(f"--reference-operations {folder}: there is no __init__.py in it")
    sys.path.insert(0, str(folder.parent))
    try:
        module = importlib.import_module(folder.name)
    finally:
        sys.path.remove(str(folder.parent))
    lacking = [name for name in REFERENCE if not hasattr(module, name)]
    if lacking:
        raise ValueError(f"--reference-operations {folder}: it has no {', '.join(lacking)}")
    return module


def imported(folder: Path) -> Dict[str, Any]:
    """Imports the reference operations: a row of its own, since that may fail."""
    loaded(folder)
    return {"imported": folder.name}
