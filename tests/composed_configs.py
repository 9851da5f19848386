"""hydra's ``compose`` with a memory: fairseq composes its 250 options anew for every command and model, in 0.4 seconds each time.

What the groups (``task=…``, ``criterion=…``) decide is composed once; the values are then set one by one, as hydra does. Commands in
processes of their own have hydra's.
"""

import copy
import functools
from typing import List, Tuple

import fairseq.dataclass.utils
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, OmegaConf

COMPOSE = fairseq.dataclass.utils.compose


@functools.cache
def chosen_groups(name: str, groups: Tuple[str, ...]) -> DictConfig:
    return COMPOSE(name, overrides=list(groups), strict=False)


@functools.cache
def parsed(override: str) -> Override:
    return OverridesParser.create().parse_override(override)


def compose(name: str, overrides: List[str], strict: bool) -> DictConfig:
    """What fairseq asks hydra for; what is unusual or refused is left to hydra, with its own errors."""
    assert not strict
    groups = tuple(override for override in overrides if "." not in override.partition("=")[0])
    try:
        config = copy.deepcopy(chosen_groups(name, groups))
        # As while hydra sets values: none that the configuration does not have.
        OmegaConf.set_struct(config, True)
        for override in map(parsed, (override for override in overrides if override not in groups)):
            if override.is_sweep_override() or override.type is not OverrideType.CHANGE:
                return COMPOSE(name, overrides=overrides, strict=strict)
            OmegaConf.update(config, override.key_or_group, copy.deepcopy(override.value()), merge=True)
    except Exception:
        return COMPOSE(name, overrides=overrides, strict=strict)
    OmegaConf.set_struct(config, False)
    return config


def install() -> None:
    """From now on fairseq composes in this way, in this process."""
    fairseq.dataclass.utils.compose = compose
