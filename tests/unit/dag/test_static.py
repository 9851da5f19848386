"""Paths by one function of fixed shapes: equal to the ordinary search, and fit for a recording."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.dag.generator import DagGenerator
from fairseq_hrt.native.options.values import DecodingOptions

STRATEGIES = ["greedy", "lookahead", "viterbi", "joint-viterbi"]


def both(family, model, strategy, **options):
    """Two generators for one model: the ordinary one, and that of fixed shapes, which may not fall
    back on it."""
    chosen = DecodingOptions(
        **{
            "dag_decode_strategy": strategy,
            "dag_decode_upsample_scale": 2.0,
            "unkpen": float("inf"),
            **options,
        }
    )
    generators = [DagGenerator([model], family.dictionary(), chosen) for _ in range(2)]
    generators[0].static, generators[1].static = False, True
    return generators


def found(generator, model, sample):
    return [
        (best[0].tokens, best[0].token_vertices, best[0].steps, best[0].token_steps)
        for best in generator.find(sample)
    ], [
        number
        for best in generator.find(sample)
        for number in (best[0].score, *best[0].positional_scores)
    ]


def compare(family, model, sample, strategy, *, falls_back=False, tolerance=1e-9, **options):
    ordinary, static = both(family, model, strategy, **options)
    expected, scores = found(ordinary, model, sample)
    same, numbers = found(static, model, sample)
    assert same == expected
    assert numbers == pytest.approx(scores, abs=tolerance, rel=tolerance)
    assert falls_back == bool(static._obstacles), static._obstacles


SHAPES = {
    "single": [5],
    "ragged": [5, 3, 6],
    "one token": [1],
    "one token beside others": [4, 1, 2],
    "the end of a bucket": [16],
    "one behind a bucket": [17, 3],
    "rows of padding": [7, 6, 5, 4, 9],
}


@pytest.mark.parametrize("lengths", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_batches_of_all_shapes_are_decoded_alike(family, strategy, lengths):
    compare(family, family.dag(), family.sample(lengths, seed=4), strategy)


@pytest.mark.parametrize(
    "options",
    [
        dict(dag_keep_repeats=True),
        dict(dag_repeats="collapsed"),
        dict(dag_decode_beta=0.4),
        dict(dag_decode_beta=0.0),
        dict(dag_decode_length_beta=1.7),
        dict(dag_decode_length_beta=-1.0),
        dict(dag_allow_unk=True, unkpen=0.5),
        dict(max_len_a=0.0, max_len_b=2),
        dict(max_len_a=0.0, max_len_b=1),
        dict(lenpen=0.0),
        dict(unnormalized=True),
        dict(dag_decode_upsample_scale=0.4),
        dict(dag_decode_upsample_scale=3.3),
        dict(dag_decode_upsample_scale=40.0),
        dict(retain_iter_history=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_options_are_honoured(family, strategy, options):
    compare(family, family.dag(), family.sample([5, 3, 6], seed=1), strategy, **options)


@pytest.mark.parametrize(
    "model",
    [
        dict(max_transition_length=2),
        dict(max_transition_length=5),
        dict(count_bos=True),
        dict(link_features="feature"),
        dict(link_features="feature:sinposition"),
        dict(encoder_normalize_before=True, decoder_normalize_before=True),
        dict(encoder_learned_pos=True, decoder_learned_pos=True, max_source_positions=20),
        dict(share_decoder_input_output_embed=True),
        dict(decoder_output_dim=8),
    ],
    ids=str,
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_models_are_honoured(family, strategy, model):
    compare(family, family.dag(**model), family.sample([5, 3, 18], seed=1), strategy)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_batch(family, data):
    lengths = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=5))
    reach = data.draw(st.sampled_from([None, None, 1, 3]))
    model = family.dag(seed=data.draw(st.integers(0, 50)), max_transition_length=reach)
    compare(
        family,
        model,
        family.sample(
            lengths, seed=data.draw(st.integers(0, 50)), left_pad=data.draw(st.booleans())
        ),
        data.draw(st.sampled_from(STRATEGIES)),
        dag_decode_upsample_scale=data.draw(st.sampled_from([0.5, 1.0, 2.0, 4.5])),
        dag_decode_beta=data.draw(st.sampled_from([0.3, 1.0, 1.5])),
        dag_keep_repeats=data.draw(st.booleans()),
        max_len_a=data.draw(st.sampled_from([0.0, 0.5, 2.0])),
        max_len_b=data.draw(st.integers(1, 9)),
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_other_precisions(family, strategy, dtype, tolerance):
    model = family.dag().to(dtype)
    compare(family, model, family.sample([5, 3, 6], seed=1), strategy, tolerance=tolerance)


def test_weights_are_read_anew(family):
    model, sample = family.dag(), family.sample([5, 3, 6])
    ordinary, static = both(family, model, "lookahead", static_weights=False)
    before = found(static, model, sample)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    after = found(static, model, sample)
    assert after[0] != before[0] and after[0] == found(ordinary, model, sample)[0]
    model.float()
    assert found(static, model, sample)[0] == found(ordinary, model, sample)[0]
