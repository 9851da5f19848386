"""Prefix beam search against all texts of small graphs, by all their paths."""

import itertools
import math
from collections import defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.dag.beam import (
    BeamPlan,
    _Bonus,
    _collect,
    best_paths,
    prefix_beam,
)


@pytest.mark.parametrize("keep_repeats", [False, True])
def test_scores_of_a_narrow_beam_are_likelihoods(graphs, keep_repeats):
    """Whatever is pruned, a text that comes through has the sum over all of its paths."""
    torch.manual_seed(0)
    links = graphs.links(2, 9, [9, 9])
    log_probs = torch.log_softmax(3 * torch.randn(2, 9, 7, dtype=torch.double), 2)
    ends = log_probs[:, :2, 0]
    plan = BeamPlan(
        beam=3,
        nbest=3,
        lenpen=1.0,
        limits=torch.tensor([9, 9]),
        shortest=1,
        eos=2,
        keep_repeats=keep_repeats,
    )
    texts = prefix_beam(links, log_probs.exp(), ends, torch.tensor([8, 8]), plan)
    for row, number in itertools.product(range(2), range(3)):
        words = [token for token in texts.tokens[row, number].tolist() if token >= 0][:-1]
        total = 0.0
        for path in graphs.paths(9):
            # Every way to write the words with as many vertices.
            for counts in (
                compositions(len(path) - 2, len(words)) if not keep_repeats else [[1] * len(words)]
            ):
                text = [word for word, count in zip(words, counts) for _ in range(count)]
                if len(text) == len(path) - 2:
                    own = sum(float(log_probs[row, v, word]) for v, word in zip(path[1:-1], text))
                    total += math.exp(graphs.score(links[row], path) + own)
        expected = math.log(total) + float(ends[row].sum())
        assert float(texts.log_probs[row, number]) == pytest.approx(expected, abs=1e-9)


def compositions(total, parts):
    """All ways to write ``total`` as a sum of positive numbers."""
    if parts == 0:
        return [[]] if total == 0 else []
    return [
        [first, *rest]
        for first in range(1, total - parts + 2)
        for rest in compositions(total - first, parts - 1)
    ]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("keep_repeats", [False, True])
def test_the_best_path_of_a_text(graphs, keep_repeats, seed):
    """Among all its paths, with what each word costs: its vertices, its repeats, the links to
    them."""
    torch.manual_seed(seed)
    sizes, texts = [7, 5], [[3, 4], [4]]
    links = graphs.links(2, 7, sizes, seed=seed, spread=3.0)
    log_probs = torch.log_softmax(3 * torch.randn(2, 7, 6, dtype=torch.double), 2)
    ends = log_probs[:, :2, 0]
    found = best_paths(
        torch.tensor([[*texts[0], 2], [*texts[1], 2, -1]]),
        log_probs.exp(),
        ends,
        links,
        torch.tensor(sizes),
        keep_repeats=keep_repeats,
    )
    for row, words in enumerate(texts):
        best = (-math.inf, [], [])
        for path in graphs.paths(sizes[row]):
            inner = len(path) - 2
            for counts in (
                compositions(inner, len(words)) if not keep_repeats else [[1] * len(words)]
            ):
                # The word, counted from <s>, that each vertex of the path writes.
                places = [0]
                for number, count in enumerate(counts, start=1):
                    places += [number] * count
                places.append(len(words) + 1)
                if len(places) != len(path):
                    continue
                costs = [0.0] * (len(words) + 2)
                costs[0], costs[-1] = ends[row].tolist()
                for before, vertex, place in zip(path, path[1:], places[1:]):
                    costs[place] += float(links[row, before, vertex])
                    if place <= len(words):
                        costs[place] += float(log_probs[row, vertex, words[place - 1]])
                firsts = [path[places.index(place)] for place in range(len(costs))]
                best = max(best, (sum(costs), firsts, costs))
        vertices, scores = found[row]
        assert vertices == best[1] and scores == pytest.approx(best[2], abs=1e-9)


def test_a_row_without_text_has_no_path():
    links, ends = torch.zeros(1, 3, 3), torch.zeros(1, 2)
    without = best_paths(
        torch.full((1, 2), -1),
        torch.full((1, 3, 4), 0.25),
        ends,
        links,
        torch.tensor([3]),
        keep_repeats=False,
    )
    assert without == [None]


@pytest.mark.parametrize("beams, expected", [(1, [5]), (2, [6, 5])])
def test_the_language_model_is_asked_about_twice_the_beam(beams, expected):
    """It likes the later ones better; of one beam two are asked, of two beams four."""

    class Model:
        def start(self):
            return 0

        def step(self, state, token):
            return token, {4: -3.0, 5: 0.0, 6: 2.0}.get(token, 0.0)

    plan = BeamPlan(
        beam=beams,
        nbest=1,
        lenpen=1.0,
        limits=torch.tensor([9]),
        shortest=1,
        eos=2,
        language_model=Model(),
    )
    totals = torch.full((1, beams, 7), -9.0)
    totals[0, 0, 4:] = torch.tensor([0.0, -1.0, -2.0])
    totals[0, 1:] = -math.inf
    _, tokens = _Bonus(plan, 1).select(totals, beams)
    assert tokens[0].tolist() == expected


class Graph:
    """A graph of random links and words; every prefix and text with its probability, by writing out
    all paths and words."""

    def __init__(self, size, vocabulary, seed, *, keep_repeats=False, weight=1.0, spread=2.0):
        generator = torch.Generator().manual_seed(seed)
        self.links = torch.full((size, size), -math.inf, dtype=torch.double)
        for u in range(size - 1):
            self.links[u, u + 1 :] = torch.randn(
                size - 1 - u, generator=generator, dtype=torch.double
            ).log_softmax(0)
        words = spread * torch.randn(size, vocabulary, generator=generator, dtype=torch.double)
        self.emissions = (weight * words.log_softmax(1)).exp()
        self.ends = -torch.rand(2, generator=generator, dtype=torch.double)
        self.prefixes, self.texts = defaultdict(float), defaultdict(float)
        links, emissions, (first, last) = (
            self.links.exp().tolist(),
            self.emissions.tolist(),
            self.ends.exp().tolist(),
        )
        for count in range(size - 1):
            for path in itertools.combinations(range(1, size - 1), count):
                for written in itertools.product(range(vocabulary), repeat=count):
                    mass = first
                    for u, v, word in zip((0, *path), path, written):
                        mass *= links[u][v] * emissions[v][word]
                    text = (
                        written
                        if keep_repeats
                        else tuple(word for word, _ in itertools.groupby(written))
                    )
                    self.texts[text] += mass * links[(0, *path)[-1]][-1] * last
                    if keep_repeats or written[-1:] != written[-2:-1]:
                        # The last word begins where the path stands.
                        self.prefixes[text] += mass

    def search(self, *, beam, nbest, lenpen, limit, shortest):
        """[(rank, text, log-probability)], best first: the ``beam`` best prefixes of each length,
        nothing cut off before."""
        alive, found, vocabulary = [()], [], self.emissions.size(1)
        for count in range(min(limit, len(self.links) - 2) + 1):
            if count >= min(len(self.links) - 2, shortest):
                ended = [
                    (math.log(self.texts[text]), text) for text in alive if self.texts[text] > 0
                ]
                found += [(score / (count + 1) ** lenpen, text, score) for score, text in ended]
            longer = [(*text, word) for text in alive for word in range(vocabulary)]
            alive = sorted(
                (text for text in longer if text in self.prefixes),
                key=lambda text: -self.prefixes[text],
            )[:beam]
        return sorted(found, reverse=True)[:nbest]


END = 99


def batched(graphs):
    """(links, emissions, end scores, last vertices) of graphs of different sizes, padded."""
    size, vocabulary = max(len(graph.links) for graph in graphs), graphs[0].emissions.size(1)
    links = torch.full((len(graphs), size, size), -math.inf, dtype=torch.double)
    emissions = torch.rand(len(graphs), size, vocabulary, dtype=torch.double)
    for row, graph in enumerate(graphs):
        own = len(graph.links)
        links[row, :own, :own] = graph.links
        # The values at the ends are not read.
        emissions[row, 1 : own - 1] = graph.emissions[1:-1]
    last = torch.tensor([len(graph.links) - 1 for graph in graphs])
    return links, emissions, torch.stack([graph.ends for graph in graphs]), last


def plan(**settings):
    return BeamPlan(
        **{
            "shortest": 1,
            "eos": END,
            "beam": 1,
            "nbest": 1,
            "lenpen": 1.0,
            "limits": torch.tensor([9]),
            **settings,
        }
    )


def assert_found(graphs, limits, **settings):
    """All texts, log-probabilities and ranks are those of the written-out search."""
    keep_repeats, falls = settings.pop("keep_repeats", False), settings.pop("mass_only_falls", True)
    texts = prefix_beam(
        *batched(graphs),
        plan(
            limits=torch.tensor(limits),
            keep_repeats=keep_repeats,
            mass_only_falls=falls,
            **settings,
        ),
    )
    for row, (graph, limit) in enumerate(zip(graphs, limits)):
        expected = graph.search(limit=limit, **settings)
        found = [[word for word in text if word >= 0] for text in texts.tokens[row].tolist()]
        assert found[: len(expected)] == [[*text, END] for _, text, _ in expected]
        assert texts.log_probs[row].tolist()[: len(expected)] == pytest.approx(
            [score for *_, score in expected], abs=1e-9
        )
        assert texts.ranks[row].tolist()[: len(expected)] == pytest.approx(
            [rank for rank, *_ in expected], abs=1e-9
        )
        assert texts.log_probs[row, len(expected) :].tolist() == [-math.inf] * (
            settings["nbest"] - len(expected)
        )


@given(
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=2), vocabulary=st.integers(1, 3),
    beam=st.integers(1, 4), lenpen=st.sampled_from([1.0, 0.0, 0.5, 3.0, -0.5]),
    shortest=st.integers(0, 3), keep_repeats=st.booleans(),
    weight=st.sampled_from([1.0, 1.0, 0.3]), seed=st.integers(0, 10**6), data=st.data(),
)  # fmt: skip
@settings(max_examples=25)
def test_the_beam_keeps_the_most_probable_prefixes(
    sizes, vocabulary, beam, lenpen, shortest, keep_repeats, weight, seed, data
):
    """Of sentences with limits of their own; flattened probabilities may make a longer text more
    probable than its beginning."""
    graphs = [
        Graph(size, vocabulary, seed + n, keep_repeats=keep_repeats, weight=weight)
        for n, size in enumerate(sizes)
    ]
    limits = [data.draw(st.integers(0, 4)) for _ in sizes]
    assert_found(
        graphs, limits, beam=beam, nbest=data.draw(st.integers(1, beam)), lenpen=lenpen,
        shortest=shortest, keep_repeats=keep_repeats, mass_only_falls=weight == 1.0,
    )  # fmt: skip


@pytest.mark.parametrize("nbest", [1, 2, 3])
@pytest.mark.parametrize("lenpen", [0.0, 1.0, 3.0])
def test_nothing_is_cut_off_that_could_still_win(lenpen, nbest):
    """Long texts overtake short ones that were found before, the more the larger the exponent."""
    lengths = set()
    for seed in range(12):
        graph = Graph(6, 3, seed, spread=1.0)
        assert_found([graph], [4], beam=3, nbest=nbest, lenpen=lenpen, shortest=0)
        lengths |= {
            len(text)
            for _, text, _ in graph.search(limit=4, beam=3, nbest=nbest, lenpen=lenpen, shortest=0)
        }
    assert len(lengths) >= 2 and (max(lengths) == 4) == (lenpen == 3.0)


@pytest.fixture
def rounds(monkeypatch):
    """How many words the prefixes had that were searched, one entry for each length."""
    seen = []

    def collect(texts, words, *rest):
        seen.append(words.size(2))
        _collect(texts, words, *rest)

    monkeypatch.setattr("fairseq_hrt.dag.beam._collect", collect)
    return seen


def chain(*leave):
    """Links of nine vertices to the next one, and with these probabilities to the last; each vertex
    writes a word of its own for sure."""
    links = torch.full((1, 9, 9), -math.inf, dtype=torch.double)
    for u, share in enumerate(leave):
        links[0, u, [u + 1, 8]] = torch.tensor([1 - share, share], dtype=torch.double).log()
    links[0, len(leave), -1] = 0.0
    return (
        links,
        torch.eye(9, dtype=torch.double)[None],
        torch.zeros(1, 2, dtype=torch.double),
        torch.tensor([8]),
    )


@pytest.mark.parametrize(
    "leave, lenpen, ended",
    [(0.9, 0.0, 2), (0.6, 0.0, 2), (0.3, 0.0, 5), (0.69, 0.5, 3), (0.9, 1.0, 6)],
)
def test_the_search_ends_when_nothing_can_win_any_more(rounds, leave, lenpen, ended):
    """A prefix of n words has the probability (1 - leave) ** n, and leave times that as a text."""
    texts = prefix_beam(*chain(*[leave] * 7), plan(lenpen=lenpen))
    best, last = -math.inf, None
    for words in range(8):
        prefix = words * math.log(1 - leave)
        if words:
            best = max(
                best, (prefix + (math.log(leave) if words < 7 else 0.0)) / (words + 1) ** lenpen
            )
        # Up to nine words and </s> may follow.
        if last is None and prefix / 10**lenpen <= best:
            last = words
    assert last == ended and rounds == list(range(ended + 1))
    assert float(texts.ranks[0, 0]) == pytest.approx(best)


def test_what_may_grow_is_searched_to_its_end(rounds):
    """Flattened probabilities of words may sum to more than 1; here the fourth word makes up for
    all that was lost before."""
    links, emissions, ends, last = chain(*[0.9] * 7)
    emissions[0, 4, 4] = 1e6
    texts = prefix_beam(links, emissions, ends, last, plan(lenpen=0.0, mass_only_falls=False))
    assert texts.tokens[0, 0, :5].tolist() == [1, 2, 3, 4, END] and rounds == list(range(8))
    assert float(texts.ranks) == pytest.approx(math.log(0.1**4 * 0.9 * 1e6))


def test_a_language_model_may_favour_what_comes_later(rounds):
    """It likes the sixth word."""

    class Model:
        def start(self):
            return None

        def step(self, state, token):
            return token, 20.0 if token == 6 else 0.0

    texts = prefix_beam(*chain(*[0.9] * 7), plan(lenpen=0.0, language_model=Model()))
    assert texts.tokens[0, 0, :7].tolist() == [1, 2, 3, 4, 5, 6, END] and rounds == list(range(8))
    assert float(texts.ranks) == pytest.approx(6 * math.log(0.1) + math.log(0.9) + 20)


def test_where_shortness_is_rewarded_the_next_word_may_still_win():
    """One word has the probability 0.3 * 0.3, two words have 0.3 * 0.7."""
    texts = prefix_beam(*chain(0.7, 0.3), plan(lenpen=-0.5))
    assert texts.tokens[0, 0, :3].tolist() == [1, 2, END]
    assert float(texts.ranks) == pytest.approx(math.log(0.21) * math.sqrt(3))


def test_the_search_ends_when_no_prefix_is_left(rounds):
    """Of three texts that were asked for there is one: the first vertex leads to the second, and
    that to the last."""
    texts = prefix_beam(*chain(0.0), plan(beam=3, nbest=3))
    assert texts.tokens[0, 0, :2].tolist() == [1, END] and texts.log_probs.tolist() == [
        [0.0, -math.inf, -math.inf]
    ]
    assert rounds == [0, 1, 2]
