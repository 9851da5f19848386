"""A result depends on its sentence alone: not on the batch, the threads, nor, but for rounding, on
the instruction set."""

import random
import subprocess

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.native.runtime import build, library
from fairseq_hrt.native.runtime.engine import NumericalError, Shortlist

WAYS = {
    "at": ("transformer", dict(beam=1)), "at, beam": ("transformer", dict(beam=4, nbest=2)),
    "jacobi": ("transformer", dict(beam=1, jacobi_mode="frontier", jacobi_window=3)),
    "jacobi, whole": ("transformer", dict(beam=1, jacobi_mode="frontier", jacobi_window=90)),
    "jacobi, source": ("transformer",
                       dict(beam=1, jacobi_mode="frontier", jacobi_window=4,
                            jacobi_draft="source")),
    "hrt": ("hrt_transformer", dict(beam=1, hrt_decode_chunk="3")),
    "hrt, beam": ("hrt_transformer",
                  dict(beam=3, hrt_decode_chunk="auto", hrt_chunk_table="6:1,12:3,inf:2")),
    "hrt, drafts": ("hrt_transformer",
                    dict(beam=1, hrt_decode_chunk="1", hrt_draft_chunk=2, hrt_draft_width=8)),
    "bidirectional": ("bidirectional_transformer", dict(beam=1)),
    "bidirectional, beam": ("bidirectional_transformer", dict(beam=3)),
    "ssru": ("marian_transformer", dict(beam=1)),
    "ssru, beam": ("marian_transformer", dict(beam=4, nbest=2)),
    "ssru, jacobi": ("marian_transformer",
                     dict(beam=1, jacobi_mode="frontier", jacobi_window=90)),
    "dag": ("dag_transformer", dict(beam=1)),
    "dag, viterbi": ("dag_transformer", dict(beam=1, dag_decode_strategy="joint-viterbi")),
    "ctc": ("ctc_transformer", dict(beam=1)), "ctc, beam": ("ctc_transformer", dict(beam=4, nbest=2)),
}  # fmt: skip
MORE = {
    "dag_transformer": dict(dag_upsample_scale="2"),
    "marian_transformer": dict(marian_cell="ssru"),
}


def plain(found):
    return [
        [(r.tokens, r.score, r.positional_scores, r.steps, r.token_steps) for r in best]
        for best in found
    ]


@pytest.mark.parametrize("weights", ("int8", "float32"))
@pytest.mark.parametrize("way", WAYS)
def test_batches_and_threads(runtime, way, weights):
    arch, options = WAYS[way]
    model = runtime.build(arch, seed=9, **MORE.get(arch, {}))
    generator = random.Random(way)
    rows = runtime.sources([generator.randint(1, 24) for _ in range(40)], seed=3)
    options = dict(max_len_b=10, **options)
    with runtime.runtime_engine(model, weights=weights) as engine:
        alone = [plain(engine.decode([row], runtime.options(**options)))[0] for row in rows]
        for size in (1, 7, 40):
            order = generator.sample(range(40), 40)
            found = plain(
                engine.decode([rows[n] for n in order], runtime.options(batch_size=size, **options))
            )
            assert found == [alone[n] for n in order]
    with runtime.runtime_engine(model, weights=weights, threads=3) as engine:
        for _ in range(2):
            assert plain(engine.decode(rows, runtime.options(**options))) == alone


@pytest.mark.parametrize("weights", ("int8", "float32"))
def test_instruction_sets(runtime, kernel, weights):
    for way in ("at, beam", "ssru, beam", "hrt", "bidirectional", "dag"):
        arch, options = WAYS[way]
        more = MORE[arch] if arch == "marian_transformer" else {}
        model, rows = runtime.build(arch, seed=4, **more), runtime.sources((4, 9, 30))
        found = {}
        for isa in library.instruction_sets(kernel).usable:
            with runtime.runtime_engine(model, weights=weights, isa=isa) as engine:
                assert engine.isa == isa
                found[isa] = engine.decode(rows, runtime.options(max_len_b=10, **options))
        first = found.pop("plain")
        for others in found.values():
            for one, other in zip(first, others):
                assert one[0].tokens == other[0].tokens
                assert one[0].positional_scores == pytest.approx(
                    other[0].positional_scores, abs=1e-4 if weights == "float32" else 0.3
                )


@pytest.mark.parametrize(
    "overrides", (dict(), dict(hrt_chunk_sizes=[5]), dict(decoder_layers=1, hrt_relative_window=0))
)
def test_drafts_change_nothing(runtime, overrides):
    for weights, seed in (("int8", 1), ("float32", 2), ("float32", 3)):
        model, rows = (
            runtime.build("hrt_transformer", seed=seed, **overrides),
            runtime.sources((1, 4, 11, 17, 26), seed=seed),
        )
        with runtime.runtime_engine(model, weights=weights) as engine:
            for rules in (
                dict(max_len_b=20),
                dict(max_len_b=6, min_len=6),
                dict(max_len_b=12, unkpen=2.0, min_len=0),
                dict(max_len_b=0, min_len=0),
            ):
                expected = engine.decode(
                    rows, runtime.options(beam=1, hrt_decode_chunk="1", **rules)
                )
                for chunk in model.decoder.chunk_sizes:
                    for width in (0, 1, 3, 32):
                        options = runtime.options(
                            beam=1,
                            hrt_decode_chunk="1",
                            hrt_draft_chunk=chunk,
                            hrt_draft_width=width,
                            **rules,
                        )
                        for one, other in zip(expected, engine.decode(rows, options)):
                            assert one[0].tokens == other[0].tokens
                            assert one[0].positional_scores == other[0].positional_scores
                            assert other[0].steps == max(other[0].token_steps)


def passes_with_a_draft(words, draft, width, limit):
    """The pass that settles each of ``words``, by the rules of kernel/drafts.c: a loop over a draft
    without any model."""
    steps, place, number = [], 0, 0
    while len(steps) < len(words):
        number += 1
        guesses = draft[place:-1][: min(width, 32, limit - len(steps))]
        right = 0
        while right < len(guesses) and guesses[right] == words[len(steps) + right]:
            right += 1
        # The guesses that were right, and the model's word behind them.
        new = words[len(steps) : len(steps) + right + 1]
        steps += [number] * len(new)
        place += len(new) - 1
        if draft[place : place + 1] == new[-1:]:
            place += 1
            continue
        near = [
            place + sign * away
            for away in range(1, 5)
            for sign in (1, -1)
            if place + sign * away >= 0
        ]
        place = next((n for n in near if draft[n : n + 1] == new[-1:]), place) + 1
    return steps


@pytest.mark.parametrize("width", (1, 3, 8, 32))
def test_passes_of_drafts(runtime, width):
    """Where a draft is wrong it continues behind the word that the model has written, and its
    own passes count."""
    shifted = 0
    for seed in range(8):
        model, rows = (
            runtime.build("hrt_transformer", symbols=5, seed=seed),
            runtime.sources((3, 9, 14), symbols=5, seed=seed),
        )
        with runtime.runtime_engine(model) as engine:
            words, draft, found = (
                [best[0] for best in engine.decode(rows,
                                                   runtime.options(beam=1, max_len_b=20,
                                                                   hrt_decode_chunk=chunk, **own))]
                for chunk, own in (("1", {}), ("3", {}),
                                   ("1", dict(hrt_draft_chunk=3, hrt_draft_width=width)))
            )  # fmt: skip
        for plain_one, drafted, one in zip(words, draft, found):
            expected = passes_with_a_draft(plain_one.tokens, drafted.tokens, width, 20)
            assert [step - drafted.steps for step in one.token_steps] == expected
            shifted += one.steps - drafted.steps < len(plain_one.tokens)
    assert shifted


def test_jacobi_changes_nothing(runtime):
    """Whoever guesses and however many words: also where the width is left to the runtime."""
    rows = runtime.sources((1, 4, 11, 17, 26), symbols=4)
    for weights, seed in (("int8", 1), ("float32", 2), ("int8", 3)):
        with runtime.runtime_engine(runtime.build(symbols=4, seed=seed), weights=weights) as engine:
            for rules in (
                dict(max_len_b=20),
                dict(max_len_b=12, unkpen=-2.0, min_len=0),
                dict(max_len_b=0, min_len=0),
            ):
                expected = engine.decode(rows, runtime.options(beam=1, **rules))
                for own in ({}, dict(jacobi_draft="source"), dict(jacobi_window=7)):
                    guessing = runtime.options(beam=1, jacobi_mode="frontier", **own, **rules)
                    for one, other in zip(expected, engine.decode(rows, guessing)):
                        assert (one[0].tokens, one[0].positional_scores) == (
                            other[0].tokens,
                            other[0].positional_scores,
                        )
                        assert other[0].steps == max(other[0].token_steps) <= len(other[0].tokens)


def test_windows_of_many_sentences_are_passed_through_in_parts(runtime):
    """Whole sentences of up to 400 words at once: more inputs than one pass takes together."""
    rows = runtime.sources([5] * 30, symbols=4)
    model = runtime.build(symbols=4, seed=1, max_target_positions=500)
    with runtime.runtime_engine(model) as engine:
        limits = dict(beam=1, max_len_b=400, batch_size=30)
        whole = dict(jacobi_mode="frontier", jacobi_window=401)
        expected, found = (
            engine.decode(rows, runtime.options(**limits, **own)) for own in ({}, whole)
        )
        alone = engine.decode(rows, runtime.options(**{**limits, **whole, "batch_size": 1}))
    assert plain(found) == plain(alone)
    assert [best[0].positional_scores for best in found] == [
        best[0].positional_scores for best in expected
    ]


def naive_frontier(model, row, limit, *, first=2, most=32, trial=8):
    """(tokens, the pass that settles each) of Jacobi decoding as wide as was right lately: prefixes
    through fairseq's decoder, no cache."""
    encoded = model.encoder(torch.tensor([row]), src_lengths=torch.tensor([len(row)]))
    tokens, steps, answers, width, passes, settled = [], [], [], first, 0, 0
    while not tokens or tokens[-1] != 2:
        guesses = (answers + [3] * limit)[: min(width, limit + 1 - len(tokens)) - 1]
        logits = model.decoder(torch.tensor([[2, *tokens, *guesses]]), encoder_out=encoded)[0][
            0, len(tokens) :
        ].clone()
        logits[:, 1] = -torch.inf
        if not tokens:
            logits[0, 2] = -torch.inf  # --min-len 1
        best = [
            2 if len(tokens) + n >= limit else int(one) for n, one in enumerate(logits.argmax(-1))
        ]
        right = (
            next(
                (n for n, guess in enumerate(guesses) if guess != best[n] or guess == 2),
                len(guesses),
            )
            + 1
        )
        wrong_filler = right <= len(guesses) and guesses[right - 1] == 3
        answers = best[right:] if wrong_filler else []
        passes, settled = passes + 1, settled + right
        tokens, steps = tokens + best[:right], steps + [passes] * right
        if guesses:
            width = min(2 * width, most) if right > len(guesses) else right + 1
        if passes >= trial and 8 * settled < 9 * passes:
            width = 1
    return tokens, steps


def test_windows_are_as_wide_as_was_right_lately(runtime):
    """The first batch of an engine is guessed, as nothing is measured yet: its passes show the
    widths."""
    passes = set()
    # Models that between them reach each rule of the widths.
    for seed in (0, 1, 3, 6):
        model, rows = (
            runtime.build(symbols=2, seed=seed),
            runtime.sources((3, 9, 14), symbols=2, seed=seed),
        )
        with runtime.runtime_engine(model) as engine:
            found = engine.decode(
                rows, runtime.options(beam=1, max_len_b=40, jacobi_mode="frontier")
            )
        with torch.no_grad():
            expected = [naive_frontier(model, row, 40) for row in rows]
        assert [(best[0].tokens, best[0].token_steps) for best in found] == expected
        passes |= {steps.count(n) for _, steps in expected for n in steps}
    assert max(passes) > 8, "wide windows came true"


def test_batches_of_each_size_are_measured_for_themselves(runtime):
    """The first batch of a size is guessed, whatever smaller or larger ones have shown."""
    model, rows = runtime.build(symbols=2, seed=1), runtime.sources((9, 9, 9), symbols=2, seed=1)
    options = runtime.options(beam=1, max_len_b=40, jacobi_mode="frontier")
    with runtime.runtime_engine(model) as engine:
        guessed, first, again = (
            engine.decode(rows[:1], options),
            engine.decode(rows, options),
            engine.decode(rows, options),
        )
    assert guessed == first[:1] and first[0][0].steps < len(first[0][0].tokens)
    assert again[0][0].steps == len(again[0][0].tokens), "the second one is not"


def test_broken_numbers_behind_wrong_guesses_harm_nobody(runtime):
    """What stands on a wrong guess, such as <unk> where it is never written, means nothing."""
    model, rows = runtime.build(seed=2, own=True), runtime.sources((3, 6, 9))
    with torch.no_grad():
        model.decoder.embed_tokens.weight[3] = 1e25 * torch.tensor([1.0, -1.0]).repeat(
            model.decoder.embed_tokens.weight.size(1) // 2
        )
    assert model.decoder.output_projection.weight is not model.decoder.embed_tokens.weight
    modes = (
        {},
        {"jacobi_mode": "frontier", "jacobi_window": 3},
        {"jacobi_mode": "frontier"},
        {"jacobi_mode": "frontier", "jacobi_window": 90},
    )
    with runtime.runtime_engine(model) as engine:
        for scores in (True, False):
            options = dict(beam=1, max_len_b=12, unkpen=float("inf"), scores=scores)
            expected, *found = (
                engine.decode(rows, runtime.options(**options, **mode)) for mode in modes
            )
            for one in found:
                assert [best[0].tokens for best in one] == [best[0].tokens for best in expected]
            for mode in modes:
                # Where <unk> is written, the word behind it has no probability.
                with pytest.raises(NumericalError, match="its weights are broken"):
                    engine.decode(
                        rows,
                        runtime.options(
                            beam=1, max_len_b=12, min_len=5, unkpen=-1e5, scores=scores, **mode
                        ),
                    )
        # Without scores </s> needs no probability where nothing else may follow.
        short = [
            engine.decode(
                rows, runtime.options(beam=1, max_len_b=1, unkpen=-1e5, scores=False, **mode)
            )
            for mode in modes
        ]
        assert all([best[0].tokens for best in one] == [[3, 2]] * len(rows) for one in short)


@pytest.mark.parametrize("arch", ("transformer", "hrt_transformer", "bidirectional_transformer"))
@pytest.mark.parametrize("beam", (2, 5))
def test_a_search_that_finds_nothing_is_an_error(runtime, arch, beam):
    """Finite weights by which every word but padding has the probability 0."""
    model = runtime.build(arch, seed=1, own=True).float()
    bias = torch.full((len(model.dictionaries[1]),), -3e38)
    bias[1] = 3e38
    model.decoder.output_projection.bias = torch.nn.Parameter(bias)
    rows, options = runtime.sources((3, 1)), runtime.options(beam=beam, max_len_b=6)
    with (
        runtime.runtime_engine(model) as engine,
        pytest.raises(NumericalError, match="no translation .* has a probability above 0"),
    ):
        engine.decode(rows, options)
    with pytest.raises(ArithmeticError, match="no translation .* has a probability above 0"):
        runtime.eager_results(model, rows, options)


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler")
def test_what_is_quicker_is_kept(tmp_path):
    """The choice between two ways, by batches of one size: the other way first, then the plain one,
    then the quicker, now and then the slower."""
    (tmp_path / "trial.c").write_text("""
        #include <stdio.h>
        #include "trial.h"
        int main(void) {
            int sizes[] = {1, 2, 3, 4, 5, 64, 65, 128, 129, 100000};
            for (int i = 0; i < 10; i++) printf("%d ", fh_batch_size(sizes[i]));
            for (int quicker = 0; quicker < 2; quicker++) {
                fh_trial trial = {.key = 7};
                for (int i = 0; i < 48; i++) {
                    int choice = fh_trial_choice(&trial, 7);
                    printf("%s%d", i ? "" : "| ", choice);
                    fh_trial_note(&trial, choice, choice == quicker ? 1.0 : 2.0, 10);
                }
                printf(" %d ", fh_trial_choice(&trial, 8) && trial.costs[0] == 0);
            }
            return 0;
        }
        """)
    program = tmp_path / "trial"
    subprocess.run(
        [
            *build.compiler(),
            "-std=c11",
            "-D_GNU_SOURCE",
            "-I",
            build.KERNEL,
            tmp_path / "trial.c",
            "-o",
            program,
        ],
        check=True,
    )
    sizes, plain_is_quicker, other_is_quicker = subprocess.run(
        [program], capture_output=True, text=True, check=True
    ).stdout.split("|")
    assert sizes.split() == list("0122367777")
    choices, anew = plain_is_quicker.split()
    assert choices[:2] == "10" and choices[2:].count("1") == 2 and anew == "1"
    choices, anew = other_is_quicker.split()
    assert choices[:2] == "10" and choices[2:].count("0") == 2 and anew == "1"


def test_drafts_are_given_up_where_they_do_not_pay(runtime):
    """Both ways are measured: over many batches of a small model nearly all are decoded by the
    quicker one, and all to the same words."""
    model, rows = runtime.build("hrt_transformer", seed=1), runtime.sources((9, 14, 6), seed=1)
    plain_ones, drafts = (
        runtime.options(beam=1, hrt_decode_chunk="1", max_len_b=20, **own)
        for own in ({}, {"hrt_draft_chunk": 3})
    )
    with runtime.runtime_engine(model) as engine:
        expected = engine.decode(rows, plain_ones)
        found = [engine.decode(rows, drafts) for _ in range(40)]
    with runtime.runtime_engine(model) as engine:
        always = engine.decode(
            rows,
            runtime.options(
                beam=1, hrt_decode_chunk="1", max_len_b=20, hrt_draft_chunk=3, hrt_draft_width=8
            ),
        )
    steps = [[best[0].steps for best in one] for one in found]
    for one in found:
        assert [(best[0].tokens, best[0].positional_scores) for best in one] == [
            (best[0].tokens, best[0].positional_scores) for best in expected
        ]
    # First with drafts, then without; from then on what is quicker.
    greedy = [best[0].steps for best in expected]
    assert (
        steps[0] != greedy and steps[1] == greedy and [best[0].steps for best in always] != greedy
    )
    assert 1 <= steps.count(greedy) < 40


@pytest.mark.parametrize("way", WAYS)
def test_shortlists(runtime, way):
    arch, options = WAYS[way]
    model, rows = runtime.build(arch, seed=5), runtime.sources((4, 9, 30))
    words = len(model.dictionaries[1])
    with runtime.runtime_engine(model) as engine:

        def listed(always, each=()):
            count = len(model.dictionaries[0]) + 1
            offsets = np.arange(count, dtype=np.int64) * len(each)
            return Shortlist(
                offsets, np.tile(np.array(each, np.int32), count - 1), np.array(always)
            )

        options = runtime.options(max_len_b=8, **options)
        whole = engine.decode(rows, options)
        engine.set_shortlist(listed(range(words)))
        for one, other in zip(whole, engine.decode(rows, options)):
            assert [r.tokens for r in one] == [r.tokens for r in other]
        engine.set_shortlist(listed([7, 5], [9]))
        some = engine.decode(rows, options)
        assert {token for best in some for r in best for token in r.tokens} <= {0, 2, 3, 5, 7, 9}
        assert plain([engine.decode([row], options)[0] for row in rows]) == plain(some)
        for wrong in (listed([words]), listed([], [-1]),
                      Shortlist(np.arange(3), np.zeros(2), np.zeros(0)),
                      listed([7 + (1 << 32)]), listed([7.5]), listed([[7]]),
                      listed([0],
                             [1])._replace(offsets=np.arange(len(model.dictionaries[0]) +
                             1)[::-1])):  # fmt: skip
            with pytest.raises(ValueError, match="shortlist"):
                engine.set_shortlist(wrong)
        engine.set_shortlist(None)
        assert plain(engine.decode(rows, options)) == plain(whole)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("arch", ("transformer", "marian_transformer"))
def test_sentences_share_the_output_layer_of_their_shortlists(runtime, kernel, arch, data):
    """Eight sentences or more, where it is small enough: each chooses among its own words."""
    seed = data.draw(st.integers(0, 2**16))
    random = np.random.default_rng(seed)
    model = runtime.build(arch, symbols=150, seed=seed % 5, **MORE.get(arch, {}))
    words, count = len(model.dictionaries[1]), len(model.dictionaries[0])
    offsets = np.concatenate([[0], np.cumsum(random.integers(0, 12, count))])
    listed = Shortlist(
        offsets, random.integers(0, words, offsets[-1]).astype(np.int32),
        random.integers(0, words, data.draw(st.integers(0, 40))).astype(np.int32),
    )  # fmt: skip
    lengths = random.integers(1, 12, data.draw(st.integers(8, 20)))
    rows = runtime.sources(lengths, symbols=150, seed=seed)
    options = runtime.options(
        beam=1, scores=False, max_len_b=12, batch_size=len(rows),
        min_len=data.draw(st.integers(0, 3)),
        unkpen=data.draw(st.sampled_from([0.0, 2.0, -3.0, float("inf")])),
    )  # fmt: skip
    beginnings = [random.integers(4, words, n).tolist() for n in random.integers(0, 3, len(rows))]
    isa = data.draw(st.sampled_from(library.instruction_sets(kernel).usable))
    with runtime.runtime_engine(model, weights="int8", isa=isa) as engine:
        engine.set_shortlist(listed)
        for first in (None, beginnings):
            found = engine.decode(rows, options, first_words=first)
            alone = [
                engine.decode([row], options, first_words=first and [first[number]])[0]
                for number, row in enumerate(rows)
            ]
            assert plain(found) == plain(alone)
            own = [{0, 1, 2, 3, *listed.always.tolist()} for _ in rows]
            for row, best, allowed in zip(rows, found, own):
                for word in row:
                    allowed.update(listed.candidates[offsets[word] : offsets[word + 1]].tolist())
                assert first or allowed.issuperset(best[0].tokens)


@pytest.mark.parametrize("beam", (1, 3))
def test_given_first_words_are_in_the_shortlist(runtime, beam):
    """Of their own sentence alone; and a beginning does not depend on others in the batch."""
    model, rows = runtime.build(seed=5), runtime.sources((4, 9, 30))
    count, given = len(model.dictionaries[0]) + 1, [[11, 12], [], [13]]
    nothing = np.zeros(0, np.int32)
    with runtime.runtime_engine(model) as engine:
        engine.set_shortlist(
            Shortlist(np.zeros(count, np.int64), nothing, np.array([7, 5], np.int32))
        )
        options = runtime.options(max_len_b=8, beam=beam)
        found = engine.decode(rows, options, first_words=given)
        alone = [
            engine.decode([row], options, first_words=[words])[0] for row, words in zip(rows, given)
        ]
        assert plain(found) == plain(alone)
        for best, words in zip(found, given):
            assert best[0].tokens[: len(words)] == words and np.isfinite(best[0].score)
            assert set(best[0].tokens) <= {0, 2, 3, 5, 7, *words}
        assert plain(engine.decode(rows, options)) != plain(found), "the words are forgotten again"
        assert plain(engine.decode(rows, options, first_words=[[], [], []])) == plain(
            engine.decode(rows, options)
        )


@pytest.mark.parametrize("weights", ("float32", "int8"))
def test_one_sentence_on_several_threads(runtime, weights):
    """A model whose products are large enough to be shared: the same to the last bit, whoever
    computes them."""
    large = dict(
        symbols=9000,
        encoder_embed_dim=64,
        decoder_embed_dim=64,
        encoder_ffn_embed_dim=512,
        decoder_ffn_embed_dim=512,
    )
    model = runtime.build(
        "hrt_transformer",
        seed=4,
        encoder_layers=1,
        decoder_layers=1,
        share_all_embeddings=True,
        **large,
    )
    rows = runtime.sources((30, 7), symbols=9000)
    ways = (
        dict(beam=1),
        dict(beam=1, scores=False),
        dict(beam=3, nbest=2),
        dict(beam=1, unkpen=3.0, hrt_decode_chunk="1"),
    )
    found = []
    for threads in (1, 2, 3):
        with runtime.runtime_engine(model, weights=weights, threads=threads) as engine:
            found.append(
                [
                    engine.decode([row], runtime.options(max_len_b=8, **way))
                    for row in rows
                    for way in ways
                ]
            )
            together = engine.decode(rows, runtime.options(max_len_b=8, beam=1))
            assert together == [found[-1][0][0], found[-1][len(ways)][0]]
    assert found[0] == found[1] == found[2]
    if weights == "float32":
        options = runtime.options(max_len_b=8, beam=1)
        for expected, (mine,) in zip(
            runtime.eager_results(model, rows, options), (found[1][0][0], found[1][len(ways)][0])
        ):
            assert runtime.same_hypothesis(expected[0], mine)
