"""What comes before and after the block search: options, ensembles, the words in their natural
order, given translations."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from walking import order_by_walking

from fairseq_hrt.bidirectional.generator import BidirectionalGenerator
from fairseq_hrt.engine import to_fairseq
from fairseq_hrt.native.options.values import DecodingOptions

EOS, PAD = 2, 1
TOLERANCE = 2e-5


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("lenpen", [1.0, 0.5])
@torch.no_grad()
def test_one_word_a_step_decodes_like_fairseq(family, beam, lenpen):
    """Both through the plain search that the generator takes and through blocks of one."""
    stock, model = family.model(), family.bidirectional(directions=1)
    model.load_state_dict(stock.state_dict())
    sample = family.sample([5, 3, 6, 2])
    theirs = SequenceGenerator(
        [stock], family.dictionary(), beam_size=beam, max_len_b=12, len_penalty=lenpen
    )
    expected = theirs.generate([stock], sample)
    mine = family.generator(model, beam=beam, nbest=beam, max_len_b=12, lenpen=lenpen)
    found = mine.generate(None, sample)
    memories = mine.ensemble.encode(sample["net_input"])
    blocks = [[to_fairseq(h) for h in best] for best in mine.decode_blocks(memories)]
    for result in (found, blocks):
        for theirs_best, my_best in zip(expected, result):
            assert [h["tokens"].tolist() for h in theirs_best] == [
                h["tokens"].tolist() for h in my_best
            ]
            for a, b in zip(theirs_best, my_best):
                torch.testing.assert_close(
                    a["score"].double(), b["score"].double(), rtol=TOLERANCE, atol=TOLERANCE
                )
                torch.testing.assert_close(
                    a["positional_scores"].double(),
                    b["positional_scores"].double(),
                    rtol=TOLERANCE,
                    atol=TOLERANCE,
                )


@torch.no_grad()
def test_an_ensemble_averages_probabilities(family):
    models = [family.bidirectional(directions=2, seed=seed) for seed in (1, 2)]
    sample = family.sample([4, 6])
    twice = BidirectionalGenerator(
        [models[0]] * 2, family.dictionary(), DecodingOptions(beam=3, max_len_b=8)
    )
    single = BidirectionalGenerator(
        models[:1], family.dictionary(), DecodingOptions(beam=3, max_len_b=8)
    )
    for a, b in zip(twice.generate(None, sample), single.generate(None, sample)):
        assert [h["tokens"].tolist() for h in a] == [h["tokens"].tolist() for h in b]
    both = BidirectionalGenerator(
        models, family.dictionary(), DecodingOptions(beam=1, max_len_b=8, min_len=2)
    )
    best = both.generate(None, sample)[0][0]
    inputs = torch.tensor([[EOS, EOS]])
    net_input = family.one(sample, 0)
    probabilities = sum(
        m.decoder(inputs, encoder_out=m.encoder(**net_input))[0][0].softmax(-1) for m in models
    ) / 2  # fmt: skip
    probabilities[:, PAD] = 0
    first = probabilities.argmax(-1).tolist()
    probabilities[0, EOS] = probabilities[1, EOS] = 0
    first = probabilities.argmax(-1).tolist()
    written = [best["tokens"].tolist()[place] for place in (0, -2)]
    assert written == first
    # Probabilities, not their sums or products: those of the words of the first step are known.
    scores = [float(best["positional_scores"][place]) for place in (0, -2)]
    assert scores == pytest.approx(probabilities.max(-1).values.log().tolist(), abs=TOLERANCE)


@pytest.mark.parametrize(
    "other, option",
    [
        (dict(directions=4), "--bidirectional-directions"),
        (dict(tokens_per_step=2), "--bidirectional-tokens-per-step, --bidirectional-block"),
        (dict(middle_to_side=True), "--bidirectional-middle-to-side"),
        (dict(distinct_starts=True), "--bidirectional-distinct-starts"),
    ],
)
def test_an_ensemble_writes_in_one_order(family, other, option):
    """Whether it translates or scores."""
    task, model = family.task()
    models = [model, model, family.bidirectional(**other)]
    message = f"must agree in {option}: model 3 does not agree with the first one"
    with pytest.raises(ValueError, match=message):
        BidirectionalGenerator(models, family.dictionary(), DecodingOptions())
    with pytest.raises(ValueError, match=message):
        task.build_generator(models, SimpleNamespace(score_reference=True))


@torch.no_grad()
def test_steps_directions_history_and_hooks(family):
    model, sample = family.bidirectional(directions=2, tokens_per_step=2), family.sample([5])
    mine = family.generator(model, beam=1, max_len_b=9, min_len=7, retain_iter_history=True)
    seen = []
    mine.step_hooks.append(seen.append)
    best = mine.generate(None, sample)[0][0]
    count = best["tokens"].numel() - 1
    order = order_by_walking(count, 2)
    for slot, index in enumerate(order):
        assert best["token_steps"][index] == slot // 4 + 1
        assert best["token_directions"][index] == slot % 2
    assert best["steps"] == len(seen) == len(best["history"]) == -(-(count + 1) // 4)
    assert best["history"][-1]["tokens"].tolist() == best["tokens"].tolist()
    first = best["history"][0]["tokens"].tolist()
    assert [
        place for place, word in enumerate(first) if word != family.dictionary().unk()
    ] == sorted(order[:4])
    assert [step.positions.tolist() for step in seen][:2] == [[1, -1, 2, -2], [3, -3, 4, -4]]
    assert seen[0].tokens[0].tolist() == [best["tokens"][index].item() for index in order[:4]]


@torch.no_grad()
def test_repetitions_are_collapsed_on_request(family):
    model, sample = family.bidirectional(directions=2), family.sample([5, 4, 6, 7])
    plain = family.generator(model, beam=1, max_len_b=20, min_len=15).generate(None, sample)
    collapsed = family.generator(model, collapse=True, beam=1, max_len_b=20, min_len=15).generate(
        None, sample
    )
    shorter = 0
    for a, b in zip(plain, collapsed):
        assert (
            len({b[0][name].numel() for name in ("tokens", "positional_scores", "token_steps")})
            == 1
        )
        assert b[0]["score"] == a[0]["score"] and b[0]["tokens"][-1] == EOS
        shorter += b[0]["tokens"].numel() < a[0]["tokens"].numel()
    assert shorter


@torch.no_grad()
def test_prefixes_of_semi_autoregressive_models(family):
    model, sample = family.bidirectional(directions=1, tokens_per_step=3), family.sample([5, 4])
    prefix = torch.tensor([[7, 8, 9, 10], [5, PAD, PAD, PAD]])
    for beam in (1, 3):
        found = family.generator(model, beam=beam, max_len_b=9).generate(
            None, sample, prefix_tokens=prefix
        )
        assert found[0][0]["tokens"][:4].tolist() == [7, 8, 9, 10] and found[1][0]["tokens"][0] == 5
        forced = family.generator(
            model, beam=beam, max_len_b=9, forced_start="w3 w4 w5 w6"
        ).generate(None, sample)
        assert forced[0][0]["tokens"].equal(found[0][0]["tokens"])
        found[0][0]["positional_scores"][:4] = 0
        assert forced[0][0]["positional_scores"].equal(found[0][0]["positional_scores"])
    with pytest.raises(ValueError, match="--prefix-size"):
        family.generator(family.bidirectional(directions=2), beam=1).generate(
            None, sample, prefix_tokens=prefix
        )
    with pytest.raises(
        ValueError, match="--forced-start w1: a given beginning .*--bidirectional-directions 1"
    ):
        family.generator(family.bidirectional(directions=2), forced_start="w1")


def test_what_cannot_be_done_is_refused(family):
    with pytest.raises(ValueError, match="--no-repeat-ngram-size"):
        family.generator(family.bidirectional(directions=2), no_repeat_ngram_size=2)


@torch.no_grad()
def test_one_word_a_step_knows_every_scoring(family):
    """Asked for what the plain search does not know, block search decodes models of one word a step
    as well."""
    model, sample = family.bidirectional(directions=1, symbols=5), family.sample([4, 3], symbols=5)
    for options in (
        dict(scoring="paper"),
        dict(scoring="algorithm1"),
        dict(penalty="gnmt"),
        dict(scoring="paper", penalty="gnmt"),
    ):
        mine = family.generator(model, 5, beam=3, max_len_b=5, lenpen=0.6, **options)
        for row, best in enumerate(mine.generate(None, sample)):
            oracle = family.oracle(
                model, family.one(sample, row), limit=5, lenpen=0.6, gnmt="penalty" in options
            )
            expected = oracle.expected(options.get("scoring", "canonical"), 3)
            assert [h["tokens"].tolist() for h in best] == [list(words) for words, _ in expected]
            assert [float(h["score"]) for h in best] == pytest.approx(
                [score for _, score in expected], abs=TOLERANCE
            )
        with pytest.raises(
            ValueError, match="--no-repeat-ngram-size with --bidirectional-scoring paper"
        ):
            family.generator(model, 5, no_repeat_ngram_size=2, **options)
    assert family.generator(model, 5, no_repeat_ngram_size=2).plain
    with pytest.raises(ValueError, match="--bidirectional-length-penalty other"):
        family.generator(model, 5, penalty="other")


@pytest.mark.parametrize("directions", [1, 2, 4])
@torch.no_grad()
def test_references_are_scored_like_found_translations(family, directions):
    task, model = family.task(model=dict(directions=directions, tokens_per_step=2))
    sample = family.sample([4, 6, 3])
    generator = BidirectionalGenerator(
        [model], family.dictionary(), DecodingOptions(beam=3, max_len_b=9)
    )
    best = [hypotheses[0] for hypotheses in generator.generate(None, sample)]
    width = max(hypothesis["tokens"].numel() for hypothesis in best)
    sample["target"] = torch.full((3, width), PAD)
    for row, hypothesis in zip(sample["target"], best):
        row[: hypothesis["tokens"].numel()] = hypothesis["tokens"]
    scorer = task.build_generator([model, model], SimpleNamespace(score_reference=True))
    found = scorer.generate([model, model], sample)
    assert len(found) == len(best)
    for hypothesis, (scored,) in zip(best, found):
        assert scored["tokens"].tolist() == hypothesis["tokens"].tolist()
        torch.testing.assert_close(
            scored["positional_scores"], hypothesis["positional_scores"], rtol=1e-4, atol=1e-4
        )
        assert float(scored["score"]) == pytest.approx(float(hypothesis["score"]), abs=1e-4)
