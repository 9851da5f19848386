"""Checks a model's options from the YAML configuration of ``fairseq-hydra-train``, and gives them
the names that they have on the command line.

YAML may group options (``encoder: {layers: 2}``) or not (``encoder_layers: 2``). fairseq passes
both to the model unchanged and uses its defaults for names it does not find: a misspelt name would
silently train another model.
"""

import difflib
from dataclasses import fields, is_dataclass
from typing import Any, Dict, List, Tuple

from fairseq.models.transformer import TransformerConfig
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

# Keys that hold the name of the architecture.
_ARCHITECTURE = ("_name", "arch")


def flat_names(config: type) -> Dict[str, Tuple[str, ...]]:
    """The path of each option in a dataclass with nested ones, by the option's name on the command
    line: ``{"encoder_layers": ("encoder", "layers"), "dropout": ("dropout",), …}``."""
    found: Dict[str, Tuple[str, ...]] = {}
    for own in fields(config):
        if own.name.startswith("_"):
            continue
        # A nested configuration is a field whose default is a dataclass instance.
        part = own.default if is_dataclass(own.default) else None
        if part is None:
            found[own.name] = (own.name,)
            continue
        found.update(
            {
                f"{own.name}_{inner.name}": (own.name, inner.name)
                for inner in fields(part)
                if inner.name != "_name"
            }
        )
    return found


def flatten_options(options: Any, config: type = TransformerConfig) -> None:
    """Renames a model's options from YAML, in place, to the names of the command line, and converts
    their values to the types of ``config``.

    Args:
        options: the part ``model`` of the YAML configuration; an argparse namespace is left
            unchanged, since argparse has checked it.
        config: the dataclass of the model's options.

    Raises:
        ValueError: an option does not exist, is given two different values, or has a value of the
            wrong type.
    """
    if not isinstance(options, DictConfig):
        return
    names = flat_names(config)
    parts = sorted({path[0] for path in names.values() if len(path) > 1})
    given = _flat(OmegaConf.to_container(options, resolve=True, enum_to_str=True), parts)
    known = {*names, *_ARCHITECTURE}
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(f"model.{name}: {options.get('_name')} has no such option{hint}")
    given.update(
        _typed({name: value for name, value in given.items() if name in names}, names, config)
    )
    with open_dict(options):
        for part in parts:
            options.pop(part, None)
        options.update(given)


def _flat(nested: Any, parts: List[str]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for name, value in nested.items():
        if name in parts and not isinstance(value, dict):
            raise ValueError(
                f"model.{name}: {value!r} is not a group of options such as {{layers: 6}}"
            )
        inner = (
            {f"{name}_{own}": held for own, held in value.items() if own != "_name"}
            if name in parts
            else {name: value}
        )
        for flat, held in inner.items():
            if flat in found and found[flat] != held:
                raise ValueError(
                    f"model.{flat} is given twice, as {found[flat]!r} and as {held!r}; leave"
                    " one out"
                )
            found[flat] = held
    return found


def _typed(
    given: Dict[str, Any], names: Dict[str, Tuple[str, ...]], config: type
) -> Dict[str, Any]:
    """The options ``given`` with their values converted to the types in the dataclass ``config``,
    as hydra would convert them; ``names`` are the options' paths, see :func:`flat_names`."""
    whole = OmegaConf.structured(config)
    for name, value in given.items():
        try:
            OmegaConf.update(whole, ".".join(names[name]), value)
        except OmegaConfBaseException as error:
            raise ValueError(
                f"model.{name}: {value!r} does not fit ({str(error).splitlines()[0]})"
            ) from None
    plain = OmegaConf.to_container(whole, enum_to_str=True)
    found = {}
    for name in given:
        at: Any = plain
        for step in names[name]:
            at = at[step]
        found[name] = at
    return found
