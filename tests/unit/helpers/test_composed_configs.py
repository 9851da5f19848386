"""What the tests compose is what hydra composes."""

import composed_configs
import fairseq.dataclass.utils
import pytest
from fairseq import options

GENERATION = ["data", "--path", "a b:c=d,é.pt", "--beam", "3", "--gen-subset", "valid"]
TRAINING = [
    "data",
    "--arch",
    "hrt_transformer",
    "--criterion",
    "hrt_loss",
    "--optimizer",
    "adam",
    "--lr",
    "0.1,0.2",
]


@pytest.mark.parametrize(
    "parser, arguments",
    [
        ("generation", GENERATION),
        ("generation", [*GENERATION, "--task", "translation_hrt", "--hrt-decode-chunk", "auto"]),
        ("generation", [*GENERATION, "--task", "translation_dag", "--model-overrides", "{'a': 1}"]),
        ("generation", ["other", *GENERATION[1:], "--task", "translation_dag", "--lenpen", "0.5"]),
        ("training", [*TRAINING, "--task", "translation_hrt", "--adam-betas", "(0.9, 0.98)"]),
        (
            "training",
            ["data", "--arch", "transformer", "--task", "translation", "--share-all-embeddings"],
        ),
    ],
)
def test_it_equals_that_of_hydra(monkeypatch, parser, arguments):
    namespace = options.parse_args_and_arch(getattr(options, f"get_{parser}_parser")(), arguments)
    assert fairseq.dataclass.utils.compose is composed_configs.compose
    ours = [fairseq.dataclass.utils.convert_namespace_to_omegaconf(namespace) for _ in range(2)]
    monkeypatch.setattr(fairseq.dataclass.utils, "compose", composed_configs.COMPOSE)
    monkeypatch.setattr(fairseq.dataclass.utils, "initialize", composed_configs.INITIALIZE)
    composed = fairseq.dataclass.utils.convert_namespace_to_omegaconf(namespace)
    assert ours == [composed, composed]
    assert {name: type(value) for name, value in composed.items()} == {
        name: type(value) for name, value in ours[1].items()
    }


@pytest.fixture
def initialised():
    with composed_configs.initialised():
        yield


def test_what_is_remembered_does_not_change(initialised):
    overrides = ["task=translation", "optimizer=adam", "optimizer.lr=[0.5]"]
    first = composed_configs.compose("config", [*overrides, "task.data=a"], strict=False)
    first.optimizer.lr.append(0.25)
    first.common.seed = 17
    first.task = None
    second = composed_configs.compose("config", overrides, strict=False)
    assert second == composed_configs.COMPOSE("config", overrides=overrides, strict=False)


@pytest.mark.parametrize(
    "overrides",
    [
        ["common.seed=2", "common.seed=1"],
        ["optimization.lr=[0.5]", "optimization.lr=[0.25]"],
        ["task.data=a", "task={data: b}", "task.data=null"],
        ["common={seed: 3}", "common.seed=1"],
    ],
)
def test_the_last_value_counts_defaults_too(initialised, overrides):
    assert composed_configs.chosen_groups("config", ("task=translation",)).common.seed == 1
    overrides = ["task=translation", *overrides]
    found = composed_configs.composed("config", ("task=translation",), overrides)
    assert found == composed_configs.COMPOSE("config", overrides=overrides, strict=False)


@pytest.mark.parametrize(
    "override",
    [
        "common.seed=a", "common.seed=null", "dataset.ddp=1", "nosuch.option=1", "nosuch=1",
        "common.seed=1,2", "common.seed=range(0,3)", "+common.more=1", "~common.seed",
        "common.seed=[", "distributed_training.ddp_backend=none",
    ],
)  # fmt: skip
def test_what_hydra_does_with_other_overrides_is_done(initialised, override):
    def outcome(function):
        try:
            return function("config", overrides=["task=translation", override], strict=False)
        except Exception as error:
            return type(error), str(error)

    assert outcome(composed_configs.compose) == outcome(composed_configs.COMPOSE)


def test_what_was_asked_elsewhere_is_remembered(monkeypatch):
    """Whatever it is: hydra refuses what it refuses when the command asks for it."""
    parser = options.get_generation_parser()
    arguments = [*GENERATION, "--task", "translation", "--seed", "271"]
    namespace = options.parse_args_and_arch(parser, arguments)
    expected = fairseq.dataclass.utils.convert_namespace_to_omegaconf(namespace)
    asked = composed_configs.asked[-1]
    for name in ("chosen_groups", "leaves_of", "parsed", "written"):
        getattr(composed_configs, name).cache_clear()
    for name, overrides in (asked, ("config", ["nosuch=1"]), ("config", ["task.data=["])):
        composed_configs.remember(name, overrides)
    monkeypatch.setattr(composed_configs, "COMPOSE", None)
    monkeypatch.setattr(composed_configs, "OverridesParser", None)
    assert fairseq.dataclass.utils.convert_namespace_to_omegaconf(namespace) == expected
