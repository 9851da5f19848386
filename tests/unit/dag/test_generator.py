"""Every decoder against a plain Python one over the module's own forward pass, and against itself
in other batches."""

import itertools
import math
from bisect import bisect_left
from collections import Counter, defaultdict

import pytest
import torch
from graph_statistics import score_translations
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.dag.generator import DagGenerator
from fairseq_hrt.engine import ModelScorer
from fairseq_hrt.native.decoding import NumericalError
from fairseq_hrt.native.decoding.rescoring import Rescorer
from fairseq_hrt.native.options.schema import SCHEMA
from fairseq_hrt.native.options.values import DecodingOptions

STRATEGIES = ["greedy", "lookahead", "viterbi", "joint-viterbi", "beam", "sample"]


def make_generator(tiny, models, strategy, *, options=None, scale=2.0, symbols=12, **config):
    own = {f"dag_{name}": value for name, value in config.items()}
    chosen = DecodingOptions(
        dag_decode_strategy=strategy, dag_decode_upsample_scale=scale, **own, **(options or {})
    )
    return DagGenerator(models, tiny.dictionary(symbols), chosen)


class Truth:
    """One sentence's graph from the training code, as lists of numbers."""

    def __init__(self, model, sample, row, vertices, *, unk=False):
        net_input = sample["net_input"]
        source = net_input["src_tokens"][row]
        source = source[source != 1].unsqueeze(0)
        with torch.no_grad():
            encoder_out = model.encoder(source, src_lengths=torch.tensor([source.size(1)]))
            size = torch.tensor([vertices])
            features, _ = model.decoder(
                model.decoder.vertex_inputs(size), encoder_out=encoder_out, features_only=True
            )
            self.links = model.decoder.links(features, size)[0]
            logits = model.decoder.output_layer(features)[0]
        self.log_probs = torch.log_softmax(logits, -1)
        self.ends = (float(self.log_probs[0, 0]), float(self.log_probs[-1, 2]))
        self.log_probs[:, : 3 if unk else 4] = -math.inf
        self.size = vertices
        self.best, self.tokens = (part.tolist() for part in self.log_probs.max(1))
        self.best[0], self.best[-1] = self.ends
        self.tokens[0], self.tokens[-1] = 0, 2

    def to_next_word(self, weight):
        """Log-probability of coming from the first vertex of a word to that of the next one,
        repeats weighted: ``[L, L]``."""
        found = torch.full_like(self.links, -math.inf)
        for u in range(self.size - 2, -1, -1):
            for v in range(u + 1, self.size):
                if self.tokens[u] != self.tokens[v]:
                    ways = [float(self.links[u, v])]
                    for w in range(u + 1, v):
                        if self.tokens[w] == self.tokens[u]:
                            ways.append(
                                float(self.links[u, w]) + weight * self.best[w] + float(found[w, v])
                            )
                    found[u, v] = torch.tensor(ways, dtype=torch.double).logsumexp(0)
        return found

    def greedy(self, links, beta):
        path = [0]
        while path[-1] != self.size - 1:
            u = path[-1]
            path.append(
                max(range(u + 1, self.size), key=lambda v: float(links[u, v]) + beta * self.best[v])
            )
        return path

    def viterbi(self, graphs, links, joint, beta, limit):
        scored = defaultdict(lambda: (-math.inf, ()))
        for path in graphs.paths(self.size):
            interior = len(path) - 2
            if 1 <= interior <= limit:
                total = graphs.score(links, path) + (
                    sum(self.best[v] for v in path[:-1]) if joint else 0
                )
                if total > -math.inf:
                    scored[interior] = max(scored[interior], (total, path))
        return list(max(scored.items(), key=lambda entry: entry[1][0] / entry[0] ** beta)[1][1])

    def score(self, links, path):
        return sum(float(links[u, v]) for u, v in zip(path, path[1:])) + sum(
            self.best[v] for v in path
        )

    def texts(self, graphs, limit, *, keep_repeats=True, beta=1.0):
        """Probability of every text of up to ``limit`` words, the tokens' weighted."""
        found = Counter()
        words = [
            token
            for token in range(self.log_probs.size(1))
            if float(self.log_probs[1:-1, token].max()) > -math.inf
        ]
        for path in graphs.paths(self.size):
            base = graphs.score(self.links, path) + beta * sum(self.ends)
            for text in itertools.product(words, repeat=len(path) - 2):
                more = sum(
                    beta * float(self.log_probs[v, token]) for v, token in zip(path[1:-1], text)
                )
                printed = (
                    text if keep_repeats else tuple(token for token, _ in itertools.groupby(text))
                )
                if len(printed) <= limit:
                    found[(*printed, 2)] += math.exp(base + more)
        return found


def collapse(path, tokens):
    kept = []
    for place in range(1, len(tokens)):
        if place + 1 == len(tokens) or not kept or tokens[place] != tokens[kept[-1]]:
            kept.append(place)
    return [tokens[place] for place in kept], [path[place] for place in kept]


@pytest.mark.parametrize("keep_repeats", [False, True])
@pytest.mark.parametrize(
    "strategy, beta", [("greedy", 1.0), ("lookahead", 1.0), ("lookahead", 0.4), ("lookahead", 0.0)]
)
def test_walks_equal_a_loop(family, strategy, beta, keep_repeats):
    features = "sinposition:feature" if beta == 0.4 else "feature:position"
    model, sample = family.dag(link_features=features, seed=4), family.sample([5, 3, 9], seed=4)
    generator = make_generator(
        family, [model], strategy, scale=4.0, decode_beta=beta, keep_repeats=keep_repeats
    )
    repeats = 0
    for row, (best, length) in enumerate(zip(generator.generate([model], sample), [5, 3, 9])):
        truth = Truth(model, sample, row, 4 * length)
        links = truth.links if strategy == "greedy" or keep_repeats else truth.to_next_word(beta)
        path = truth.greedy(links, 0.0 if strategy == "greedy" else beta)
        tokens, vertices = [truth.tokens[v] for v in path[1:]], path[1:]
        if not keep_repeats:
            tokens, vertices = collapse(path, [truth.tokens[v] for v in path])
        repeats += sum(
            a == b for a, b in zip(best[0]["tokens"].tolist(), best[0]["tokens"].tolist()[1:])
        )
        assert best[0]["tokens"].tolist() == tokens
        assert best[0]["token_vertices"].tolist() == vertices
        counted = truth.links if strategy == "greedy" or keep_repeats else truth.to_next_word(1.0)
        assert float(best[0]["positional_scores"].sum()) == pytest.approx(
            truth.score(counted, path), abs=1e-4
        )
        assert float(best[0]["score"]) == pytest.approx(
            truth.score(counted, path) / len(tokens), abs=1e-5
        )
    # The example has repeats.
    assert (repeats > 0) == keep_repeats
    assert generator.counters.decoder_calls == 1 and generator.counters.decoder_tokens == 3 * 36


@pytest.mark.parametrize("keep_repeats", [False, True])
@pytest.mark.parametrize("beta", [1.0, 0.2])
@pytest.mark.parametrize("strategy", ["viterbi", "joint-viterbi"])
def test_viterbi_equals_enumeration(family, graphs, strategy, beta, keep_repeats):
    model, sample = family.dag(seed=4), family.sample([5, 3, 4], seed=5)
    generator = make_generator(
        family, [model], strategy, decode_length_beta=beta, keep_repeats=keep_repeats
    )
    joint = strategy == "joint-viterbi"
    for row, (best, length) in enumerate(zip(generator.generate([model], sample), [5, 3, 4])):
        truth = Truth(model, sample, row, 2 * length)
        links = truth.links if keep_repeats else truth.to_next_word(float(joint))
        path = truth.viterbi(graphs, links, joint, beta, limit=2 * length)
        assert best[0]["token_vertices"].tolist() == path[1:]
        assert best[0]["tokens"].tolist() == [truth.tokens[v] for v in path[1:]]
        counted = truth.links if keep_repeats else truth.to_next_word(1.0)
        assert float(best[0]["score"]) == pytest.approx(
            truth.score(counted, path) / (len(path) - 1), abs=1e-5
        )
    limited = make_generator(
        family, [model], strategy, options=dict(max_len_b=1), keep_repeats=keep_repeats
    )
    assert all(len(best[0]["tokens"]) == 2 for best in limited.generate([model], sample))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    strategy=st.sampled_from(["lookahead", "viterbi", "joint-viterbi"]),
    beta=st.sampled_from([1.0, 0.3, 2.0]),
    lengths=st.lists(st.integers(2, 5), min_size=1, max_size=3), symbols=st.integers(1, 3),
)  # fmt: skip
def test_collapsed_repeats_are_dropped_from_the_path_of_the_graph_itself(
    family, graphs, seed, strategy, beta, lengths, symbols
):
    """As published: argmax over links and tokens step by step, or over all paths, and consecutive
    equal tokens printed once."""
    model, sample = (
        family.dag(seed=seed, symbols=symbols),
        family.sample(lengths, seed=seed, symbols=symbols),
    )
    own = {"decode_beta" if strategy == "lookahead" else "decode_length_beta": beta}
    generator = make_generator(
        family, [model], strategy, symbols=symbols, repeats="collapsed", **own
    )
    for row, (best, length) in enumerate(zip(generator.generate([model], sample), lengths)):
        truth = Truth(model, sample, row, 2 * length)
        if strategy == "lookahead":
            path = truth.greedy(truth.links, beta)
        else:
            path = truth.viterbi(
                graphs, truth.links, strategy == "joint-viterbi", beta, limit=2 * length
            )
        tokens, vertices = collapse(path, [truth.tokens[v] for v in path])
        assert (
            best[0]["tokens"].tolist() == tokens and best[0]["token_vertices"].tolist() == vertices
        )
        # The repeats' part is in the score.
        assert float(best[0]["score"]) == pytest.approx(
            truth.score(truth.links, path) / len(tokens), abs=1e-4
        )


BEAMS = [
    (1.0, 1.0, True),
    (0.0, 1.0, True),
    (2.0, 1.0, True),
    (1.0, 1.0, False),
    (0.0, 1.0, False),
    (1.0, 0.5, False),
    (0.5, 2.0, False),
]


@pytest.mark.parametrize("lenpen, beta, keep_repeats", BEAMS)
def test_beam_finds_the_most_probable_texts(family, graphs, lenpen, beta, keep_repeats):
    model, sample = family.dag(symbols=2, seed=5), family.sample([3, 2], symbols=2, seed=1)
    generator = make_generator(
        family, [model], "beam", options=dict(beam=300, nbest=8, lenpen=lenpen), symbols=2,
        keep_repeats=keep_repeats, decode_beta=beta, allow_unk=True,
    )  # fmt: skip
    for row, (best, length) in enumerate(zip(generator.generate([model], sample), [3, 2])):
        truth = Truth(model, sample, row, 2 * length, unk=True)
        texts = truth.texts(graphs, limit=10, keep_repeats=keep_repeats, beta=beta)
        texts.pop((2,), None)
        expected = sorted(texts, key=lambda text: -math.log(texts[text]) / len(text) ** lenpen)[:8]
        for found, text in zip(best, expected):
            assert tuple(found["tokens"].tolist()) == text
            assert float(found["score"]) == pytest.approx(
                math.log(texts[text]) / len(text) ** lenpen, abs=1e-5
            )
            assert float(found["positional_scores"].sum()) == pytest.approx(
                math.log(texts[text]), abs=1e-4
            )
            vertices = found["token_vertices"].tolist()
            assert vertices == sorted(set(vertices)) and len(vertices) == len(text)


@pytest.mark.parametrize("beam", [2, 5])
def test_no_text_stands_twice_among_the_best(family, beam):
    model, sample = family.dag(seed=4), family.sample([9, 6, 3], seed=3)
    options = dict(beam=beam, nbest=beam)
    for best in make_generator(family, [model], "beam", scale=4.0, options=options).generate(
        [model], sample
    ):
        texts = [tuple(found["tokens"].tolist()) for found in best]
        assert len(set(texts)) == len(texts) == beam
        assert not any(a == b for text in texts for a, b in zip(text, text[1:]))


def test_the_rules_reach_the_translation(family):
    model, sample = family.dag(seed=4), family.sample([9, 6], seed=3)
    plain = make_generator(family, [model], "lookahead", scale=4.0, keep_repeats=True)
    repeated = [
        sum(a == b for a, b in zip(best[0]["tokens"].tolist(), best[0]["tokens"].tolist()[1:]))
        for best in plain.generate([model], sample)
    ]
    assert sum(repeated) > 0
    strict = make_generator(
        family,
        [model],
        "lookahead",
        scale=4.0,
        keep_repeats=True,
        no_repeat_consecutive=2,
        candidates=20,
    )
    for best in strict.generate([model], sample):
        words = best[0]["tokens"].tolist()
        for size in (1, 2):
            pairs = zip(
                zip(*(words[i:-1] for i in range(size))),
                zip(*(words[i:-1] for i in range(size, 2 * size))),
            )
            assert not any(gram == following for gram, following in pairs)
    unique = make_generator(
        family,
        [model],
        "lookahead",
        scale=4.0,
        options=dict(no_repeat_ngram_size=1),
        keep_repeats=True,
        candidates=40,
    )
    for best in unique.generate([model], sample):
        assert len(set(best[0]["tokens"].tolist())) == len(best[0]["tokens"])


def test_graphs_of_decoding_end_at_the_positions_of_the_model(family, caplog):
    seen = []
    for base in ("source", "predict"):
        model = family.dag(upsample_base=base, max_target_positions=20, length_classes=8)
        generator = make_generator(family, [model], "lookahead", scale=9.0)
        generator.graph_hooks.append(lambda graphs, found: seen.append(graphs.lengths.tolist()))
        for _ in range(2):
            generator.generate([model], family.sample([9, 2]))
    assert seen[0] == [20, 18] and all(max(sizes) <= 20 for sizes in seen)
    assert caplog.text.count("cut to the decoder's 20 positions") == 2


def test_samples_are_drawn_anew_for_each_number_and_seed(family):
    model, sample = family.dag(seed=4), family.sample([9], seed=3)
    generator = make_generator(
        family, [model], "sample", options=dict(nbest=5), scale=4.0, candidates=20
    )
    first = generator.generate([model], sample)[0]
    assert len({tuple(best["tokens"].tolist()) for best in first}) > 1
    assert [float(best["score"]) for best in first] == sorted(
        (float(best["score"]) for best in first), reverse=True
    )
    again = generator.generate([model], sample)[0]
    assert [best["tokens"].tolist() for best in again] == [
        best["tokens"].tolist() for best in first
    ]


CASES = [(strategy, {}, {}) for strategy in STRATEGIES] + [
    ("lookahead", dict(no_repeat_ngram_size=2), {}),
    ("beam", dict(nbest=3, beam=4), {}),
    ("sample", dict(nbest=2), dict(no_repeat_consecutive=1)),
    ("joint-viterbi", {}, dict(decode_length_beta=0.1)),
]


@pytest.mark.parametrize("strategy, options, config", CASES)
@pytest.mark.parametrize("base", ["source", "predict"])
def test_a_sentence_is_decoded_the_same_in_any_batch(family, strategy, options, config, base):
    model = family.dag(upsample_base=base, seed=6, length_classes=8)
    generator = make_generator(family, [model], strategy, options=options, scale=2.5, **config)
    sample = family.sample([9, 2, 6, 1], seed=8)
    together = generator.generate([model], sample)
    for row, length in enumerate([9, 2, 6, 1]):
        source = sample["net_input"]["src_tokens"][row : row + 1, 9 - length :]
        alone = generator.generate(
            [model], {"net_input": {"src_tokens": source, "src_lengths": torch.tensor([length])}}
        )[0]
        assert [best["tokens"].tolist() for best in alone] == [
            best["tokens"].tolist() for best in together[row]
        ]
        for mine, other in zip(alone, together[row]):
            torch.testing.assert_close(
                mine["positional_scores"], other["positional_scores"], rtol=0, atol=1e-6
            )
            assert mine["token_vertices"].tolist() == other["token_vertices"].tolist()


@st.composite
def decodings(draw):
    """Any options that fit together: (strategy, options, configuration, scale)."""
    strategy = draw(st.sampled_from(STRATEGIES))
    options = dict(
        lenpen=draw(st.sampled_from([0.0, 1.0, 1.4])), max_len_b=draw(st.sampled_from([2, 6, 200]))
    )
    options.update(
        max_len_a=draw(st.sampled_from([0.0, 0.7])),
        unkpen=draw(st.sampled_from([0.0, 1.5, math.inf])),
    )
    config = dict(
        keep_repeats=draw(st.booleans()), allow_unk=draw(st.booleans()),
        decode_beta=draw(st.sampled_from([0.3, 1.0, 1.7])),
        decode_length_beta=draw(st.sampled_from([0.2, 1.0, 2.5])),
    )  # fmt: skip
    if strategy == "beam":
        options.update(
            beam=4,
            nbest=draw(st.integers(1, 3)),
            min_len=draw(st.integers(1, min(4, options["max_len_b"]))),
        )
    if strategy in ("lookahead", "sample"):
        options.update(no_repeat_ngram_size=draw(st.integers(0, 2)))
        config.update(
            no_repeat_consecutive=draw(st.integers(0, 2)), candidates=draw(st.integers(1, 8))
        )
    if strategy == "sample":
        options.update(nbest=draw(st.integers(1, 2)), temperature=draw(st.sampled_from([0.6, 1.0])))
        config.update(sample_topp=draw(st.sampled_from([0.6, 1.0])))
    return strategy, options, config, draw(st.sampled_from([0.4, 2.0, 3.3]))


@pytest.fixture(scope="module")
def models(family):
    return {
        base: family.dag(upsample_base=base, seed=6, length_classes=8)
        for base in ("source", "predict")
    }


@pytest.mark.slow
@given(
    decodings(),
    st.sampled_from(["source", "predict"]),
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.integers(0, 999),
)
@settings(max_examples=18, deadline=None)
def test_no_option_makes_a_translation_depend_on_its_batch(
    family, models, decoding, base, lengths, seed
):
    strategy, options, config, scale = decoding
    model, sample = models[base], family.sample(lengths, seed=seed)
    generator = make_generator(family, [model], strategy, options=options, scale=scale, **config)
    together = generator.generate([model], sample)
    for row, length in enumerate(lengths):
        source = sample["net_input"]["src_tokens"][row : row + 1, max(lengths) - length :]
        net_input = {"src_tokens": source, "src_lengths": torch.tensor([length])}
        alone = generator.generate([model], {"net_input": net_input})[0]
        assert [best["tokens"].tolist() for best in alone] == [
            best["tokens"].tolist() for best in together[row]
        ]
        assert [best["token_vertices"].tolist() for best in alone] == [
            best["token_vertices"].tolist() for best in together[row]
        ]
        for mine, other in zip(alone, together[row]):
            torch.testing.assert_close(mine["score"], other["score"], rtol=1e-5, atol=1e-6)
            words = mine["tokens"].tolist()
            assert words.pop() == 2 and (
                3 not in words or (config["allow_unk"] and options["unkpen"] < math.inf)
            )
            assert (
                mine["score"].isfinite()
                and len(words) <= options["max_len_a"] * length + options["max_len_b"]
            )
            assert config["keep_repeats"] or not any(a == b for a, b in zip(words, words[1:]))


def test_the_length_head_sizes_the_graph(family):
    model, sample = (
        family.dag(upsample_base="predict", length_classes=10, seed=3),
        family.sample([4, 6]),
    )
    source = sample["net_input"]
    out = model.encoder(source["src_tokens"], src_lengths=source["src_lengths"])
    logits = model.decoder.length_head(
        out["encoder_out"][0].transpose(0, 1), out["encoder_padding_mask"][0]
    )
    words = (logits.argmax(1) - 5 + torch.tensor([4, 6])).clamp(min=1)
    seen = []
    generator = make_generator(family, [model], "greedy", scale=3.0)
    generator.graph_hooks.append(lambda graphs, found: seen.append(graphs.lengths.tolist()))
    generator.generate([model], sample)
    assert seen == [(3 * words + 2).tolist()]


def test_an_ensemble_averages_probabilities(family):
    models, sample = [family.dag(seed=1), family.dag(seed=2)], family.sample([5, 4])
    graphs = []
    for chosen in ([models[0]], [models[1]], models):
        generator = make_generator(family, chosen, "lookahead")
        generator.graph_hooks.append(
            lambda graph, found: graphs.append((graph.links.exp(), graph.log_probs().exp()))
        )
        generator.generate(chosen, sample)
    for first, second, both in zip(*graphs):
        torch.testing.assert_close(both, (first + second) / 2)
    for strategy in STRATEGIES:
        assert make_generator(family, models, strategy).generate(models, sample)
    twice = make_generator(family, [models[0], models[0]], "joint-viterbi").generate(models, sample)
    once = make_generator(family, models[:1], "joint-viterbi").generate(models, sample)
    assert [best[0]["tokens"].tolist() for best in twice] == [
        best[0]["tokens"].tolist() for best in once
    ]


def test_penalised_unknown_words(family):
    model, sample = family.dag(seed=3), family.sample([8, 5])
    plain = make_generator(family, [model], "lookahead", scale=4.0).generate([model], sample)
    with torch.no_grad():
        # The model's favourite becomes the unknown word.
        favourite = int(plain[0][0]["tokens"][0])
        model.decoder.output_projection.weight[[3, favourite]] = (
            model.decoder.output_projection.weight[[favourite, 3]]
        )
    for strategy in STRATEGIES:
        for config, options, seen in (
            ({}, {}, False),
            (dict(allow_unk=True), {}, True),
            (dict(allow_unk=True), dict(unkpen=1e6), False),
            (dict(allow_unk=True), dict(unkpen=math.inf), False),
            (dict(allow_unk=True), dict(unkpen=-5.0), True),
        ):
            generator = make_generator(
                family, [model], strategy, scale=4.0, options=options, **config
            )
            found = generator.generate([model], sample)
            assert any(3 in best[0]["tokens"] for best in found) == seen, (
                strategy,
                config,
                options,
            )
            assert all(best[0]["score"].isfinite() for best in found)


def test_long_translations_are_cut(family):
    model, sample = family.dag(seed=4), family.sample([9, 6], seed=3)
    for strategy in STRATEGIES:
        generator = make_generator(family, [model], strategy, scale=4.0, options=dict(max_len_b=3))
        for best in generator.generate([model], sample):
            assert len(best[0]["tokens"]) <= 4 and best[0]["tokens"][-1] == 2


def test_beam_without_a_short_enough_path(family):
    """With links to the next vertex only, every path has all vertices."""
    model, sample = family.dag(max_transition_length=1), family.sample([5, 3])
    generator = make_generator(
        family, [model], "beam", options=dict(max_len_b=2), keep_repeats=True
    )
    assert [len(best[0]["tokens"]) for best in generator.generate([model], sample)] == [3, 3]
    generator = make_generator(family, [model], "beam", options=dict(min_len=50), keep_repeats=True)
    assert [len(best[0]["tokens"]) for best in generator.generate([model], sample)] == [9, 5]


def write_one_word(model, probability):
    """The model writes token 7 at every vertex, with this probability."""
    words = model.decoder.output_projection.weight.size(0)
    with torch.no_grad():
        model.decoder.output_projection.weight.zero_()
        bias = torch.zeros(words)
        bias[7] = math.log(probability / (1 - probability) * (words - 1))
        model.decoder.output_projection.bias = torch.nn.Parameter(bias)


@pytest.mark.parametrize("keep", [False, True])
def test_viterbi_without_a_short_enough_path(family, keep):
    """Links to the next vertices only lead through many, of which all write another word; the best
    ones are cut off."""
    for strategy in ("viterbi", "joint-viterbi"):
        for options in ({}, dict(max_len_b=2)):
            model, sample = family.dag(max_transition_length=1), family.sample([5, 3, 7])
            generator = make_generator(
                family, [model], strategy, scale=8.0, options=options, keep_repeats=keep
            )
            found = generator.generate([model], sample)
            assert all(best[0]["tokens"][-1] == 2 and best[0]["score"].isfinite() for best in found)
            if options:
                assert max(len(best[0]["tokens"]) for best in found) <= 3
            elif keep:
                # As by lookahead, which has no choice either.
                other = make_generator(family, [model], "lookahead", scale=8.0, keep_repeats=True)
                expected = [best[0]["tokens"].tolist() for best in other.generate([model], sample)]
                assert [best[0]["tokens"].tolist() for best in found] == expected


@pytest.mark.parametrize("reach, probability", [(1, 0.1), (2, 0.3), (16, 0.1), (16, 0.3)])
def test_a_model_that_writes_one_word_everywhere(family, reach, probability):
    """What a training of few updates may do: no link leads to another word but through many
    repeats, which are improbable together."""
    model = family.dag(max_transition_length=reach, max_target_positions=512).float()
    sample = family.sample([24, 12])
    write_one_word(model, probability)
    for strategy in ("lookahead", "viterbi", "joint-viterbi"):
        # The others have no use for it.
        for beta in (0.0, 0.9, 40.0) if strategy == "lookahead" else (1.0,):
            generator = make_generator(family, [model], strategy, scale=8.0, decode_beta=beta)
            found = generator.generate([model], sample)
            assert [best[0]["tokens"].tolist() for best in found] == [[7, 2], [7, 2]]
            # One of at least 192 / reach vertices after the other, each with this word.
            for best, vertices in zip(found, (192, 96)):
                assert (
                    -math.inf
                    < 2 * best[0]["score"]
                    < (vertices / reach - 2) * math.log(probability)
                )
            alone = generator.generate([model], family.sample([24]))
            assert float(alone[0][0]["score"]) == pytest.approx(
                float(found[0][0]["score"]), rel=1e-5
            )


def test_two_vertices(family):
    """The smallest graph has nothing between <s> and </s>."""
    model = family.dag()
    for strategy in STRATEGIES:
        generator = make_generator(family, [model], strategy, scale=0.1)
        best = generator.generate([model], family.sample([3, 2]))
        assert [hypotheses[0]["tokens"].tolist() for hypotheses in best] == [[2], [2]]


def test_steps_and_history(family):
    model, sample = family.dag(), family.sample([5, 3])
    generator = make_generator(family, [model], "lookahead", options=dict(retain_iter_history=True))
    steps = []
    generator.step_hooks.append(steps.append)
    best = generator.generate([model], sample)
    assert len(steps) == 1 and steps[0].stage == "lookahead" and steps[0].number == 1
    for row, hypotheses in enumerate(best):
        count = len(hypotheses[0]["tokens"])
        assert steps[0].tokens[row, :count].tolist() == hypotheses[0]["tokens"].tolist()
        assert (steps[0].tokens[row, count:] == 1).all()
        assert hypotheses[0]["steps"] == 1 and set(hypotheses[0]["token_steps"].tolist()) == {1}
        assert [entry["tokens"].tolist() for entry in hypotheses[0]["history"]] == [
            hypotheses[0]["tokens"].tolist()
        ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_broken_weights_are_named(family, strategy):
    model = family.dag()
    with torch.no_grad():
        model.decoder.links.query.weight[0, 0] = math.nan
    generator = make_generator(family, [model], strategy)
    with pytest.raises((NumericalError, ValueError), match="NaN"):
        generator.generate([model], family.sample([5, 3]))


@pytest.mark.parametrize("strategy, options, config, named", [
    ("greedy", {}, dict(lm_path="missing"), "missing"),
    ("beam", dict(unkpen=math.nan), {}, "--unkpen nan"),
    ("beam", dict(unkpen=-math.inf), dict(allow_unk=True), "--unkpen -inf"),
])  # fmt: skip
def test_options_that_do_not_fit(family, strategy, options, config, named, kenlm):
    with pytest.raises((ValueError, OSError), match=named):
        make_generator(family, [family.dag()], strategy, options=options, **config)


@pytest.mark.parametrize("name, value, beside, in_vain", [
    ("dag_decode_beta", 0.1, "lookahead", "viterbi"),
    ("dag_decode_beta", 0.1, "beam", "joint-viterbi"),
    ("dag_decode_length_beta", 20.0, "viterbi", "lookahead"),
    ("dag_decode_length_beta", 20.0, "joint-viterbi", "greedy"),
    ("dag_candidates", 1, "sample", "lookahead"), ("dag_sample_topp", 0.05, "sample", "lookahead"),
    ("dag_no_repeat_consecutive", 1, "lookahead", None),
])  # fmt: skip
def test_an_option_changes_what_is_decoded_where_its_condition_holds(
    family, name, value, beside, in_vain
):
    models, sample = [family.dag(seed=3)], family.sample([12, 11, 10, 9, 8, 7, 6, 5], seed=4)

    def decoded(strategy, **more):
        # The vertices of a model without a training mostly write one word.
        config = {"keep_repeats": True, **{key[len("dag_") :]: own for key, own in more.items()}}
        found = make_generator(family, models, strategy, options=dict(beam=4), **config).generate(
            models, sample
        )
        return [
            [(h["tokens"].tolist(), round(float(h["score"]), 9)) for h in best] for best in found
        ]

    def has_effect(strategy):
        return SCHEMA[name].when.holds({
            "dag_no_repeat_consecutive": 0, "no_repeat_ngram_size": 0,
            "dag_decode_strategy": strategy,
        })  # fmt: skip

    assert decoded(beside) != decoded(beside, **{name: value}) and has_effect(beside)
    if in_vain is not None:
        assert decoded(in_vain) == decoded(in_vain, **{name: value}) and not has_effect(in_vain)


def test_a_graph_has_no_prefix(family):
    model = family.dag()
    generator = make_generator(family, [model], "greedy")
    with pytest.raises(ValueError, match="--prefix-size"):
        generator.generate([model], family.sample([3]), prefix_tokens=torch.tensor([[5]]))
    with pytest.raises(
        ValueError, match="--forced-start w1: a graph cannot begin with given words; leave it out"
    ):
        make_generator(family, [model], "greedy", options=dict(forced_start="w1"))


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_beam_with_a_language_model(family, graphs, kenlm, weight):
    model, sample = family.dag(symbols=3, seed=5), family.sample([3], symbols=3, seed=1)
    generator = make_generator(
        family,
        [model],
        "beam",
        options=dict(beam=500, nbest=4),
        symbols=3,
        keep_repeats=True,
        lm_path="lm",
        lm_weight=weight,
    )
    texts = Truth(model, sample, 0, 6).texts(graphs, limit=10)
    texts.pop((2,))
    dictionary, stub = family.dictionary(3), kenlm.Model("lm")

    def rank(text):
        words = ["<s>", *(dictionary[token] for token in text[:-1]), "</s>"]
        bigrams = sum(stub.scores[pair] for pair in zip(words, words[1:]))
        return (math.log(texts[text]) + weight * math.log(10) * bigrams) / len(text)

    expected = sorted(texts, key=rank, reverse=True)[:4]
    best = generator.generate([model], sample)[0]
    assert [tuple(found["tokens"].tolist()) for found in best] == expected
    assert [float(found["score"]) for found in best] == pytest.approx(
        [rank(text) for text in expected], abs=1e-5
    )


@pytest.mark.parametrize("keep_repeats", [True, False])
@pytest.mark.parametrize("strategy", ["greedy", "lookahead", "beam"])
def test_how_probable_translations_are(family, graphs, strategy, keep_repeats):
    """Enumerated. What is printed does not matter: each word of the path counts."""
    model, sample = family.dag(symbols=2, seed=5), family.sample([3, 2, 3], symbols=2, seed=1)
    generator = make_generator(
        family, [model], strategy, symbols=2, keep_repeats=keep_repeats, options=dict(beam=300)
    )
    scores = score_translations(generator, sample)
    keeping = make_generator(
        family, [model], strategy, symbols=2, keep_repeats=True, options=dict(beam=300)
    )
    for row, (found, own, length) in enumerate(
        zip(scores, keeping.generate([model], sample), [3, 2, 3])
    ):
        truth, tokens = Truth(model, sample, row, 2 * length), own[0]["tokens"].tolist()
        paths = [path for path in graphs.paths(truth.size) if len(path) == len(tokens) + 1]
        words = [
            sum(truth.ends)
            + sum(float(truth.log_probs[v, token]) for v, token in zip(path[1:-1], tokens))
            for path in paths
        ]
        links = [graphs.score(truth.links, path) for path in paths]
        if strategy == "beam":
            chosen = max(range(len(paths)), key=lambda number: words[number] + links[number])
        else:
            chosen = paths.index(tuple(truth.greedy(truth.links, float(strategy == "lookahead"))))
        assert found.path_log_prob == pytest.approx(links[chosen], abs=1e-5)
        assert found.token_log_prob == pytest.approx(words[chosen], abs=1e-5)
        total = truth.texts(graphs, limit=10)[tuple(tokens)]
        assert found.log_likelihood == pytest.approx(math.log(total), abs=1e-5)
    assert (
        len(scores) == 3
        and not generator.graph_hooks
        and generator.options.dag_keep_repeats == keep_repeats
    )


@pytest.mark.parametrize("strategy", ["beam", "sample"])
def test_hooks_and_scores_are_of_what_another_model_chose(tiny, family, strategy):
    models, other = [family.dag(seed=4)], tiny.lively(seed=2)
    sample = tiny.sample([4, 6, 3])

    def chosen(*rescoring):
        generator = make_generator(tiny, models, strategy, options=dict(beam=5))
        if rescoring:
            judge = ModelScorer(rescoring, tiny.dictionary(), generator.counters, like=models[0])
            generator.rank_by(Rescorer(judge))
        steps, seen = [], []
        generator.graph_hooks.append(
            lambda graphs, found: seen.extend(best[0].tokens for best in found)
        )
        with generator.watched(steps.append):
            written = [best[0]["tokens"].tolist() for best in generator.generate(models, sample)]
        assert seen == written
        assert [
            [token for token in row if token != 1] for row in steps[0].tokens.tolist()
        ] == written
        return written, score_translations(generator, sample)

    (first, own), (second, scores) = chosen(), chosen(other)
    assert first != second and own != scores


def room_for(generator, links, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("fairseq_hrt.dag.generator.MOST_LINKS", links)
        return generator.graphs_at_once(6)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("base", ["source", "predict"])
def test_large_batches_are_decoded_in_pieces(family, strategy, base, monkeypatch):
    """As many graphs together as links fit; the translations are those of the whole batch."""
    model = family.dag(upsample_base=base)
    sample = family.sample([5, 3, 6, 2, 4], symbols=12)
    generator = make_generator(family, [model], strategy, options=dict(unkpen=math.inf))
    sizes, build = [], DagGenerator.build_graphs

    def watched(self, memories):
        sizes.append(memories[0].lengths.numel())
        return build(self, memories)

    monkeypatch.setattr(DagGenerator, "build_graphs", watched)
    expected = [best[0].tokens for best in generator.find(sample)]
    # Room for two graphs of the widest source.
    module = "fairseq_hrt.dag.generator.MOST_LINKS"
    room = bisect_left(range(10**6), 2, key=lambda most: room_for(generator, most, monkeypatch))
    monkeypatch.setattr(module, room)
    assert [best[0].tokens for best in generator.find(sample)] == expected
    assert sizes == [5, 2, 2, 1]
    monkeypatch.setattr(module, 1)
    assert [best[0].tokens for best in generator.find(sample)] == expected
    assert sizes[4:] == [1] * 5
