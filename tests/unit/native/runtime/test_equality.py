"""The runtime in float32 finds what the eager engine finds: tokens, scores, steps, for every family
and option."""

import dataclasses
import random

import pytest

from fairseq_hrt.native.options.schema import NATIVE_STRATEGIES

SHAPES = {
    "post-norm": {},
    "pre-norm": dict(encoder_normalize_before=True, decoder_normalize_before=True),
    "one head": dict(encoder_attention_heads=1, decoder_attention_heads=1),
    "odd sizes": dict(
        encoder_embed_dim=22, decoder_embed_dim=30, encoder_ffn_embed_dim=33,
        decoder_ffn_embed_dim=17, encoder_attention_heads=2, decoder_attention_heads=3,
    ),
    "shared": dict(share_all_embeddings=True, no_scale_embedding=True),
    "tied, normalised": dict(share_decoder_input_output_embed=True, layernorm_embedding=True),
    "deep and shallow": dict(encoder_layers=4, decoder_layers=1, encoder_normalize_before=True,
                             decoder_normalize_before=True),
}  # fmt: skip
ONLY_SOURCE = {"learned, gelu": dict(encoder_learned_pos=True, decoder_learned_pos=True,
                                     activation_fn="gelu"),
               "no positions, tanh": dict(no_token_positional_embeddings=True,
                                          activation_fn="tanh"),
               "gelu_accurate": dict(activation_fn="gelu_accurate")}  # fmt: skip
LENGTHS = (3, 1, 23)


@pytest.mark.parametrize(
    "shape, beam",
    [(shape, 1 + 3 * (n % 2)) for n, shape in enumerate((*SHAPES, *ONLY_SOURCE, "post-norm"))],
)
def test_autoregressive(runtime, shape, beam):
    model = runtime.build(seed=3, **{**SHAPES, **ONLY_SOURCE}[shape])
    runtime.check_equal(
        model, runtime.sources(LENGTHS), runtime.options(beam=beam, nbest=beam, max_len_b=14)
    )


@pytest.mark.parametrize("options", (
    dict(beam=1, max_len_a=1.3, max_len_b=2), dict(beam=3, max_len_b=6, min_len=6),
    dict(beam=1, max_len_b=5, min_len=3, unkpen=2.5), dict(beam=5, nbest=3, lenpen=0.0),
    dict(beam=5, nbest=5, lenpen=0.6, max_len_b=9), dict(beam=4, unnormalized=True, max_len_b=7),
    dict(beam=20, nbest=8, max_len_b=4), dict(beam=2, unkpen=-3.0, max_len_b=9),
    dict(beam=1, min_len=0, max_len_b=0), dict(beam=2, unkpen=float("inf"), max_len_b=5),
))  # fmt: skip
def test_options_of_the_search(runtime, options):
    runtime.check_equal(
        runtime.build(seed=4),
        runtime.sources(LENGTHS),
        runtime.options(**{"max_len_b": 12, **options}),
    )


MARIAN = {
    "ssru": dict(marian_cell="ssru"),
    "ssru, pre-norm": dict(
        marian_cell="ssru",
        encoder_normalize_before=True,
        decoder_normalize_before=True,
        marian_epsilon=1e-2,
    ),
    "ssru, odd sizes": {**SHAPES["odd sizes"], "marian_cell": "ssru", "activation_fn": "relu"},
    "ssru, shared": dict(
        marian_cell="ssru",
        share_all_embeddings=True,
        marian_zero_start="no",
        marian_first_position=3,
    ),
    "attention": {},
    "attention, shared": dict(
        share_all_embeddings=True, layernorm_embedding=True, marian_output_bias="no"
    ),
}
WAYS = (
    dict(beam=1), dict(beam=4, nbest=4), dict(beam=3, nbest=3, max_len_b=5, min_len=4, unkpen=1.5),
    dict(beam=1, jacobi_mode="frontier", jacobi_window=3),
    dict(beam=1, jacobi_mode="frontier", jacobi_window=40),
    dict(beam=1, jacobi_mode="frontier", jacobi_window=5, jacobi_draft="source"),
)  # fmt: skip


@pytest.mark.parametrize("shape", MARIAN)
def test_marian(runtime, shape):
    for seed, way in enumerate(WAYS):
        model = runtime.build("marian_transformer", symbols=5, seed=seed, **MARIAN[shape])
        rows = runtime.sources(LENGTHS, symbols=5, seed=seed)
        found = runtime.check_equal(model, rows, runtime.options(**{"max_len_b": 24, **way}))
        if "jacobi_mode" in way:
            with runtime.runtime_engine(model) as engine:
                greedy = engine.decode(rows, runtime.options(beam=1, max_len_b=24))
            assert [best[0].positional_scores for best in found] == [
                best[0].positional_scores for best in greedy
            ]


@pytest.mark.parametrize("arch, beam", [("hrt_transformer", 3), ("bidirectional_transformer", 1)])
def test_students_with_marians_conventions(runtime, arch, beam):
    conventions = dict(
        activation_fn="swish",
        marian_first_position=0,
        marian_epsilon=1e-3,
        marian_output_bias="yes",
    )
    model = runtime.build(arch, seed=3, share_all_embeddings=True, **conventions)
    runtime.check_equal(model, runtime.sources(LENGTHS), runtime.options(beam=beam, max_len_b=14))


GIVEN = [[5, 6], [7], [3, 2], [], [8, 1, 6], [4] * 30]
FROM_LEFT_TO_RIGHT = {
    "transformer": ("transformer", {}, WAYS),
    "ssru": ("marian_transformer", dict(marian_cell="ssru"), WAYS[:5]),
    "hrt": ("hrt_transformer", {},
            [dict(beam=beam, nbest=beam, hrt_decode_chunk="1") for beam in (1, 3)]),
    "one word": ("bidirectional_transformer",
                 dict(bidirectional_directions=1, bidirectional_block=1), WAYS[:3]),
    "three words": ("bidirectional_transformer",
                    dict(bidirectional_directions=1, bidirectional_tokens_per_step=3), WAYS[:3]),
}  # fmt: skip


@pytest.mark.parametrize("kind", FROM_LEFT_TO_RIGHT)
def test_given_first_words(runtime, kind):
    """Words, </s> and <unk> among them, whatever the rules say; padding stands for any word; not
    beyond the maximum length."""
    arch, overrides, ways = FROM_LEFT_TO_RIGHT[kind]
    rules = (
        dict(),
        dict(max_len_b=1, min_len=1),
        dict(max_len_b=6, min_len=5, unkpen=float("inf")),
        dict(max_len_b=12, unkpen=1.5),
    )
    for seed, way in enumerate(ways):
        model, rows = (
            runtime.build(arch, seed=seed, **overrides),
            runtime.sources((3, 1, 23, 9, 6, 2), seed=seed),
        )
        for rule in (rules[seed % 4], rules[(seed + 2) % 4]):
            options = runtime.options(**{"max_len_b": 9, **way, **rule})
            got = runtime.check_equal(model, rows, options, first_words=GIVEN, threads=2)
            for given, best in zip(GIVEN, got):
                written = best[0].tokens[: options.max_len_b]
                assert all(word in (own, 1) for own, word in zip(written, given)), (given, best)


@pytest.mark.parametrize("kind", FROM_LEFT_TO_RIGHT)
def test_forced_words_cost_nothing(runtime, kind):
    """The translations that begin with given words, in the order that they have without the scores
    of these."""
    arch, overrides, ways = FROM_LEFT_TO_RIGHT[kind]
    words = [5, 3, 6]
    for seed, way in enumerate(ways):
        model, rows = (
            runtime.build(arch, seed=seed, **overrides),
            runtime.sources((3, 1, 23, 9), seed=seed),
        )
        names = " ".join(model.dictionaries[1][word] for word in words)
        rule = (dict(lenpen=1.3), dict(lenpen=0, unkpen=1.5), dict(max_len_b=2, min_len=1))[
            seed % 3
        ]
        options = runtime.options(**{"max_len_b": 9, **way, **rule})
        with runtime.runtime_engine(model) as engine:
            expected = engine.decode(rows, options, first_words=[words] * len(rows))
        found = runtime.check_equal(
            model,
            rows,
            dataclasses.replace(options, forced_start=names),
            first_words=[words] * len(rows),
        )
        for best, mine in zip(expected, found):
            for one in best:
                given = one.positional_scores[: min(len(words), options.max_len_b)]
                one.positional_scores[: len(given)] = [0] * len(given)
                one.score -= sum(given) / len(one.tokens) ** options.lenpen
            best.sort(key=lambda one: -one.score)
            assert [one.tokens for one in mine] == [one.tokens for one in best]
            for one, other in zip(mine, best):
                near = pytest.approx([other.score, *other.positional_scores], abs=runtime.NEAR)
                assert [one.score, *one.positional_scores] == near


WINDOWS = (
    dict(jacobi_window=1),
    dict(jacobi_window=2),
    dict(jacobi_window=3),
    dict(jacobi_window=90),
    dict(jacobi_window=2, jacobi_draft="source"),
    dict(jacobi_window=4, jacobi_draft="source"),
)
LIMITS = (
    dict(),
    dict(max_len_a=1.3, max_len_b=2),
    dict(max_len_b=6, min_len=6),
    dict(max_len_b=9, unkpen=-2.0, min_len=0, lenpen=0.5),
)


@pytest.mark.parametrize("number", range(len(WINDOWS)))
@pytest.mark.parametrize("shape", ("post-norm", "shared"))
def test_jacobi(runtime, shape, number):
    """Passes and the pass of each token, too: the same words are guessed at the same places."""
    window = WINDOWS[number]
    # Each window with all limits, half of them on either model.
    for seed in range((number + (shape == "shared")) % 2, 4, 2):
        limits = LIMITS[seed]
        # Few words, so that many guesses come true.
        model = runtime.build(symbols=4, seed=seed, **SHAPES[shape])
        rows = runtime.sources(LENGTHS, symbols=4, seed=seed)
        options = {"beam": 1, "max_len_b": 24, **limits}
        guessing = runtime.options(**options, jacobi_mode="frontier", **window)
        found = runtime.check_equal(model, rows, guessing)
        with runtime.runtime_engine(model) as engine:
            greedy = engine.decode(rows, runtime.options(**options))
        assert [best[0].tokens for best in found] == [best[0].tokens for best in greedy]
        assert [best[0].positional_scores for best in found] == [
            best[0].positional_scores for best in greedy
        ]


def test_guesses_from_the_source(runtime):
    """Also where the source has fewer words left than are wanted, or none, and the model's own
    answers are left from the pass before."""
    for seed in range(12):
        model = runtime.build(symbols=3, seed=seed)
        rows = runtime.sources((2, 5, 9), symbols=3, seed=seed)
        # A line may hold </s> as a word of its own.
        rows += [[*rows[2][:3], 2, *rows[2][3:]], [2, *rows[1]]]
        options = dict(beam=1, max_len_b=20, jacobi_mode="frontier", jacobi_draft="source")
        runtime.check_equal(model, rows, runtime.options(jacobi_window=2 + seed % 6, **options))


def test_guesses_come_true(runtime):
    """Else the test above would say little: with each window but that of one token some sentence
    needs fewer passes than it has tokens."""
    for window in WINDOWS:
        fewer = 0
        for seed in range(4):
            model = runtime.build(symbols=4, seed=seed)
            with runtime.runtime_engine(model) as engine:
                options = runtime.options(beam=1, max_len_b=24, jacobi_mode="frontier", **window)
                found = engine.decode(runtime.sources(LENGTHS, symbols=4, seed=seed), options)
            fewer += sum(best[0].steps < len(best[0].tokens) for best in found)
        assert (fewer == 0) == (window["jacobi_window"] == 1), (window, fewer)


@pytest.mark.parametrize("symbols", (1, 2, 70))
def test_small_and_odd_vocabularies(runtime, symbols):
    for beam in (1, 3):
        model = runtime.build(symbols=symbols, target_symbols=symbols + 3, seed=beam)
        runtime.check_equal(
            model,
            runtime.sources((1, 2, 9), symbols=symbols),
            runtime.options(beam=beam, nbest=beam, max_len_b=8),
        )


HYBRID = (
    dict(beam=1), dict(beam=4, nbest=4), dict(beam=4, hrt_nat_beam=1),
    dict(beam=3, hrt_decode_chunk="3", nbest=2, lenpen=0.5), dict(beam=1, hrt_decode_chunk="1"),
    dict(beam=3, hrt_decode_chunk="auto", hrt_chunk_table="4:1,9:3,inf:2", hrt_nat_beam=2),
    dict(beam=1, hrt_eos_last_chunk=True, min_len=3), dict(beam=4, nbest=4, hrt_scoring="eq2"),
)  # fmt: skip


@pytest.mark.parametrize("shape, options", [*zip(SHAPES, HYBRID), *zip(SHAPES, reversed(HYBRID))])
def test_hybrid_regressive(runtime, shape, options):
    model = runtime.build("hrt_transformer", seed=2, **SHAPES[shape])
    runtime.check_equal(
        model, runtime.sources(LENGTHS), runtime.options(**{"max_len_b": 14, **options})
    )


CHANGES = (dict(hrt_relative_window=0), dict(hrt_relative_window=2), dict(hrt_tail_target="pad"),
           dict(hrt_chunk_sizes=[4, 2, 7]),
           dict(hrt_tail_target="pad"))  # fmt: skip
RULES = (
    dict(beam=1, unkpen=1.0), dict(beam=4, min_len=5, max_len_b=8), dict(beam=2, max_len_b=1),
    dict(beam=2, unnormalized=True, min_len=2), dict(beam=3, hrt_eos_last_chunk=True),
)  # fmt: skip


@pytest.mark.parametrize(
    "overrides, options", [*zip(CHANGES, RULES), *zip(CHANGES, reversed(RULES))]
)
def test_options_of_hybrid_regressive_models(runtime, overrides, options):
    model = runtime.build("hrt_transformer", seed=6, **overrides)
    chunk = str(max(model.decoder.chunk_sizes)) if options["beam"] > 1 else None
    runtime.check_equal(
        model,
        runtime.sources(LENGTHS),
        runtime.options(**{"max_len_b": 14, "hrt_decode_chunk": chunk, **options}),
    )


ORDERS = {
    "h=1 c=1": dict(bidirectional_directions=1),
    "h=1 c=3": dict(bidirectional_directions=1, bidirectional_tokens_per_step=3),
    "h=1 c=3, learned positions": dict(
        bidirectional_directions=1, bidirectional_tokens_per_step=3, decoder_learned_pos=True,
        max_target_positions=8
    ),
    "h=2": dict(), "h=2 c=2": dict(bidirectional_tokens_per_step=2),
    "h=4": dict(bidirectional_directions=4),
    "h=6 c=2": dict(bidirectional_directions=6, bidirectional_tokens_per_step=2),
    "z=1": dict(bidirectional_block=1),
    "vanilla": dict(bidirectional_vanilla_mask=True, bidirectional_vanilla_positions=True),
    "middle": dict(bidirectional_middle_to_side=True),
    "independent": dict(bidirectional_independent_directions=True),
    "independent c=2": dict(bidirectional_independent_directions=True,
                            bidirectional_tokens_per_step=2, decoder_layers=1),
    "starts": dict(bidirectional_distinct_starts=True),
    "starts h=4 c=2": dict(bidirectional_distinct_starts=True,
                           bidirectional_directions=4,
                           bidirectional_tokens_per_step=2),
}  # fmt: skip


SLOTS = (
    dict(beam=1), dict(beam=1, min_len=4, max_len_b=7, unkpen=1.0), dict(beam=4, nbest=4),
    dict(beam=3, nbest=2, lenpen=0.0, max_len_b=5),
    dict(beam=5, nbest=3, min_len=5, max_len_b=9, bidirectional_deduplicate=True),
)  # fmt: skip
PRINTED = (
    dict(beam=1), dict(beam=4, nbest=4), dict(beam=3, nbest=2, lenpen=0.6, max_len_b=5),
    dict(beam=5, nbest=5, min_len=5, max_len_b=9, unkpen=1.0), dict(beam=2, unnormalized=True),
)  # fmt: skip


@pytest.mark.parametrize(
    "order, options",
    [(order, SLOTS[(n + k) % 5]) for n, order in enumerate(ORDERS) for k in (0, 2)],
)
def test_bidirectional(runtime, order, options):
    model = runtime.build("bidirectional_transformer", seed=3, **ORDERS[order])
    runtime.check_equal(
        model, runtime.sources(LENGTHS), runtime.options(**{"max_len_b": 14, **options})
    )


@pytest.mark.parametrize("order", ORDERS)
def test_algorithm_1(runtime, order):
    """The printed search, also of models that write one word a step."""
    first = list(ORDERS).index(order)
    for seed in (first % 5, (first + 2) % 5):
        options = PRINTED[seed]
        model = runtime.build("bidirectional_transformer", symbols=6, seed=seed, **ORDERS[order])
        chosen = runtime.options(
            **{"max_len_b": 14, "bidirectional_scoring": "algorithm1", **options}
        )
        runtime.check_equal(model, runtime.sources(LENGTHS, symbols=6, seed=seed), chosen)


@pytest.mark.parametrize(
    "shape, beam", [(shape, 1 + 2 * (n % 2)) for n, shape in enumerate(SHAPES)]
)
def test_bidirectional_shapes(runtime, shape, beam):
    model = runtime.build(
        "bidirectional_transformer", seed=3, bidirectional_tokens_per_step=2, **SHAPES[shape]
    )
    runtime.check_equal(
        model, runtime.sources(LENGTHS), runtime.options(beam=beam, nbest=beam, max_len_b=14)
    )


GRAPHS = {
    "plain": {}, "all features": dict(dag_link_features="feature:position:sinposition"),
    "feature": dict(dag_link_features="feature"), "position": dict(dag_link_features="position"),
    "reach": dict(dag_max_transition_length=3, dag_count_bos=True),
    "predicted": dict(dag_upsample_base="predict", dag_upsample_scale="1.5"),
    "absolute": dict(
        dag_upsample_base="predict", dag_absolute_lengths=True, dag_length_classes=9,
        dag_read_bos=True),
    "words": dict(dag_upsample_base="source-words", dag_read_bos=True),
}  # fmt: skip


PATHS = (
    dict(), dict(dag_decode_strategy="greedy"),
    dict(dag_decode_strategy="viterbi", dag_max_graph=20),
    dict(dag_decode_strategy="joint-viterbi"),
    dict(dag_decode_beta=0.3, dag_allow_unk=True, unkpen=0.5),
    dict(dag_decode_strategy="joint-viterbi", dag_decode_length_beta=1.4, max_len_b=4),
    dict(dag_decode_strategy="greedy", max_len_b=3, lenpen=0.5, dag_max_graph=10),
    dict(dag_decode_upsample_scale=0.3), dict(dag_decode_upsample_scale=40.0, max_len_b=70),
    dict(dag_decode_strategy="joint-viterbi", dag_decode_upsample_scale=0.2),
)  # fmt: skip


@pytest.mark.parametrize(
    "graph, options, keep",
    [
        (graph, PATHS[n % 10], keep)
        # Each graph with four ways, each way with all that can become of repeats.
        for n, graph in enumerate(graph for graph in GRAPHS for _ in range(4))
        for keep in ((True, False, "collapsed")[(n + n // 10) % 3],)
        # Which follows links of the graph itself.
        if keep != "collapsed" or PATHS[n % 10].get("dag_decode_strategy") != "greedy"
    ],
)
def test_graphs(runtime, graph, options, keep):
    model = runtime.build("dag_transformer", seed=5, **{"dag_upsample_scale": "3", **GRAPHS[graph]})
    repeats = {"dag_repeats": keep} if keep == "collapsed" else {"dag_keep_repeats": keep}
    options = runtime.options(**{"beam": 1, "max_len_b": 30, **repeats, **options})
    runtime.check_equal(model, runtime.sources(LENGTHS), options)


@pytest.mark.parametrize("keep", (True, False))
@pytest.mark.parametrize("reach", (1, 2, 7))
def test_graphs_that_must_pass_many_repeats(runtime, reach, keep):
    """One word in the dictionary; links lead so far only that it is repeated, and its probability
    less than any number in double."""
    model = runtime.build(
        "dag_transformer",
        symbols=1,
        seed=5,
        dag_max_transition_length=reach,
        max_target_positions=500,
    )
    ways = [
        dict(dag_decode_strategy=strategy, **more)
        for strategy in ("lookahead", "viterbi", "joint-viterbi")
        for more in (dict(max_len_b=800), dict(max_len_b=3))
    ]
    ways += [dict(max_len_b=800, dag_decode_beta=beta) for beta in (0.0, 50.0)]
    # Each way with all reaches, and with and without repeats.
    for way in ways[(reach + keep) % 2 :: 2]:
        options = runtime.options(
            beam=1, dag_keep_repeats=keep, dag_decode_upsample_scale=20.0, **way
        )
        got = runtime.check_equal(model, runtime.sources(LENGTHS[-1:], symbols=1), options)
        assert all(best[0].score > -float("inf") for best in got)


@pytest.mark.parametrize("seed", range(14))
def test_best_paths_through_longer_graphs(runtime, seed):
    """Whether the limit of words or the exponent of the length decides, and however often words are
    repeated."""
    draw = random.Random(seed)
    words = draw.choice((1, 2, 12, 60))
    reach = draw.choice((None, None, 2, 6))
    model = runtime.build(
        "dag_transformer",
        symbols=words,
        seed=seed,
        dag_max_transition_length=reach,
        max_target_positions=150,
    )
    strategy = draw.choice(("viterbi", "joint-viterbi", "joint-viterbi", "lookahead"))
    exponent = draw.choice((-1.0, 0.0, 0.5, 1.0, 1.0, 1.4, 3.0))
    repeats = draw.choice((dict(), dict(dag_keep_repeats=True), dict(dag_repeats="collapsed")))
    options = runtime.options(
        beam=1,
        dag_decode_strategy=strategy,
        **repeats,
        dag_decode_upsample_scale=draw.choice((3.0, 5.0)),
        max_len_b=draw.choice((2, 5, 12, 30, 1000)),
        **({} if strategy == "lookahead" else dict(dag_decode_length_beta=exponent)),
    )
    runtime.check_equal(model, runtime.sources((24, 11, 3), symbols=words, seed=seed), options)


@pytest.mark.parametrize(
    "shape, strategy", [*zip(SHAPES, 3 * ("greedy", "lookahead", "joint-viterbi"))]
)
def test_graph_shapes(runtime, shape, strategy):
    model = runtime.build("dag_transformer", seed=5, dag_upsample_scale="3", **SHAPES[shape])
    options = runtime.options(
        beam=1, max_len_b=30, dag_keep_repeats=True, dag_decode_strategy=strategy
    )
    runtime.check_equal(model, runtime.sources(LENGTHS), options)


POSITIONS = {
    "copies": {}, "soft": dict(ctc_inputs="soft-copy"),
    "soft and cut": dict(ctc_inputs="soft-copy", max_target_positions=30, no_scale_embedding=True),
    "unk": dict(ctc_inputs="unk", ctc_upsample_scale=2.0),
    "few": dict(ctc_upsample_scale=0.3), "broken": dict(ctc_upsample_scale=2.7),
    "cut": dict(ctc_upsample_scale=2.0, max_target_positions=20),
    "learned": dict(ctc_upsample_scale=1.5, decoder_learned_pos=True, max_target_positions=16),
}  # fmt: skip
# A score is that of all positions of a sentence.
MANY = 5e-4
TEXTS = (
    dict(beam=1), dict(beam=4, nbest=4), dict(beam=1, max_len_b=3, lenpen=0.5),
    dict(beam=3, nbest=2, max_len_b=4, lenpen=0.0), dict(beam=5, nbest=3, min_len=6, unkpen=1.5),
    dict(beam=1, unkpen=float("inf"), unnormalized=True), dict(beam=12, nbest=12, unkpen=-2.0),
    dict(beam=2, unnormalized=True, max_len_a=0.5, max_len_b=0), dict(beam=1, max_len_b=0, min_len=0),
)  # fmt: skip


@pytest.mark.parametrize("positions", POSITIONS)
def test_words_and_blanks(runtime, positions):
    """With few words, so that prefixes of the beam meet again."""
    lengths, first = [], list(POSITIONS).index(positions)
    for seed in ((first + k) % 9 for k in (0, 2, 4, 7)):
        options = TEXTS[seed]
        words = (2, 5, 12)[seed % 3]
        model = runtime.build(
            "ctc_transformer", symbols=words, seed=seed, decoder_layers=1, own=True,
            **{"ctc_upsample_scale": 3.0, **POSITIONS[positions]},
        )  # fmt: skip
        # What is read decides what is written.
        model.decoder.embed_tokens.weight.data.mul_(4)
        if model.decoder.soft_copy is not None:
            model.decoder.soft_copy.log_temperature.data.fill_(seed - 3)
        rows = runtime.sources((*LENGTHS, 9), symbols=words, seed=seed)
        found = runtime.check_equal(
            model, rows, runtime.options(**{"max_len_b": 60, **options}), near=MANY
        )
        lengths += [len(one.tokens) for best in found for one in best]

    assert len(set(lengths)) > 3, lengths


@pytest.mark.parametrize(
    "shape, beam", [(shape, 1 + 3 * (n % 2)) for n, shape in enumerate(SHAPES)]
)
def test_shapes_of_models_that_write_blanks(runtime, shape, beam):
    model = runtime.build("ctc_transformer", seed=3, ctc_upsample_scale=2.0, **SHAPES[shape])
    options = runtime.options(beam=beam, nbest=beam, max_len_b=40)
    runtime.check_equal(model, runtime.sources(LENGTHS), options, near=MANY)


@pytest.mark.parametrize("arch, more", [
    ("transformer", {}), ("transformer", dict(jacobi_mode="frontier", jacobi_window=3)),
    ("hrt_transformer", dict(hrt_decode_chunk="2")),
    ("hrt_transformer", dict(hrt_decode_chunk="3")),
    ("hrt_transformer", dict(hrt_decode_chunk="3", hrt_eos_last_chunk=True)),
    ("bidirectional_transformer", {}),
    ("bidirectional_transformer", dict(bidirectional_deduplicate=True)),
])  # fmt: skip
@pytest.mark.parametrize("beam", (1, 3))
def test_sentences_whose_own_limit_is_below_the_minimum(runtime, arch, more, beam):
    """These are held to their limit; the others have at least the minimum."""
    model, beam = runtime.build(arch, seed=4), 1 if "jacobi_mode" in more else beam
    for limit in (dict(max_len_a=0.5, max_len_b=0), dict(max_len_a=0.3, max_len_b=1)):
        options = runtime.options(beam=beam, nbest=beam, min_len=4, **limit, **more)
        got = runtime.check_equal(model, runtime.sources((1, 2, 4, 5, 9, 23)), options)
        assert all(len(one.tokens) <= 3 for best in got[:2] for one in best)


def test_without_scores_the_words_are_the_same(runtime):
    for arch in (
        "transformer", "hrt_transformer", "bidirectional_transformer", "dag_transformer",
        "ctc_transformer",
    ):  # fmt: skip
        model, rows = runtime.build(arch, seed=7), runtime.sources(LENGTHS)
        with runtime.runtime_engine(model) as engine:
            ways = [dict(beam=beam) for beam in (1, 3)]
            if arch == "transformer":
                ways.append(dict(beam=1, jacobi_mode="frontier", jacobi_window=3))
            if arch == "dag_transformer":
                ways = [
                    dict(beam=1, dag_decode_strategy=strategy) for strategy in NATIVE_STRATEGIES
                ]
            for way in ways:
                full, bare = (
                    engine.decode(rows, runtime.options(scores=scores, max_len_b=12, **way))
                    for scores in (True, False)
                )
                for (one, *_), (other, *_) in zip(full, bare):
                    assert one.tokens == other.tokens
                    assert (one.steps, one.token_steps) == (other.steps, other.token_steps)
                    assert other.score is None and other.positional_scores == []


ALIGNED = {
    "greedy": ("transformer", dict(beam=1)), "beam": ("transformer", dict(beam=4, nbest=3)),
    "hybrid": ("hrt_transformer", dict(beam=3, nbest=2)),
    "one word a step": ("bidirectional_transformer", dict(beam=2, nbest=2)),
    "without repeats": ("bidirectional_transformer",
                        dict(beam=3, nbest=3, min_len=9, bidirectional_deduplicate=True)),
}  # fmt: skip


@pytest.mark.parametrize("way", ALIGNED)
def test_alignments(runtime, way):
    arch, options = ALIGNED[way]
    own = (
        dict(bidirectional_directions=1, bidirectional_block=1)
        if arch.startswith("bidirectional")
        else {}
    )
    model, rows = runtime.build(arch, seed=8, **own), runtime.sources((3, 1, 23, 9, 14))
    found = runtime.options(max_len_b=14, alignments=True, **options)
    expected = runtime.eager_results(model, rows, found, align=True)
    with runtime.runtime_engine(model, threads=2) as engine:
        got = engine.decode(rows, found)
        without = engine.decode(rows, runtime.options(max_len_b=14, **options))
    places = []
    for row, best, mine, plain in zip(rows, expected, got, without):
        for one, other, bare in zip(best, mine, plain):
            if other.tokens == one["tokens"].tolist():
                pairs = [(place, number) for number, place in enumerate(other.alignment[:-1])]
                assert one["alignment"] == pairs, (row, one, other)
            assert (bare.tokens, bare.score, bare.alignment) == (other.tokens, other.score, [])
            assert len(other.alignment) == len(other.tokens) and all(
                place < max(len(row) - 1, 1) for place in other.alignment
            )
            places += other.alignment
    assert len(set(places)) > 3


@pytest.mark.parametrize("arch", ["transformer", "hrt_transformer"])
def test_more_words_than_a_pass_takes(arch, runtime):
    """Of alignments 2,048, of hrt's second stage 4,096; each sentence is decoded as it is alone."""
    model = runtime.build(arch, seed=8, max_target_positions=120)
    rows = runtime.sources(range(3, 60))
    aligned = arch == "transformer"
    options = runtime.options(beam=1, min_len=90, max_len_b=95, scores=True, alignments=aligned)
    with runtime.runtime_engine(model) as engine:
        together = engine.decode(rows, options)
        assert sum(len(best[0].tokens) for best in together) > 5000
        assert together == [engine.decode([row], options)[0] for row in rows]


def test_what_is_not_aligned_is_refused(runtime):
    for arch, message in (
        ("bidirectional_transformer", "not aligned"),
        ("dag_transformer", "not aligned"),
        ("ctc_transformer", "not aligned"),
    ):
        with (
            runtime.runtime_engine(runtime.build(arch)) as engine,
            pytest.raises(ValueError, match=message),
        ):
            engine.decode([[4, 2]], runtime.options(beam=1, alignments=True))
    with (
        runtime.runtime_engine(runtime.build()) as engine,
        pytest.raises(ValueError, match="writes no graph"),
    ):
        engine.decode([[4, 2]], runtime.options(beam=1, graphs=True))


@pytest.mark.parametrize(
    "strategy, keep",
    [("greedy", True), ("lookahead", False), ("viterbi", True), ("joint-viterbi", False)],
)
def test_the_graph_itself(runtime, strategy, keep):
    model, rows = (
        runtime.build("dag_transformer", seed=5, dag_upsample_scale="3"),
        runtime.sources((3, 1, 11)),
    )
    options = runtime.options(
        beam=1, max_len_b=30, dag_keep_repeats=keep, dag_decode_strategy=strategy, graphs=True
    )
    expected = runtime.eager_graphs(model, rows, options)
    with runtime.runtime_engine(model) as engine:
        got = engine.decode(rows, options)
        plain = engine.decode(
            rows,
            runtime.options(
                beam=1, max_len_b=30, dag_keep_repeats=keep, dag_decode_strategy=strategy
            ),
        )
    for (tokens, scores, links, path), (mine,), (bare,) in zip(expected, got, plain):
        assert (
            bare.graph is None
            and bare.tokens == mine.tokens
            and bare.positional_scores == pytest.approx(mine.positional_scores, abs=1e-5)
        )
        graph = mine.graph
        assert graph.tokens.tolist() == tokens.tolist() and graph.links == pytest.approx(
            links.numpy(), abs=1e-4
        )
        assert graph.scores == pytest.approx(scores.numpy(), abs=1e-3)
        assert (
            mine.tokens == graph.tokens[graph.path].tolist() and graph.path[-1] == len(tokens) - 1
        )
        assert graph.path == path
