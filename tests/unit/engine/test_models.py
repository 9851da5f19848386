"""Models and options as fairseq-generate builds them: the same arguments, and refusals of one
line."""

from argparse import Namespace

import pytest
import torch
from fairseq import options, tasks
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import write_checkpoint, write_dictionaries

from fairseq_hrt.engine.models import (
    build_generator,
    build_models,
    choose_device,
    decode,
    dictionary_option,
    generation_config,
    load_models,
    option_arguments,
    to_device,
)
from fairseq_hrt.loading.checkpoints import read_checkpoint
from fairseq_hrt.native.decoding import NumericalError
from fairseq_hrt.native.options.conditions import option_text

TASK = ["--task", "translation_autoregressive", "-s", "de", "-t", "en"]
PARSER = options.get_generation_parser()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Dictionaries and two checkpoints."""
    place = tmp_path_factory.mktemp("models")
    write_dictionaries(place)
    for seed in (1, 2):
        write_checkpoint(place / f"{seed}.pt", place, "autoregressive", seed=seed)
    return place


@pytest.fixture(scope="module")
def config(folder):
    return generation_config(
        [str(folder), *TASK, "--path", "model.pt", "--cpu", "--beam", "2"], "a test"
    )


@pytest.fixture(scope="module")
def task(config):
    return tasks.setup_task(config.task)


@settings(max_examples=12)
@given(
    beam=st.integers(1, 9),
    penalty=st.floats(-5, 5),
    upsample=st.sampled_from(["-1", "a b", "--x", ""]),
    switch=st.booleans(),
)
def test_a_mapping_of_options_is_what_argparse_reads(beam, penalty, upsample, switch):
    chosen = {"beam": beam, "lenpen": penalty, "gen_subset": upsample, "print_step": switch}
    arguments = option_arguments({name: option_text(value) for name, value in chosen.items()})
    read = PARSER.parse_known_args(["data", *arguments])[0]
    assert (read.beam, read.lenpen, read.gen_subset, read.print_step) == (
        beam,
        penalty,
        upsample,
        switch,
    )


def test_switches():
    assert option_arguments({"print_step": "true", "fp16": "false", "unkpen": "-1"}) == [
        "--print-step",
        "--unkpen=-1",
    ]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--beam", "two"], "argument --beam: invalid int value: 'two'"),
        (["--no-such-option"], "unrecognized arguments: --no-such-option"),
        (["--task", "no_such_task"], "invalid choice: 'no_such_task'"),
        (["--help"], "options such as --help do not decode"),
        (["--user-dir", "/no/such/folder"], "/no/such/folder"),
    ],
)
def test_refusals_say_whose_options_they_are(folder, capfd, arguments, message):
    with pytest.raises((ValueError, OSError), match=message) as caught:
        generation_config([str(folder), *TASK, "--path", "x", *arguments], "system A")
    assert "user-dir" in arguments[0] or str(caught.value).startswith("system A: ")
    assert capfd.readouterr() == ("", "")


def test_options_are_those_of_the_command(folder, config):
    assert (
        config.generation.beam == 2
        and config.generation.nbest == 1
        and config.task._name == "translation_autoregressive"
    )


def test_devices(monkeypatch):
    for there in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        for cpu in (True, False):
            expected = "cuda" if there and not cpu else "cpu"
            assert choose_device(Namespace(common=Namespace(cpu=cpu))).type == expected


@pytest.mark.parametrize(
    "precision, dtype", [(None, torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)]
)
def test_an_ensemble_ready_to_decode(folder, config, task, precision, dtype):
    paths = [folder / "1.pt", folder / "2.pt"]
    for name in ("fp16", "bf16"):
        setattr(config.common, name, name == precision)
    models, saved = load_models(paths, config, task)
    for path, model in zip(paths, models):
        weight = torch.load(path, weights_only=False)["model"]["decoder.embed_tokens.weight"]
        assert not model.training and model.decoder.embed_tokens.weight.equal(weight.to(dtype))
    assert saved.model.encoder_layers == 1
    config.common.fp16 = config.common.bf16 = False
    generator = build_generator(task, models, config)
    assert generator.options.beam == 2 and generator.models == models


@pytest.mark.parametrize("flags, message", [
    ("--beam 0", "--beam 0"), ("--unkpen nan", "--unkpen nan"),
    ("--max-len-b -1", "--max-len-b -1"), ("--min-len 500", "--min-len 500"),
    ("--temperature 0", "--temperature 0"), ("--lenpen nan", "--lenpen nan"),
    ("--beam 1 --nbest 3", "--nbest 3"),
])  # fmt: skip
def test_options_of_other_generators_are_checked_too(folder, flags, message):
    """fairseq's own would end in a traceback, or ignore them."""
    arguments = [
        "--task",
        "translation",
        "-s",
        "de",
        "-t",
        "en",
        "--path",
        "model.pt",
        "--cpu",
        *flags.split(),
    ]
    config = generation_config([str(folder), *arguments], "a test")
    task = tasks.setup_task(config.task)
    with pytest.raises(ValueError, match=message):
        build_generator(task, [], config)


@pytest.mark.parametrize("task_name, flags, named", [
    ("translation", "--sampling-topk 3", "--sampling-topk 3 has an effect only with --sampling"),
    ("translation", "--lenpen 0.6 --unnormalized", "--lenpen 0.6 .* remove --unnormalized"),
    ("translation", "--diverse-beam-strength 1", "--diverse-beam-strength .*-groups 1 or more"),
    ("translation", "--iter-decode-max-iter 3", "--iter-decode-max-iter 3 .*other than translation"),
    ("translation_lev", "--lenpen 0.6", "--lenpen 0.6 .*--task other than translation_lev"),
    ("translation_lev", "--beam 2", "--beam 2 .*--task other than translation_lev"),
    ("translation", "--seed 3", "--seed 3: this search draws nothing at random"),
    ("translation", "--sampling --sampling-topk 3 --seed 3", None),
    ("translation", "--retain-dropout --seed 3", None),
    ("translation", "--beam 2 --lenpen 0.6 --diverse-beam-groups 2 --diverse-beam-strength 1", None),
    ("translation_lev", "--beam 1 --iter-decode-max-iter 3 --iter-decode-with-beam 2", None),
])  # fmt: skip
def test_options_of_fairseqs_searches_without_effect(folder, task_name, flags, named):
    """Given now, they are refused; those of a bundle are passed over."""
    words = [*"-s de -t en --path model.pt --cpu --task".split(), task_name, *flags.split()]
    config = generation_config([str(folder), *words], "a test")
    given = {word[2:].replace("-", "_") for word in flags.split() if word.startswith("--")}
    for names in [None, ()] if named else [None, (), given]:
        task = tasks.setup_task(config.task)
        task.build_generator = lambda *models, **more: "a generator"
        torch.manual_seed(9)
        assert build_generator(task, [], config, names) == "a generator"
        # fairseq's searches draw by PyTorch.
        assert torch.initial_seed() == (3 if "seed" in (names or ()) else 9)
    if named:
        with pytest.raises(ValueError, match=f"^{named}"):
            build_generator(tasks.setup_task(config.task), [], config, given)


def test_what_was_read_already_is_not_read_again(folder, task, tmp_path):
    path = str(tmp_path / "1.pt")
    with pytest.raises(OSError, match=r"1\.pt"):
        build_models([path], task)
    (tmp_path / "1.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match=r"1\.pt"):
        build_models([path], task)
    state = read_checkpoint(str(folder / "1.pt"))
    (model,) = build_models([path], task, states={path: state}).models
    assert model.decoder.embed_tokens.weight.equal(state["model"]["decoder.embed_tokens.weight"])


def test_overrides_of_the_user(folder, task):
    path = str(folder / "1.pt")
    # They hold for what was read without them, too.
    (model,) = build_models(
        [path], task, overrides={"dropout": 0.75}, states={path: read_checkpoint(path)}
    ).models
    assert model.encoder.dropout_module.p == 0.75


def test_options_that_are_dictionaries():
    assert dictionary_option("--x", "{'a': None, 'b': [1]}", "{}") == {"a": None, "b": [1]}
    for text in ("[]", "{", "{'a': open('x')}", "1", "{[]: 1}", "(" * 100_000):
        with pytest.raises(ValueError, match=r"--x .* is not a Python dictionary, e.g. \{'a': 1\}"):
            dictionary_option("--x", text, "{'a': 1}")


def test_batches_stay_on_the_host():
    sample = {"net_input": {"src_tokens": torch.zeros(1, 2)}}
    assert to_device(sample, torch.device("cpu")) is sample


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_parameter_that_is_nan_is_named(folder, task, value):
    """An infinite bias may mean that a word is never written."""
    state = read_checkpoint(folder / "1.pt")
    state["model"]["decoder.layers.0.fc2.bias"][3] = value
    path = str(folder / "1.pt")
    if value == value:
        build_models([path], task, states={path: state})
        return
    with pytest.raises(
        ValueError,
        match=rf"{path}: decoder.layers.0.fc2.bias is NaN; take a checkpoint from before",
    ):
        build_models([path], task, states={path: state})


class Task:
    """Returns, or raises, what it is given."""

    def __init__(self, found):
        self.found = found

    def inference_step(self, generator, models, sample):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.mark.parametrize(
    "found",
    [AssertionError("20 < 20"), [[{"score": torch.tensor(float("nan"))}]], [[{"score": -1.0}], []]],
)
def test_a_generator_of_fairseq_that_computes_nan_says_so(found):
    with pytest.raises(NumericalError, match="no translation whose probability is a number"):
        decode(Task(found), None, [], None)


def test_hypotheses_come_as_the_task_returns_them():
    found = [[{"score": torch.tensor(-1.0)}, {"score": float("-inf")}]]
    assert decode(Task(found), None, [], None) is found
    with pytest.raises(IndexError):
        decode(Task(IndexError("another")), None, [], None)
