"""Greedy and beam search equal fairseq's SequenceGenerator, and exhaustive search where that is
possible."""

import itertools
import math

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine.beam_search import leave_out_finished
from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.native.decoding import NumericalError
from fairseq_hrt.native.options.values import DecodingOptions

UNK = 3


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected):
        assert [h["tokens"].tolist() for h in mine] == [h["tokens"].tolist() for h in theirs]
        for own, other in zip(mine, theirs):
            torch.testing.assert_close(
                float(own["score"]), float(other["score"]), rtol=1e-4, atol=1e-5
            )
            torch.testing.assert_close(
                own["positional_scores"], other["positional_scores"], rtol=1e-3, atol=1e-5
            )


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 15),
    beam=st.sampled_from([1, 2, 5]),
    lenpen=st.sampled_from([0.0, 0.6, 1.0, 1.4]),
    unkpen=st.sampled_from([0.0, 2.0, -1.0]),
    min_len=st.sampled_from([0, 1, 4]),
    limit=st.sampled_from([(0, 9), (1.5, 2), (0, 200)]),
    temperature=st.sampled_from([1.0, 0.5]),
    normalize=st.booleans(),
    models=st.integers(1, 2),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
)
def test_equal_to_sequence_generator(
    tiny, seed, beam, lenpen, unkpen, min_len, limit, temperature, normalize, models, lengths
):
    members = [tiny.model(seed=seed + number, max_target_positions=16) for number in range(models)]
    sample, dictionary = tiny.sample(lengths, seed=seed), tiny.dictionary()
    # The shortest sentence's maximum: below it fairseq would stop the whole batch.
    min_len = min(min_len, int(limit[0] * min(lengths) + limit[1]))
    theirs = SequenceGenerator(
        members, dictionary, beam_size=beam, len_penalty=lenpen, unk_penalty=unkpen,
        min_len=min_len, max_len_a=limit[0], max_len_b=limit[1], temperature=temperature,
        normalize_scores=normalize,
    )  # fmt: skip
    options = DecodingOptions(
        beam=beam, lenpen=lenpen, unkpen=unkpen, min_len=min_len, max_len_a=limit[0],
        max_len_b=limit[1], temperature=temperature, unnormalized=not normalize,
    )  # fmt: skip
    mine = AutoregressiveGenerator(members, dictionary, options)
    if limit[0]:
        # fairseq counts the padding of a batch as source length.
        expected = [
            best for alone in each_alone(sample) for best in theirs.generate(members, alone)
        ]
    else:
        expected = theirs.generate(members, sample)
    assert_equal(mine.generate(members, sample), expected)


def each_alone(sample):
    """The sentences of a batch as batches of one, without padding."""
    source = sample["net_input"]
    for row, length in zip(source["src_tokens"], source["src_lengths"].tolist()):
        yield {
            "net_input": {"src_tokens": row[None, -length:], "src_lengths": torch.tensor([length])}
        }


@pytest.mark.parametrize("beam", [1, 3])
def test_prefixes_are_forced(tiny, beam):
    model, sample, dictionary = tiny.model(), tiny.sample([4, 6, 2]), tiny.dictionary()
    prefix = torch.tensor([[5, 6], [7, tiny.PAD], [9, 9]])
    theirs = SequenceGenerator([model], dictionary, beam_size=beam, max_len_b=8)
    mine = AutoregressiveGenerator([model], dictionary, DecodingOptions(beam=beam, max_len_b=8))
    assert_equal(
        mine.generate([model], sample, prefix_tokens=prefix),
        theirs.generate([model], sample, prefix_tokens=prefix),
    )


def test_a_beam_that_holds_everything_is_exhaustive(tiny):
    """All token sequences of at most three words over a tiny vocabulary, scored by the module's
    full pass."""
    dictionary = tiny.dictionary(3)
    words = [token for token in range(len(dictionary)) if token not in (tiny.PAD, tiny.EOS)]
    for seed in range(3):
        model = tiny.model(symbols=3, seed=seed)
        sample = tiny.sample([4], symbols=3, seed=seed)
        best = (-math.inf, [])
        encoder_out = model.encoder(**sample["net_input"])
        for length in range(1, 4):
            lines = torch.tensor(
                [[*line, tiny.EOS] for line in itertools.product(words, repeat=length)]
            )
            inputs = lines.roll(1, 1)
            copies = model.encoder.reorder_encoder_out(
                encoder_out, torch.zeros(len(lines), dtype=torch.long)
            )
            logits = model.decoder(inputs, encoder_out=copies)[0].log_softmax(-1)
            # The last token is forced where the sentence is as long as it may be, but it keeps its
            # probability.
            scores = logits.detach().gather(2, lines.unsqueeze(2)).sum((1, 2)) / (length + 1)
            place = int(scores.argmax())
            best = max(best, (float(scores[place]), lines[place].tolist()))
        options = DecodingOptions(beam=len(dictionary) ** 3, max_len_b=3)
        generator = AutoregressiveGenerator([model], dictionary, options)
        # The beam is capped at the vocabulary size as in fairseq; lift that to make the search
        # exhaustive.
        generator.dictionary = _Wide(dictionary)
        found = generator.decode(sample["net_input"], prefix=None, start=None)[0][0]
        assert found.tokens == best[1]
        assert found.score == pytest.approx(best[0], abs=1e-6)


class _Wide:
    """A dictionary that claims to be large enough for any beam."""

    def __init__(self, dictionary):
        self.dictionary = dictionary

    def __len__(self):
        return 10**6

    def __getattr__(self, name):
        return getattr(self.dictionary, name)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 15), beam=st.sampled_from([1, 4]), order=st.permutations(range(5)))
def test_hypotheses_do_not_depend_on_their_batch(tiny, seed, beam, order):
    model, sample = tiny.model(seed=seed), tiny.sample([1, 7, 3, 5, 2], seed=seed)
    generator = AutoregressiveGenerator(
        [model], tiny.dictionary(), DecodingOptions(beam=beam, max_len_b=12)
    )
    together = generator.generate([model], sample)
    for number in order[:2]:
        length = int(sample["net_input"]["src_lengths"][number])
        alone = {
            "src_tokens": sample["net_input"]["src_tokens"][number : number + 1, -length:],
            "src_lengths": torch.tensor([length]),
        }
        assert_equal(generator.generate([model], {"net_input": alone}), [together[number]])


@pytest.mark.parametrize("beam", [1, 3])
def test_nan_is_named(tiny, beam):
    model = tiny.model()
    with torch.no_grad():
        model.decoder.layers[0].fc1.weight.fill_(float("nan"))
    generator = AutoregressiveGenerator([model], tiny.dictionary(), DecodingOptions(beam=beam))
    with pytest.raises(NumericalError, match="NaN"):
        generator.generate([model], tiny.sample([4]))


@pytest.mark.parametrize(
    "rows, open_rows, kept",
    [(4, {0, 1, 2, 3}, False), (5, {0, 1, 3, 4}, False), (4, {0, 2, 3}, True), (4, {1}, True)],
)
def test_finished_sentences_are_left_out_once_they_are_a_quarter(rows, open_rows, kept):
    current = torch.arange(2 * rows).view(rows, 2)
    sentences, left = leave_out_finished([], list(range(rows)), open_rows, current)
    assert sentences == (sorted(open_rows) if kept else list(range(rows)))
    assert left.tolist() == [[2 * sentence, 2 * sentence + 1] for sentence in sentences]


def test_of_nothing_that_goes_on_nothing_is_left_out():
    assert leave_out_finished([], [0, 1], set(), torch.zeros(2, 1))[0] == [0, 1]
