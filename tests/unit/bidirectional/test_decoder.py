"""The decoder: equal to the stock Transformer for one word a step, cached steps equal to the full
pass."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_hrt.autoregressive.task import (
    AutoregressiveTranslationConfig,
    AutoregressiveTranslationTask,
)
from fairseq_hrt.bidirectional.sample import slot_sample
from fairseq_hrt.bidirectional.slots import natural_index, slot_mask
from fairseq_hrt.engine.transformer import TransformerEngine

SHAPES = [(1, 1), (1, 3), (2, 1), (2, 2), (2, 4), (4, 1), (6, 1)]
ABLATIONS = [
    "vanilla_mask",
    "vanilla_positions",
    "middle_to_side",
    "independent_directions",
]  # distinct starts: test_search


def assert_close(found, expected):
    """fairseq's attention takes its softmax in float32, whatever the type of the model."""
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


def words(rows, count, seed=0):
    return torch.randint(4, 16, (rows, count), generator=torch.Generator().manual_seed(seed))


def slot_inputs(model, rows, steps, seed=0):
    block = model.decoder.block
    return torch.cat([torch.full((rows, block), 2), words(rows, (steps - 1) * block, seed)], 1)


@pytest.mark.parametrize("learned", [False, True])
@torch.no_grad()
def test_one_word_a_step_is_the_stock_transformer(family, learned):
    """A stock checkpoint loads strictly and gives the same logits."""
    stock = family.model(decoder_learned_pos=learned)
    model = family.bidirectional(directions=1, seed=7, decoder_learned_pos=learned)
    model.load_state_dict(stock.state_dict(), strict=True)
    sample, tokens = family.sample([5, 3, 6]), words(3, 7)
    tokens[:, 0] = 2
    assert_close(
        model(**sample["net_input"], prev_output_tokens=tokens)[0],
        stock(**sample["net_input"], prev_output_tokens=tokens)[0],
    )
    slots = slot_sample(tokens, 1, 1, start=2, pad=1, eos=2)
    logits = stock(**sample["net_input"], prev_output_tokens=slots.input)[0]
    assert_close(model(**sample["net_input"], slots=slots), logits.flatten(0, 1))


@pytest.mark.parametrize("count, positions", [(3, 8), (3, 6), (2, 9), (4, 4), (1, 7)])
def test_learned_positions_end_with_a_whole_step(family, count, positions):
    """The longest targets that a model takes are trained and decoded, whatever the number of its
    positions."""
    options = dict(
        directions=1,
        tokens_per_step=count,
        decoder_learned_pos=True,
        max_target_positions=positions,
    )
    task, model = family.task(model=options)
    longest = model.max_decoder_positions()
    assert positions - count < longest <= positions and longest % count == 0
    batch = task.add_slots(family.batch([longest - 1, 1]))
    assert model(**batch["net_input"], slots=batch["slots"]).isfinite().all()
    for beam in (1, 3):
        found = family.generator(
            model, beam=beam, min_len=longest - 1, max_len_b=positions
        ).generate([model], batch)
        assert [len(best[0]["tokens"]) for best in found] == [longest, longest]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ablation", [None, *ABLATIONS])
@torch.no_grad()
def test_cached_steps_equal_the_full_pass(family, shape, ablation):
    directions, count = shape
    if (ablation == "middle_to_side" and directions != 2) or (
        ablation == "independent_directions" and directions == 1
    ):
        pytest.skip("refused for this shape")
    options = {ablation: True} if ablation else {}
    model = family.bidirectional(directions=directions, tokens_per_step=count, **options)
    decoder, sample = model.decoder, family.sample([5, 3])
    inputs = slot_inputs(model, 2, 4)
    encoder_out = model.encoder(**sample["net_input"])
    expected = decoder(inputs, encoder_out=encoder_out)[0]
    engine = TransformerEngine(model)
    state, parts = engine.start(engine.encode(sample["net_input"])), []
    for first in range(0, inputs.size(1), decoder.block):
        slots = torch.arange(first, first + decoder.block)
        visible = decoder.visible_keys(first)
        parts.append(
            engine.step(state, inputs[:, slots], slots, causal=decoder.causal, visible=visible)
        )
    assert_close(engine.logits(torch.cat(parts, 1)), expected)


@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_who_sees_whom(family, shape):
    """A changed input changes exactly the slots whose mask row allows it."""
    directions, count = shape
    model = family.bidirectional(directions=directions, tokens_per_step=count, decoder_layers=1)
    # Equal attention to all: a peaked softmax hides what it could see.
    model.decoder.layers[0].self_attn.q_proj.weight.zero_()
    encoder_out = model.encoder(**family.sample([4])["net_input"])
    inputs = slot_inputs(model, 1, 3)
    before = model.decoder(inputs, encoder_out=encoder_out)[0][0]
    mask = slot_mask(inputs.size(1), directions, count)
    for slot in range(inputs.size(1)):
        changed = inputs.clone()
        changed[0, slot] = 15 if inputs[0, slot] != 15 else 14
        difference = (model.decoder(changed, encoder_out=encoder_out)[0][0] - before).abs().amax(1)
        assert torch.equal(difference > 1e-9, mask[:, slot])


@torch.no_grad()
def test_independent_directions_do_not_see_each_other(family):
    model = family.bidirectional(directions=2, independent_directions=True)
    encoder_out = model.encoder(**family.sample([4])["net_input"])
    inputs = slot_inputs(model, 1, 3)
    before = model.decoder(inputs, encoder_out=encoder_out)[0][0]
    inputs[0, 2] = 19 - inputs[0, 2]
    difference = (model.decoder(inputs, encoder_out=encoder_out)[0][0] - before).abs().amax(
        1
    ) > 1e-9
    assert difference.tolist() == [False, False, True, False, True, False]


@torch.no_grad()
def test_the_engine_follows_learned_directions(family):
    model = family.bidirectional(directions=4)
    engine = TransformerEngine(model)
    engine.embed.reserve(8)
    model.decoder.embed_positions.directions.data.add_(1.0)
    engine.refresh()
    torch.testing.assert_close(engine.embed.table[:8], model.decoder.embed_positions.slot_table(8))


@pytest.mark.parametrize("directions", [1, 2, 4])
def test_fine_tuning_starts_from_an_autoregressive_checkpoint(family, directions):
    """Only direction vectors may be missing."""
    stock = family.model(share_all_embeddings=True)
    model = family.bidirectional(
        directions=directions, tokens_per_step=2, share_all_embeddings=True, seed=3
    )
    directions_before = [p.clone() for n, p in model.named_parameters() if n.endswith("directions")]
    model.load_state_dict(stock.state_dict(), strict=True)
    assert torch.equal(model.decoder.layers[0].fc1.weight, stock.decoder.layers[0].fc1.weight)
    for before in directions_before:
        assert torch.equal(model.decoder.embed_positions.directions, before)


def test_learned_positions_of_a_checkpoint_are_named(family):
    with pytest.raises(
        ValueError,
        match="learned decoder positions.*--bidirectional-directions 1 --decoder-learned-pos",
    ):
        family.bidirectional(directions=2).load_state_dict(
            family.model(decoder_learned_pos=True).state_dict()
        )


def test_other_numbers_of_directions_are_refused(family):
    with pytest.raises(ValueError, match="vectors for 6 directions.*--bidirectional-directions 4"):
        family.bidirectional(directions=4).load_state_dict(
            family.bidirectional(directions=6).state_dict()
        )
    with pytest.raises(ValueError, match="vectors for 6 directions"):
        family.bidirectional(directions=2).load_state_dict(
            family.bidirectional(directions=6).state_dict()
        )


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(directions=3), "--bidirectional-directions 3: give 1"),
        (dict(tokens_per_step=0), "--bidirectional-tokens-per-step 0"),
        (
            dict(directions=2, decoder_learned_pos=True),
            "--decoder-learned-pos with --bidirectional-directions 2",
        ),
        (dict(directions=4, middle_to_side=True), "--bidirectional-middle-to-side.*needs two"),
        (dict(directions=1, independent_directions=True), "--bidirectional-independent-directions"),
        (
            dict(directions=1, distinct_starts=True),
            "--bidirectional-distinct-starts.*needs two or more",
        ),
        (
            dict(directions=2, block=1, distinct_starts=True),
            "--bidirectional-distinct-starts with --bidirectional-block 1",
        ),
        (dict(directions=2, block=3), "--bidirectional-block 3"),
        (
            dict(directions=2, block=1, tokens_per_step=2),
            "--bidirectional-tokens-per-step 2 with --bidirectional-block 1",
        ),
        (
            dict(directions=1, tokens_per_step=4, decoder_learned_pos=True, max_target_positions=3),
            "--max-target-positions 3 must be at least 4, the words per step",
        ),
        (dict(directions=2, adaptive_softmax_cutoff="4,8"), "--adaptive-softmax-cutoff"),
        (dict(no_cross_attention=True), "--no-cross-attention"),
        (
            dict(vanilla_positions=True, no_token_positional_embeddings=True),
            "--bidirectional-vanilla-positions with --no-token-positional-embeddings",
        ),
    ],
)
def test_contradictions_are_named(family, options, message):
    with pytest.raises(ValueError, match=message):
        family.bidirectional(**options)


def test_the_stock_search_is_refused_where_it_would_be_wrong(family):
    model, sample = family.bidirectional(directions=2), family.sample([3])
    encoder_out = model.encoder(**sample["net_input"])
    with pytest.raises(ValueError, match="translation_bidirectional"):
        model.decoder(torch.tensor([[2]]), encoder_out=encoder_out, incremental_state={})


def test_natural_index_is_what_the_sample_uses(family):
    targets = torch.tensor([[5, 6, 7, 8, 2]])
    for directions in (1, 2, 4):
        ordered = slot_sample(targets, directions, directions, start=2, pad=1, eos=2).target[0, :5]
        assert (
            ordered.tolist()
            == targets[0][natural_index(torch.arange(5), torch.tensor(4), directions)].tolist()
        )


def test_the_autoregressive_task_takes_only_what_it_can_decode(family):
    task = AutoregressiveTranslationTask(
        AutoregressiveTranslationConfig(), family.dictionary(), family.dictionary()
    )
    for options in (
        dict(directions=2),
        dict(directions=1, tokens_per_step=2),
        dict(directions=2, block=1),
    ):
        with pytest.raises(ValueError, match="--task translation_bidirectional"):
            task.build_generator([family.bidirectional(**options)], SimpleNamespace())
    sample = family.sample([4, 3])
    model = family.bidirectional(directions=1)
    found = task.build_generator([model], SimpleNamespace(beam=2, max_len_b=8)).generate(
        None, sample
    )
    own, _ = family.task()
    expected = own.build_generator([model], SimpleNamespace(beam=2, max_len_b=8)).generate(
        None, sample
    )
    assert [h["tokens"].tolist() for best in found for h in best] == [
        h["tokens"].tolist() for best in expected for h in best
    ]
