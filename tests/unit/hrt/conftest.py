"""Independent oracles and tiny models for the hybrid-regressive family.

The oracles follow the papers in plain lists and loops and share no code with the package: a
sentence at a time, no padding, no cache, no fused projections. From a model they read its
parameters by their names in the checkpoint, so that a wrong use of a parameter is seen.
"""

import math
from argparse import Namespace
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel
from tiny_weights import built_once, seed_host, sharpen
from torch import Tensor

from fairseq_hrt.hrt.config import HRTTaskConfig
from fairseq_hrt.hrt.model import HRTTransformerModel
from fairseq_hrt.hrt.task import HRTTranslationTask

PAD, EOS = 1, 2


def naive_views(
    target: Sequence[int], chunk: int, *, start: int, mask: int
) -> Dict[str, List[int]]:
    """The Skip-AT and Skip-CMLM rows of the paper's table for y_1 … y_N; PAD stands for "no
    loss"."""
    length = chunk * math.ceil((len(target) + 1) / chunk)
    filled = {j: target[j - 1] if j <= len(target) else EOS for j in range(1, length + 1)}
    kept = [j for j in filled if j % chunk == 0]
    return {
        "causal_input": [start] + [filled[j] for j in kept[:-1]],
        "causal_positions": [0] + kept[:-1],
        "causal_target": [filled[j] for j in kept],
        "parallel_input": [filled[j] if j in kept else mask for j in filled],
        "parallel_positions": list(filled),
        "parallel_target": [PAD if j in kept else filled[j] for j in filled],
    }


def naive_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    positions: Sequence[int],
    table: Optional[Tensor],
    visible: Callable[[int, int], bool],
) -> Tensor:
    """Eq. 4 for one head, query by query: softmax(Q (K + R)^T / sqrt(d_k)) V; R = table[clip(j - i,
    -w, w) + w]."""
    length, width = query.shape
    rows = []
    for i in range(length):
        seen = [j for j in range(key.size(0)) if visible(i, j)]
        shifted = key[seen]
        if table is not None:
            window = (table.size(0) - 1) // 2
            distances = [max(-window, min(window, positions[j] - positions[i])) for j in seen]
            shifted = shifted + table[[distance + window for distance in distances]]
        weights = (shifted @ query[i] / math.sqrt(width)).softmax(0)
        rows.append(weights @ value[seen])
    return torch.stack(rows)


class ReferenceDecoder:
    """The decoder of one sentence from the parameters of `model`:
    ``reference(tokens, positions, causal, memory)``.

    Args:
        model: an HRT or a stock Transformer model with sinusoidal positions.
    """

    def __init__(self, model: Any) -> None:
        self.state = {name: value.detach() for name, value in model.decoder.state_dict().items()}
        self.model = model
        self.config = model.decoder.cfg
        self.heads = self.config.decoder.attention_heads
        self.width = self.config.decoder.embed_dim
        self.pre_norm = self.config.decoder.normalize_before
        self.vocabulary = self.state["embed_tokens.weight"].size(0)

    def encode(self, source: Sequence[int]) -> Tensor:
        """[S, D] of a source without padding."""
        tokens = torch.tensor([source])
        out = self.model.encoder(tokens, src_lengths=torch.tensor([len(source)]))
        return out["encoder_out"][0][:, 0].detach()

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        return (
            centred / (variance + 1e-5).sqrt() * self.state[f"{name}.weight"]
            + self.state[f"{name}.bias"]
        )

    def embed(self, token: int, position: int) -> Tensor:
        half = self.width // 2
        rate = [math.exp(-math.log(10000) * i / (half - 1)) for i in range(half)]
        # fairseq counts positions from padding_idx + 1
        angles = [(position + PAD + 1) * r for r in rate]
        sinusoid = torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles])
        table = self.state["embed_tokens.weight"]
        vector = (
            table[token]
            if token < self.vocabulary
            else self.state["embed_special.weight"][token - self.vocabulary]
        )
        return vector * math.sqrt(self.width) + sinusoid.to(vector)

    def attention(
        self, name: str, x: Tensor, memory: Tensor, positions: Any, visible: Any, relative: bool
    ) -> Tensor:
        q, k, v = (
            self.linear(f"{name}.q_proj", x),
            self.linear(f"{name}.k_proj", memory),
            self.linear(f"{name}.v_proj", memory),
        )
        table = self.state.get(f"{name}.relative_keys") if relative else None
        size = self.width // self.heads
        heads = [
            naive_attention(
                *(t[:, h * size : (h + 1) * size] for t in (q, k, v)), positions, table, visible
            )
            for h in range(self.heads)
        ]
        return self.linear(f"{name}.out_proj", torch.cat(heads, -1))

    def __call__(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        memory: Tensor,
        *,
        causal: bool,
        visible: Optional[Callable[[int, int], bool]] = None,
    ) -> Tensor:
        """Logits [T, V]. `visible(i, j)` replaces the mask that `causal` gives."""
        if visible is None:
            visible = (lambda i, j: j <= i) if causal else (lambda i, j: True)
        x = torch.stack([self.embed(t, p) for t, p in zip(tokens, positions)])
        for layer in range(len(self.model.decoder.layers)):
            x = self.layer(f"layers.{layer}", x, positions, memory, visible)
        if self.pre_norm:
            x = self.norm("layer_norm", x)
        return x @ self.state["output_projection.weight"].T

    def layer(self, name: str, x: Tensor, positions: Any, memory: Tensor, visible: Any) -> Tensor:
        blocks: List[Tuple[str, Callable[[Tensor], Tensor]]] = [
            (
                "self_attn",
                lambda y: self.attention(f"{name}.self_attn", y, y, positions, visible, True),
            ),
            (
                "encoder_attn",
                lambda y: self.attention(
                    f"{name}.encoder_attn", y, memory, None, lambda i, j: True, False
                ),
            ),
            ("final", lambda y: self.linear(f"{name}.fc2", self.linear(f"{name}.fc1", y).relu())),
        ]
        for block, function in blocks:
            norm = f"{name}.{block}_layer_norm"
            x = (
                x + function(self.norm(norm, x))
                if self.pre_norm
                else self.norm(norm, x + function(x))
            )
        return x


class Eq2Scorer:
    """Eq. 2 for one sentence, from `ReferenceDecoder`; an ensemble averages the probabilities of
    its models."""

    def __init__(
        self, models: Sequence[Any], source: Sequence[int], temperature: float = 1.0
    ) -> None:
        self.references = [ReferenceDecoder(model) for model in models]
        self.memories = [reference.encode(source) for reference in self.references]
        self.temperature = temperature
        self.mask = self.references[0].vocabulary
        self.config = self.references[0].config

    def start(self, chunk: int) -> int:
        """BOS_k: behind the mask, in the order of the trained chunk sizes; k = 1 has the ordinary
        one."""
        if chunk == 1:
            return EOS
        return self.mask + 1 + list(self.config.hrt_chunk_sizes).index(chunk)

    def log_probabilities(
        self, tokens: Sequence[int], positions: Sequence[int], *, causal: bool
    ) -> Tensor:
        each = [
            (reference(tokens, positions, memory, causal=causal) / self.temperature).softmax(-1)
            for reference, memory in zip(self.references, self.memories)
        ]
        return (sum(each) / len(each)).log()

    def first_stage(self, kept: Sequence[int], chunk: int) -> List[float]:
        """log P(z_i | z_<i, x) of each token."""
        tokens = [self.start(chunk), *kept[:-1]]
        table = self.log_probabilities(tokens, [chunk * i for i in range(len(tokens))], causal=True)
        return [float(table[i, z]) for i, z in enumerate(kept)]

    def second_stage(self, kept: Sequence[int], chunk: int) -> Dict[int, Tensor]:
        """log P(. | z, x) [V] at every masked position among 1 … m k."""
        row = [token for z in kept for token in [self.mask] * (chunk - 1) + [z]]
        table = self.log_probabilities(row, list(range(1, len(row) + 1)), causal=False)
        return {j: table[j - 1] for j in range(1, len(row) + 1) if j % chunk}

    def complete(
        self, kept: Sequence[int], chunk: int, *, eos_last_chunk: bool = False, min_len: int = 0
    ) -> Tuple[List[int], float, List[float]]:
        """(tokens up to the first </s>, Eq. 2 without length normalisation, log-probabilities of
        these tokens).

        With --hrt-tail-target pad masked positions behind the first </s> were not trained and do
        not count.
        """
        filled = {chunk * (i + 1): z for i, z in enumerate(kept)}
        scores = {chunk * (i + 1): score for i, score in enumerate(self.first_stage(kept, chunk))}
        for j, row in self.second_stage(kept, chunk).items():
            row = row.clone()
            row[PAD] = -math.inf
            if j <= min_len or (eos_last_chunk and j <= chunk * (len(kept) - 1)):
                row[EOS] = -math.inf
            filled[j] = int(row.argmax())
            scores[j] = float(row[filled[j]])
        tokens = [filled[j] for j in sorted(filled)]
        end = tokens.index(EOS) + 1
        counted = scores
        if str(self.config.hrt_tail_target) == "pad":
            counted = {j: score for j, score in scores.items() if j <= end or j % chunk == 0}
        return tokens[:end], sum(counted.values()), [scores[j] for j in range(1, end + 1)]


def make_dictionary(symbols: int) -> Dictionary:
    dictionary = Dictionary()
    for i in range(symbols):
        dictionary.add_symbol(f"w{i}")
    return dictionary


TINY = dict(
    encoder_embed_dim=16,
    decoder_embed_dim=16,
    encoder_ffn_embed_dim=32,
    decoder_ffn_embed_dim=32,
    encoder_layers=1,
    decoder_layers=2,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    share_all_embeddings=True,
    max_source_positions=64,
    max_target_positions=32,
    dropout=0.0,
)


@built_once
def make_model(
    arch: str = "hrt_transformer", *, symbols: int = 12, seed: int = 1, **overrides: Any
) -> Any:
    """A tiny float64 model in evaluation mode with weights large enough for peaked, different
    distributions."""
    seed_host(seed)
    dictionary = make_dictionary(symbols)
    settings = {**TINY, **overrides}
    if arch.startswith("hrt"):
        settings.setdefault("hrt_chunk_sizes", [2, 3])
    args = Namespace(**settings)
    ARCH_CONFIG_REGISTRY[arch](args)
    family = HRTTransformerModel if arch.startswith("hrt") else TransformerModel
    model = family.build_model(
        args, Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    )
    model = model.double().eval()
    sharpen(model)
    return model


def make_sources(lengths: Sequence[int], symbols: int, seed: int = 0) -> List[List[int]]:
    """Sentences of the given lengths, </s> included."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(4, 4 + symbols, (n - 1,), generator=generator).tolist() + [EOS]
        for n in lengths
    ]


def make_sample(
    sources: Sequence[Sequence[int]],
    ids: Optional[Sequence[int]] = None,
    extra: int = 0,
    left_pad: bool = True,
) -> Dict[str, Any]:
    """A fairseq batch of these sources, in this order; `extra` columns of padding more than
    needed."""
    width = max(map(len, sources)) + extra
    tokens = torch.full((len(sources), width), PAD)
    for row, source in zip(tokens, sources):
        place = row[width - len(source) :] if left_pad else row[: len(source)]
        place.copy_(torch.tensor(source))
    lengths = torch.tensor([len(source) for source in sources])
    return {
        "id": torch.arange(len(sources)) if ids is None else torch.tensor(ids),
        "nsentences": len(sources),
        "net_input": {"src_tokens": tokens, "src_lengths": lengths},
    }


def make_task(
    model: Optional[Dict[str, Any]] = None, *, symbols: int = 12, **overrides: Any
) -> Tuple[Any, Any]:
    """(task, model) with the configuration that the command line would resolve."""
    config = HRTTaskConfig(**{"max_update": 100, "seed": 5, **overrides})
    task = HRTTranslationTask(config, make_dictionary(symbols), make_dictionary(symbols))
    built = make_model(symbols=symbols, **(model or {}))
    task.decoder = built.decoder
    return task, built


def make_batch(lengths: Sequence[int], seed: int = 0, symbols: int = 12) -> Dict[str, Any]:
    """Sources and right-padded targets of these lengths, ``</s>`` included."""
    sample = make_sample(
        make_sources(lengths, symbols, seed), ids=[10 + 3 * n for n in range(len(lengths))]
    )
    target = torch.full((len(lengths), max(lengths)), PAD)
    for row, line in zip(target, make_sources(lengths, symbols, seed + 1)):
        row[: len(line)] = torch.tensor(line)
    return {**sample, "target": target}


@pytest.fixture(scope="session")
def hrt() -> SimpleNamespace:
    """The oracles and builders of this file."""
    return SimpleNamespace(
        PAD=PAD,
        EOS=EOS,
        TINY=TINY,
        views=naive_views,
        attention=naive_attention,
        Reference=ReferenceDecoder,
        Scorer=Eq2Scorer,
        dictionary=make_dictionary,
        model=make_model,
        sources=make_sources,
        sample=make_sample,
        task=make_task,
        batch=make_batch,
    )
