"""int8 against the same arithmetic in NumPy, written from the description of the file and of the
operations alone."""

import dataclasses

import numpy as np
import pytest

from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.native.runtime.engine import Engine
from fairseq_hrt.native.runtime.model_tensors import quantise_rows

# A score that differs by less has met the same integers; float32 sums in another order now and then
# round an activation the other way.
SAME = 2e-4


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def rounded(x, positive=False, bits=8):
    if bits == 16:
        steps, positive = np.float32(min(32767, (2**31 - 1) // 127 // x.shape[-1])), False
    else:
        steps = np.float32(255 if positive else 127)
    largest = np.abs(x).max(-1, keepdims=True).astype(np.float32)
    integers = np.rint(x * (steps / largest)).astype(np.int64)
    return (np.maximum(integers, 0) if positive else integers), largest / steps


class Model:
    """A model file, computed word by word with whole sequences and no cache."""

    def __init__(self, header, tensors):
        self.h, self.t = header, tensors

    def linear(self, name, x, *, bias=None, positive=False):
        integers, scale = rounded(x, positive, self.h.input_bits)
        weights = self.t[name].astype(np.int64)
        out = (integers @ weights.T).astype(np.float32) * (scale * self.t[f"{name}.scale"]).astype(
            np.float32
        )
        bias = self.t.get(f"{name}.bias" if bias is None else bias)
        return out if bias is None else out + bias

    def norm(self, name, x):
        if f"{name}.weight" not in self.t:
            return x
        mean = x.mean(-1, keepdims=True)
        spread = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + self.h.epsilon)
        return ((x - mean) / spread * self.t[f"{name}.weight"] + self.t[f"{name}.bias"]).astype(
            np.float32
        )

    def embed(self, side, tokens, positions):
        name = "decoder.embedding" if self.h.shared_embedding else f"{side}.embedding"
        vectors = (self.t[name] + self.t[f"{name}.rest"] / np.float32(254)) * self.t[
            f"{name}.scale"
        ][:, None]
        if side == "decoder" and self.h.special_symbols:
            vectors = np.concatenate([vectors, self.t["decoder.special"]])
        vectors = vectors[tokens]
        if side == "decoder" and self.h.zero_start:
            vectors[tokens == self.h.eos] = 0
        x = (
            np.float32(getattr(self.h, f"{side}_scale")) * vectors
            + self.t[f"{side}.positions"][positions]
        )
        return self.norm(f"{side}.embedding_norm", x)

    def attend(self, queries, keys, values, heads, shown, relative=None):
        width = queries.shape[1] // heads
        mixed = []
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            scores = queries[:, part] @ keys[:, part].T
            if relative is not None:
                scores = scores + np.einsum("qd,qkd->qk", queries[:, part], relative)
            scores = np.where(shown, scores / np.sqrt(width), -np.inf)
            mixed.append(np.exp(log_softmax(scores)) @ values[:, part])
        return np.concatenate(mixed, 1).astype(np.float32)

    def block(self, side, name, x, inner):
        if getattr(self.h, f"{side}_pre_norm"):
            return x + inner(self.norm(name, x))
        return self.norm(name, x + inner(x))

    def layer(self, side, number, x, shown, memory=None, distances=None):
        name, heads, width = f"{side}.layers.{number}", getattr(self.h, f"{side}_heads"), x.shape[1]

        def recur(y):
            forget, candidate = np.split(self.linear(f"{name}.cell", y), 2, 1)
            state, states, kept = np.float32(0), [], 1 / (1 + np.exp(-forget))
            for f, c in zip(kept, candidate):
                state = f * state + (1 - f) * c
                states.append(state)
            return np.maximum(states, 0)

        def itself(y):
            if f"{name}.cell" in self.t:
                return recur(y)
            q, k, v = np.split(self.linear(f"{name}.self.input", y), 3, 1)
            relative = None if distances is None else self.t[f"{name}.self.relative"][distances]
            return self.linear(f"{name}.self.output", self.attend(q, k, v, heads, shown, relative))

        def source(y):
            k, v = np.split(self.linear(f"{name}.cross.memory", memory), 2, 1)
            mixed = self.attend(self.linear(f"{name}.cross.query", y), k, v, heads, True)
            return self.linear(f"{name}.cross.output", mixed)

        def inner(y):
            between = self.linear(f"{name}.inner", y)
            if self.h.activation == "swish":
                return self.linear(f"{name}.outer", between / (1 + np.exp(-between)))
            return self.linear(f"{name}.outer", np.maximum(between, 0), positive=True)

        assert width % heads == 0
        x = self.block(side, f"{name}.self.norm", x, itself)
        if memory is not None:
            x = self.block(side, f"{name}.cross.norm", x, source)
        return self.block(side, f"{name}.final.norm", x, inner)

    def encode(self, tokens):
        x = self.embed("encoder", tokens, np.arange(len(tokens)))
        for number in range(self.h.encoder_layers):
            x = self.layer("encoder", number, x, True)
        return self.norm("encoder.final_norm", x)

    def log_probs(self, memory, tokens, positions, shown):
        """``[T, V]`` of the words behind all tokens."""
        x = self.embed("decoder", tokens, positions)
        window = self.h.relative_window
        distances = (
            np.clip(positions[None] - positions[:, None], -window, window) + window
            if window
            else None
        )
        for number in range(self.h.decoder_layers):
            x = self.layer("decoder", number, x, shown, memory, distances)
        x = self.norm("decoder.final_norm", x)
        name = "decoder.embedding" if self.h.tied_output else "output"
        return log_softmax(self.linear(name, x, bias="output.bias").astype(np.float64))


def forced(model, memory, result, chunk=1):
    """Log-probabilities ``[T, V]`` at the positions of a result, given that result."""
    tokens, header = np.array(result.tokens), model.h
    if chunk == 1:
        inputs, count = np.concatenate([[header.eos], tokens[:-1]]), len(tokens)
        return model.log_probs(memory, inputs, np.arange(count), np.tri(count, dtype=bool))
    kept = tokens[chunk - 1 :: chunk]
    whole = np.full(chunk * (len(kept) + (len(tokens) % chunk > 0)), header.eos)
    whole[: len(tokens)] = tokens
    kept = whole[chunk - 1 :: chunk]
    start = header.target_vocabulary + 1 + header.chunk_sizes.index(chunk)
    count = len(kept)
    first = model.log_probs(
        memory,
        np.concatenate([[start], kept[:-1]]),
        chunk * np.arange(count),
        np.tri(count, dtype=bool),
    )
    masked = np.where(np.arange(1, len(whole) + 1) % chunk == 0, whole, header.target_vocabulary)
    found = model.log_probs(memory, masked, np.arange(1, len(whole) + 1), True)
    found[chunk - 1 :: chunk] = first
    return found[: len(tokens)]


@pytest.mark.parametrize(
    "arch, chunk",
    [
        ("transformer", 1),
        ("hrt_transformer", 1),
        ("hrt_transformer", 2),
        ("hrt_transformer", 3),
        ("marian_transformer", 1),
        ("ssru", 1),
        ("ssru of 16 bits", 1),
    ],
)
@pytest.mark.parametrize("shape", [
    dict(),
    dict(encoder_normalize_before=True, decoder_normalize_before=True, share_all_embeddings=True),
    dict(encoder_embed_dim=30, encoder_ffn_embed_dim=70),
])  # fmt: skip
def test_greedy(runtime, arch, chunk, shape):
    bits = 16 if "16" in arch else 8
    if arch.startswith("ssru"):
        arch, shape = "marian_transformer", {**shape, "marian_cell": "ssru"}
    model = runtime.build(arch, seed=11, **shape)
    header, tensors = convert(model, *model.dictionaries, weights="int8")
    header = dataclasses.replace(header, input_bits=bits)
    assert any(tensor.dtype == np.int8 for tensor in tensors.values())
    copy, rows = Model(header, tensors), runtime.sources((3, 8, 15, 6))
    own = {"hrt_decode_chunk": str(chunk)} if arch == "hrt_transformer" else {}
    with Engine(header, tensors) as engine:
        found = engine.decode(rows, runtime.options(beam=1, max_len_b=12, min_len=0, **own))
    near = total = 0
    # With 16 bits many activations are rounded the other way, each by a 256th of that.
    limit = SAME if bits == 8 else 10 * SAME
    for row, (result,) in zip(rows, found):
        log_probs = forced(copy, copy.encode(np.array(row)), result, chunk)
        log_probs[:, header.pad] = -np.inf
        for place, line in enumerate(log_probs):
            if result.tokens[place] == header.eos and place + chunk >= 12:
                continue  # forced at the maximum length
            same = abs(line[result.tokens[place]] - result.positional_scores[place]) < limit
            near, total = near + same, total + 1
            assert (
                line.argmax() == result.tokens[place]
                or not same
                or line.max() - line[result.tokens[place]] < limit
            )
    assert near >= 0.9 * total, (near, total)


def test_an_embedding_is_finer_than_the_output_layer_that_shares_it(runtime):
    model = runtime.build(share_all_embeddings=True, seed=5)
    header, tensors = convert(model, *model.dictionaries, weights="int8")
    exact = model.decoder.embed_tokens.weight.detach().float().numpy()
    integers, scale = tensors["decoder.embedding"], tensors["decoder.embedding.scale"][:, None]
    finer = scale * (integers + tensors["decoder.embedding.rest"] / 254)
    assert np.abs(finer - exact).max() < np.abs(scale * integers - exact).max() / 100
    # Files without it are read, too; it is the word vectors that it changes.
    without = {name: tensor for name, tensor in tensors.items() if not name.endswith(".rest")}
    with Engine(header, tensors) as one, Engine(header, without) as other:
        assert one.weight_bytes - other.weight_bytes == integers.size
        rows, options = runtime.sources((9, 12)), runtime.options(beam=1, max_len_b=9)
        scores = [
            [best.positional_scores for (best,) in engine.decode(rows, options)]
            for engine in (one, other)
        ]
        assert scores[0] != scores[1]


def test_rows_are_rounded_to_the_nearest():
    weights = np.random.default_rng(1).normal(size=(7, 33)).astype(np.float32)
    weights[2], weights[3] = 0, 1e-39
    integers, scale = quantise_rows(weights)
    assert integers.min() >= -127 and (np.abs(integers).max(1)[[0, 1, 4, 5, 6]] == 127).all()
    assert np.abs(integers * scale[:, None] - weights).max() <= scale.max() / 2 * 1.0001
    assert not integers[2:4].any() and (scale[2:4] == 0).all()
