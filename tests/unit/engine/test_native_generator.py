"""The native engine behind fairseq's generator contract: what PyTorch's generator gives, and when
that one takes over."""

import logging
from types import SimpleNamespace

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from tiny_weights import sharpen

from fairseq_hrt.engine import EngineGenerator, NativeGenerator
from fairseq_hrt.engine.torch_to_native import convert
from fairseq_hrt.native.decoding import NumericalError
from fairseq_hrt.native.runtime.engine import Engine

ARCHITECTURES = {
    "autoregressive": ("transformer", {}),
    "jacobi": ("transformer", {}),
    "hrt": ("hrt_transformer", dict(hrt_chunk_sizes=[2, 3])),
    "bidirectional": ("bidirectional_transformer", dict(bidirectional_tokens_per_step=2)),
    "dag": ("dag_transformer", dict(dag_upsample_scale="2")),
    "ctc": ("ctc_transformer", dict(ctc_upsample_scale=2.0)),
}


def model_of(tiny, family, seed=1):
    """A model in float32 whose distributions are peaked."""
    arch, own = ARCHITECTURES[family]
    torch.manual_seed(seed)
    dictionaries = dict(source_dictionary=tiny.dictionary(), target_dictionary=tiny.dictionary())
    args = tiny.arguments(arch, **own)
    model = ARCH_MODEL_REGISTRY[arch].build_model(args, SimpleNamespace(**dictionaries)).eval()
    sharpen(model, 2.0)
    return model


def task_of(tiny, family, engine, **own):
    name = f"translation_{family}"
    config = TASK_DATACLASS_REGISTRY[name](engine=engine, **own)
    config.seed, config.data = 1, "data"
    return TASK_REGISTRY[name](config, tiny.dictionary(), tiny.dictionary())


def generator_of(tiny, family, models, engine="native", *, training=False, own=None, **given):
    """What the task builds for a command, or while a model is built for training."""
    task = task_of(tiny, family, engine, **(own or {}))
    task._building_model = training
    return task.build_generator(models, GenerationConfig(**given))


def both(tiny, family, models, **more):
    """The native generator and PyTorch's."""
    return [generator_of(tiny, family, models, engine, **more) for engine in ("native", "torch")]


def assert_same(found, expected, nbest=1, *, steps=True):
    """All that fairseq's commands print."""
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected):
        assert len(mine) == min(nbest, len(theirs))
        for one, other in zip(mine, theirs):
            assert one["tokens"].tolist() == other["tokens"].tolist()
            assert float(one["score"]) == pytest.approx(float(other["score"]), abs=1e-4)
            scores = other["positional_scores"].tolist()
            assert one["positional_scores"].tolist() == pytest.approx(scores, abs=1e-4)
            assert one["alignment"] == other["alignment"]
            assert (
                one["tokens"].dtype == other["tokens"].dtype
                and one["score"].dtype == other["score"].dtype
            )
            if steps:
                assert one["steps"] == other["steps"]
                assert one["token_steps"].tolist() == other["token_steps"].tolist()


@pytest.mark.parametrize(
    "family, own, given",
    [
        ("autoregressive", {}, dict(beam=1)),
        ("autoregressive", {}, dict(beam=4, nbest=3, lenpen=0.6, print_alignment="hard")),
        ("autoregressive", {}, dict(beam=3, nbest=3, unnormalized=True, min_len=4, unkpen=2.0)),
        ("hrt", {}, dict(beam=1, print_alignment="hard")),
        ("hrt", dict(hrt_nat_beam=2, hrt_eos_last_chunk=True), dict(beam=4, nbest=2)),
        (
            "hrt",
            dict(hrt_decode_chunk="auto", hrt_chunk_table="3:1,5:3,inf:2"),
            dict(beam=3, nbest=3),
        ),
        ("bidirectional", {}, dict(beam=1)),
        ("bidirectional", dict(bidirectional_deduplicate=True), dict(beam=4, nbest=3, lenpen=0.5)),
        ("dag", {}, dict(beam=1)),
        ("dag", dict(dag_decode_strategy="greedy", dag_keep_repeats=True), {}),
        ("dag", dict(dag_decode_strategy="viterbi", dag_decode_length_beta=2.0), dict(beam=1)),
        (
            "dag",
            dict(dag_decode_strategy="joint-viterbi", dag_decode_length_beta=0.5),
            dict(beam=1),
        ),
        ("ctc", {}, dict(beam=1)),
        ("ctc", {}, dict(beam=4, nbest=3, lenpen=0.6, min_len=2, unkpen=2.0)),
        ("jacobi", dict(jacobi_window=4), dict(beam=1)),
        (
            "jacobi",
            dict(jacobi_window=4, jacobi_draft="source"),
            dict(beam=1, print_alignment="hard"),
        ),
        ("jacobi", {}, dict(beam=1)),
    ],
    ids=str,
)
def test_every_family_translates_as_pytorch_does(tiny, family, own, given):
    for seed in (1, 2):
        model, sample = model_of(tiny, family, seed), tiny.sample([5, 2, 7, 1], seed=seed)
        given = {"max_len_a": 1.2, "max_len_b": 6, **given}
        mine, theirs = both(tiny, family, [model], own=own, **given)
        assert type(mine) is NativeGenerator and isinstance(theirs, EngineGenerator)
        found, expected = (generator.generate([model], sample) for generator in (mine, theirs))
        # Where no width is given each engine has its own.
        steps = family != "jacobi" or bool(own)
        assert_same(found, expected, given.get("nbest", 1), steps=steps)
        assert len({tuple(best[0]["tokens"].tolist()) for best in found}) > 1, "this shows nothing"
        assert (given.get("print_alignment") is not None) == any(
            best[0]["alignment"] for best in found
        )
        assert mine._torch is None, "PyTorch's generator was not even made"
        assert mine.counters.sentences == 4 and mine.counters.encoder_calls == 1
        assert (
            mine.eos == theirs.eos
            and mine.symbols_to_strip_from_output == theirs.symbols_to_strip_from_output
        )
        if steps:
            assert mine.counters.decoder_calls == max(best[0]["steps"] for best in found)


def test_padding_on_either_side(tiny):
    model = model_of(tiny, "autoregressive")
    generator = generator_of(tiny, "autoregressive", [model], max_len_b=6)
    left, right = (tiny.sample([5, 2, 7], left_pad=left_pad) for left_pad in (True, False))
    assert_same(generator.generate([model], left), generator.generate([model], right))


def test_int8_weights_are_used_if_asked(tiny, caplog):
    model = model_of(tiny, "autoregressive")
    with caplog.at_level(logging.INFO):
        generator = generator_of(tiny, "autoregressive", [model], own=dict(weights="int8"))
    assert generator.engine.header.weights == "int8"
    (said,) = [
        record.getMessage() for record in caplog.records if "native engine" in record.getMessage()
    ]
    assert said.startswith("decoding with the native engine: int8 weights, ")
    assert said.endswith(" thread" if generator.engine.threads == 1 else " threads")


@pytest.fixture
def no_native_decoding(monkeypatch):
    monkeypatch.setattr(Engine, "decode", lambda *_, **__: pytest.fail("decoded natively"))


@pytest.mark.parametrize(
    "more",
    [
        dict(bos_token=5),
        dict(prefix_tokens=torch.tensor([[5], [7]]), bos_token=6),
    ],
)
def test_what_is_given_with_a_batch_is_left_to_pytorch(tiny, no_native_decoding, more):
    model, sample = model_of(tiny, "autoregressive"), tiny.sample([5, 3])
    mine, theirs = both(tiny, "autoregressive", [model], max_len_b=6)
    found, expected = (generator.generate([model], sample, **more) for generator in (mine, theirs))
    assert_same([best[:1] for best in found], expected)
    assert (
        mine.counters.sentences == 2
        and mine.counters.decoder_calls == theirs.counters.decoder_calls
    )
    with pytest.raises(ValueError, match="--constraints: not supported"):
        mine.generate([model], sample, constraints=torch.zeros(2, 1))


@pytest.mark.parametrize("family, own, given", [
    ("autoregressive", {}, dict(beam=1)), ("autoregressive", {}, dict(beam=3, nbest=3, unkpen=1.0)),
    ("jacobi", dict(jacobi_window=3), dict(beam=1)),
    ("hrt", dict(hrt_decode_chunk="1"), dict(beam=3, nbest=2)),
])  # fmt: skip
def test_given_first_words_need_no_pytorch(tiny, family, own, given):
    """As fairseq-generate hands them over with --prefix-size: of each sentence the first words,
    padded."""
    model, sample, prefix = (
        model_of(tiny, family),
        tiny.sample([5, 3, 6]),
        torch.tensor([[5, 6], [7, 1], [8, 2]]),
    )
    mine, theirs = both(tiny, family, [model], own=own, max_len_b=6, prefix_size=2, **given)
    assert type(mine) is NativeGenerator
    found, expected = (
        generator.generate([model], sample, prefix_tokens=prefix) for generator in (mine, theirs)
    )
    assert_same(found, expected, given.get("nbest", 1))
    assert [best[0]["tokens"][0].item() for best in found] == [5, 7, 8] and mine._torch is None


@pytest.mark.parametrize("beam", [1, 4])
def test_given_first_words_are_those_of_fairseqs_generator(tiny, beam):
    model, sample, prefix = (
        model_of(tiny, "autoregressive"),
        tiny.sample([4, 6, 2]),
        torch.tensor([[5, 6], [7, 1], [9, 9]]),
    )
    mine = generator_of(
        tiny, "autoregressive", [model], max_len_b=8, beam=beam, nbest=beam, prefix_size=2
    )
    stock = SequenceGenerator([model], tiny.dictionary(), beam_size=beam, max_len_b=8)
    found, expected = (
        generator.generate([model], sample, prefix_tokens=prefix) for generator in (mine, stock)
    )
    for own, theirs in zip(found, expected):
        assert [one["tokens"].tolist() for one in own] == [one["tokens"].tolist() for one in theirs]
        for one, other in zip(own, theirs):
            assert float(one["score"]) == pytest.approx(float(other["score"]), abs=1e-4)
            assert one["positional_scores"].tolist() == pytest.approx(
                other["positional_scores"].tolist(), abs=1e-4
            )


@pytest.mark.parametrize("beam", [1, 3])
def test_a_forced_start_needs_no_pytorch(tiny, beam):
    model, sample = model_of(tiny, "autoregressive"), tiny.sample([5, 3, 6])
    own = dict(forced_start="w3 <unk>")
    mine, theirs = both(
        tiny, "autoregressive", [model], own=own, max_len_b=6, beam=beam, nbest=beam
    )
    found, expected = (generator.generate([model], sample) for generator in (mine, theirs))
    assert_same(found, expected, beam)
    assert all(best[0]["tokens"][:2].tolist() == [7, 3] for best in found) and mine._torch is None
    with pytest.raises(ValueError, match="--forced-start with given first words"):
        mine.generate([model], sample, prefix_tokens=torch.tensor([[5], [7], [7]]))
    with pytest.raises(
        ValueError, match="--forced-start w99: w99 is not a word of the target dictionary"
    ):
        generator_of(tiny, "autoregressive", [model], own=dict(forced_start="w99"))


def test_first_words_where_they_cannot_be_given(tiny):
    """PyTorch tells why, and whoever asks for them on the command line is told at once."""
    model, sample = model_of(tiny, "hrt"), tiny.sample([5, 3])
    with pytest.raises(
        ValueError, match="chunks cannot continue a given prefix; use --hrt-decode-chunk 1"
    ):
        generator_of(tiny, "hrt", [model], max_len_b=6).generate(
            [model], sample, prefix_tokens=torch.tensor([[5], [7]])
        )
    with pytest.raises(
        ValueError,
        match="--prefix-size 1: first words can be given to models that write from left to right",
    ):
        generator_of(tiny, "hrt", [model], max_len_b=6, prefix_size=1)
    # Where all sentences are decoded word by word it is done, by PyTorch.
    own = dict(hrt_decode_chunk="auto", hrt_chunk_table="9:1,inf:2")
    mine, theirs = both(tiny, "hrt", [model], own=own, max_len_b=6)
    found, expected = (
        one.generate([model], sample, prefix_tokens=torch.tensor([[5], [7]]))
        for one in (mine, theirs)
    )
    assert_same([best[:1] for best in found], expected)


def test_watched_steps_are_those_of_pytorch(tiny, monkeypatch):
    model, sample, seen = model_of(tiny, "autoregressive"), tiny.sample([5, 3]), []
    generator = generator_of(tiny, "autoregressive", [model], beam=1, max_len_b=6)
    native = []
    decode = Engine.decode
    monkeypatch.setattr(
        Engine, "decode", lambda *rest, **more: native.append(1) or decode(*rest, **more)
    )
    plain = generator.generate([model], sample)
    with generator.watched(seen.append):
        watched = generator.generate([model], sample)
    assert len(native) == 1 and len(seen) == max(best[0]["steps"] for best in watched)
    assert_same(generator.generate([model], sample), plain)
    assert_same(watched, plain)
    assert len(native) == 2
    generator.align_words()
    assert generator.generate([model], sample)[0][0]["alignment"] and len(native) == 2


def test_watched_graphs_are_those_of_pytorch(tiny, no_native_decoding):
    model, seen = model_of(tiny, "dag"), []
    generator = generator_of(tiny, "dag", [model], beam=1)
    generator.graph_hooks.append(lambda graphs, found: seen.append(found))
    generator.generate([model], tiny.sample([5, 3]))
    assert len(seen) == 1


def test_what_it_has_not_is_pytorchs_generators(tiny):
    generator = generator_of(tiny, "hrt", [model_of(tiny, "hrt")], own=dict(hrt_decode_chunk="3"))
    assert [size for _, size in generator.table] == [
        3
    ] and generator.torch.counters is generator.counters
    assert generator.torch.options.engine == "torch" and generator.options.engine == "native"
    with pytest.raises(AttributeError, match="no_such_thing"):
        generator.no_such_thing  # noqa: B018
    with pytest.raises(AttributeError, match="_private"):
        generator._private  # noqa: B018


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_left_to_pytorch(tiny, caplog, dtype):
    model = model_of(tiny, "autoregressive").to(dtype)
    reason = f"the model computes in {str(dtype)[6:]}, and the native engine only in float32"
    with caplog.at_level(logging.INFO):
        assert isinstance(generator_of(tiny, "autoregressive", [model], "auto"), EngineGenerator)
    told = f"{reason} (without --fp16 and --bf16); {str(dtype)[6:]} weights, cpu"
    assert f"decoding with PyTorch: {told}" in caplog.messages
    with pytest.raises(ValueError, match=reason):
        generator_of(tiny, "autoregressive", [model], "native")


def test_a_model_in_training_may_change_its_precision(tiny, no_native_decoding):
    """A generator that is made with the model learns only at the first batch where and how it
    computes."""
    model, sample = model_of(tiny, "autoregressive"), tiny.sample([5, 3])
    generator = generator_of(tiny, "autoregressive", [model], "auto", training=True, max_len_b=6)
    model.double()
    expected = generator_of(tiny, "autoregressive", [model], "torch", max_len_b=6)
    assert type(generator) is NativeGenerator
    assert_same(
        [best[:1] for best in generator.generate([model], sample)],
        expected.generate([model], sample),
    )


@pytest.mark.parametrize("engine", ["auto", "native"])
def test_weights_that_change_are_packed_anew(tiny, caplog, engine):
    """Between two validations, by the task; nothing is said of the engine, which is not news in a
    training."""
    model, other = (model_of(tiny, "autoregressive", seed) for seed in (1, 2))
    sample = tiny.sample([5, 3, 6])
    task = task_of(tiny, "autoregressive", engine)
    task._building_model = True
    with caplog.at_level(logging.INFO):
        generator = task.build_generator([model], GenerationConfig(max_len_b=6))
    assert type(generator) is NativeGenerator and generator._engine is None and not caplog.messages
    before = generator.generate([model], sample)
    model.load_state_dict(other.state_dict())
    task.begin_valid_epoch(2, model)
    after = generator.generate([model], sample)
    for found, weights in ((before, model_of(tiny, "autoregressive", 1)), (after, other)):
        theirs = generator_of(tiny, "autoregressive", [weights], "torch", max_len_b=6)
        assert_same(found, theirs.generate([weights], sample))
    assert [best[0]["tokens"].tolist() for best in before] != [
        best[0]["tokens"].tolist() for best in after
    ]


def test_a_validation_leaves_no_recordings_behind(tiny):
    model, task = model_of(tiny, "autoregressive", 1), task_of(tiny, "autoregressive", "torch")
    task._building_model = True
    task.post_validate(model, {}, None)  # without --eval-bleu
    task.sequence_generator = task.build_generator([model], GenerationConfig(max_len_b=6))
    store = task.sequence_generator.ensemble.graphs
    store.keep("a", list)
    task.post_validate(model, {}, None)
    assert not store._kept


def test_weights_are_packed_once(tiny, monkeypatch):
    packed = []
    monkeypatch.setattr(
        "fairseq_hrt.engine.native_generator.convert",
        lambda *rest, **more: packed.append(1) or convert(*rest, **more),
    )
    model = model_of(tiny, "autoregressive")
    generator = generator_of(tiny, "autoregressive", [model], training=True, max_len_b=6)
    for _ in range(2):
        generator.generate([model], tiny.sample([5, 3]))
    assert packed == [1]
    generator.forget_weights()
    generator.generate([model], tiny.sample([5, 3]))
    assert packed == [1, 1]


def test_the_task_keeps_no_generator_alive(tiny):
    task = task_of(tiny, "autoregressive", "native")
    task.build_generator([model_of(tiny, "autoregressive")], GenerationConfig())
    assert [packed() for packed in task._packed] == [None]


@pytest.mark.parametrize(
    "family, own, given, named",
    [
        (
            "autoregressive",
            {},
            dict(temperature=0.5),
            "--temperature 0.5: the native engine has no such option",
        ),
        ("hrt", {}, dict(retain_iter_history=True), "--retain-iter-history True"),
        ("bidirectional", dict(bidirectional_scoring="paper"), {}, "--bidirectional-scoring paper"),
        ("dag", dict(dag_decode_strategy="beam"), {}, "--dag-decode-strategy beam"),
        ("ctc", dict(ctc_lm_path="lm"), dict(beam=2), "--ctc-lm-path lm"),
        ("jacobi", dict(jacobi_draft="ngram"), dict(beam=1), "--jacobi-draft ngram"),
        ("jacobi", dict(jacobi_mode="pj"), dict(beam=1), "--jacobi-mode pj"),
        (
            "jacobi",
            dict(jacobi_mode="pgj", jacobi_known_length=True),
            dict(beam=1),
            "--jacobi-mode pgj: the native engine has frontier",
        ),
    ],
)
def test_what_the_native_engine_has_not(tiny, caplog, kenlm, family, own, given, named):
    model = model_of(tiny, family)
    with pytest.raises(ValueError, match=named):
        generator_of(tiny, family, [model], "native", own=own, **given)
    with caplog.at_level(logging.INFO):
        generator = generator_of(tiny, family, [model], "auto", own=own, **given)
    assert isinstance(generator, EngineGenerator)
    assert any(message.startswith(f"decoding with PyTorch: {named}") for message in caplog.messages)


def test_an_ensemble_is_left_to_pytorch(tiny, caplog):
    models = [model_of(tiny, "autoregressive", seed) for seed in (1, 2)]
    with caplog.at_level(logging.INFO):
        assert isinstance(generator_of(tiny, "autoregressive", models, "auto"), EngineGenerator)
    reason = "the native engine does not decode an ensemble of 2 models; use --engine torch"
    assert f"decoding with PyTorch: {reason}; float32 weights, cpu" in caplog.messages


@pytest.mark.parametrize(
    "family, own, named",
    [
        ("autoregressive", dict(weights="int8"), "--weights int8"),
        ("hrt", dict(hrt_draft_chunk=2, hrt_decode_chunk="1"), "--hrt-draft-chunk 2"),
    ],
)
def test_no_option_of_the_native_engine_is_lost(tiny, family, own, named):
    """Neither by models that it does not decode, nor by another option that it has not."""
    models = [model_of(tiny, family, seed) for seed in (1, 2)]
    half = [model_of(tiny, family).half()]
    for given, more, reason in (
        (models, {}, "an ensemble of 2 models"),
        (half, {}, "the model computes in float16"),
        (models[:1], dict(retain_iter_history=True), "--retain-iter-history True: the native"),
    ):
        message = f"{named}: only the native engine has this option, .*{reason}.*; leave it out"
        with pytest.raises(ValueError, match=message):
            generator_of(tiny, family, given, "auto", own=own, beam=1, **more)
    with pytest.raises(ValueError, match="an ensemble of 2 models"):
        generator_of(tiny, "autoregressive", models, "native")


def test_drafts_of_chunks_are_the_native_engines_alone(tiny):
    model, sample = model_of(tiny, "hrt"), tiny.sample([5, 3, 6])
    own = dict(hrt_decode_chunk="1", hrt_draft_chunk=2)
    found = generator_of(tiny, "hrt", [model], own=own, beam=1, max_len_b=6).generate(
        [model], sample
    )
    plain = generator_of(
        tiny, "hrt", [model], "torch", own=dict(hrt_decode_chunk="1"), beam=1, max_len_b=6
    )
    assert_same(found, plain.generate([model], sample), steps=False)
    with pytest.raises(
        ValueError, match="--hrt-draft-chunk 2: only the native engine has this option"
    ):
        generator_of(tiny, "hrt", [model], "torch", own=own, beam=1)


@pytest.fixture
def judges(tiny, monkeypatch):
    """What ``--rescore-path`` names."""
    others = {
        "judge.pt": model_of(tiny, "autoregressive", 9),
        "short.pt": tiny.model(max_target_positions=8).float(),
    }
    load = "fairseq_hrt.engine.models.load_other_model"
    monkeypatch.setattr(load, lambda option, path, **more: (None, [others[path]]))
    return others


@pytest.mark.parametrize(
    "family, own",
    [("autoregressive", {}), ("hrt", {}), ("bidirectional", {}), ("hrt", dict(hrt_nat_beam=3))],
    ids=str,
)
@pytest.mark.parametrize("nbest", [1, 2])
def test_another_model_chooses(tiny, judges, family, own, nbest):
    """Among all that the search has found; its choice counts, and as many as are asked for are
    left."""
    model, sample = model_of(tiny, family), tiny.sample([5, 3, 6, 2])
    own, given = (
        dict(rescore_path="judge.pt", rescore_lenpen=0.5, **own),
        dict(beam=4, nbest=nbest, max_len_b=6),
    )
    mine, theirs = both(tiny, family, [model], own=own, **given)
    assert type(mine) is NativeGenerator and isinstance(theirs, EngineGenerator)
    found, expected = mine.generate([model], sample), theirs.generate([model], sample)
    assert_same(found, expected, nbest)
    own_choice = generator_of(tiny, family, [model], **given).generate([model], sample)
    assert [best[0]["tokens"].tolist() for best in found] != [
        best[0]["tokens"].tolist() for best in own_choice
    ]


def test_what_cannot_be_rescored(tiny, judges):
    model = model_of(tiny, "autoregressive")
    with pytest.raises(ValueError, match="only one translation to choose from"):
        generator_of(tiny, "autoregressive", [model], own=dict(rescore_path="judge.pt"), beam=1)
    # PyTorch's search can be held to the judge's length, this one cannot.
    own = dict(rescore_path="short.pt")
    assert isinstance(
        generator_of(tiny, "autoregressive", [model], "auto", own=own, beam=2), EngineGenerator
    )
    with pytest.raises(ValueError, match="--rescore-path: the rescoring model reads only shorter"):
        generator_of(tiny, "autoregressive", [model], own=own, beam=2)
    assert (
        type(generator_of(tiny, "autoregressive", [model], own=own, beam=2, max_len_b=7))
        is NativeGenerator
    )
    with pytest.raises(ValueError, match="--rescore-path: the rescoring model reads only shorter"):
        generator_of(tiny, "autoregressive", [model], own=own, beam=2, max_len_b=8)


def test_weights_that_are_no_numbers_are_named(tiny):
    model = model_of(tiny, "autoregressive")
    with torch.no_grad():
        model.decoder.layers[0].fc1.weight[0, 0] = float("nan")
    with pytest.raises(NumericalError, match="holds a number that is not finite"):
        generator_of(tiny, "autoregressive", [model], "auto")
