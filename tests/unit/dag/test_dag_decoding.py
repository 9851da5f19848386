"""Every decoder against a plain Python one over the module's own forward pass, and against itself in other batches."""

import itertools
import math
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.common.options import DecodingOptions
from fairseq_hrt.common.search import NumericalError
from fairseq_hrt.dag.beam import BeamPlan, prefix_beam
from fairseq_hrt.dag.config import DagTaskConfig
from fairseq_hrt.dag.generator import DagGenerator
from fairseq_hrt.dag.paths import WalkRules, best_successors, follow, sentence_keys, walk
from fairseq_hrt.ops import dag_log_likelihood

STRATEGIES = ["greedy", "lookahead", "viterbi", "joint-viterbi", "beam", "sample"]


def make_generator(tiny, models, strategy, *, options=None, scale=2.0, symbols=12, **config):
    settings = DagTaskConfig(dag_decode_strategy=strategy, **{f"dag_{name}": value for name, value in config.items()})
    settings.seed = 1
    return DagGenerator(
        models, tiny.dictionary(symbols), DecodingOptions(**(options or {})), config=settings, scale=scale
    )


class Truth:
    """One sentence's graph from the training code, as lists of numbers."""

    def __init__(self, model, sample, row, vertices, *, penalties=None):
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
        self.log_probs[:, :3] = -math.inf
        for token, penalty in (penalties or {}).items():
            self.log_probs[:, token] -= penalty
        self.size = vertices
        self.best, self.tokens = (part.tolist() for part in self.log_probs.max(1))
        self.best[0], self.best[-1] = self.ends
        self.tokens[0], self.tokens[-1] = 0, 2

    def greedy(self, beta):
        path = [0]
        while path[-1] != self.size - 1:
            u = path[-1]
            path.append(max(range(u + 1, self.size), key=lambda v: float(self.links[u, v]) + beta * self.best[v]))
        return path

    def viterbi(self, graphs, joint, beta, limit):
        scored = defaultdict(lambda: (-math.inf, None))
        for path in graphs.paths(self.size):
            interior = len(path) - 2
            if 1 <= interior <= limit:
                total = graphs.score(self.links, path) + (sum(self.best[v] for v in path[:-1]) if joint else 0)
                scored[interior] = max(scored[interior], (total, path))
        return list(max(scored.items(), key=lambda entry: entry[1][0] / entry[0] ** beta)[1][1])

    def score(self, path):
        return sum(float(self.links[u, v]) for u, v in zip(path, path[1:])) + sum(self.best[v] for v in path)

    def texts(self, graphs, limit):
        """Probability of every text of up to ``limit`` words."""
        found = Counter()
        words = [token for token in range(self.log_probs.size(1)) if token > 2]
        for path in graphs.paths(self.size):
            if len(path) - 2 > limit:
                continue
            base = graphs.score(self.links, path) + sum(self.ends)
            for text in itertools.product(words, repeat=len(path) - 2):
                more = sum(float(self.log_probs[v, token]) for v, token in zip(path[1:-1], text))
                found[(*text, 2)] += math.exp(base + more)
        return found


def collapse(path, tokens):
    kept = []
    for place in range(1, len(tokens)):
        if place + 1 == len(tokens) or not kept or tokens[place] != tokens[kept[-1]]:
            kept.append(place)
    return [tokens[place] for place in kept], [path[place] for place in kept]


@pytest.mark.parametrize("beta", [1.0, 0.4])
@pytest.mark.parametrize("strategy", ["greedy", "lookahead"])
@pytest.mark.parametrize("features", ["feature:position", "sinposition:feature"])
def test_walks_equal_a_loop(room, strategy, beta, features):
    model, sample = room.dag(link_features=features), room.sample([5, 3, 7], seed=4)
    generator = make_generator(room, [model], strategy, decode_beta=beta)
    for row, (best, length) in enumerate(zip(generator.generate([model], sample), [5, 3, 7])):
        truth = Truth(model, sample, row, 2 * length)
        path = truth.greedy(0.0 if strategy == "greedy" else beta)
        tokens, vertices = collapse(path, [truth.tokens[v] for v in path])
        assert best[0]["tokens"].tolist() == tokens
        assert best[0]["token_vertices"].tolist() == vertices
        assert float(best[0]["positional_scores"].sum()) == pytest.approx(truth.score(path), abs=1e-5)
        assert float(best[0]["score"]) == pytest.approx(truth.score(path) / len(tokens), abs=1e-5)
    assert generator.counters.decoder_calls == 1 and generator.counters.decoder_tokens == 3 * 14


@pytest.mark.parametrize("beta", [1.0, 0.2])
@pytest.mark.parametrize("strategy", ["viterbi", "joint-viterbi"])
def test_viterbi_equals_enumeration(room, graphs, strategy, beta):
    model, sample = room.dag(seed=2), room.sample([5, 3, 4], seed=5)
    generator = make_generator(room, [model], strategy, decode_length_beta=beta, keep_repeats=True)
    lengths = set()
    for row, (best, length) in enumerate(zip(generator.generate([model], sample), [5, 3, 4])):
        truth = Truth(model, sample, row, 2 * length)
        path = truth.viterbi(graphs, strategy == "joint-viterbi", beta, limit=2 * length)
        assert best[0]["token_vertices"].tolist() == path[1:]
        assert best[0]["tokens"].tolist() == [truth.tokens[v] for v in path[1:]]
        lengths.add(len(path))
    limited = make_generator(room, [model], strategy, options=dict(max_len_b=1), keep_repeats=True)
    assert all(len(best[0]["tokens"]) == 2 for best in limited.generate([model], sample))


@pytest.mark.parametrize("lenpen", [1.0, 0.0, 2.0])
def test_beam_finds_the_most_probable_texts(room, graphs, lenpen):
    model, sample = room.dag(symbols=3, seed=5), room.sample([3, 2], symbols=3, seed=1)
    options = dict(beam=400, nbest=8, lenpen=lenpen)
    generator = make_generator(room, [model], "beam", options=options, symbols=3, keep_repeats=True)
    for row, (best, length) in enumerate(zip(generator.generate([model], sample), [3, 2])):
        truth = Truth(model, sample, row, 2 * length)
        texts = truth.texts(graphs, limit=10)
        texts.pop((2,), None)
        expected = sorted(texts, key=lambda text: -math.log(texts[text]) / len(text) ** lenpen)[:8]
        for found, text in zip(best, expected):
            assert tuple(found["tokens"].tolist()) == text
            assert float(found["score"]) == pytest.approx(math.log(texts[text]) / len(text) ** lenpen, abs=1e-5)
            assert float(found["positional_scores"].sum()) == pytest.approx(math.log(texts[text]), abs=1e-4)


def test_scores_of_a_narrow_beam_are_likelihoods(room):
    """Whatever is pruned, a text that comes through has the sum over all of its paths."""
    torch.manual_seed(0)
    links = torch.randn(2, 9, 9, dtype=torch.double).triu(1).masked_fill(torch.ones(9, 9).tril().bool(), -math.inf)
    links = torch.log_softmax(links, 2).nan_to_num(nan=-math.inf)
    log_probs = torch.log_softmax(3 * torch.randn(2, 9, 7, dtype=torch.double), 2)
    ends = log_probs[:, :2, 0]
    plan = BeamPlan(beam=3, nbest=3, lenpen=1.0, limits=torch.tensor([9, 9]), shortest=1, eos=2)
    texts = prefix_beam(links, log_probs, ends, torch.tensor([8, 8]), plan)
    for row, number in itertools.product(range(2), range(3)):
        words = [token for token in texts.tokens[row, number].tolist() if token >= 0][:-1]
        match = torch.full((1, len(words) + 2, 9), -math.inf, dtype=torch.double)
        match[0, 1:-1] = log_probs[row, :, words].t()
        match[0, 1:-1, 0] = match[0, 1:-1, -1] = -math.inf
        match[0, 0, 0], match[0, -1, -1] = ends[row]
        truth = dag_log_likelihood(match, links[row : row + 1], torch.tensor([len(words) + 2]), torch.tensor([9]))
        assert float(texts.log_probs[row, number]) == pytest.approx(float(truth), abs=1e-9)


@given(
    consecutive=st.integers(0, 3), anywhere=st.integers(0, 3), candidates=st.integers(1, 6), seed=st.integers(0, 10**6)
)
@settings(max_examples=60, deadline=None)
def test_repeat_suppression_equals_a_loop(graphs, consecutive, anywhere, candidates, seed):
    lengths = [12, 7]
    links = graphs.links(2, 12, lengths, seed=seed, spread=1.5)
    # Short steps, so that sentences are long enough for repetitions.
    vertex = torch.arange(12)
    links = torch.log_softmax(links - 1.5 * (vertex - vertex.unsqueeze(1)), 2).nan_to_num(nan=-math.inf)
    # Two words only: repetitions everywhere.
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.log_softmax(torch.randn(2, 12, 5, generator=generator, dtype=torch.double), 2)
    log_probs[:, :, :3] = -math.inf
    rules = WalkRules(beta=0.7, candidates=candidates, consecutive=consecutive, anywhere=anywhere)
    last = torch.tensor(lengths) - 1
    vertices, tokens = walk(links, log_probs, last, rules, eos=2, keys=torch.tensor([1, 2]))
    for row, end in enumerate(last.tolist()):
        path, words = [0], []
        while path[-1] != end:
            pairs = []
            for v in range(path[-1] + 1, end + 1):
                own = [(0.0, 2)] if v == end else sorted(
                    ((0.7 * float(log_probs[row, v, y]), y) for y in range(5)), reverse=True)[:candidates]  # fmt: skip
                pairs += [(float(links[row, path[-1], v]) + score, v, y) for score, y in own if score > -math.inf]
            pairs.sort(reverse=True)
            fine = [pair for pair in pairs[:candidates] if pair[2] == 2 or allowed(words + [pair[2]], consecutive, anywhere)]
            _, v, y = (fine or pairs)[0]
            path.append(v)
            words.append(y)
        assert [v for v in vertices[row].tolist() if v >= 0] == path[1:]
        assert [y for y in tokens[row].tolist() if y >= 0] == words


def allowed(words, consecutive, anywhere):
    for size in range(1, consecutive + 1):
        if len(words) >= 2 * size and words[-size:] == words[-2 * size : -size]:
            return False
    grams = [tuple(words[i : i + anywhere]) for i in range(len(words) - anywhere + 1)] if anywhere else []
    # Where every candidate was forbidden an older repetition is there already.
    return not grams or grams[-1] not in grams[:-1]


def test_the_rules_reach_the_translation(room):
    model, sample = room.dag(seed=4), room.sample([9, 6], seed=3)
    plain = make_generator(room, [model], "lookahead", scale=4.0, keep_repeats=True)
    repeated = [
        sum(a == b for a, b in zip(best[0]["tokens"].tolist(), best[0]["tokens"].tolist()[1:]))
        for best in plain.generate([model], sample)
    ]
    assert sum(repeated) > 0
    strict = make_generator(room, [model], "lookahead", scale=4.0, keep_repeats=True, no_repeat_consecutive=2, candidates=20)
    for best in strict.generate([model], sample):
        words = best[0]["tokens"].tolist()
        assert all(allowed(words[:end], 2, 0) for end in range(1, len(words)))
    unique = make_generator(
        room, [model], "lookahead", scale=4.0, options=dict(no_repeat_ngram_size=1), keep_repeats=True, candidates=40
    )
    for best in unique.generate([model], sample):
        assert len(set(best[0]["tokens"].tolist())) == len(best[0]["tokens"])


def test_samples_have_the_probabilities_of_the_graph(graphs):
    links = graphs.links(1, 4, [4], seed=3).expand(4000, 4, 4)
    log_probs = torch.log_softmax(torch.randn(1, 4, 5, dtype=torch.double), 2)
    log_probs[:, :, :3] = -math.inf
    log_probs = torch.log_softmax(log_probs, 2).expand(4000, 4, 5)
    rules = WalkRules(beta=1.0, candidates=20, temperature=1.0)
    vertices, tokens = walk(
        links.clone(), log_probs.clone(), torch.full((4000,), 3), rules, eos=2, keys=torch.arange(4000)
    )
    counts = Counter(zip(map(tuple, vertices.tolist()), map(tuple, tokens.tolist())))
    for (path, words), count in counts.items():
        path = [0, *(v for v in path if v >= 0)]
        expected = math.exp(
            graphs.score(links[0], path) + sum(float(log_probs[0, v, y]) for v, y in zip(path[1:-1], words))
        )
        assert count / 4000 == pytest.approx(expected, abs=4 * math.sqrt(expected / 4000) + 1e-3)
    narrow = WalkRules(beta=1.0, candidates=20, temperature=1.0, top_p=1e-9)
    best, _ = walk(links.clone(), log_probs.clone(), torch.full((4000,), 3), narrow, eos=2, keys=torch.arange(4000))
    assert (best == best[0]).all()


def test_samples_are_drawn_anew_for_each_number_and_seed(room):
    model, sample = room.dag(seed=4), room.sample([9], seed=3)
    generator = make_generator(room, [model], "sample", options=dict(nbest=5), scale=4.0, candidates=20)
    first = generator.generate([model], sample)[0]
    assert len({tuple(best["tokens"].tolist()) for best in first}) > 1
    assert [float(best["score"]) for best in first] == sorted((float(best["score"]) for best in first), reverse=True)
    again = generator.generate([model], sample)[0]
    assert [best["tokens"].tolist() for best in again] == [best["tokens"].tolist() for best in first]
    tokens = torch.tensor([[1, 5, 6, 2]])
    assert sentence_keys(tokens, 1, 0) == sentence_keys(torch.tensor([[5, 6, 2, 1, 1]]), 1, 0)
    keys = [int(sentence_keys(t, 1, n)) for t in (tokens, torch.tensor([[6, 5, 2]])) for n in (0, 1)]
    assert len(set(keys)) == 4


CASES = [(strategy, {}, {}) for strategy in STRATEGIES] + [
    ("lookahead", dict(no_repeat_ngram_size=2), {}),
    ("beam", dict(nbest=3, beam=4), {}),
    ("sample", dict(nbest=2), dict(no_repeat_consecutive=1)),
    ("joint-viterbi", {}, dict(decode_length_beta=0.1)),
]


@pytest.mark.parametrize("strategy, options, config", CASES)
@pytest.mark.parametrize("base", ["source", "predict"])
def test_a_sentence_is_decoded_the_same_in_any_batch(room, strategy, options, config, base):
    model = room.dag(upsample_base=base, seed=6, length_classes=8)
    generator = make_generator(room, [model], strategy, options=options, scale=2.5, **config)
    sample = room.sample([9, 2, 6, 1], seed=8)
    together = generator.generate([model], sample)
    for row, length in enumerate([9, 2, 6, 1]):
        source = sample["net_input"]["src_tokens"][row : row + 1, 9 - length :]
        alone = generator.generate(
            [model], {"net_input": {"src_tokens": source, "src_lengths": torch.tensor([length])}}
        )[0]
        assert [best["tokens"].tolist() for best in alone] == [best["tokens"].tolist() for best in together[row]]
        for mine, other in zip(alone, together[row]):
            torch.testing.assert_close(mine["positional_scores"], other["positional_scores"], rtol=0, atol=1e-6)
            assert mine["token_vertices"].tolist() == other["token_vertices"].tolist()


def test_the_length_head_sizes_the_graph(room):
    model, sample = room.dag(upsample_base="predict", length_classes=10, seed=3), room.sample([4, 6])
    source = sample["net_input"]
    out = model.encoder(source["src_tokens"], src_lengths=source["src_lengths"])
    logits = model.decoder.length_head(out["encoder_out"][0].transpose(0, 1), out["encoder_padding_mask"][0])
    words = (logits.argmax(1) - 5 + torch.tensor([4, 6])).clamp(min=1)
    seen = []
    generator = make_generator(room, [model], "greedy", scale=3.0)
    generator.graph_hooks.append(lambda graphs, found: seen.append(graphs.lengths.tolist()))
    generator.generate([model], sample)
    assert seen == [(3 * words + 2).tolist()]


def test_an_ensemble_averages_probabilities(room):
    models, sample = [room.dag(seed=1), room.dag(seed=2)], room.sample([5, 4])
    graphs = []
    for chosen in ([models[0]], [models[1]], models):
        generator = make_generator(room, chosen, "lookahead")
        generator.graph_hooks.append(lambda graph, found: graphs.append((graph.links.exp(), graph.log_probs().exp())))
        generator.generate(chosen, sample)
    for first, second, both in zip(*graphs):
        torch.testing.assert_close(both, (first + second) / 2)
    for strategy in STRATEGIES:
        assert make_generator(room, models, strategy).generate(models, sample)
    twice = make_generator(room, [models[0], models[0]], "joint-viterbi").generate(models, sample)
    once = make_generator(room, models[:1], "joint-viterbi").generate(models, sample)
    assert [best[0]["tokens"].tolist() for best in twice] == [best[0]["tokens"].tolist() for best in once]


def test_penalised_unknown_words(room):
    model, sample = room.dag(seed=3), room.sample([8, 5])
    plain = make_generator(room, [model], "lookahead", scale=4.0).generate([model], sample)
    with torch.no_grad():
        # What the model likes best becomes the unknown word.
        favourite = int(plain[0][0]["tokens"][0])
        model.decoder.output_projection.weight[[3, favourite]] = model.decoder.output_projection.weight[[favourite, 3]]
    plain = make_generator(room, [model], "lookahead", scale=4.0).generate([model], sample)
    assert any(3 in best[0]["tokens"] for best in plain)
    for strategy in STRATEGIES:
        never = make_generator(room, [model], strategy, scale=4.0, options=dict(unkpen=1e9))
        assert not any(3 in best[0]["tokens"] for best in never.generate([model], sample))


def test_long_translations_are_cut(room):
    model, sample = room.dag(seed=4), room.sample([9, 6], seed=3)
    for strategy in STRATEGIES:
        generator = make_generator(room, [model], strategy, scale=4.0, options=dict(max_len_b=3))
        for best in generator.generate([model], sample):
            assert len(best[0]["tokens"]) <= 4 and best[0]["tokens"][-1] == 2


def test_beam_without_a_short_enough_path(room):
    """With links to the next vertex only, every path has all vertices."""
    model, sample = room.dag(max_transition_length=1), room.sample([5, 3])
    generator = make_generator(room, [model], "beam", options=dict(max_len_b=2), keep_repeats=True)
    assert [len(best[0]["tokens"]) for best in generator.generate([model], sample)] == [3, 3]
    generator = make_generator(room, [model], "beam", options=dict(min_len=50), keep_repeats=True)
    assert [len(best[0]["tokens"]) for best in generator.generate([model], sample)] == [9, 5]


def test_two_vertices(room):
    """The smallest graph has nothing between <s> and </s>."""
    model = room.dag()
    for strategy in STRATEGIES:
        generator = make_generator(room, [model], strategy, scale=0.1)
        best = generator.generate([model], room.sample([3, 2]))
        assert [hypotheses[0]["tokens"].tolist() for hypotheses in best] == [[2], [2]]


def test_steps_and_history(room):
    model, sample = room.dag(), room.sample([5, 3])
    generator = make_generator(room, [model], "lookahead", options=dict(retain_history=True))
    steps = []
    generator.step_hooks.append(steps.append)
    best = generator.generate([model], sample)
    assert len(steps) == 1 and steps[0].stage == "lookahead" and steps[0].number == 1
    for row, hypotheses in enumerate(best):
        count = len(hypotheses[0]["tokens"])
        assert steps[0].tokens[row, :count].tolist() == hypotheses[0]["tokens"].tolist()
        assert (steps[0].tokens[row, count:] == 1).all()
        assert hypotheses[0]["steps"] == 1 and set(hypotheses[0]["token_steps"].tolist()) == {1}
        assert [entry["tokens"].tolist() for entry in hypotheses[0]["history"]] == [hypotheses[0]["tokens"].tolist()]


@given(st.lists(st.integers(2, 40), min_size=1, max_size=4), st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_follow(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    size = max(lengths)
    successors = torch.zeros(len(lengths), size, dtype=torch.long)
    expected = torch.zeros(len(lengths), size, dtype=torch.bool)
    for row, length in enumerate(lengths):
        for u in range(length - 1):
            successors[row, u] = torch.randint(u + 1, min(u + 4, length), (1,), generator=generator)
        vertex = 0
        expected[row, 0] = True
        while vertex != length - 1:
            vertex = int(successors[row, vertex])
            expected[row, vertex] = True
    assert torch.equal(follow(successors, torch.tensor(lengths) - 1), expected)


def test_successors():
    links = torch.tensor([[[-math.inf, -1.0, -2.0], [-math.inf, -math.inf, 0.0], [-math.inf] * 3]])
    scores = torch.tensor([[0.0, -3.0, -0.5]])
    assert best_successors(links)[0, :2].tolist() == [1, 2]
    assert [int(best_successors(links, scores, beta)[0, 0]) for beta in (1.0, 0.3)] == [2, 1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_broken_weights_are_named(room, strategy):
    model = room.dag()
    with torch.no_grad():
        model.decoder.links.query.weight[0, 0] = math.nan
    generator = make_generator(room, [model], strategy)
    with pytest.raises((NumericalError, ValueError), match="NaN"):
        generator.generate([model], room.sample([5, 3]))


def test_nan_links_never_loop():
    links = torch.full((1, 4, 4), math.nan)
    with pytest.raises(NumericalError, match="NaN"):
        follow(best_successors(links), torch.tensor([3]))


@pytest.mark.parametrize(
    "strategy, options, config, named",
    [
        ("greedy", dict(nbest=2), {}, "--nbest 2"),
        ("lookahead", dict(temperature=0.5), {}, "--temperature 0.5"),
        ("joint-viterbi", dict(no_repeat_ngram_size=2), {}, "--no-repeat-ngram-size"),
        ("beam", {}, dict(no_repeat_consecutive=2), "--dag-no-repeat-consecutive"),
        ("greedy", dict(min_len=3), {}, "--min-len 3"),
        ("greedy", {}, dict(lm_path="lm.arpa"), "--dag-lm-path"),
        ("sample", {}, dict(sample_topp=0.0), "--dag-sample-topp 0.0"),
        ("sample", {}, dict(candidates=0), "--dag-candidates 0"),
        ("lookahead", {}, dict(no_repeat_consecutive=-1), "--dag-no-repeat-consecutive -1"),
    ],
)
def test_options_that_do_not_fit(room, strategy, options, config, named):
    with pytest.raises(ValueError, match=named):
        make_generator(room, [room.dag()], strategy, options=options, **config)


def test_a_graph_has_no_prefix(room):
    model = room.dag()
    generator = make_generator(room, [model], "greedy")
    with pytest.raises(ValueError, match="--prefix-size"):
        generator.generate([model], room.sample([3]), prefix_tokens=torch.tensor([[5]]))


class StubLanguageModel:
    """A bigram model with kenlm's interface."""

    def __init__(self, path):
        if path == "missing":
            raise OSError("cannot read missing")
        self.scores = defaultdict(float, {("<s>", "w0"): -3.0, ("w1", "w2"): -5.0, ("w2", "</s>"): -1.0})

    def BeginSentenceWrite(self, state):
        state.word = "<s>"

    def BaseScore(self, state, word, following):
        following.word = word
        return self.scores[state.word, word]


@pytest.fixture
def kenlm(monkeypatch):
    import sys

    module = SimpleNamespace(Model=StubLanguageModel, State=type("State", (), {}))
    monkeypatch.setitem(sys.modules, "kenlm", module)


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_beam_with_a_language_model(room, graphs, kenlm, weight):
    model, sample = room.dag(symbols=3, seed=5), room.sample([3], symbols=3, seed=1)
    generator = make_generator(
        room, [model], "beam", options=dict(beam=500, nbest=4), symbols=3, keep_repeats=True, lm_path="lm", lm_weight=weight
    )
    texts = Truth(model, sample, 0, 6).texts(graphs, limit=10)
    texts.pop((2,))
    dictionary, stub = room.dictionary(3), StubLanguageModel("lm")

    def rank(text):
        words = ["<s>", *(dictionary[token] for token in text[:-1]), "</s>"]
        bigrams = sum(stub.scores[pair] for pair in zip(words, words[1:]))
        return (math.log(texts[text]) + weight * math.log(10) * bigrams) / len(text)

    expected = sorted(texts, key=rank, reverse=True)[:4]
    best = generator.generate([model], sample)[0]
    assert [tuple(found["tokens"].tolist()) for found in best] == expected
    assert [float(found["score"]) for found in best] == pytest.approx([rank(text) for text in expected], abs=1e-5)


def test_missing_language_models(room, kenlm, monkeypatch):
    with pytest.raises(ValueError, match="--dag-lm-path missing: cannot read"):
        make_generator(room, [room.dag()], "beam", lm_path="missing")
    monkeypatch.setitem(__import__("sys").modules, "kenlm", None)
    with pytest.raises(ValueError, match="pip install kenlm"):
        make_generator(room, [room.dag()], "beam", lm_path="lm")
