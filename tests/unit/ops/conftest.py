"""Random graphs, and every quantity by writing out all paths."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch


def make_graph(batch, vertices, vertex_lengths, *, seed=0, spread=1.0, dtype=torch.float64, holes=0.0):
    """Log-links ``[B, L, L]`` whose rows sum to 1 over later valid vertices; some links impossible."""
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
    logits = torch.randn(batch, tokens + 3, vertices, generator=generator, dtype=torch.float64) * spread
    return logits.log_softmax(1)[:, :tokens].to(dtype)


def paths(length):
    """All increasing sequences of vertices from 0 to ``length`` - 1."""
    for count in range(length - 1):
        for interior in itertools.combinations(range(1, length - 1), count):
            yield (0, *interior, length - 1)


def path_score(links, path):
    return sum(float(links[u, v]) for u, v in zip(path, path[1:]))


class Enumeration:
    """Likelihood, posteriors and best path of one sentence, by all its paths with as many vertices as tokens."""

    def __init__(self, match, links, tokens, vertices):
        self.terms = []
        for path in paths(vertices):
            if len(path) == tokens:
                score = path_score(links, path) + sum(float(match[i, v]) for i, v in enumerate(path))
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
    """The builders of this file."""
    return SimpleNamespace(links=make_graph, match=make_match, paths=paths, score=path_score, Enumeration=Enumeration)
