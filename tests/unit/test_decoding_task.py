"""What every task does to decode: lines are cut as data sets are, another model chooses, the engine
is the one asked for."""

import logging
from argparse import Namespace
from dataclasses import replace

import pytest
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf

from fairseq_hrt import decoding_task
from fairseq_hrt.autoregressive.task import (
    AutoregressiveTranslationConfig,
    AutoregressiveTranslationTask,
)
from fairseq_hrt.decoding_task import task_of_model
from fairseq_hrt.engine import AutoregressiveGenerator, NativeGenerator, TaskDictionary
from fairseq_hrt.native.families import FAMILIES
from fairseq_hrt.native.runtime.library import LibraryUnavailable


def make_task(tiny, **options):
    return AutoregressiveTranslationTask(
        AutoregressiveTranslationConfig(**options), tiny.dictionary(), tiny.dictionary()
    )


@pytest.mark.parametrize("task_limit, model_limit, kept", [(10, 64, 10), (200, 16, 16), (1, 64, 1)])
def test_long_lines_are_cut_to_what_task_and_model_can_read(tiny, task_limit, model_limit, kept):
    config = AutoregressiveTranslationConfig(truncate_source=True, max_source_positions=task_limit)
    task = AutoregressiveTranslationTask(config, tiny.dictionary(), tiny.dictionary())
    task.build_generator([tiny.model(max_source_positions=model_limit)], GenerationConfig())
    line = "w1 w2 w3 w4 " * 10
    for name in ("prefix_size", "retain_iter_history", "print_step"):
        task._generation = Namespace(**{name: 2})
        with pytest.raises(ValueError, match="fairseq-interactive does not read it"):
            task.get_interactive_tokens_and_lengths(["w5"], str.strip)
    task._generation = Namespace()
    (short, long), lengths = task.get_interactive_tokens_and_lengths(["w5", line], str.strip)
    whole = tiny.dictionary().encode_line(line, add_if_not_exist=False).tolist()
    assert long.tolist() == [*whole[: kept - 1], tiny.EOS] and lengths == [len(short), kept]
    assert short.tolist()[-1] == tiny.EOS and (kept == 1 or len(short) == 2)


def test_without_the_option_lines_stay_as_they_are(tiny):
    task = AutoregressiveTranslationTask(
        AutoregressiveTranslationConfig(max_source_positions=5),
        tiny.dictionary(),
        tiny.dictionary(),
    )
    task.build_generator([tiny.model()], GenerationConfig())
    assert task.get_interactive_tokens_and_lengths(["w1 " * 30], str.strip)[1] == [31]


def test_a_model_that_chooses_limits_what_is_read(tiny, monkeypatch):
    """Where it reads less than the task and the model that is decoded."""
    config = AutoregressiveTranslationConfig(
        rescore_path="a.pt:b.pt", truncate_source=True, max_source_positions=40
    )
    task = AutoregressiveTranslationTask(config, tiny.dictionary(), tiny.dictionary())
    others = {
        "a.pt": tiny.model(seed=2, max_source_positions=30),
        "b.pt": tiny.model(seed=3, max_source_positions=20),
    }
    monkeypatch.setattr(
        "fairseq_hrt.engine.models.load_other_model",
        lambda option, path, **more: (None, [others[path]]),
    )
    assert task.max_positions()[0] == 40
    generator = task.build_generator([tiny.model()], GenerationConfig(beam=2))
    assert (
        generator.rescorer.judge.models == list(others.values()) and task.max_positions()[0] == 20
    )
    assert task.get_interactive_tokens_and_lengths(["w1 " * 30], str.strip)[1] == [20]


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_an_option_without_effect_is_refused(tiny, engine):
    with pytest.raises(
        ValueError, match="--rescore-lenpen 2.0 has an effect only with --rescore-path"
    ):
        make_task(tiny, engine=engine, rescore_lenpen=2.0).build_generator(
            [tiny.model().float()], GenerationConfig(beam=2)
        )


@pytest.mark.parametrize(
    "engine, kind",
    [("auto", NativeGenerator), ("native", NativeGenerator), ("torch", AutoregressiveGenerator)],
)
def test_the_engine_is_the_one_asked_for(tiny, caplog, engine, kind):
    """And one line tells which it is, but for validation during training."""
    model = tiny.model().float()
    for building in (False, True):
        caplog.clear()
        task = make_task(tiny, engine=engine)
        task._building_model = building
        with caplog.at_level(logging.INFO):
            generator = task.build_generator([model], GenerationConfig())
        assert type(generator) is kind and generator.options.static_weights is not building
        name = "the native engine" if kind is NativeGenerator else "PyTorch"
        told = [
            message
            for message in caplog.messages
            if message.startswith(f"decoding with {name}: float32 weights, ")
        ]
        assert len(told) == (not building)


def test_a_decoder_of_ones_own_is_called(tiny, caplog):
    """The native engine would search as the family does."""

    class OwnGenerator(AutoregressiveGenerator):
        pass

    class OwnTask(AutoregressiveTranslationTask):
        def make_generator(self, models, options):
            return OwnGenerator(models, self.target_dictionary, options)

    def generator(engine):
        config = AutoregressiveTranslationConfig(engine=engine)
        task = OwnTask(config, tiny.dictionary(), tiny.dictionary())
        return task.build_generator([tiny.model().float()], GenerationConfig())

    with caplog.at_level(logging.INFO):
        assert type(generator("auto")) is OwnGenerator
    assert any("OwnTask makes a decoder of its own" in message for message in caplog.messages)
    with pytest.raises(ValueError, match="OwnTask makes a decoder of its own"):
        generator("native")


def test_a_family_that_only_pytorch_decodes(tiny, monkeypatch):
    """The native engine would search as the family does whose models it decodes."""
    family = replace(FAMILIES[0], native=False)
    monkeypatch.setitem(decoding_task.BY_NAME, "autoregressive", family)

    def generator(engine):
        task = make_task(tiny, engine=engine)
        return task.build_generator([tiny.model().float()], GenerationConfig())

    assert type(generator("auto")) is AutoregressiveGenerator
    with pytest.raises(ValueError, match="the family autoregressive .--task translation_autoreg"):
        generator("native")


def test_without_a_kernel_pytorch_decodes(tiny, monkeypatch, caplog):
    def missing():
        raise LibraryUnavailable("there is no compiled kernel")

    monkeypatch.setattr("fairseq_hrt.engine.native_generator.load_library", missing)
    model = tiny.model().float()
    with caplog.at_level(logging.INFO):
        assert (
            type(make_task(tiny).build_generator([model], GenerationConfig()))
            is AutoregressiveGenerator
        )
    told = "decoding with PyTorch: there is no compiled kernel; float32 weights, cpu"
    assert told in caplog.messages
    with pytest.raises(ValueError, match="there is no compiled kernel"):
        make_task(tiny, engine="native").build_generator([model], GenerationConfig())
    # A training that has no kernel validates with PyTorch, too.
    task = make_task(tiny)
    task._building_model = True
    assert type(task.build_generator([model], GenerationConfig())) is AutoregressiveGenerator


def test_references_are_rated_with_pytorch(tiny, caplog):
    with caplog.at_level(logging.INFO):
        for engine in ("auto", "torch"):
            scorer = make_task(tiny, engine=engine).build_generator(
                [tiny.model()], GenerationConfig(score_reference=True)
            )
        with pytest.raises(
            ValueError,
            match="--forced-start w1 with --score-reference: references have their own",
        ):
            make_task(tiny, forced_start="w1").build_generator(
                [tiny.model()], GenerationConfig(score_reference=True)
            )
    assert type(scorer).__name__ == "SequenceScorer"
    assert "scoring the references with PyTorch (--score-reference)" in caplog.messages


@pytest.mark.parametrize(
    "options, named",
    [
        (dict(engine="native"), "--engine native"),
        (dict(weights="int8"), "--weights int8"),
        (dict(rescore_path="judge.pt"), "--rescore-path judge.pt"),
    ],
)
def test_what_only_a_search_reads_is_refused_where_references_are_rated(tiny, options, named):
    task = make_task(tiny, **options)
    with pytest.raises(ValueError, match=f"{named} with --score-reference: .*; leave out --"):
        task.build_generator([tiny.model()], GenerationConfig(score_reference=True))
    # Options of a bundle were not given for this.
    task.given = ()
    assert task.build_generator([tiny.model()], GenerationConfig(score_reference=True))


def test_fairseqs_options_of_a_search_are_reported_where_references_are_rated(tiny, caplog):
    """They stand in commands that translate and that score; fairseq aligns what it scores."""
    given = dict(beam=1, lenpen=0.6, unnormalized=True, nbest=1)
    args = GenerationConfig(score_reference=True, print_alignment="hard", **given)
    assert make_task(tiny).build_generator([tiny.model()], args)
    assert [one for one in caplog.messages if " with --score-reference: " in one] == [
        f"{option} with --score-reference: PyTorch scores the references, without any search;"
        f" leave out {option.split()[0]}"
        for option in ("--beam 1", "--lenpen 0.6", "--unnormalized")
    ]
    args = GenerationConfig(score_reference=True, retain_iter_history=True)
    with pytest.raises(ValueError, match="^--retain-iter-history with --score-reference: "):
        make_task(tiny).build_generator([tiny.model()], args)


@pytest.mark.parametrize(
    "common, reason",
    [
        (dict(cpu=False, bf16=False), "the model is trained on a GPU"),
        (dict(cpu=True, bf16=True), None),
        (dict(cpu=True, bf16=False), None),
    ],
)
def test_validation_decodes_with_what_the_training_allows(tiny, monkeypatch, common, reason):
    """The model is moved after the generator is made."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)

    def generator(**options):
        task = AutoregressiveTranslationConfig(data="x", **options)
        whole = OmegaConf.create({"common": common})
        whole.task = OmegaConf.structured(task)
        made = AutoregressiveTranslationTask(whole.task, tiny.dictionary(), tiny.dictionary())
        made._building_model = True
        return made.build_generator([tiny.model().float()], Namespace(beam=2))

    if reason is None:
        assert type(generator(engine="native", weights="int8")) is NativeGenerator
        return
    assert type(generator()) is AutoregressiveGenerator
    for options in (dict(engine="native"), dict(weights="int8")):
        with pytest.raises(ValueError, match=reason):
            generator(**options)


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_nothing_is_loaded_where_nothing_can_be_chosen(tiny, monkeypatch, engine):
    monkeypatch.setattr(
        "fairseq_hrt.engine.models.load_other_model", lambda *_, **__: pytest.fail("loaded")
    )
    with pytest.raises(
        ValueError, match="--rescore-path: there is only one translation to choose from"
    ):
        make_task(tiny, rescore_path="judge.pt", engine=engine).build_generator(
            [tiny.model().float()], Namespace(beam=1)
        )


def test_a_judge_that_the_engine_does_not_know_is_named(tiny, monkeypatch):
    judge = tiny.model(seed=2)
    judge.decoder.layers[0].self_attn.add_zero_attn = True
    monkeypatch.setattr(
        "fairseq_hrt.engine.models.load_other_model", lambda *_, **__: (None, [judge])
    )
    with pytest.raises(ValueError, match="--rescore-path judge.pt: .*add_zero_attn"):
        make_task(tiny, rescore_path="judge.pt").build_generator([tiny.model()], Namespace(beam=2))


def test_a_model_of_another_family_is_decoded_as_the_task_says(tiny, caplog):
    """Word by word, and not in two stages as the native engine would."""
    model = tiny.model("hrt_transformer", hrt_chunk_sizes=[2]).float()
    reason = "the native engine decodes a model of the family hrt only with --task translation_hrt"
    with caplog.at_level(logging.INFO):
        assert (
            type(make_task(tiny).build_generator([model], GenerationConfig()))
            is AutoregressiveGenerator
        )
    assert f"decoding with PyTorch: {reason}; float32 weights, cpu" in caplog.messages
    with pytest.raises(ValueError, match=reason):
        make_task(tiny, engine="native").build_generator([model], GenerationConfig())


def test_dictionaries_are_those_that_look_words_up_quickly(tmp_path):
    for language in ("de", "en"):
        (tmp_path / f"dict.{language}.txt").write_text("a 2\nb 1\n")
    config = AutoregressiveTranslationConfig(data=str(tmp_path), source_lang="de", target_lang="en")
    task = AutoregressiveTranslationTask.setup_task(config)
    for dictionary in (task.source_dictionary, task.target_dictionary):
        assert type(dictionary) is TaskDictionary and dictionary.symbols[-2:] == ["a", "b"]


@pytest.mark.parametrize("arch, task", [
    ("transformer", "translation_autoregressive"), ("dag_transformer", "translation_dag"),
    ("bidirectional_transformer", "translation_bidirectional"),
    ("mask_predict_transformer", "translation_mask_predict"),
    ("levenshtein_transformer", "translation_lev"),
])  # fmt: skip
def test_a_model_of_another_family_is_sent_to_its_own_task(arch, task):
    assert task_of_model(ARCH_MODEL_REGISTRY[arch]) == task
