"""hydra's ``compose`` with a memory: fairseq composes its 250 options anew for every command and
model, in 0.4 seconds each time, and looks for its own caller in the sources of all modules.

hydra composes once, without values of the groups (``task=…``, ``criterion=…``); these are taken
from its store, and the others are then set in turn, as hydra does, unless they are there already.
Commands that are started afresh have hydra's.
"""

import copy
import functools
import warnings
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import fairseq
import fairseq.dataclass.utils
import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, OmegaConf

FOLDER = Path(fairseq.__file__).parent / "config"
COMPOSE, INITIALIZE = fairseq.dataclass.utils.compose, fairseq.dataclass.utils.initialize
# Requests of this process: the name of a configuration and its overrides.
asked: List[Tuple[str, List[str]]] = []


def by_hydra(name: str, overrides: Sequence[str]) -> DictConfig:
    with nullcontext() if GlobalHydra.instance().is_initialized() else initialised():
        return COMPOSE(name, overrides=list(overrides), strict=False)


@functools.cache
def chosen_groups(name: str, groups: Tuple[str, ...]) -> DictConfig:
    if not groups:
        return by_hydra(name, ())
    config = copy.deepcopy(chosen_groups(name, ()))
    OmegaConf.set_struct(config, False)
    for text in groups:
        group, _, value = text.partition("=")
        file = f"{group}/{value}.yaml"
        if (FOLDER / file).exists():
            raise ValueError(f"{file} comes before what the store has")
        config[group] = copy.deepcopy(ConfigStore.instance().load(file).node)
    return config


@functools.cache
def leaves_of(name: str, groups: Tuple[str, ...]) -> Dict[str, str]:
    """The values of :func:`chosen_groups` by their keys, lists whole, as Python writes them."""
    found: Dict[str, str] = {}

    def look(key: str, value: Any) -> None:
        if isinstance(value, dict):
            for own, inner in value.items():
                look(f"{key}.{own}" if key else own, inner)
        else:
            found[key] = repr(value)

    look("", OmegaConf.to_container(chosen_groups(name, groups)))
    return found


@functools.cache
def parser() -> OverridesParser:
    return OverridesParser.create()


@functools.cache
def parsed(override: str) -> Override:
    return parser().parse_override(override)


@functools.cache
def written(override: str) -> str:
    return repr(parsed(override).value())


def groups_of(overrides: Sequence[str]) -> Tuple[str, ...]:
    return tuple(override for override in overrides if "." not in override.partition("=")[0])


@contextmanager
def initialised() -> Iterator[None]:
    """As fairseq has it when it composes."""
    with warnings.catch_warnings():
        # Of the version that fairseq asks for as well.
        warnings.simplefilter("ignore")
        context = hydra.initialize_config_dir(str(FOLDER), version_base="1.1")
    with context:
        yield


def remember(name: str, overrides: Sequence[str]) -> None:
    """Does beforehand what :func:`compose` takes long for; what hydra refuses is left to it."""
    groups = groups_of(overrides)
    with suppress(Exception), warnings.catch_warnings():
        # Those of the command itself are enough.
        warnings.simplefilter("ignore")
        leaves_of(name, groups)
        for override in overrides:
            if override not in groups:
                written(override)


def compose(name: str, overrides: List[str], strict: bool) -> DictConfig:
    """What fairseq asks hydra for; what is unusual or refused is left to hydra, with its own
    errors."""
    assert not strict
    asked.append((name, overrides))
    with suppress(Exception):
        return composed(name, groups_of(overrides), overrides)
    return by_hydra(name, overrides)


def composed(name: str, groups: Tuple[str, ...], overrides: Sequence[str]) -> DictConfig:
    """What is unusual or refused raises some exception."""
    config = copy.deepcopy(chosen_groups(name, groups))
    # As while hydra sets values: none that the configuration does not have.
    OmegaConf.set_struct(config, True)
    leaves = dict(leaves_of(name, groups))
    for text in overrides:
        if text in groups:
            continue
        override = parsed(text)
        if override.is_sweep_override() or override.type is not OverrideType.CHANGE:
            raise ValueError(text)
        key = override.key_or_group
        if leaves.get(key) == written(text):
            continue
        OmegaConf.update(config, key, copy.deepcopy(override.value()), merge=True)
        # What is not a leaf may hold those that follow.
        if leaves.pop(key, None) is None:
            leaves.clear()
    OmegaConf.set_struct(config, False)
    return config


def install() -> None:
    """From now on fairseq composes in this way, in this process."""
    fairseq.dataclass.utils.compose = compose
    fairseq.dataclass.utils.initialize = lambda config_path: nullcontext()
