"""Two-stage decoding against stock beam search over a strided decoder and an independent scorer of
Eq. 2."""

import itertools
import math

import pytest
import torch
from fairseq.models import FairseqDecoder, FairseqEncoderDecoderModel
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine import EngineEnsemble
from fairseq_hrt.engine.fused.search import allowed_words
from fairseq_hrt.engine.generator import AutoregressiveGenerator
from fairseq_hrt.hrt.generator import HRTGenerator, chunk_sizes_of
from fairseq_hrt.hrt.sample import SampleView
from fairseq_hrt.native.families.hrt import chunk_table
from fairseq_hrt.native.options.values import DecodingOptions

SYMBOLS = 6
EOS, PAD = 2, 1
# The search adds up log-probabilities in single precision.
TOLERANCE = 2e-5


class _StridedDecoder(FairseqDecoder):
    """Stage I as an ordinary decoder of fairseq: token number i stands at position `stride` * i."""

    def __init__(self, decoder, stride, dictionary):
        super().__init__(dictionary)
        self.inner, self.stride = decoder, stride

    def forward(self, prev_output_tokens, encoder_out=None, **_):
        places = self.stride * torch.arange(prev_output_tokens.size(1)).expand_as(
            prev_output_tokens
        )
        view = SampleView(prev_output_tokens, places, prev_output_tokens)
        x = self.inner.view_features(view, encoder_out, causal=True)
        return self.inner.output_layer(x), {"attn": [None]}

    def max_positions(self):
        return 1000


def stage_one(
    models, dictionary, sample, chunk, *, max_len, lenpen=1.0, beam=5, min_len=0, temperature=1.0
):
    """Stock fairseq beam search over z; [[(tokens, normalised score)]] best first."""
    strided = [
        FairseqEncoderDecoderModel(
            model.encoder, _StridedDecoder(model.decoder, chunk, dictionary)
        ).eval()
        for model in models
    ]
    search = SequenceGenerator(
        strided,
        dictionary,
        beam_size=beam,
        len_penalty=lenpen,
        max_len_b=(max_len + 1) // chunk - 1,
        min_len=min_len // chunk,
        temperature=temperature,
    )
    found = search.generate(strided, sample, bos_token=models[0].decoder.start_symbol(chunk))
    return [[(h["tokens"].tolist(), float(h["score"])) for h in hypotheses] for hypotheses in found]


def decode(
    models,
    dictionary,
    sample,
    chunk,
    *,
    nat_beam=None,
    eos_last_chunk=False,
    table="inf:1",
    scoring="normalized",
    **options,
):
    chosen = DecodingOptions(
        hrt_scoring=scoring,
        hrt_decode_chunk=str(chunk),
        hrt_chunk_table=table,
        hrt_nat_beam=nat_beam,
        hrt_eos_last_chunk=eos_last_chunk,
        **options,
    )
    return HRTGenerator(models, dictionary, chosen).generate(models, sample)


def expected_translations(
    hrt,
    models,
    dictionary,
    sources,
    chunk,
    *,
    nat_beam,
    lenpen,
    eos_last_chunk=False,
    scoring="normalized",
    **options,
):
    """The paper's search, sentence by sentence: [[(tokens, score, positional scores)]] best
    first."""
    power = lenpen if scoring == "normalized" else 0
    everything = []
    for source in sources:
        # Its length penalty counts in either scoring.
        (kept,) = stage_one(
            models, dictionary, hrt.sample([source]), chunk, lenpen=lenpen, **options
        )
        scorer = hrt.Scorer(models, source, options.get("temperature", 1.0))
        mine = []
        for z, _ in kept[:nat_beam]:
            tokens, total, scores = scorer.complete(
                z, chunk, eos_last_chunk=eos_last_chunk, min_len=options.get("min_len", 0)
            )
            mine.append((tokens, total / (len(z) * chunk) ** power, scores))
        everything.append(sorted(mine, key=lambda translation: -translation[1]))
    return everything


def assert_equal(got, expected, count=None):
    """Tokens, scores and positional scores of all hypotheses, in order."""
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected):
        assert len(mine) == (count or len(theirs))
        for hypothesis, (tokens, score, scores) in zip(mine, theirs):
            assert hypothesis["tokens"].tolist() == tokens
            assert float(hypothesis["score"]) == pytest.approx(score, abs=TOLERANCE)
            assert hypothesis["positional_scores"].tolist() == pytest.approx(scores, abs=TOLERANCE)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 15),
    chunk=st.sampled_from([2, 3]),
    beams=st.sampled_from([(1, 1), (4, 1), (4, 2), (5, 5)]),
    lenpen=st.sampled_from([0.0, 0.6, 1.0]),
    eos_last_chunk=st.booleans(),
    tail=st.sampled_from(["eos", "pad"]),
    min_len=st.sampled_from([0, 1, 3]),
    scoring=st.sampled_from(["normalized", "eq2"]),
)
def test_equals_the_paper(hrt, seed, chunk, beams, lenpen, eos_last_chunk, tail, min_len, scoring):
    beam, nat_beam = beams
    model = hrt.model(
        symbols=SYMBOLS, seed=seed, hrt_tail_target=tail, decoder_normalize_before=bool(seed % 2)
    )
    sources = hrt.sources([5, 3, 4], SYMBOLS, seed)
    dictionary = hrt.dictionary(SYMBOLS)
    options = dict(beam=beam, lenpen=lenpen, min_len=min_len, scoring=scoring)
    expected = expected_translations(
        hrt,
        [model],
        dictionary,
        sources,
        chunk,
        nat_beam=nat_beam,
        eos_last_chunk=eos_last_chunk,
        max_len=8,
        **options,
    )
    got = decode(
        [model],
        dictionary,
        hrt.sample(sources, extra=1),
        chunk,
        nat_beam=nat_beam,
        eos_last_chunk=eos_last_chunk,
        max_len_b=8,
        **options,
    )
    assert_equal(got, expected)


def test_ensemble_averages_probabilities_in_both_stages(hrt):
    models = [hrt.model(symbols=SYMBOLS, seed=seed) for seed in (3, 4)]
    dictionary, sources = hrt.dictionary(SYMBOLS), hrt.sources([5, 3], SYMBOLS)
    options = dict(beam=3, lenpen=0.6, temperature=1.7, min_len=1)
    expected = expected_translations(
        hrt, models, dictionary, sources, 2, nat_beam=3, max_len=7, **options
    )
    got = decode(models, dictionary, hrt.sample(sources), 2, max_len_b=7, **options)
    assert_equal(got, expected)
    alone = decode(models[:1], dictionary, hrt.sample(sources), 2, max_len_b=7, **options)
    assert float(alone[0][0]["score"]) != pytest.approx(float(got[0][0]["score"]), abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("chunk", [2, 3])
def test_exhaustive_search(hrt, seed, chunk):
    """The widest beam finds the best of all z of at most two tokens: V = 6, E or one of four tokens
    before E."""
    model, dictionary = hrt.model(symbols=2, seed=seed), hrt.dictionary(2)
    (source,) = hrt.sources([4], 2, seed)
    scorer = hrt.Scorer([model], source)
    firsts = [(EOS,), *((token, EOS) for token in range(6) if token not in (PAD, EOS))]
    completed = [(len(z) * chunk, *scorer.complete(z, chunk)[:2]) for z in firsts]
    for lenpen in (0.0, 1.0):
        score, tokens = max((total / size**lenpen, words) for size, words, total in completed)
        (got,) = decode(
            [model],
            dictionary,
            hrt.sample([source]),
            chunk,
            beam=50,
            lenpen=lenpen,
            min_len=0,
            max_len_b=2 * chunk - 1,
        )
        assert got[0]["tokens"].tolist() == tokens
        assert float(got[0]["score"]) == pytest.approx(score, abs=TOLERANCE)
        assert len(got) == len(completed)


@pytest.mark.parametrize("seed", range(2))
def test_no_translation_of_three_chunks_is_better_than_exhaustive_search_says(hrt, seed):
    model, dictionary = hrt.model(symbols=2, seed=seed), hrt.dictionary(2)
    (source,) = hrt.sources([4], 2, seed)
    scorer = hrt.Scorer([model], source)
    ordinary = [token for token in range(6) if token not in (PAD, EOS)]
    totals = {}
    for size in range(3):
        for body in itertools.product(ordinary, repeat=size):
            tokens, total, _ = scorer.complete((*body, EOS), 2)
            totals.setdefault(tuple(tokens), []).append(total)
    (got,) = decode(
        [model], dictionary, hrt.sample([source]), 2, beam=50, lenpen=0, min_len=0, max_len_b=5
    )
    for hypothesis in got:
        candidates = totals[tuple(hypothesis["tokens"].tolist())]
        assert min(abs(float(hypothesis["score"]) - total) for total in candidates) < TOLERANCE


@pytest.mark.parametrize("lenpen", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("beam", [1, 5])
def test_chunk_size_one_is_autoregressive_decoding(hrt, beam, lenpen):
    """… by stock fairseq with the stock Transformer that the model came from, and by our own
    generator."""
    stock = hrt.model("transformer", symbols=SYMBOLS, seed=3)
    model = hrt.model(symbols=SYMBOLS, seed=9)
    state = dict(stock.state_dict())
    model.upgrade_state_dict(state)
    model.load_state_dict(state)
    dictionary = hrt.dictionary(SYMBOLS)
    sample = hrt.sample(hrt.sources([6, 3, 5], SYMBOLS), extra=1)
    options = dict(beam=beam, lenpen=lenpen, max_len_b=9)
    reference = SequenceGenerator(
        [stock], dictionary, beam_size=beam, len_penalty=lenpen, max_len_b=9
    )
    expected = [
        [
            (h["tokens"].tolist(), float(h["score"]), h["positional_scores"].tolist())
            for h in hypotheses
        ]
        for hypotheses in reference.generate([stock], sample)
    ]
    assert_equal(decode([model], dictionary, sample, 1, **options), expected)
    generator = AutoregressiveGenerator([model], dictionary, DecodingOptions(**options))
    assert_equal(generator.generate([model], sample), expected)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(2, 8), min_size=2, max_size=5),
    order=st.randoms(),
    beam=st.sampled_from([1, 3]),
    chunk=st.sampled_from(["2", "3", "auto"]),
    extra=st.integers(0, 2),
    left_pad=st.booleans(),
    length_rule=st.sampled_from([(0.0, 8), (1.0, 2)]),
)
def test_company_changes_nothing(hrt, lengths, order, beam, chunk, extra, left_pad, length_rule):
    model, dictionary = hrt.model(symbols=SYMBOLS, seed=5), hrt.dictionary(SYMBOLS)
    sources = hrt.sources(lengths, SYMBOLS)
    # k = 1 is left out of the table: there fairseq's own limit depends on the padding of the batch.
    options = dict(beam=beam, max_len_a=length_rule[0], max_len_b=length_rule[1], table="3:2,inf:3")
    alone = [
        decode([model], dictionary, hrt.sample([source]), chunk, **options)[0] for source in sources
    ]
    places = list(range(len(sources)))
    order.shuffle(places)
    batch = hrt.sample([sources[p] for p in places], ids=places, extra=extra, left_pad=left_pad)
    together = decode([model], dictionary, batch, chunk, **options)
    for place, mine in zip(places, together):
        assert len(mine) == len(alone[place])
        for a, b in zip(mine, alone[place]):
            assert a["tokens"].tolist() == b["tokens"].tolist()
            assert float(a["score"]) == pytest.approx(float(b["score"]), abs=TOLERANCE)
            assert (
                a["token_steps"].tolist() == b["token_steps"].tolist() and a["steps"] == b["steps"]
            )


def test_automatic_chunk_size_equals_the_fixed_one_on_each_part(hrt):
    model, dictionary = hrt.model(symbols=SYMBOLS, seed=5), hrt.dictionary(SYMBOLS)
    # Source words without </s>: 3, 4, 5, 6, 7; the limits belong to the smaller chunk size.
    lengths, table, sizes = [4, 5, 6, 7, 8], "3:1,5:2,inf:3", [1, 2, 2, 3, 3]
    sources = hrt.sources(lengths, SYMBOLS)
    got = decode([model], dictionary, hrt.sample(sources), "auto", table=table, beam=3, max_len_b=9)
    for chunk in (1, 2, 3):
        rows = [row for row, size in enumerate(sizes) if size == chunk]
        fixed = decode(
            [model],
            dictionary,
            hrt.sample([sources[row] for row in rows]),
            chunk,
            beam=3,
            max_len_b=9,
        )
        for row, hypotheses in zip(rows, fixed):
            assert [h["tokens"].tolist() for h in got[row]] == [
                h["tokens"].tolist() for h in hypotheses
            ]
            assert [float(h["score"]) for h in got[row]] == pytest.approx(
                [float(h["score"]) for h in hypotheses], abs=TOLERANCE
            )


def test_more_completed_hypotheses_never_score_worse(hrt):
    dictionary = hrt.dictionary(SYMBOLS)
    sample = hrt.sample(hrt.sources([5, 4, 6], SYMBOLS))
    improved = 0
    for seed in range(4):
        model = hrt.model(symbols=SYMBOLS, seed=seed)
        best = [
            [
                float(h[0]["score"])
                for h in decode([model], dictionary, sample, 2, beam=5, nat_beam=n, max_len_b=9)
            ]
            for n in (1, 3, 5)
        ]
        for fewer, more in zip(best, best[1:]):
            assert all(b >= a - TOLERANCE for a, b in zip(fewer, more))
        improved += sum(b > a + 1e-3 for a, b in zip(best[0], best[2]))
    assert improved  # the second stage does change the order at times


# ---------------------------------------------------------------- crafted distributions


def crafted(hrt, table, symbols=6, **overrides):
    """A model whose distribution at position j is `table[j]` ({token: logit}), whatever was said
    before.

    With all blocks silent and embeddings of zero the decoder's output is the sinusoid of the
    position.
    """
    model = hrt.model(
        symbols=symbols,
        share_all_embeddings=False,
        share_decoder_input_output_embed=False,
        encoder_embed_dim=32,
        decoder_embed_dim=32,
        decoder_normalize_before=True,
        no_decoder_final_norm=True,
        **overrides,
    )
    count = max(table) + 1
    with torch.no_grad():
        for name, parameter in model.decoder.named_parameters():
            if "out_proj" in name or "fc2" in name or "embed" in name:
                parameter.zero_()
        rows = model.decoder.embed_positions.weights[PAD + 1 : PAD + 1 + count].double()
        wanted = torch.full((count, symbols + 4), -4.0).double()
        for position, logits in table.items():
            for token, value in logits.items():
                wanted[position, token] = value
        model.decoder.output_projection.weight.copy_((torch.linalg.pinv(rows) @ wanted).T)
        assert (rows @ model.decoder.output_projection.weight.T - wanted).abs().max() < 1e-6
    return model, wanted.log_softmax(-1)


def one(hrt, model, chunk, **options):
    (got,) = decode(
        [model],
        hrt.dictionary(6),
        hrt.sample(hrt.sources([4], 6)),
        chunk,
        **{"beam": 1, "max_len_b": 11, **options},
    )
    return got[0]


def test_a_translation_shorter_than_a_chunk(hrt):
    model, logp = crafted(hrt, {0: {EOS: 4}, 1: {5: 4}, 2: {EOS: 4}})
    got = one(hrt, model, 3, lenpen=0)
    assert got["tokens"].tolist() == [5, EOS]
    # Eq. 2 counts all three positions.
    assert float(got["score"]) == pytest.approx(
        float(logp[0, EOS] + logp[1, 5] + logp[2, EOS]), abs=TOLERANCE
    )
    assert got["steps"] == 2 and got["token_steps"].tolist() == [2, 2]


def test_an_empty_translation_needs_permission(hrt):
    model, _ = crafted(hrt, {0: {EOS: 4}, 1: {EOS: 4, 7: 3}, 2: {EOS: 4}})
    assert one(hrt, model, 3, min_len=0)["tokens"].tolist() == [EOS]
    assert one(hrt, model, 3)["tokens"].tolist() == [7, EOS]


def test_minimum_length(hrt):
    everywhere = {j: {EOS: 4, 5: 3} for j in range(13)}
    model, _ = crafted(hrt, everywhere)
    for chunk in (2, 3):
        for least in range(0, 8):
            for beam in (1, 3):
                tokens = one(hrt, model, chunk, min_len=least, beam=beam)["tokens"].tolist()
                assert tokens.index(EOS) == len(tokens) - 1 >= least, (chunk, least, tokens)


@pytest.mark.parametrize(
    "chunk, limit, length", [(2, 7, 8), (2, 8, 8), (3, 7, 6), (3, 8, 9), (3, 2, 3)]
)
def test_an_endless_translation_is_ended_at_the_limit(hrt, chunk, limit, length):
    model, logp = crafted(hrt, {j: {5: 4, 6: 2} for j in range(13)})
    got = one(hrt, model, chunk, max_len_b=limit, lenpen=1)
    assert got["tokens"].tolist() == [5] * (length - 1) + [EOS]
    total = float(logp[0, 5] * (length - 1) + logp[0, EOS])
    assert float(got["score"]) == pytest.approx(total / length, abs=TOLERANCE)


@pytest.mark.parametrize("chunk, limit", [(2, 0), (3, 0), (3, 1)])
@pytest.mark.parametrize("options", [{}, dict(max_len_a=0.1), dict(eos_last_chunk=True)])
def test_a_single_chunk_is_cut_at_the_limit(hrt, chunk, limit, options):
    """Even before the minimum length, as every sentence whose own limit is lower."""
    model, logp = crafted(hrt, {j: {5: 4, 6: 2} for j in range(13)})
    for least in (0, limit, 7 if "max_len_a" in options else limit):
        got = one(hrt, model, chunk, max_len_b=limit, min_len=least, lenpen=1, **options)
        assert got["tokens"].tolist() == [5] * limit + [EOS]
        # All of the chunk counts.
        total = float(logp[0, 5] * limit + logp[0, EOS] * (chunk - limit))
        assert float(got["score"]) == pytest.approx(total / chunk, abs=TOLERANCE)


def test_the_models_own_limit_holds(hrt):
    model, _ = crafted(hrt, {j: {5: 4} for j in range(13)}, max_target_positions=9)
    for chunk, length in ((1, 9), (2, 8), (3, 9)):
        tokens = one(hrt, model, chunk, max_len_b=200)["tokens"].tolist()
        assert tokens == [5] * (length - 1) + [EOS]


def test_truncation_at_the_first_end_symbol(hrt):
    #        z_1     z_2     z_3 ends        stage II at 1, 3, 5; it ends at 3, in the second chunk
    model, logp = crafted(
        hrt, {0: {5: 4}, 2: {6: 4}, 4: {EOS: 4}, 1: {7: 4}, 3: {EOS: 4, 8: 3}, 5: {9: 4}}
    )
    got = one(hrt, model, 2, lenpen=1)
    assert got["tokens"].tolist() == [7, 5, EOS]
    everything = logp[0, 5] + logp[2, 6] + logp[4, EOS] + logp[1, 7] + logp[3, EOS] + logp[5, 9]
    assert float(got["score"]) == pytest.approx(float(everything) / 6, abs=TOLERANCE)
    assert got["positional_scores"].tolist() == pytest.approx(
        [float(logp[1, 7]), float(logp[0, 5]), float(logp[3, EOS])]
    )
    assert got["token_steps"].tolist() == [4, 1, 4] and got["steps"] == 4
    got = one(hrt, model, 2, eos_last_chunk=True)
    assert got["tokens"].tolist() == [7, 5, 8, 6, 9, EOS]
    assert got["token_steps"].tolist() == [4, 1, 4, 2, 4, 3]


def test_an_end_symbol_in_the_last_chunk_is_never_forbidden(hrt):
    model, _ = crafted(hrt, {0: {5: 4}, 1: {7: 4}, 2: {EOS: 4}, 3: {EOS: 4, 8: 3}})
    assert one(hrt, model, 2, eos_last_chunk=True)["tokens"].tolist() == [7, 5, EOS]


def test_untrained_tail_does_not_count(hrt):
    table = {0: {EOS: 4}, 1: {5: 4}, 2: {EOS: 4}, 3: {9: 4}}
    model, logp = crafted(hrt, table, hrt_chunk_sizes=[4], hrt_tail_target="pad")
    got = one(hrt, model, 4, lenpen=0)
    assert got["tokens"].tolist() == [5, EOS]
    assert float(got["score"]) == pytest.approx(
        float(logp[0, EOS] + logp[1, 5] + logp[2, EOS]), abs=TOLERANCE
    )
    model, logp = crafted(hrt, table, hrt_chunk_sizes=[4])
    total = logp[0, EOS] + logp[1, 5] + logp[2, EOS] + logp[3, 9]
    assert float(one(hrt, model, 4, lenpen=0)["score"]) == pytest.approx(
        float(total), abs=TOLERANCE
    )


def test_padding_is_never_chosen(hrt):
    model, _ = crafted(
        hrt, {0: {PAD: 9, 5: 4}, 1: {PAD: 9, 6: 4}, 2: {PAD: 9, EOS: 4}, 3: {PAD: 9, EOS: 4}}
    )
    assert one(hrt, model, 2)["tokens"].tolist() == [6, 5, EOS]


def test_penalty_of_unknown_words_in_both_stages(hrt):
    model, logp = crafted(hrt, {0: {3: 4, 5: 3}, 1: {3: 4, 6: 3}, 2: {EOS: 4}, 3: {EOS: 4}})
    assert one(hrt, model, 2)["tokens"].tolist() == [3, 3, EOS]
    assert one(hrt, model, 2, unkpen=2.0)["tokens"].tolist() == [6, 5, EOS]
    got = one(hrt, model, 2, unkpen=0.5)
    assert got["positional_scores"].tolist()[:2] == pytest.approx(
        [float(logp[1, 3]) - 0.5, float(logp[0, 3]) - 0.5]
    )


def test_unnormalized_scores_are_equation_2(hrt):
    model, logp = crafted(hrt, {0: {5: 4}, 1: {6: 4}, 2: {EOS: 4}, 3: {EOS: 4}})
    total = float(logp[0, 5] + logp[1, 6] + logp[2, EOS] + logp[3, EOS])
    assert float(one(hrt, model, 2, unnormalized=True)["score"]) == pytest.approx(
        total, abs=TOLERANCE
    )
    assert float(one(hrt, model, 2, lenpen=0.6)["score"]) == pytest.approx(
        total / 4**0.6, abs=TOLERANCE
    )


# ---------------------------------------------------------------- what is executed and reported


def build(hrt, model, chunk, beam=1, **options):
    chosen = DecodingOptions(beam=beam, max_len_b=9, hrt_decode_chunk=str(chunk), **options)
    return HRTGenerator([model], hrt.dictionary(SYMBOLS), chosen)


@pytest.mark.parametrize("chunk", [2, 3])
def test_one_encoder_call_and_one_decoder_call_more_than_chunks(hrt, chunk):
    for seed in range(4):
        model = hrt.model(symbols=SYMBOLS, seed=seed)
        generator = build(hrt, model, chunk)
        source = hrt.sources([5], SYMBOLS, seed)
        ((hypothesis,),) = generator.generate([model], hrt.sample(source))
        ((z, _),) = stage_one(
            [model], hrt.dictionary(SYMBOLS), hrt.sample(source), chunk, beam=1, max_len=9
        )[0][:1]
        chunks = len(z)
        assert generator.counters.encoder_calls == 1
        assert generator.counters.decoder_calls == chunks + 1 == hypothesis["steps"]
        assert generator.counters.sentences == 1
        generator.counters.reset()
        assert generator.counters.decoder_calls == generator.counters.sentences == 0


def test_the_second_stage_remembers_nothing(hrt, monkeypatch):
    model, sizes = hrt.model(symbols=SYMBOLS), []
    generator, original = build(hrt, model, 2, beam=2), EngineEnsemble.log_probabilities

    def log_probabilities(self, states, *given, **options):
        found = original(self, states, *given, **options)
        if not options.get("causal", True):
            sizes.extend((state.length, state.cache.numel()) for state in states)
        return found

    monkeypatch.setattr(EngineEnsemble, "log_probabilities", log_probabilities)
    generator.generate([model], hrt.sample(hrt.sources([4, 2], SYMBOLS)))
    assert sizes == [(0, 0)]


def test_steps_and_history(hrt):
    model, _ = crafted(hrt, {0: {5: 4}, 2: {6: 4}, 4: {EOS: 4}, 1: {7: 4}, 3: {8: 4}, 5: {EOS: 4}})
    got = one(hrt, model, 2, retain_iter_history=True)
    assert got["tokens"].tolist() == [7, 5, 8, 6, EOS]
    assert got["token_steps"].tolist() == [4, 1, 4, 2, 4]
    assert [h["tokens"].tolist() for h in got["history"]] == [
        [3, 5],
        [3, 5, 3, 6],
        [3, 5, 3, 6, 3, EOS],
        [7, 5, 8, 6, EOS],
    ]
    assert one(hrt, model, 2)["history"] == []


def test_hooks_see_both_stages(hrt):
    model, _ = crafted(hrt, {0: {5: 4}, 2: {6: 4}, 4: {EOS: 4}, 1: {7: 4}, 3: {8: 4}, 5: {EOS: 4}})
    generator = build(hrt, model, 2)
    seen = []
    generator.step_hooks.append(seen.append)
    generator.generate([model], hrt.sample(hrt.sources([4], SYMBOLS)))
    assert [(step.stage, step.number) for step in seen] == [
        ("skip_at", 1),
        ("skip_at", 2),
        ("skip_at", 3),
        ("skip_cmlm", 4),
    ]
    assert [step.positions.flatten().tolist() for step in seen] == [
        [2],
        [4],
        [6],
        [1, 2, 3, 4, 5, 6],
    ]
    assert [step.tokens.flatten().tolist() for step in seen] == [
        [5],
        [6],
        [EOS],
        [7, 5, 8, 6, EOS, EOS],
    ]
    assert all(step.sentences.tolist() == [0] for step in seen)


def test_hypotheses_keep_fairseqs_contract(hrt):
    model = hrt.model(symbols=SYMBOLS, seed=2)
    for chunk in (1, 2):
        generator = build(hrt, model, chunk, beam=3)
        for hypotheses in generator.generate([model], hrt.sample(hrt.sources([5, 3], SYMBOLS))):
            assert len(hypotheses) == 3
            scores = [float(h["score"]) for h in hypotheses]
            assert scores == sorted(scores, reverse=True)
            for h in hypotheses:
                assert {
                    "tokens",
                    "score",
                    "positional_scores",
                    "attention",
                    "alignment",
                    "steps",
                    "history",
                } <= set(h)
                assert (
                    h["tokens"][-1] == EOS
                    and h["tokens"].ne(PAD).all()
                    and h["tokens"].lt(SYMBOLS + 4).all()
                )
                assert len(h["tokens"]) == len(h["positional_scores"]) == len(h["token_steps"])
                # fairseq-generate converts the scores to base two in place.
                h["positional_scores"].div_(math.log(2))
                assert not h["tokens"].is_inference()


def test_a_model_in_training_is_decoded_without_dropout(hrt):
    model = hrt.model(symbols=SYMBOLS, seed=2, dropout=0.5)
    sample = hrt.sample(hrt.sources([5, 3], SYMBOLS))
    expected = build(hrt, model, 2).generate([model], sample)
    model.train()
    got = build(hrt, model, 2).generate([model], sample)
    assert not any(module.training for module in model.modules())
    assert [h[0]["tokens"].tolist() for h in got] == [h[0]["tokens"].tolist() for h in expected]


def test_updated_parameters_are_used(hrt):
    """Validation keeps one generator over the whole training."""
    model, sample = hrt.model(symbols=SYMBOLS, seed=2), hrt.sample(hrt.sources([5, 3], SYMBOLS))
    generator = build(hrt, model, 2, beam=2, static_weights=False)
    generator.generate([model], sample)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    got = generator.generate([model], sample)
    expected = build(hrt, model, 2, beam=2).generate([model], sample)
    for mine, theirs in zip(got, expected):
        assert [h["tokens"].tolist() for h in mine] == [h["tokens"].tolist() for h in theirs]
        assert [float(h["score"]) for h in mine] == pytest.approx(
            [float(h["score"]) for h in theirs], abs=TOLERANCE
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision_decodes(hrt, dtype):
    model = hrt.model(symbols=SYMBOLS, seed=2)
    sample = hrt.sample(hrt.sources([5, 3, 7], SYMBOLS))
    exact = build(hrt, model, 2, beam=3).generate([model], sample)
    got = build(hrt, model.to(dtype), 2, beam=3).generate([model], sample)
    for a, b in zip(got, exact):
        assert all(math.isfinite(float(h["score"])) for h in a)
        if dtype == torch.float32:
            assert a[0]["tokens"].tolist() == b[0]["tokens"].tolist()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(chunk=2, beam=2, nat_beam=3), "--hrt-nat-beam 3 with --beam 2"),
        (dict(chunk=2, beam=2, nat_beam=0), "--hrt-nat-beam 0"),
        (dict(chunk=2, beam=4, nat_beam=2, nbest=3), "--nbest 3 with --hrt-nat-beam 2"),
        (
            dict(chunk=2, beam=2, no_repeat_ngram_size=2),
            "--no-repeat-ngram-size.*--hrt-decode-chunk 1",
        ),
        (dict(chunk=4, beam=2), "chunk size 4 was not trained.*2, 3"),
        (dict(chunk="auto", table="10:2,inf:4", beam=2), "chunk size 4 was not trained"),
        (dict(chunk="two", beam=2), "--hrt-decode-chunk 'two'"),
        (dict(chunk="0", beam=2), "--hrt-decode-chunk '0'"),
        (dict(chunk="-2", beam=2), "--hrt-decode-chunk '-2'"),
        (dict(chunk="²", beam=2), "--hrt-decode-chunk '²'"),
    ],
)
def test_impossible_requests_are_named(hrt, arguments, message):
    chunk = arguments.pop("chunk")
    model = hrt.model(symbols=SYMBOLS)
    with pytest.raises(ValueError, match=message):
        decode(
            [model],
            hrt.dictionary(SYMBOLS),
            hrt.sample(hrt.sources([4], SYMBOLS)),
            chunk,
            **arguments,
        )


def test_a_prefix_needs_chunk_size_one(hrt):
    model = hrt.model(symbols=SYMBOLS)
    sample = hrt.sample(hrt.sources([4], SYMBOLS))
    with pytest.raises(ValueError, match="--prefix-size.*--hrt-decode-chunk 1"):
        build(hrt, model, 2).generate([model], sample, prefix_tokens=torch.tensor([[5]]))
    (hypotheses,) = build(hrt, model, 1).generate(
        [model], sample, prefix_tokens=torch.tensor([[5, 7]])
    )
    assert hypotheses[0]["tokens"].tolist()[:2] == [5, 7]
    (forced,) = build(hrt, model, 1, forced_start="w1 w3").generate([model], sample)
    assert forced[0]["tokens"].equal(hypotheses[0]["tokens"])
    hypotheses[0]["positional_scores"][:2] = 0
    assert forced[0]["positional_scores"].equal(hypotheses[0]["positional_scores"])
    for chunk in (2, "auto"):
        with pytest.raises(
            ValueError, match="--forced-start w1: chunks cannot continue a .*--hrt-decode-chunk 1"
        ):
            build(hrt, model, chunk, forced_start="w1")


def test_an_ensemble_of_different_chunk_sizes_is_refused(hrt):
    models = [hrt.model(symbols=SYMBOLS), hrt.model(symbols=SYMBOLS, hrt_chunk_sizes=[3, 2])]
    with pytest.raises(ValueError, match="--hrt-chunk-sizes"):
        decode(models, hrt.dictionary(SYMBOLS), hrt.sample(hrt.sources([4], SYMBOLS)), 2)


@pytest.mark.parametrize("chunk", [2, 3])
@pytest.mark.parametrize("shortest", range(7))
def test_the_end_is_forbidden_where_a_translation_would_be_too_short(hrt, chunk, shortest):
    model = hrt.model(symbols=SYMBOLS, seed=1)
    generator = build(hrt, model, chunk, min_len=shortest)
    positions = torch.arange(1, 4 * chunk + 1)
    masked = (positions % chunk).nonzero().squeeze(1)
    log_probs = torch.zeros(2, len(masked), SYMBOLS + 4)
    log_probs[:, :, EOS], log_probs[:, :, PAD] = 1, 2
    _, choice = generator._choose(allowed_words, log_probs, positions[masked], [], chunk, None)
    assert (
        choice.ne(EOS).tolist()
        == [[position <= shortest for position in positions[masked].tolist()]] * 2
    )
    assert not choice.eq(PAD).any()


def chunk_sizes(lengths, choice, table="inf:1", trained=(2,)):
    """As asked for on the command line."""
    options = DecodingOptions(hrt_decode_chunk=choice, hrt_chunk_table=table)
    return chunk_sizes_of(chunk_table(options, trained), torch.tensor(lengths))


def test_table_borders():
    lengths = [0, 1, 10, 11, 30, 31, 500]
    assert chunk_sizes(lengths, "auto", "10:1,30:2,inf:3", [2, 3]) == [1, 1, 1, 2, 2, 3, 3]
    for choice, size in ((None, 2), ("3", 3), ("1", 1)):
        assert chunk_sizes([1, 99], choice, trained=[3, 2]) == [size, size]


@given(
    limits=st.lists(st.integers(0, 60), unique=True, max_size=4), data=st.data(),
    lengths=st.lists(st.integers(0, 80), min_size=1, max_size=6),
)  # fmt: skip
def test_each_sentence_has_the_size_of_the_first_limit_that_holds_it(limits, data, lengths):
    limits = sorted(limits)
    sizes = [data.draw(st.integers(1, 4)) for _ in range(len(limits) + 1)]
    text = ",".join(f"{limit}:{size}" for limit, size in zip([*limits, "inf"], sizes))
    # The number of limits below a length tells its place in the table.
    expected = [sizes[sum(limit < length for limit in limits)] for length in lengths]
    assert chunk_sizes(lengths, "auto", text, [2, 3, 4]) == expected
