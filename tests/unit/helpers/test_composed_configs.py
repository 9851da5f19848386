"""What the tests compose is what hydra composes."""

from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any, List, Optional

import composed_configs
import fairseq.dataclass.utils
import pytest
from fairseq import options
from fairseq.dataclass.constants import DDP_BACKEND_CHOICES
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

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
    "--share-all-embeddings",
]


@pytest.mark.parametrize(
    "parser, arguments",
    [
        ("generation", [*GENERATION, "--task", "translation_hrt", "--hrt-decode-chunk", "auto"]),
        (
            "generation",
            [*GENERATION, "--task=translation_dag", "--lenpen=0.5", "--model-overrides={'a': 1}"],
        ),
        ("training", [*TRAINING, "--task", "translation_hrt", "--adam-betas=(0.9, 0.98)"]),
    ],
)
def test_it_equals_that_of_hydra(monkeypatch, parser, arguments):
    namespace = options.parse_args_and_arch(getattr(options, f"get_{parser}_parser")(), arguments)
    assert fairseq.dataclass.utils.compose is composed_configs.compose
    ours = [fairseq.dataclass.utils.convert_namespace_to_omegaconf(namespace) for _ in range(2)]
    monkeypatch.setattr(fairseq.dataclass.utils, "compose", composed_configs.COMPOSE)
    monkeypatch.setattr(fairseq.dataclass.utils, "initialize", composed_configs.INITIALIZE)
    monkeypatch.setattr(fairseq.dataclass.utils, "OmegaConf", OmegaConf)
    composed = fairseq.dataclass.utils.convert_namespace_to_omegaconf(namespace)
    assert ours == [composed, composed]
    assert {name: type(value) for name, value in composed.items()} == {
        name: type(value) for name, value in ours[1].items()
    }


@dataclass
class Kind:
    _name: str = "plain"
    data: Optional[str] = None
    lr: List[float] = field(default_factory=lambda: [0.25])


@dataclass
class Common:
    seed: int = 1
    ddp_backend: DDP_BACKEND_CHOICES = "pytorch_ddp"


@dataclass
class Small:
    """As fairseq's, with few options: hydra composes them at once."""

    defaults: List[Any] = field(default_factory=lambda: ["_self_", {"kind": None}])
    common: Common = field(default_factory=Common)
    kind: Any = None
    optimization: Kind = field(default_factory=Kind)


def test_configurations_are_created_anew():
    """Whatever has other values than the last one with these keys; none changes another one."""
    plain = {"a": {"x": 1, "y": [0.5], "z": None}, "b": None, "c": 1, "_name": "n"}
    others = [
        plain,
        {**plain, "a": {"x": True, "y": [0.5, 1], "z": [1]}},
        {**plain, "a": {"x": 1.0, "y": None, "z": "a"}, "c": 2, "_name": None},
        {**plain, "a": None, "b": {"x": 1}},
        {"a": {"x": 1, "y": [0.5]}},
        {"a": Namespace(x=1), "b": 1},
        {"a": Namespace(x=2), "b": 1},
    ]
    for one in [*others, *others]:
        options = {"flags": {"allow_objects": True}} if "b" in one else {}
        created = composed_configs.Created.create(one, **options)
        assert repr(created) == repr(OmegaConf.create(one, **options))
        created.a = {"x": 17}
        created.more = 1


@pytest.fixture
def initialised():
    store = ConfigStore.instance()
    store.store(name="small", node=Small)
    store.store(group="kind", name="plain", node=Kind)
    with composed_configs.initialised():
        yield
    for name in ("small.yaml", "kind"):
        del store.repo[name]


def test_what_is_remembered_does_not_change(initialised):
    overrides = ["kind=plain", "kind.lr=[0.5]"]
    first = composed_configs.compose("small", [*overrides, "kind.data=a"], strict=False)
    first.kind.lr.append(0.25)
    first.common.seed = 17
    first.kind.data = None
    second = composed_configs.compose("small", overrides, strict=False)
    assert second == composed_configs.COMPOSE("small", overrides=overrides, strict=False)


@pytest.mark.parametrize(
    "overrides",
    [
        ["common.seed=2", "common.seed=1"],
        ["optimization.lr=[0.5]", "optimization.lr=[0.25]"],
        ["kind.data=a", "kind={data: b}", "kind.data=null"],
        ["common={seed: 3}", "common.seed=1"],
    ],
)
def test_the_last_value_counts_defaults_too(initialised, overrides):
    assert composed_configs.chosen_groups("small", ("kind=plain",)).common.seed == 1
    overrides = ["kind=plain", *overrides]
    found = composed_configs.composed("small", ("kind=plain",), overrides)
    assert found == composed_configs.COMPOSE("small", overrides=overrides, strict=False)


@pytest.mark.parametrize(
    "override",
    [
        "common.seed=a", "common.seed=null", "common.ddp=1", "nosuch.option=1", "nosuch=1",
        "common.seed=1,2", "common.seed=range(0,3)", "+common.more=1", "~common.seed",
        "common.seed=[", "common.ddp_backend=none",
    ],
)  # fmt: skip
def test_what_hydra_does_with_other_overrides_is_done(initialised, monkeypatch, override):
    def outcome(function):
        try:
            return function("small", overrides=["kind=plain", override], strict=False)
        except Exception as error:
            return type(error), str(error)

    hydras = composed_configs.COMPOSE
    composed_configs.chosen_groups("small", ("kind=plain",))
    # Where hydra is asked, its answer is not asked for again.
    asked = []
    monkeypatch.setattr(
        composed_configs,
        "COMPOSE",
        lambda name, overrides, strict: (
            asked.append((name, overrides)) or hydras(name, overrides=overrides, strict=strict)
        ),
    )
    found = outcome(composed_configs.compose)
    assert asked == [("small", ["kind=plain", override])] or found == outcome(hydras)


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
