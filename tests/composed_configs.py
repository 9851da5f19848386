"""hydra's ``compose`` with a memory: fairseq composes its 250 options anew for every command and
model, in 0.4 seconds each time, and looks for its own caller in the sources of all modules.

hydra composes once, without values of the groups (``task=…``, ``criterion=…``); these are taken
from its store, and the others are then set in turn, as hydra does, unless they are there already.
Commands that are started afresh have hydra's.
"""

import copy
import functools
import io
import pickle
import warnings
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar, Dict, Iterator, List, Optional, Sequence, Tuple

import fairseq
import fairseq.checkpoint_utils
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


class Copied:
    """Makes copies of a configuration, in a fifth of the time of ``copy.deepcopy``."""

    def __init__(self, config: Any) -> None:
        types: List[type] = []

        class Pickler(pickle.Pickler):
            # Some of fairseq's types are not found by their names.
            def persistent_id(self, value: Any) -> Optional[int]:
                if not isinstance(value, type):
                    return None
                types.append(value)
                return len(types) - 1

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, number: int) -> type:
                return types[number]

        file = io.BytesIO()
        Pickler(file, -1).dump(config)
        self._written, self._unpickler = file.getvalue(), Unpickler

    def __call__(self) -> Any:
        return self._unpickler(io.BytesIO(self._written)).load()


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
def copied_groups(name: str, groups: Tuple[str, ...]) -> Copied:
    return Copied(chosen_groups(name, groups))


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
        copied_groups(name, groups)
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
    config = copied_groups(name, groups)()
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


class Created(OmegaConf):
    """OmegaConf as fairseq uses it, to make a configuration without types of what it has composed,
    or read from a checkpoint: most of it is as it was the last time."""

    known: ClassVar[Dict[str, Tuple[Dict[str, Any], Copied]]] = {}

    @classmethod
    def create(cls, plain: Any = None, **options: Any) -> Any:
        if not isinstance(plain, dict):
            return OmegaConf.create(plain, **options)
        own_keys = [list(own) if isinstance(own, dict) else type(own) for own in plain.values()]
        keys = repr((list(plain), own_keys, options))
        if keys not in cls.known:
            cls.known[keys] = copy.deepcopy(plain), Copied(OmegaConf.create(plain, **options))
        before, copied = cls.known[keys]
        config = copied()
        for key, own in plain.items():
            if repr(own) == repr(before[key]):
                continue
            if not isinstance(own, dict):
                config[key] = own
                continue
            for name, value in own.items():
                if repr(value) != repr(before[key][name]):
                    config[key][name] = value
        return config


def install() -> None:
    """From now on fairseq composes in this way, in this process."""
    fairseq.dataclass.utils.compose = compose
    fairseq.dataclass.utils.OmegaConf = fairseq.checkpoint_utils.OmegaConf = Created
    fairseq.dataclass.utils.initialize = lambda config_path: nullcontext()
