"""hydra's ``compose`` with a memory: fairseq composes its 250 options anew for every command and
model, in 0.4 seconds each time.

Values of the groups (``task=…``, ``criterion=…``) are composed once; the others are then set in
turn, as hydra does. Commands that are started afresh have hydra's.
"""

import copy
import functools
import warnings
from contextlib import suppress
from pathlib import Path
from typing import ContextManager, List, Sequence, Tuple

import fairseq
import fairseq.dataclass.utils
import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, OmegaConf

COMPOSE = fairseq.dataclass.utils.compose
# Requests of this process: the name of a configuration and its overrides.
asked: List[Tuple[str, List[str]]] = []


@functools.cache
def chosen_groups(name: str, groups: Tuple[str, ...]) -> DictConfig:
    return COMPOSE(name, overrides=list(groups), strict=False)


@functools.cache
def parsed(override: str) -> Override:
    return OverridesParser.create().parse_override(override)


def groups_of(overrides: Sequence[str]) -> Tuple[str, ...]:
    return tuple(override for override in overrides if "." not in override.partition("=")[0])


def initialised() -> ContextManager:
    """As fairseq has it when it composes."""
    folder = Path(fairseq.__file__).parent / "config"
    return hydra.initialize_config_dir(str(folder), version_base="1.1")


def remember(name: str, overrides: Sequence[str]) -> None:
    """Does beforehand what :func:`compose` takes long for; what hydra refuses is left to it."""
    groups = groups_of(overrides)
    with suppress(Exception), warnings.catch_warnings():
        # Of the version that fairseq asks for as well.
        warnings.simplefilter("ignore")
        with initialised():
            chosen_groups(name, groups)
        for override in overrides:
            if override not in groups:
                parsed(override)


def compose(name: str, overrides: List[str], strict: bool) -> DictConfig:
    """What fairseq asks hydra for; what is unusual or refused is left to hydra, with its own
    errors."""
    assert not strict
    asked.append((name, overrides))
    groups = groups_of(overrides)
    try:
        config = copy.deepcopy(chosen_groups(name, groups))
        # As while hydra sets values: none that the configuration does not have.
        OmegaConf.set_struct(config, True)
        for override in map(parsed, (override for override in overrides if override not in groups)):
            if override.is_sweep_override() or override.type is not OverrideType.CHANGE:
                return COMPOSE(name, overrides=overrides, strict=strict)
            OmegaConf.update(
                config, override.key_or_group, copy.deepcopy(override.value()), merge=True
            )
    except Exception:
        return COMPOSE(name, overrides=overrides, strict=strict)
    OmegaConf.set_struct(config, False)
    return config


def install() -> None:
    """From now on fairseq composes in this way, in this process."""
    fairseq.dataclass.utils.compose = compose
