"""Tiny models of every family, decoded by the eager engine and by the runtime."""

from argparse import Namespace

import pytest
import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.transformer import TransformerModel
from tiny_weights import TINY, sharpen

from fairseq_hrt.autoregressive.model import MarianTransformerModel
from fairseq_hrt.bidirectional.generator import BidirectionalGenerator
from fairseq_hrt.bidirectional.model import BidirectionalTransformerModel
from fairseq_hrt.ctc.generator import CtcGenerator
from fairseq_hrt.ctc.model import CtcTransformerModel
from fairseq_hrt.dag.generator import DagGenerator
from fairseq_hrt.dag.model import DagTransformerModel
from fairseq_hrt.engine import AutoregressiveGenerator, ModelScorer
from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.hrt.model import HRTTransformerModel
from fairseq_hrt.jacobi.drafts import Drafter, SourceDrafter
from fairseq_hrt.jacobi.generator import JacobiGenerator
from fairseq_hrt.native.decoding.rescoring import Rescorer
from fairseq_hrt.native.options.values import DecodingOptions  # noqa: F401  (for those who import this module)
from fairseq_hrt.native.runtime.engine import Engine

# A log-probability may differ by this much: float32 against float64. A choice between two words
# that are closer may differ.
NEAR = 1e-4
CLASSES = {
    "transformer": TransformerModel, "hrt_transformer": HRTTransformerModel,
    "dag_transformer": DagTransformerModel,
    "bidirectional_transformer": BidirectionalTransformerModel,
    "marian_transformer": MarianTransformerModel, "ctc_transformer": CtcTransformerModel,
}  # fmt: skip

# Model files that there are, and how they differ from the plain ones.
ARCHITECTURES = {
    "transformer": {}, "hrt_transformer": dict(share_all_embeddings=True),
    "bidirectional_transformer": dict(bidirectional_tokens_per_step=2),
    "dag_transformer": dict(dag_upsample_base="predict", dag_upsample_scale="1.5"),
    "marian_transformer": dict(marian_cell="ssru"),
    "ctc_transformer": dict(ctc_upsample_scale=1.5, ctc_inputs="soft-copy"),
}  # fmt: skip


def share_output(decoder):
    """Whether output layer and embedding are one, or of different widths."""
    output, words = decoder.output_projection.weight, decoder.embed_tokens.weight
    return output is words or output.shape != words.shape


def build(dictionary, arch="transformer", *, symbols=12, target_symbols=None, seed=1, **overrides):
    """A model in float64 with peaked distributions; where it is not refined by training its
    translations still depend on everything."""
    torch.manual_seed(seed)
    settings = {**TINY, "max_target_positions": 64}
    if arch == "hrt_transformer":
        settings["hrt_chunk_sizes"] = [2, 3]
    settings.update(overrides)
    args = Namespace(**settings)
    ARCH_CONFIG_REGISTRY[arch](args)
    dictionaries = (
        dictionary(symbols),
        dictionary(symbols if target_symbols is None else target_symbols),
    )
    model = (
        CLASSES[arch]
        .build_model(
            args, Namespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
        )
        .double()
        .eval()
    )
    sharpen(model, 2.0)
    with torch.no_grad():
        decoder = model.decoder
        if not share_output(decoder):
            # The words before and the source have a say in every word.
            vectors = torch.randn_like(decoder.embed_tokens.weight)
            decoder.embed_tokens.weight.copy_(vectors / 4)
            decoder.output_projection.weight.copy_(vectors[torch.randperm(len(vectors))])
    model.dictionaries = dictionaries
    return model


class Shared:
    """:func:`build` for those who change no model: what was built or converted lately is not made
    again."""

    MOST = 32

    def __init__(self, dictionary):
        self._dictionary, self._known = dictionary, {}

    def __call__(self, *args, own=False, **options):
        """``own``: a model that the caller will change."""
        if own:
            return build(self._dictionary, *args, **options)
        key = repr((args, sorted(options.items())))
        if key not in self._known:
            if len(self._known) == self.MOST:
                del self._known[next(iter(self._known))]
            self._known[key] = build(self._dictionary, *args, **options)
            self._known[key].converted = {}
        return self._known[key]


def sources(lengths, *, symbols=12, seed=0):
    """Random sources of these lengths, ``</s>`` included."""
    generator = torch.Generator().manual_seed(seed)
    return [
        [*torch.randint(4, 4 + symbols, (length - 1,), generator=generator).tolist(), 2]
        for length in lengths
    ]


def generator_of(model, options):
    """The eager generator with the native engine's options."""
    dictionary, family = model.dictionaries[1], getattr(model.decoder, "family", "autoregressive")
    if family == "hrt":
        return HRTGenerator([model], dictionary, options)
    if family == "dag":
        return DagGenerator([model], dictionary, options)
    if family == "ctc":
        return CtcGenerator([model], dictionary, options)
    if family == "bidirectional":
        return BidirectionalGenerator([model], dictionary, options)
    if options.jacobi_mode is not None:
        drafter = SourceDrafter(dictionary) if options.jacobi_draft == "source" else Drafter()
        return JacobiGenerator([model], dictionary, options, drafter=drafter)
    return AutoregressiveGenerator([model], dictionary, options)


def eager_graphs(model, rows, options):
    """(tokens, log-probabilities, probabilities of links, path) of each source, by the eager
    engine."""
    generator, found = generator_of(model, options), []

    def keep(graphs, hypotheses):
        scores, tokens = graphs.best_tokens()
        found.append((tokens[0], scores[0], graphs.links[0].exp(), hypotheses[0][0].token_vertices))

    generator.graph_hooks.append(keep)
    for row in rows:
        generator.generate(
            [model],
            {
                "net_input": {
                    "src_tokens": torch.tensor([row]),
                    "src_lengths": torch.tensor([len(row)]),
                }
            },
        )
    return found


def eager_results(model, rows, options, *, align=False, judge=None, lenpen=1.0, first_words=None):
    """The eager engine's hypotheses of each source, of all in one batch; judge: a model that ranks
    them."""
    generator = generator_of(model, options)
    if align:
        generator.align_words()
    if judge is not None:
        scorer = ModelScorer([judge], model.dictionaries[1], generator.counters, like=model)
        generator.rank_by(Rescorer(scorer, lenpen=lenpen))
    pad = model.dictionaries[1].pad()
    lengths = torch.tensor([len(row) for row in rows])
    net_input = {"src_tokens": collate_tokens(list(map(torch.tensor, rows)), pad, left_pad=True)}
    # The generator itself forces the words that its options name. Padding stands for any word.
    own = first_words is not None and options.forced_start is None
    given = [torch.tensor(words, dtype=torch.long) for words in first_words] if own else None
    prefix = collate_tokens(given, pad) if own else None
    sample = {"net_input": {**net_input, "src_lengths": lengths}}
    found = generator.generate([model], sample, prefix_tokens=prefix)
    return [best[: options.nbest] for best in found]


def runtime_engine(model, *, weights="float32", **options):
    known = getattr(model, "converted", {})
    if weights not in known:
        known[weights] = convert(model, *model.dictionaries, weights=weights)
    return Engine(*known[weights], **options)


def same_hypothesis(expected, got, *, steps=True, near=NEAR):
    """Whether two hypotheses agree; where tokens differ, whether the first difference is a near
    tie."""
    tokens, scores = expected["tokens"].tolist(), expected["positional_scores"].tolist()
    if tokens != got.tokens:
        place = next(
            (n for n, (a, b) in enumerate(zip(tokens, got.tokens)) if a != b),
            min(len(tokens), len(got.tokens)) - 1,
        )
        return abs(scores[place] - got.positional_scores[place]) < near
    assert got.positional_scores == pytest.approx(scores, rel=3e-6, abs=near)
    assert got.score == pytest.approx(float(expected["score"]), rel=3e-6, abs=near)
    assert not steps or (got.steps, got.token_steps) == (
        expected["steps"],
        expected["token_steps"].tolist(),
    )
    return True


def check_equal(model, rows, options, *, first_words=None, near=NEAR, **engine_options):
    """Demands that the runtime in float32 finds what the eager engine finds; returns the runtime's
    results."""
    expected = eager_results(model, rows, options, first_words=first_words)
    with runtime_engine(model, **engine_options) as engine:
        got = engine.decode(rows, options, first_words=first_words)
    for row, best, mine in zip(rows, expected, got):
        assert len(best) == len(mine), (row, best, mine)
        for one, other in zip(best, mine):
            assert same_hypothesis(one, other, near=near), (row, options, one, other)
    return got
