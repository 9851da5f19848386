"""The generator contract of fairseq's commands: what a batch gives, what is counted, and what is
refused."""

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_hrt.engine.generator import AutoregressiveGenerator, EngineGenerator
from fairseq_hrt.native.decoding.hypothesis import Hypothesis
from fairseq_hrt.native.options.values import DecodingOptions


class Fixed(EngineGenerator):
    """Finds the same for every sentence."""

    def decode(self, net_input, *, prefix, start):
        found = [Hypothesis([5, 2], -rank, [-0.5, -0.5], [1, 2], 2) for rank in range(4)]
        self.asked = prefix, start, torch.is_inference_mode_enabled()
        return [found] * net_input["src_tokens"].size(0)


def test_a_family_says_how_a_batch_is_decoded(tiny):
    model, prefix = tiny.model(), torch.tensor([[5], [5]])
    generator = Fixed([model], tiny.dictionary(), DecodingOptions(beam=3))
    # Arguments that validation passes for distributed training are ignored.
    found = generator.generate(["wrapped"], tiny.sample([3, 4]), prefix_tokens=prefix, bos_token=7)
    assert generator.asked == (prefix, 7, True) and generator.counters.sentences == 2
    assert [[float(hypothesis["score"]) for hypothesis in best] for best in found] == [
        [0, -1, -2]
    ] * 2
    with pytest.raises(ValueError, match="--constraints: not supported.*--task translation"):
        generator.generate([model], tiny.sample([3]), constraints=torch.zeros(1, 1))


@pytest.mark.parametrize("retained", [False, True])
def test_what_was_there_after_each_step(tiny, retained):
    """With ``--retain-iter-history``."""
    model, options = (
        tiny.model(),
        DecodingOptions(beam=2, max_len_b=5, retain_iter_history=retained),
    )
    for best in AutoregressiveGenerator([model], tiny.dictionary(), options).find(
        tiny.sample([3, 4])
    ):
        for one in best:
            assert one.history == [
                one.tokens[: end + 1] for end in range(len(one.tokens)) if retained
            ]


def test_the_start_symbol_can_be_another(tiny):
    model, sample = tiny.model(), tiny.sample([4])
    generator = AutoregressiveGenerator(
        [model], tiny.dictionary(), DecodingOptions(beam=1, max_len_b=1)
    )
    encoder_out = model.encoder(**sample["net_input"])
    for start in (None, 7):
        ((best,),) = generator.generate([model], sample, bos_token=start)
        logits = model.decoder(
            torch.tensor([[tiny.EOS if start is None else start]]), encoder_out=encoder_out
        )[0][0, 0]
        expected = logits.detach().log_softmax(0)[best["tokens"][0]]
        assert float(best["positional_scores"][0]) == pytest.approx(float(expected), abs=1e-4)


def test_each_sentence_has_its_own_limit(tiny):
    """And not that of the longest of its batch."""
    model, other = tiny.model(max_target_positions=12), tiny.model(max_target_positions=9)
    options = DecodingOptions(max_len_a=1.5, max_len_b=1)
    for models, expected in (([model], [4, 11, 8]), ([model, other], [4, 8, 8])):
        generator = AutoregressiveGenerator(models, tiny.dictionary(), options)
        lengths = generator.ensemble.encode(tiny.sample([2, 8, 5])["net_input"])[0].lengths
        assert generator.length_limits(lengths).tolist() == expected
        assert generator.length_limits(lengths, capacity=5).tolist() == [4, 4, 4]


def test_engines_are_made_once_and_follow_their_models(tiny):
    model, sample = tiny.model(), tiny.sample([4])
    generator = AutoregressiveGenerator(
        [model], tiny.dictionary(), DecodingOptions(beam=1, max_len_b=5)
    )
    before, engines = generator.generate([model], sample), generator.ensemble
    model.load_state_dict(tiny.model(seed=2).state_dict())
    model.float()
    after = generator.generate([model], sample)
    assert generator.ensemble is engines
    fresh = AutoregressiveGenerator(
        [model], tiny.dictionary(), DecodingOptions(beam=1, max_len_b=5)
    )
    assert float(after[0][0]["score"]) == float(fresh.generate([model], sample)[0][0]["score"])
    assert float(after[0][0]["score"]) != float(before[0][0]["score"])


def test_counters_hooks_and_steps(tiny):
    model = tiny.model()
    generator = AutoregressiveGenerator(
        [model], tiny.dictionary(), DecodingOptions(beam=1, max_len_b=9)
    )
    seen = []
    generator.step_hooks.append(seen.append)
    ((best,),) = generator.generate([model], tiny.sample([4]))
    assert best["steps"] == len(best["tokens"]) == generator.counters.decoder_calls == len(seen)
    assert generator.counters.encoder_calls == generator.counters.sentences == 1
    assert [int(step.tokens) for step in seen] == best["tokens"].tolist()
    assert [step.positions.tolist() for step in seen] == [[n] for n in range(1, len(seen) + 1)]
    generator.counters.reset()
    assert generator.counters.decoder_calls == 0


def test_a_minimum_above_the_maximum_is_named(tiny):
    with pytest.raises(ValueError, match="--min-len 5.*3"):
        DecodingOptions(min_len=5, max_len_b=3)
    with pytest.raises(ValueError, match="--min-len 32 .* 31 words"):
        AutoregressiveGenerator([tiny.model()], tiny.dictionary(), DecodingOptions(min_len=32))


def test_a_model_in_training_is_decoded_without_dropout(tiny):
    model = tiny.model(dropout=0.5).train()
    AutoregressiveGenerator([model], tiny.dictionary(), DecodingOptions(max_len_b=3)).generate(
        [model], tiny.sample([4])
    )
    assert not any(module.training for module in model.modules())


def test_no_more_hypotheses_than_words(tiny):
    dictionary, model = tiny.dictionary(3), tiny.model(symbols=3)
    assert AutoregressiveGenerator([model], dictionary, DecodingOptions(beam=6)).beam == 6
    generator = AutoregressiveGenerator(
        [model], dictionary, DecodingOptions(beam=500, nbest=9, max_len_b=4)
    )
    assert generator.beam == len(dictionary) - 1 == 6
    (hypotheses,) = generator.generate([model], tiny.sample([3], symbols=3))
    assert len(hypotheses) == 6


def test_models_that_do_not_write_from_left_to_right_are_refused(tiny):
    model = tiny.model()
    model.decoder.only_task = "translation_dag"
    with pytest.raises(ValueError, match="--replace-unk: .*TransformerModel.*--unkpen inf"):
        AutoregressiveGenerator([model], tiny.dictionary(), DecodingOptions()).align_words()


FORCING = {
    "Transformer": ("transformer", {}),
    "Marian": ("marian_transformer", {}),
    "SSRU": ("marian_transformer", {"marian_cell": "ssru"}),
}


@settings(max_examples=12, deadline=None)
@given(
    kind=st.sampled_from(sorted(FORCING)),
    words=st.lists(st.sampled_from(["w0", "w3", "w7", "<unk>"]), min_size=1, max_size=4),
    beam=st.integers(1, 4),
    normalised=st.booleans(),
    seed=st.integers(1, 4),
)
def test_a_forced_start_is_fairseqs_prefix_that_costs_nothing(
    tiny, kind, words, beam, normalised, seed
):
    """The same translations, ranked without the scores of the given words."""
    arch, options = FORCING[kind]
    model, sample, dictionary = (
        tiny.lively(arch, seed=seed, **options),
        tiny.sample([5, 3, 6], seed=seed),
        tiny.dictionary(),
    )
    chosen = DecodingOptions(
        beam=beam,
        nbest=beam,
        max_len_b=9,
        unnormalized=not normalised,
        forced_start=" ".join(words),
    )
    found = AutoregressiveGenerator([model], dictionary, chosen).generate(None, sample)
    prefix = torch.tensor([[dictionary.index(word) for word in words]] * 3)
    stock = SequenceGenerator(
        [model], dictionary, beam_size=beam, max_len_b=9, normalize_scores=normalised
    )
    for mine, theirs in zip(found, stock.generate([model], sample, prefix_tokens=prefix)):
        for other in theirs:
            other["positional_scores"][: len(words)] = 0
            divisor = len(other["tokens"]) if normalised else 1
            other["score"] = float(other["positional_scores"].sum()) / divisor
        theirs.sort(key=lambda other: -other["score"])
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs):
            assert one["tokens"][: len(words)].tolist() == prefix[0].tolist()
            assert one["tokens"].tolist() == other["tokens"].tolist()
            torch.testing.assert_close(
                one["positional_scores"], other["positional_scores"], rtol=0, atol=2e-5
            )
            assert float(one["score"]) == pytest.approx(other["score"], abs=2e-5)


def test_a_forced_start_and_given_words_contradict_each_other(tiny):
    generator = AutoregressiveGenerator(
        [tiny.model()], tiny.dictionary(), DecodingOptions(forced_start="w1", max_len_b=5)
    )
    with pytest.raises(ValueError, match="--forced-start with given first words"):
        generator.generate(None, tiny.sample([3]), prefix_tokens=torch.tensor([[5]]))
