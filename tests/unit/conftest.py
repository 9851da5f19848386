"""Tiny stock Transformers, batches and graphs, in float64 so that equality can be demanded."""

import fcntl
import itertools
import math
import sys
from argparse import Namespace
from collections import Counter
from types import SimpleNamespace
from typing import Any, Dict, Sequence

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from stub_kenlm import MODULE as KENLM
from tiny_weights import TINY, built_once, seed_host, sharpen
from torch.utils._python_dispatch import TorchDispatchMode

import fairseq_hrt  # noqa: F401  (registers the families)
from fairseq_hrt.native.io.progress import Doing

PAD, EOS = 1, 2


def make_dictionary(symbols: int = 12) -> Dictionary:
    dictionary = Dictionary()
    for number in range(symbols):
        dictionary.add_symbol(f"w{number}")
    return dictionary


def make_arguments(arch: str, **overrides: Any) -> Namespace:
    """What a command line gives a tiny model."""
    args = Namespace(**{**TINY, "arch": arch, "_name": arch, **overrides})
    ARCH_CONFIG_REGISTRY[arch](args)
    return args


@built_once
def make_model(
    arch: str = "transformer", *, symbols: int = 12, seed: int = 1, **overrides: Any
) -> Any:
    """A model in evaluation mode whose weights are large enough for peaked, different
    distributions."""
    seed_host(seed)
    args = make_arguments(arch, **overrides)
    task = Namespace(
        source_dictionary=make_dictionary(symbols), target_dictionary=make_dictionary(symbols)
    )
    model = ARCH_MODEL_REGISTRY[arch].build_model(args, task).double().eval()
    sharpen(model)
    return model


@built_once
def make_lively(*args: Any, **options: Any) -> Any:
    """A :func:`make_model` whose greedy translations do not repeat endlessly: the last word, the
    words before it and the source all have a say in the next one."""
    model = make_model(*args, **options)
    decoder = model.decoder
    with torch.no_grad():
        vectors = torch.randn_like(decoder.embed_tokens.weight)
        decoder.embed_tokens.weight.copy_(vectors / 4)
        decoder.output_projection.weight.copy_(vectors[torch.randperm(len(vectors))])
        for layer in decoder.layers:
            blocks = [(layer.encoder_attn.out_proj, 0.15), (layer.fc2, 0.15)]
            if hasattr(layer, "cell"):
                layer.cell.candidate.weight.mul_(0.3)
            else:
                blocks.append((layer.self_attn.out_proj, 0.8))
            for block, share in blocks:
                block.weight.mul_(share)
                block.bias.zero_()
            for norm in (
                layer.final_layer_norm,
                layer.self_attn_layer_norm,
                layer.encoder_attn_layer_norm,
            ):
                norm.bias.zero_()
    return model


def make_sample(
    lengths: Sequence[int], *, symbols: int = 12, seed: int = 0, left_pad: bool = True
) -> Dict[str, Any]:
    """A batch of random sources of these lengths, ``</s>`` included."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(tokens, lengths):
        words = torch.randint(4, 4 + symbols, (length,), generator=generator)
        words[-1] = EOS
        row[row.numel() - length :] = words
        if not left_pad:
            row.copy_(row.roll(length - row.numel()))
    return {
        "id": torch.arange(len(lengths)),
        "net_input": {"src_tokens": tokens, "src_lengths": torch.tensor(lengths)},
    }


@pytest.fixture(scope="session")
def tiny() -> SimpleNamespace:
    """The builders of this file."""
    return SimpleNamespace(
        PAD=PAD,
        EOS=EOS,
        dictionary=make_dictionary,
        arguments=make_arguments,
        model=make_model,
        lively=make_lively,
        sample=make_sample,
    )


def make_links(
    batch, vertices, vertex_lengths, *, seed=0, spread=1.0, dtype=torch.float64, holes=0.0
):
    """Log-links ``[B, L, L]`` whose rows sum to 1 over later valid vertices; some links
    impossible."""
    generator = torch.Generator().manual_seed(seed)
    links = torch.full((batch, vertices, vertices), -math.inf, dtype=torch.float64)
    for row, length in enumerate(vertex_lengths):
        for u in range(length - 1):
            logits = torch.randn(length - u - 1, generator=generator, dtype=torch.float64) * spread
            if holes:
                gone = torch.rand(length - u - 1, generator=generator) < holes
                gone[-1] = False
                logits = logits.masked_fill(gone, -math.inf)
            links[row, u, u + 1 : length] = logits.log_softmax(0)
    return links.to(dtype)


def make_match(batch, tokens, vertices, *, seed=0, spread=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed + 1000)
    logits = (
        torch.randn(batch, tokens + 3, vertices, generator=generator, dtype=torch.float64) * spread
    )
    return logits.log_softmax(1)[:, :tokens].to(dtype)


def paths(length):
    """All increasing sequences of vertices from 0 to ``length`` - 1."""
    for count in range(length - 1):
        for interior in itertools.combinations(range(1, length - 1), count):
            yield (0, *interior, length - 1)


def path_score(links, path):
    return sum(float(links[u, v]) for u, v in zip(path, path[1:]))


class Enumeration:
    """Likelihood, posteriors and best path of one sentence, by all its paths with as many vertices
    as tokens."""

    def __init__(self, match, links, tokens, vertices):
        self.terms = []
        for path in paths(vertices):
            if len(path) == tokens:
                score = path_score(links, path) + sum(
                    float(match[i, v]) for i, v in enumerate(path)
                )
                self.terms.append((score, path))
        masses = [math.exp(score) for score, _ in self.terms]
        self.total = math.fsum(masses)
        self.likelihood = math.log(self.total) if self.total > 0 else -math.inf
        self.posterior = torch.zeros(match.shape, dtype=torch.float64)
        self.usage = torch.zeros(links.shape, dtype=torch.float64)
        if self.total > 0:
            for mass, (_, path) in zip(masses, self.terms):
                for i, v in enumerate(path):
                    self.posterior[i, v] += mass / self.total
                for u, v in zip(path, path[1:]):
                    self.usage[u, v] += mass / self.total

    @property
    def best(self):
        return max(self.terms, default=(-math.inf, ()))


@pytest.fixture(scope="session")
def graphs():
    """Random graphs, and every quantity by writing out all paths."""
    return SimpleNamespace(
        links=make_links, match=make_match, paths=paths, score=path_score, Enumeration=Enumeration
    )


class HostReads(TorchDispatchMode):
    """Counts what makes a program wait for its device: ``with HostReads() as reads: ...``, then
    ``reads.counts`` by name."""

    # Their results, or the shapes of them, depend on values.
    NAMES = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero")

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    @classmethod
    def _should_skip_dynamo(cls):
        # Otherwise PyTorch imports its compiler.
        return False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.partition(".")[0]
        indices = args[1] if name.startswith("index") and isinstance(args[1], (list, tuple)) else ()
        # An index by conditions is a nonzero inside.
        if name.startswith(self.NAMES) or any(
            index is not None and index.dtype == torch.bool for index in indices
        ):
            self.counts[name] += 1
        return function(*args, **(kwargs or {}))


@pytest.fixture(scope="session")
def host_reads():
    """The class that counts reads of the device."""
    return HostReads


@pytest.fixture(scope="session")
def bundles(request, tmp_path_factory):
    """A folder with a bundle of each family that the native engine decodes, which nobody changes:
    the processes that share the tests share it, too."""
    from native_bundles import with_runtime
    from tiny_models import FAMILIES

    own = tmp_path_factory.getbasetemp()
    place = (own.parent if hasattr(request.config, "workerinput") else own) / "bundles"
    place.mkdir(exist_ok=True)
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            for family in FAMILIES:
                with_runtime(place / family, family)
            (place / "complete").touch()
    return place


@pytest.fixture
def works(monkeypatch):
    """The names of the work that a command shows as it begins."""
    found, begin = [], Doing.__enter__

    def enter(self):
        found.append(self.unit)
        return begin(self)

    monkeypatch.setattr(Doing, "__enter__", enter)
    return found


@pytest.fixture
def kenlm(monkeypatch):
    """The package kenlm, with a bigram model."""
    monkeypatch.setitem(sys.modules, "kenlm", KENLM)
    return KENLM
