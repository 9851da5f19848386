"""The CTC family: inputs, losses, glancing, searches and scores against enumeration and naive
loops."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from batch_independence import assert_independent, batches
from fairseq.data import LanguagePairDataset, ListDataset
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_device import SimulatedDevice, assert_decodes_there

from fairseq_hrt.ctc.beam import prefix_beam
from fairseq_hrt.ctc.config import CtcTaskConfig
from fairseq_hrt.ctc.criterion import CtcNgramLoss, CtcNllLoss, fits
from fairseq_hrt.ctc.generator import CtcGenerator
from fairseq_hrt.ctc.model import CtcTransformerModel, Glancing
from fairseq_hrt.ctc.sample import InputRule, ctc_sample
from fairseq_hrt.ctc.task import CtcTranslationTask
from fairseq_hrt.native.families.ctc import INPUTS
from fairseq_hrt.native.options.values import DecodingOptions
from fairseq_hrt.ops import ctc_best_alignment

BLANK, PAD, EOS, UNK = 0, 1, 2, 3


def printed(output):
    return tuple(word for word, _ in itertools.groupby(output) if word != BLANK)


def make_model(tiny, **options):
    return tiny.model("ctc_transformer", symbols=8, **options)


def with_targets(sample, words):
    generator = torch.Generator().manual_seed(7)
    target = torch.full((len(words), max(words) + 1), PAD)
    for row, count in enumerate(words):
        target[row, :count] = torch.randint(4, 12, (count,), generator=generator)
        target[row, count] = EOS
    return {**sample, "target": target}


def make_task(tiny, model):
    words = tiny.dictionary(8)
    task = CtcTranslationTask(CtcTaskConfig(seed=5), words, words)
    task.decoder = model.decoder
    return task


def generator_of(tiny, **options):
    values = {"beam": 1, "max_len_b": 40, **options}
    return lambda model: CtcGenerator([model], tiny.dictionary(8), DecodingOptions(**values))


# ------------------------------------------------------------------ inputs


@pytest.mark.parametrize("scale, lengths", [(1.0, [3, 1]), (2.0, [6, 2]), (1.5, [4, 1]),
                                            (0.1, [1, 1])])  # fmt: skip
@pytest.mark.parametrize("left", [False, True])
def test_each_source_token_is_read_lambda_times(scale, lengths, left):
    source = torch.tensor([[5, 6, EOS], [PAD, PAD, EOS] if left else [EOS, PAD, PAD]])
    rule = InputRule(scale=scale, copies=True, most=64, pad=PAD, unk=UNK)
    inputs, found = rule.inputs(source)
    assert found.tolist() == lengths
    for row, tokens, length in zip(inputs.tolist(), ([5, 6, EOS], [EOS]), lengths):
        expected = [tokens[min(int(place / scale + 1e-9), len(tokens) - 1)]
                    for place in range(length)]  # fmt: skip
        assert row == expected + [PAD] * (inputs.size(1) - length)
    unknown, _ = rule._replace(copies=False).inputs(source)
    assert torch.equal(unknown.eq(PAD), inputs.eq(PAD)) and set(unknown.flatten().tolist()) <= {
        PAD, UNK,
    }  # fmt: skip
    assert rule._replace(most=2).inputs(source)[1].max() <= 2


def test_copies_need_one_dictionary(tiny):
    from argparse import Namespace

    from fairseq_hrt.ctc.model import CtcTransformerModel

    task = Namespace(source_dictionary=tiny.dictionary(8), target_dictionary=tiny.dictionary(9))
    for inputs in ("copy", "soft-copy"):
        arguments = tiny.arguments("ctc_transformer", ctc_inputs=inputs)
        with pytest.raises(ValueError, match=f"--ctc-inputs {inputs} .*--joined-dictionary"):
            CtcTransformerModel.build_model(arguments, task)
    with pytest.raises(ValueError, match="--ctc-upsample-scale 0.0 must be greater than 0"):
        make_model(tiny, ctc_upsample_scale=0.0)


def test_a_soft_copy_is_the_mixture_of_a_naive_loop(tiny):
    model = make_model(tiny, ctc_upsample_scale=2.5, ctc_inputs="soft-copy")
    decoder, source = model.decoder, torch.tensor([[5, 6, 7, EOS], [PAD, PAD, 9, EOS]])
    words = decoder.embed_tokens.weight
    for temperature in (0.05, 0.3, 2.0):
        decoder.soft_copy.log_temperature.data.fill_(math.log(temperature))
        found = decoder.input_vectors(source, 10, words)
        for row, tokens in enumerate(([5, 6, 7, EOS], [9, EOS])):
            for place in range(10):
                weights = [
                    math.exp(-abs(token + 0.5 - (place + 0.5) / 2.5) / temperature)
                    for token in range(len(tokens))
                ]
                expected = sum(
                    weight / sum(weights) * words[token] for weight, token in zip(weights, tokens)
                )
                assert torch.allclose(found[row, place], expected, atol=1e-5)
    found.sum().backward()
    assert float(decoder.soft_copy.log_temperature.grad.abs()) > 0


def test_the_narrowest_soft_copy_is_a_copy(tiny):
    """In training, with glancing and without, and in decoding."""
    plain, soft = (
        make_model(tiny, ctc_upsample_scale=3.0, ctc_inputs=inputs)
        for inputs in ("copy", "soft-copy")
    )
    soft.load_state_dict(plain.state_dict(), strict=True)
    soft.decoder.soft_copy.log_temperature.data.fill_(-6.0)
    sample = with_targets(tiny.sample([4, 3, 6], symbols=8), [4, 2, 5])
    source = {key: sample["net_input"][key] for key in ("src_tokens", "src_lengths")}
    ctc = make_task(tiny, plain).ctc_sample(sample, 1)
    inside = ctc.inputs.ne(PAD)
    for glancing in (None, Glancing(0.7, 5)):
        one, two = (model(**source, ctc=ctc, glancing=glancing) for model in (plain, soft))
        assert torch.allclose(one.log_probs[inside], two.log_probs[inside], atol=1e-4)
    assert int(one.shown.sum()) > 0
    for beam in (1, 3):
        found = [generator_of(tiny, beam=beam)(model).generate([model], sample)
                 for model in (plain, soft)]  # fmt: skip
        texts = [[best[0]["tokens"].tolist() for best in own] for own in found]
        assert texts[0] == texts[1]
    one = plain(**source, ctc=ctc)
    soft.decoder.soft_copy.log_temperature.data.fill_(1.0)
    wide = soft(**source, ctc=ctc)
    assert not torch.allclose(wide.log_probs[inside], one.log_probs[inside], atol=1e-2)


def test_a_checkpoint_of_another_rule_is_named(tiny, caplog):
    trained = make_model(tiny, ctc_upsample_scale=3.0).state_dict()
    for changes, expected in (
        ({}, ""),
        (dict(ctc_upsample_scale=2.0), "--ctc-upsample-scale 3 --ctc-inputs copy"),
        (dict(ctc_inputs="unk"), "--ctc-upsample-scale 3 --ctc-inputs copy"),
    ):
        model = make_model(tiny, **{"ctc_upsample_scale": 3.0, **changes})
        caplog.clear()
        model.load_state_dict(dict(trained), strict=True)
        assert model.decoder.refitted == (expected and f"that model was trained with {expected}")
        assert bool(caplog.messages) == bool(expected)
        # Checkpoints of this model have its own rule.
        again = make_model(tiny, **{"ctc_upsample_scale": 3.0, **changes})
        again.load_state_dict(model.state_dict(), strict=True)
        assert again.decoder.refitted == ""
    # Before ctc models had one, and where a Transformer is fine-tuned.
    trained.pop("decoder.input_rule")
    soft = make_model(tiny, ctc_upsample_scale=3.0, ctc_inputs="soft-copy")
    soft.load_state_dict(dict(trained), strict=True)
    assert soft.decoder.refitted == "that model has no soft copy"
    for broken in (torch.zeros(0), torch.tensor([1.5, -3.0, 2.0])):
        soft.load_state_dict({**soft.state_dict(), "decoder.input_rule": broken}, strict=True)
        assert "was trained with --ctc-upsample-scale" in soft.decoder.refitted


# ------------------------------------------------------------------ losses


def test_losses_of_a_batch_whose_last_target_does_not_fit(tiny):
    model = make_model(tiny, ctc_upsample_scale=2.0)
    sample = with_targets(tiny.sample([4, 3, 1], symbols=8), [4, 2, 5])
    task = make_task(tiny, model)
    ctc = task.ctc_sample(sample, None)
    assert fits(ctc).tolist() == [True, True, False]
    loss, size, log = CtcNllLoss(task, "0")(model, task.prepared(sample, None))
    loss.backward()
    assert (size, log["skipped"], log["ntokens"]) == (2, 1, 6)
    output = model(**{k: sample["net_input"][k] for k in ("src_tokens", "src_lengths")}, ctc=ctc)
    total = 0.0
    for row in range(2):
        target = tuple(ctc.targets[row, : ctc.target_lengths[row]].tolist())
        words = sorted({*target, BLANK})
        masses = [
            math.exp(
                sum(
                    float(output.log_probs[row, place, word].detach())
                    for place, word in enumerate(o)
                )
            )
            for o in itertools.product(words, repeat=int(ctc.lengths[row]))
            if printed(o) == target
        ]
        total -= math.log(math.fsum(masses)) / (len(target) + 1)
    assert float(loss) == pytest.approx(total)
    assert all(torch.isfinite(one.grad).all() for one in model.parameters() if one.grad is not None)
    loss, size, log = CtcNgramLoss(task, "0", 2)(model, task.prepared(sample, None))
    assert size == 2 and -2 <= float(loss) <= 0 and 0 <= float(log["precision"]) <= 2
    with pytest.raises(ValueError, match="--ctc-ngram-order 4 must be 1, 2 or 3"):
        CtcNgramLoss(task, "0", 4)


def test_padding_of_buckets_is_no_position(tiny, caplog):
    """Sources of 2 and 6 tokens in one bucket, of 6, for targets of 5 words."""
    sizes = np.array([2, 6]), np.array([6, 6])
    sides = [ListDataset([torch.full((size,), 5) for size in own], own) for own in sizes]
    words = tiny.dictionary(8)
    dataset = LanguagePairDataset(
        sides[0], sizes[0], words, sides[1], sizes[1], words, num_buckets=1
    )
    task = make_task(tiny, make_model(tiny, ctc_upsample_scale=2.0))
    task.cfg.train_subset, task.datasets["train"] = "train", dataset
    task.filter_indices_by_size(np.arange(2), dataset, (64, 64), True)
    assert "2: 1 of 2 training pairs have fewer positions than words" in caplog.text


def test_equal_words_need_a_blank_between_them():
    rule = InputRule(scale=1.0, copies=True, most=64, pad=PAD, unk=UNK)
    source = torch.tensor([[5, 6, 7, EOS]] * 2)
    batch = {"id": torch.arange(2), "net_input": {"src_tokens": source},
             "target": torch.tensor([[5, 5, 5, EOS], [5, 6, 5, EOS]])}  # fmt: skip
    assert fits(ctc_sample(batch, rule, update=0, eos=EOS)).tolist() == [False, True]


def test_glancing_shows_what_the_best_alignment_of_the_target_writes(tiny, monkeypatch):
    model = make_model(tiny, ctc_upsample_scale=2.0)
    sample = with_targets(tiny.sample([5, 3], symbols=8), [4, 3])
    task = make_task(tiny, model)
    ctc, source = task.ctc_sample(sample, 3), sample["net_input"]
    seen = []
    forward = model.decoder.forward
    monkeypatch.setattr(
        model.decoder,
        "forward",
        lambda tokens, **own: seen.append(tokens) or forward(tokens, **own),
    )
    call = dict(src_tokens=source["src_tokens"], src_lengths=source["src_lengths"], ctc=ctc)
    plain = model(**call)
    sizes = (ctc.targets, ctc.lengths, ctc.target_lengths)
    aligned, _ = ctc_best_alignment(plain.log_probs, *sizes, blank=BLANK)
    found = model(**call, glancing=Glancing(1.0, 5))
    chosen = seen[-1] != ctc.inputs
    assert torch.equal(seen[-1][chosen], aligned[chosen]) and chosen.any()
    assert torch.equal(seen[-1], torch.where(seen[-1] == aligned, aligned, ctc.inputs))
    inside = torch.arange(aligned.size(1)) < ctc.lengths.unsqueeze(1)
    wrong = (plain.log_probs.argmax(2) != aligned) & inside
    assert found.wrong.tolist() == wrong.sum(1).tolist()
    assert 0 < int(found.shown.sum()) <= int(ctc.lengths.sum())
    again = model(**call, glancing=Glancing(1.0, 5))
    assert torch.equal(found.log_probs, again.log_probs)
    assert int(model(**call, glancing=Glancing(0.0, 5)).shown.sum()) == 0


# ------------------------------------------------------------------ searches


class Bigrams:
    """A language model whose state is the last word."""

    def score(self, pair):
        before, word = pair
        return -0.7 * (word or 0) - 0.4 * (before == 2) + 0.2 * (word is None)

    def start(self):
        return None

    def step(self, state, word):
        return word, self.score((state, word))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 5), st.integers(0, 999), st.booleans())
def test_prefix_beam_finds_every_text_with_its_probability(positions, words, longest, seed, judged):
    generator = torch.Generator().manual_seed(seed)
    scores = (torch.randn(positions, words + 1, generator=generator).double() * 2).log_softmax(-1)
    bigrams = Bigrams()
    found = prefix_beam(
        scores[:, BLANK].tolist(),
        [list(zip(range(1, words + 1), row)) for row in scores[:, 1:].tolist()],
        beam=10**6, longest=longest, language_model=bigrams if judged else None,
    )  # fmt: skip
    expected = {}
    for output in itertools.product(range(words + 1), repeat=positions):
        text = printed(output)
        if len(text) <= longest:
            mass = math.exp(sum(float(row[word]) for row, word in zip(scores, output)))
            expected[text] = expected.get(text, 0.0) + mass
    assert {text.words for text in found} == expected.keys()
    ranks = []
    for text in found:
        assert text.log_prob == pytest.approx(math.log(expected[text.words]))
        pairs = list(zip((None, *text.words), (*text.words, None)))
        assert text.bonus == pytest.approx(sum(map(bigrams.score, pairs)) if judged else 0.0)
        ranks.append(text.log_prob + (sum(map(bigrams.score, pairs[:-1])) if judged else 0.0))
    assert ranks == sorted(ranks, reverse=True)


def test_greedy_prints_the_best_token_of_each_position(tiny):
    model, sample = make_model(tiny), tiny.sample([5, 3, 6], symbols=8)
    found = generator_of(tiny)(model).generate([model], sample)
    inputs, lengths = model.decoder.rule.inputs(sample["net_input"]["src_tokens"])
    for row in range(3):
        source = sample["net_input"]["src_tokens"][row]
        source = source[source.ne(PAD)].unsqueeze(0)
        logits, _ = model(source, torch.tensor([source.size(1)]), inputs[row, None, : lengths[row]])
        scores = logits.log_softmax(-1)
        scores[..., [PAD, EOS]] = float("-inf")
        best, tokens = scores[0].max(-1)
        words = [*printed(tokens.tolist()), EOS]
        assert found[row][0]["tokens"].tolist() == words
        total = float(found[row][0]["positional_scores"].double().sum())
        assert total == pytest.approx(float(best.sum()), abs=1e-5)
        assert float(found[row][0]["score"]) == pytest.approx(total / len(words), abs=1e-5)


def test_beams_rank_texts_by_their_likelihood(tiny):
    """All words are candidates and all prefixes are kept: scores are log P(text)."""
    model = tiny.model("ctc_transformer", symbols=2, ctc_upsample_scale=1.0)
    sample = tiny.sample([3, 2], symbols=2)
    options = DecodingOptions(beam=4, nbest=4, lenpen=0.0, max_len_b=9)
    generator = CtcGenerator([model], tiny.dictionary(2), options)
    found = generator.generate([model], sample)
    task = CtcTranslationTask(CtcTaskConfig(seed=5), tiny.dictionary(2), tiny.dictionary(2))
    scorer = task.make_scorer([model], None, options)
    for rank in range(4):
        width = max(len(best[rank]["tokens"]) for best in found)
        target = torch.full((2, width), PAD)
        for row, best in enumerate(found):
            target[row, : len(best[rank]["tokens"])] = best[rank]["tokens"]
        scored = scorer.generate([model], {**sample, "target": target})
        for best, (own,) in zip(found, scored):
            assert float(best[rank]["score"]) <= own["log_likelihood"] + 1e-5
            assert float(best[rank]["score"]) == pytest.approx(own["log_likelihood"], abs=0.3)
            assert own["tokens"].tolist() == best[rank]["tokens"].tolist()
    assert len({tuple(one["tokens"].tolist()) for one in found[0]}) == 4


def test_a_language_model_changes_ranks_and_scores(tiny, kenlm):
    """All words are candidates and all prefixes are kept."""
    model = tiny.model("ctc_transformer", symbols=3, ctc_upsample_scale=1.0, seed=4)
    sample, dictionary, stub = tiny.sample([3, 2], symbols=3), tiny.dictionary(3), kenlm.Model("lm")
    values = dict(beam=6, nbest=6, lenpen=0.5, max_len_b=9)
    options = DecodingOptions(**values, ctc_lm_path="lm", ctc_lm_weight=0.8)
    judged, plain = (
        CtcGenerator([model], dictionary, own).generate([model], sample)
        for own in (options, DecodingOptions(**values))
    )
    seen = 0
    for best in judged:
        for one in best:
            words = [dictionary[token] for token in one["tokens"].tolist()[:-1]]
            bigrams = sum(map(stub.scores.get, zip(["<s>", *words], [*words, "</s>"]),
                              itertools.repeat(0.0)))  # fmt: skip
            total = float(one["positional_scores"].sum()) + 0.8 * math.log(10) * bigrams
            expected = total / len(one["tokens"]) ** 0.5
            assert float(one["score"]) == pytest.approx(expected, abs=1e-4)
            seen += bigrams < 0
        scores = [float(one["score"]) for one in best]
        assert scores == sorted(scores, reverse=True)
    texts = [[[one["tokens"].tolist() for one in best] for best in own] for own in (judged, plain)]
    assert seen and texts[0] != texts[1]


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([1, 3]), st.booleans(), st.sampled_from(INPUTS), batches())
def test_a_translation_does_not_depend_on_its_batch(tiny, beam, unnormalized, inputs, batch):
    model = tiny.model("ctc_transformer", ctc_inputs=inputs)
    options = DecodingOptions(beam=beam, nbest=beam, unnormalized=unnormalized, max_len_b=30)
    assert_independent(CtcGenerator([model], tiny.dictionary(), options), batch)


def test_limits_hold(tiny):
    model, sample = make_model(tiny), tiny.sample([5, 3, 6], symbols=8)
    for beam in (1, 4):
        found = generator_of(tiny, beam=beam, max_len_b=2)(model).generate([model], sample)
        assert all(len(one["tokens"]) <= 3 for best in found for one in best)
    found = generator_of(tiny, beam=8, min_len=4)(model).generate([model], sample)
    assert all(len(best[0]["tokens"]) >= 5 for best in found)
    found = generator_of(tiny, unkpen=float("inf"))(model).generate([model], sample)
    assert all(UNK not in best[0]["tokens"].tolist() for best in found)


def test_an_ensemble_of_one_model_twice_decodes_like_it(tiny):
    model, sample = make_model(tiny), tiny.sample([5, 3, 6], symbols=8)
    options = DecodingOptions(beam=1, max_len_b=40)
    alone = CtcGenerator([model], tiny.dictionary(8), options).generate([model], sample)
    twice = CtcGenerator([model, model], tiny.dictionary(8), options).generate([model], sample)
    for one, two in zip(alone, twice):
        assert one[0]["tokens"].tolist() == two[0]["tokens"].tolist()
    other = make_model(tiny, ctc_upsample_scale=2.0)
    with pytest.raises(ValueError, match="must agree in --ctc-upsample-scale"):
        CtcGenerator([model, other], tiny.dictionary(8), options)


@pytest.mark.parametrize("options, message", [
    (dict(no_repeat_ngram_size=2), "--no-repeat-ngram-size 2 has no effect"),
    (dict(min_len=3), "--min-len 3 needs a search"),
    (dict(temperature=0.5), "--temperature 0.5 has no effect"),
    (dict(forced_start="w1"), "--forced-start w1: all positions are written at once"),
])  # fmt: skip
def test_what_one_pass_cannot_do_is_refused(tiny, options, message):
    with pytest.raises(ValueError, match=message):
        generator_of(tiny, **options)(make_model(tiny))


def test_decoding_and_training_happen_on_the_device(tiny):
    model, sample = make_model(tiny), with_targets(tiny.sample([5, 3, 6], symbols=8), [3, 2, 4])
    for beam in (1, 3):
        assert_decodes_there(generator_of(tiny, beam=beam), model, sample)
    task = make_task(tiny, model)

    def train(model, sample, loss):
        task.decoder = model.decoder
        model.train()
        value = loss(model, task.prepared(sample, 1))[0]
        value.backward()
        return float(value)

    # torch's own CTC loss, of the other criterion, is not simulated.
    loss = CtcNgramLoss(task, "0.5", 3)
    expected = train(model, sample, loss)
    with SimulatedDevice() as device:
        assert train(device.move(model), device.send(sample), loss) == pytest.approx(expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_log_probabilities_are_those_of_wide_logits(dtype):
    logits = torch.randn(2, 3, 17, generator=torch.Generator().manual_seed(1)).to(dtype) * 9
    model = SimpleNamespace(decoder=lambda inputs, **given: (logits, None))
    found = CtcTransformerModel._log_probs(model, torch.zeros(2, 3).long(), {})
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert found.dtype == wide
    assert torch.equal(found, torch.log_softmax(logits.to(wide), -1))
