"""hydra's ``compose`` with a memory: fairseq composes its 250 options anew for every command and
model, in 0.4 seconds each time, and looks for its own caller in the sources of all modules.

hydra composes once, without values of the groups (``task=…``, ``criterion=…``); these are taken
from its store, and the others are then set in turn, as hydra does, unless they are there already.
What fairseq then makes of all values is made once of each set of names, and copied.
Commands that are started afresh have hydra's.
"""

import copy
import functools
import io
import pickle
import warnings
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

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


class Kept:
    """A value that is copied often: unpickling takes a third of the time of copy.deepcopy."""

    def __init__(self, value: Any) -> None:
        # Some of fairseq's cannot be found by their names.
        self.classes: List[type] = []
        file = io.BytesIO()
        Pickler(file, self.classes).dump(value)
        self._pickled = file.getvalue()

    def copy(self) -> Any:
        return Unpickler(io.BytesIO(self._pickled), self.classes).load()


class Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, classes: List[type]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._classes = classes

    def persistent_id(self, value: Any) -> Optional[int]:
        if not isinstance(value, type):
            return None
        self._classes.append(value)
        return len(self._classes) - 1


class Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, classes: List[type]) -> None:
        super().__init__(file)
        self._classes = classes

    def persistent_load(self, place: int) -> type:
        return self._classes[place]


@functools.cache
def kept_groups(name: str, groups: Tuple[str, ...]) -> Kept:
    return Kept(chosen_groups(name, groups))


# Values by the names that they have, and what OmegaConf made of them.
created: Dict[Any, Tuple[Dict[str, Any], Kept]] = {}


def names_of(values: Any) -> Any:
    if isinstance(values, dict):
        return tuple((name, names_of(value)) for name, value in values.items())
    return type(values) if isinstance(values, list) else None


def set_values(config: DictConfig, old: Dict[str, Any], new: Dict[str, Any]) -> None:
    for name, value in new.items():
        if isinstance(value, dict):
            set_values(config[name], old[name], value)
        elif type(value) is not type(old[name]) or value != old[name]:
            config[name] = value


# Options of a class that have their defaults.
defaults: Dict[type, Tuple[Any, Kept]] = {}


def with_defaults(options: Any) -> Optional[Kept]:
    """None: they have others."""
    if type(options) not in defaults:
        defaults[type(options)] = copy.deepcopy(options), Kept(OmegaConf.structured(options))
    expected, kept = defaults[type(options)]
    return kept if options == expected else None


class Remembering(OmegaConf):
    """What fairseq calls to make a configuration of plain values, and to add values to the defaults
    of a class."""

    @staticmethod
    def merge(options: Any, values: Any) -> DictConfig:
        kept = with_defaults(options)
        if kept is None:
            return OmegaConf.merge(options, values)
        config = kept.copy()
        config.merge_with(values)
        return config

    @staticmethod
    def create(values: Dict[str, Any]) -> DictConfig:
        names = names_of(values)
        if names not in created:
            config = OmegaConf.create(values)
            created[names] = copy.deepcopy(values), Kept(config)
            return config
        old, kept = created[names]
        config = kept.copy()
        set_values(config, old, values)
        return config


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


@functools.cache
def prepare(name: str, groups: Tuple[str, ...]) -> None:
    """The copies that these groups need."""
    config = kept_groups(name, groups).copy()
    Remembering.create(OmegaConf.to_container(config, resolve=True, enum_to_str=True))
    for node in config.values():
        if OmegaConf.is_config(node) and is_dataclass(OmegaConf.get_type(node)):
            with_defaults(OmegaConf.get_type(node)())


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
        prepare(name, groups)


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
    config = kept_groups(name, groups).copy()
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
    fairseq.dataclass.utils.OmegaConf = Remembering
    fairseq.dataclass.utils.initialize = lambda config_path: nullcontext()
