"""Marian's Transformer written from its formulas in NumPy, one sentence and one word at a time,
without any cache."""

import math
from typing import Any, Dict, List, Tuple

import numpy as np

EOS, PAD = 2, 1


class MarianOracle:
    """A post-norm ``marian_transformer`` with Marian's own options.

    Args:
        model: whose parameters are read; nothing of its code is run.
        cell: ``attention`` or ``ssru``.
        heads: of the encoder, of the decoder.
    """

    def __init__(
        self, model: Any, *, cell: str, heads: Tuple[int, int], activation: str = "swish"
    ) -> None:
        self.weights: Dict[str, np.ndarray] = {
            name: value.numpy() for name, value in model.state_dict().items()
        }
        self.cell, self.heads, self.activation = cell, heads, activation

    def greedy(self, source: List[int], longest: int) -> Tuple[List[int], List[float]]:
        """The translation and the log-probability of each of its words, ``</s>`` included."""
        memory, words, scores = self.encode(source), [], []
        while not words or words[-1] != EOS:
            log_probs = self.log_probabilities(memory, words)[-1]
            log_probs[PAD] = -np.inf
            if len(words) == longest:
                log_probs[np.arange(len(log_probs)) != EOS] = -np.inf
            words.append(int(log_probs.argmax()))
            scores.append(float(log_probs[words[-1]]))
        return words, scores

    def log_probabilities(self, memory: np.ndarray, words: List[int]) -> np.ndarray:
        """``[T + 1, V]``: of what may follow the first 0, 1, … T words."""
        table = self.weights["decoder.embed_tokens.weight"]
        width = table.shape[1]
        x = np.stack([np.zeros(width), *(math.sqrt(width) * table[word] for word in words)])
        x = x + self.positions(len(x), width)
        number = 0
        while f"decoder.layers.{number}.fc1.weight" in self.weights:
            name = f"decoder.layers.{number}"
            if self.cell == "ssru":
                inner = np.maximum(self.states(f"{name}.cell", x), 0)
            else:
                inner = self.attention(f"{name}.self_attn", x, x, self.heads[1], causal=True)
            x = self.norm(f"{name}.self_attn_layer_norm", x + inner)
            inner = self.attention(f"{name}.encoder_attn", x, memory, self.heads[1])
            x = self.norm(f"{name}.encoder_attn_layer_norm", x + inner)
            x = self.feed_forward(name, x)
            number += 1
        logits = self.linear("decoder.output_projection", x)
        largest = logits.max(-1, keepdims=True)
        return logits - largest - np.log(np.exp(logits - largest).sum(-1, keepdims=True))

    def encode(self, source: List[int]) -> np.ndarray:
        table = self.weights["encoder.embed_tokens.weight"]
        x = math.sqrt(table.shape[1]) * table[source] + self.positions(len(source), table.shape[1])
        number = 0
        while f"encoder.layers.{number}.fc1.weight" in self.weights:
            name = f"encoder.layers.{number}"
            inner = self.attention(f"{name}.self_attn", x, x, self.heads[0])
            x = self.feed_forward(name, self.norm(f"{name}.self_attn_layer_norm", x + inner))
            number += 1
        return x

    def states(self, name: str, x: np.ndarray) -> np.ndarray:
        """f = σ(x W_f + b_f); c = f ⊙ c + (1 - f) ⊙ x W."""
        state, found = np.zeros(x.shape[1]), []
        for vector in x:
            forget = 1 / (1 + np.exp(-self.linear(f"{name}.forget", vector)))
            state = forget * state + (1 - forget) * (
                self.weights[f"{name}.candidate.weight"] @ vector
            )
            found.append(state)
        return np.stack(found)

    def attention(
        self, name: str, x: np.ndarray, memory: np.ndarray, heads: int, causal: bool = False
    ) -> np.ndarray:
        queries, keys, values = (
            self.linear(f"{name}.{part}_proj", side).reshape(len(side), heads, -1)
            for part, side in (("q", x), ("k", memory), ("v", memory))
        )
        mixed = np.zeros_like(queries)
        for head in range(heads):
            for place in range(len(x)):
                seen = place + 1 if causal else len(memory)
                weights = keys[:seen, head] @ queries[place, head] / math.sqrt(queries.shape[2])
                weights = np.exp(weights - weights.max())
                mixed[place, head] = (weights / weights.sum()) @ values[:seen, head]
        return self.linear(f"{name}.out_proj", mixed.reshape(len(x), -1))

    def feed_forward(self, name: str, x: np.ndarray) -> np.ndarray:
        inner = self.linear(f"{name}.fc1", x)
        inner = inner / (1 + np.exp(-inner)) if self.activation == "swish" else np.maximum(inner, 0)
        return self.norm(f"{name}.final_layer_norm", x + self.linear(f"{name}.fc2", inner))

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        variance = ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True)
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + 1e-6)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    @staticmethod
    def positions(count: int, width: int) -> np.ndarray:
        """First half sines, second half cosines; counted from 0. In single precision, as the models
        have them."""
        half = width // 2
        frequencies = np.exp(-math.log(10_000) / (half - 1) * np.arange(half))
        angles = np.arange(count)[:, None] * frequencies[None]
        return np.concatenate([np.sin(angles), np.cos(angles)], 1)
