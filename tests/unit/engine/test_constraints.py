"""The rules of a search, against rules written down token by token."""

import itertools
import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine.constraints import Constraints, length_limits
from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.native.options.values import DecodingOptions

UNK = 3
INF = math.inf


def expected_score(token, score, step, *, limit, min_length, unkpen, forced, pad, eos):
    """What is left of the log-probability of one token, rule after rule."""
    if token == UNK:
        score -= unkpen if unkpen < INF or forced != UNK else 0.0
    if step >= limit:
        return score if token == eos else -INF
    if forced != pad:
        return score if token == forced else -INF
    if token == pad or (token == eos and step < min_length):
        return -INF
    return score


@settings(max_examples=30)
@given(
    step=st.integers(0, 4),
    limits=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    beams=st.integers(1, 3),
    min_length=st.integers(0, 4),
    unkpen=st.sampled_from([0.0, 1.5, -1.0, INF]),
    data=st.data(),
)
def test_every_rule_of_every_row(tiny, step, limits, beams, min_length, unkpen, data):
    count = len(limits)
    prefix = None
    if data.draw(st.booleans()):
        # A given beginning does not fix its end: fairseq forces that as any other token.
        row = st.lists(st.sampled_from([tiny.PAD, UNK, 5, 6]), min_size=3, max_size=3)
        prefix = torch.tensor(data.draw(st.lists(row, min_size=count, max_size=count)))
    dictionary = tiny.dictionary()
    rules = Constraints(
        dictionary,
        min_length=min_length,
        max_lengths=torch.tensor(limits),
        unkpen=unkpen,
        prefix=prefix,
    )
    # The sentences that are still decoded, in another order.
    sentences = torch.tensor(data.draw(st.permutations(range(count))))
    log_probs = torch.randn(count * beams, len(dictionary)).log_softmax(1)
    found = rules.apply(log_probs.clone(), step, sentences, beams, None)
    for row, (before, after) in enumerate(zip(log_probs.tolist(), found.tolist())):
        sentence = int(sentences[row // beams])
        forced = int(prefix[sentence, step]) if prefix is not None and step < 3 else tiny.PAD
        rule = dict(
            limit=limits[sentence],
            min_length=min_length,
            unkpen=unkpen,
            forced=forced,
            pad=tiny.PAD,
            eos=tiny.EOS,
        )
        assert after == pytest.approx(
            [expected_score(token, score, step, **rule) for token, score in enumerate(before)]
        )


@given(
    first=st.integers(0, 5),
    count=st.integers(1, 3),
    unkpen=st.sampled_from([0.0, 2.0]),
    blocked=st.booleans(),
)
def test_several_tokens_at_once(tiny, first, count, unkpen, blocked):
    """Where the rules are the same for a stretch of tokens, one call gives what a call for each
    gives; elsewhere nothing changes."""
    limits = torch.tensor([6, 4])
    rules = Constraints(
        tiny.dictionary(),
        min_length=2,
        max_lengths=limits,
        unkpen=unkpen,
        no_repeat_ngram_size=int(blocked),
    )
    log_probs = torch.randn(2, count, 16).log_softmax(2)
    once = log_probs.clone()
    the_same = first >= 2 and first + count <= 4 and not blocked
    assert rules.apply_to_all(once, first, first + count) == the_same
    if the_same:
        each = [
            rules.apply(log_probs[:, i].clone(), first + i, torch.arange(2), 1, None)
            for i in range(count)
        ]
        assert once.equal(torch.stack(each, 1))
    else:
        assert once.equal(log_probs)


@given(
    widths=st.lists(st.integers(1, 1000), min_size=1, max_size=4),
    a=st.sampled_from([0.0, 0.1, 0.7, 1.1, 1.2, 3.0]),
    b=st.integers(0, 300),
    capacity=st.integers(1, 500),
)
# 28.999999999999996 in double precision, 29 in single.
@example(widths=[100], a=0.29, b=0, capacity=500)
def test_the_longest_translations(widths, a, b, capacity):
    found = length_limits(torch.tensor(widths), max_len_a=a, max_len_b=b, capacity=capacity)
    assert found.dtype == torch.long
    # As fairseq's SequenceGenerator counts.
    assert found.tolist() == [min(int(a * width + b), capacity - 1) for width in widths]


@settings(max_examples=18, deadline=None)
@given(
    size=st.integers(1, 4),
    rows=st.integers(1, 8).flatmap(
        lambda width: st.lists(
            st.lists(st.integers(2, 5), min_size=width, max_size=width), min_size=1, max_size=3
        )
    ),
)
def test_repeated_ngrams_are_those_that_a_search_finds(tiny, size, rows):
    rules = Constraints(
        tiny.dictionary(),
        min_length=0,
        max_lengths=torch.full((len(rows),), 99),
        no_repeat_ngram_size=size,
    )
    log_probs = rules.apply(
        torch.zeros(len(rows), 16), len(rows[0]) - 1, torch.arange(len(rows)), 1, torch.tensor(rows)
    )
    for row, found in zip(rows, log_probs.tolist()):
        ngrams = [tuple(row[start : start + size]) for start in range(len(row) - size + 1)]
        for token, score in enumerate(found):
            candidate = (*row[len(row) - size + 1 :], token)
            forbidden = token == tiny.PAD or (candidate in ngrams and token != tiny.EOS)
            assert math.isinf(score) == forbidden, (row, token)


@pytest.mark.parametrize("beam", [1, 3])
def test_no_bigram_occurs_twice(tiny, beam):
    """Without fairseq as an oracle: its generator hands the rule a padded buffer, in which it finds
    nothing."""
    repeated = 0
    for seed in range(6):
        model, sample = tiny.model(seed=seed), tiny.sample([4, 6], seed=seed)
        for size in (0, 2):
            options = DecodingOptions(beam=beam, max_len_b=14, no_repeat_ngram_size=size)
            generator = AutoregressiveGenerator([model], tiny.dictionary(), options)
            for hypothesis in itertools.chain(*generator.generate([model], sample)):
                tokens = hypothesis["tokens"].tolist()
                bigrams = list(zip(tokens, tokens[1:]))
                if size:
                    assert len(bigrams) == len(set(bigrams))
                else:
                    repeated += len(bigrams) > len(set(bigrams))
    assert repeated


@pytest.mark.parametrize("beam", [1, 3])
def test_a_sentence_whose_maximum_is_below_the_minimum_has_just_that_length(tiny, beam):
    model, options = tiny.model(), DecodingOptions(beam=beam, min_len=8, max_len_a=1.0, max_len_b=2)
    found = AutoregressiveGenerator([model], tiny.dictionary(), options).generate(
        [model], tiny.sample([2, 9])
    )
    for best, shortest, longest in zip(found, (4, 8), (4, 11)):
        words = best[0]["tokens"].tolist()
        assert words.index(tiny.EOS) == len(words) - 1 and shortest <= len(words) - 1 <= longest
        assert best[0]["positional_scores"].isfinite().all()


@pytest.mark.parametrize("beam", [1, 3])
def test_unknown_words_can_be_forbidden(tiny, beam):
    """An infinite penalty: no NaN, no <unk>, and the same search otherwise."""
    written = 0
    for seed in range(8):
        model, sample = tiny.model(seed=seed), tiny.sample([4, 6, 2], seed=seed)
        found = {}
        for penalty in (0.0, 1e6, math.inf):
            generator = AutoregressiveGenerator(
                [model], tiny.dictionary(), DecodingOptions(beam=beam, max_len_b=9, unkpen=penalty)
            )
            found[penalty] = generator.generate([model], sample)
        written += sum(UNK in best[0]["tokens"].tolist() for best in found[0.0])
        assert not any(UNK in h["tokens"].tolist() for best in found[math.inf] for h in best)
        assert all(
            h["positional_scores"].isfinite().all() for best in found[math.inf] for h in best
        )
        assert [best[0]["tokens"].tolist() for best in found[math.inf]] == [
            best[0]["tokens"].tolist() for best in found[1e6]
        ]
    assert written


@pytest.mark.parametrize("beam", [1, 3])
def test_a_given_unknown_word_stands(tiny, beam):
    model, options = tiny.model(), DecodingOptions(beam=beam, max_len_b=6, unkpen=math.inf)
    generator = AutoregressiveGenerator([model], tiny.dictionary(), options)
    prefix = torch.tensor([[UNK, 5], [6, tiny.PAD]])
    for best, first in zip(
        generator.generate([model], tiny.sample([4, 3]), prefix_tokens=prefix), (UNK, 6)
    ):
        tokens = best[0]["tokens"].tolist()
        assert (
            tokens[0] == first and UNK not in tokens[1:] and math.isfinite(float(best[0]["score"]))
        )


def test_ending_repeats_nothing(tiny):
    """The start symbol is an </s>: without unigram repetitions a sentence would never end."""
    model = tiny.model()
    for beam in (1, 3):
        options = DecodingOptions(beam=beam, max_len_b=30, no_repeat_ngram_size=1)
        for best in AutoregressiveGenerator([model], tiny.dictionary(), options).generate(
            [model], tiny.sample([4, 6])
        ):
            tokens = best[0]["tokens"].tolist()
            assert len(tokens) == len(set(tokens)) and tokens[-1] == tiny.EOS


def test_a_given_beginning_may_repeat_what_it_likes(tiny):
    """The prefix a a b under "each word once": it stands, with its probabilities, and what follows
    repeats none of it."""
    prefix = torch.tensor([[5, 5, 6], [5, tiny.PAD, tiny.PAD]])
    rules = Constraints(
        tiny.dictionary(),
        min_length=1,
        max_lengths=torch.tensor([9, 9]),
        no_repeat_ngram_size=1,
        prefix=prefix,
    )
    log_probs = torch.randn(2, 16).log_softmax(1)
    found = rules.apply(log_probs.clone(), 1, torch.arange(2), 1, torch.tensor([[2, 5], [2, 5]]))
    assert (found[0] > -math.inf).nonzero().flatten().tolist() == [5] and found[0, 5] == log_probs[
        0, 5
    ]
    assert found[1, 5] == -math.inf and found[1, 6] == log_probs[1, 6]
    found = rules.apply(
        log_probs.clone(), 3, torch.arange(2), 1, torch.tensor([[2, 5, 5, 6], [2, 5, 6, 7]])
    )
    assert (
        found[0, [5, 6]].tolist() == [-math.inf] * 2
        and found[1, [5, 6, 7]].tolist() == [-math.inf] * 3
    )


def test_a_sentence_ends_where_every_word_is_forbidden(tiny):
    dictionary = tiny.dictionary()
    rules = Constraints(
        dictionary, min_length=99, max_lengths=torch.tensor([100]), no_repeat_ngram_size=1
    )
    log_probs = torch.randn(1, len(dictionary)).log_softmax(1)
    words = [word for word in range(len(dictionary)) if word not in (tiny.PAD, tiny.EOS)]
    history = torch.tensor([[tiny.EOS, *words[:-1]]])
    found = rules.apply(log_probs.clone(), len(words) - 1, torch.arange(1), 1, history)
    assert (found[0] > -math.inf).nonzero().flatten().tolist() == words[-1:]
    found = rules.apply(
        log_probs.clone(), len(words), torch.arange(1), 1, torch.tensor([[tiny.EOS, *words]])
    )
    assert (found[0] > -math.inf).nonzero().flatten().tolist() == [tiny.EOS] and found[
        0, tiny.EOS
    ] == log_probs[0, tiny.EOS]
