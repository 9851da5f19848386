"""Checks the configuration of a checkpoint and copies it, before fairseq uses it.

A file of plain data can still run code: fairseq evaluates some strings of a configuration
(:mod:`.evaluated_texts`), and objects of harmless types can show fairseq other values than the
checks have seen. Therefore fairseq gets a copy that consists of plain values. References to other
values of the file (``${dataset.train_subset}``) are replaced by those values; references that
OmegaConf would look up elsewhere (``${oc.env:…}``) are refused.

Imports only the standard library: this is imported before torch and fairseq.
"""

import argparse
import re
from collections import OrderedDict
from typing import Any, Dict, Mapping, Optional, Tuple, cast

from .display import PLAIN, shown
from .evaluated_texts import REFERENCE, is_evaluated, why_refused

# Keys of an old checkpoint's ``args`` whose values hydra looks up as names of configuration files.
LOOKED_UP = (
    "task",
    "arch",
    "criterion",
    "optimizer",
    "lr_scheduler",
    "tokenizer",
    "bpe",
    "scoring",
    "simul_type",
)
_NAME = re.compile(r"[\w.-]*")
# OmegaConf's word for a value that is missing.
_MISSING = "???"

# Names of options. A line feed must not occur: fairseq's pattern for "encoder_x" stops there.
_OPTION = re.compile(r"(?!__)[\w.:-]{1,100}", re.ASCII)
# Configurations have a few hundred values; OmegaConf takes about a second per 6,000. Namespaces
# bypass OmegaConf and may list every pair of 200 languages twice, hence the higher limit.
_MOST_VALUES = 30_000
_MOST_IN_NAMESPACES = 300_000
# Total length of the strings that are parsed as Python or as references.
_MOST_CHARACTERS = 1_000_000
# Configurations are less deep; OmegaConf's time and memory for deep nesting have no bound.
_DEEPEST = 64
# Longest integer; str() of very long ones is slow or fails.
_MOST_BITS = 64


class UnsafeValueError(ValueError):
    """A checkpoint's configuration has a value that must not reach fairseq. To the message,
    ``name=value, which …``, :func:`.checkpoint_loading.load` adds the file, and what to do.

    Attributes:
        name: the option, or ``the file``.
        value: the option's value, shortened to one line.
        reason: why the value is refused, a clause that begins with ``which``.
    """

    def __init__(self, name: str, value: object, reason: str) -> None:
        self.name, self.value, self.reason = name, shown(value), reason
        super().__init__(f"{name}={self.value}, {reason}")


def make_plain(state: object) -> None:
    """Replaces a checkpoint's configuration by a checked copy of plain values.

    The configuration's own objects could show fairseq other values than the checks see: by
    attributes named like methods, by subclasses of OmegaConf's nodes, or by references that are
    resolved at each access.

    Args:
        state: the unpickled checkpoint, changed in place; its entries ``cfg`` and ``args`` hold the
            configuration.

    Raises:
        UnsafeValueError: a value that no option can have, or that fairseq would run as Python or
            look up outside the file.
    """
    if type(state) not in (dict, OrderedDict) or not _vars_of(state).keys() <= {"_metadata"}:
        # OmegaConf's nodes and subclasses of dict could show fairseq another configuration than the
        # copy.
        if hasattr(state, "keys"):
            raise UnsafeValueError("the file", state, "which is not a plain dictionary")
        return
    assert isinstance(state, dict)
    for part, kinds, what in (
        ("cfg", (dict,), "configuration"),
        ("args", (argparse.Namespace,), "namespace of arguments"),
    ):
        if state.get(part) is None:
            continue
        copied = _Copier(state[part]).copy(part, state[part])
        if not isinstance(copied, kinds):
            # A string would be parsed as YAML by OmegaConf, after these checks.
            raise UnsafeValueError(part, copied, f"which is not a {what}")
        state[part] = copied
    _require_no_node(
        [
            pair
            for pair in list(dict.items(state))
            if type(pair[0]) is not str or pair[0] not in ("cfg", "args")
        ]
    )


def _require_no_node(value: object) -> None:
    """Raises UnsafeValueError if there is a node of OmegaConf, at any depth, in ``value``, which
    holds the parts of a checkpoint outside its configuration: a node may refer to environment
    variables, whose values fairseq would store."""
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, (str, bytes, type, *PLAIN)) or id(value) in seen:
            continue
        seen.add(id(value))
        if _is_of_omegaconf(value):
            raise UnsafeValueError(
                "the file", value, "which is a part of a configuration but is stored outside it"
            )
        if isinstance(value, dict):
            waiting.extend(inner for pair in list(dict.items(value)) for inner in pair)
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting.extend(list(value))
        waiting.extend(list(_vars_of(value).values()))
        # An attribute of tensors that is not in their __dict__.
        waiting.append(getattr(value, "_backward_hooks", None))


class _Copier:
    """Copies a configuration of dictionaries, lists, namespaces and OmegaConf's nodes as plain
    values.

    Methods are called on the types (``dict.items(value)``), since a forged object may have
    attributes with the names of methods.

    Args:
        root: the whole configuration, in which references are looked up.
    """

    def __init__(self, root: object) -> None:
        self.root = root
        self.values = self.values_in_namespaces = self.characters = 0
        self.reasons: Dict[Tuple[str, str], Optional[str]] = {}

    def copy(
        self, name: str, value: object, depth: int = 0, *, plain_texts: bool = False
    ) -> object:
        """Returns a copy of a value that consists of plain values, with references resolved.

        Args:
            name: the option that the value belongs to, for messages: the nearest key or attribute.
            value: the option's value, or a part of it.
            depth: the number of containers and references around the value.
            plain_texts: True within a namespace: a string there is never a reference, as OmegaConf
                does not resolve them.

        Raises:
            UnsafeValueError: no option can have this value, or fairseq would evaluate it.
        """
        self._step(name, depth, in_namespace=plain_texts)
        kind = type(value)
        if _is_of_omegaconf(value):
            return self.copy(
                name, _content_of_node(name, value), depth + 1, plain_texts=plain_texts
            )
        if kind is argparse.Namespace:
            return self._namespace(name, value, depth)
        # Exactly these types: subclasses may override methods.
        if kind in (dict, OrderedDict):
            assert isinstance(value, dict)
            return {
                _key(name, key): self.copy(
                    key if type(key) is str else name, inner, depth + 1, plain_texts=plain_texts
                )
                for key, inner in list(dict.items(value))
            }
        if kind in (list, tuple, set, frozenset):
            assert isinstance(value, (list, tuple, set, frozenset))
            return kind(
                self.copy(name, inner, depth + 1, plain_texts=plain_texts) for inner in list(value)
            )
        plain = _scalar(name, value)
        if isinstance(plain, str) and not plain_texts and (reference := REFERENCE.fullmatch(plain)):
            return self.copy(name, self._target(name, reference[1], depth + 1), depth + 1)
        self._check(name, plain)
        return plain

    def _step(self, name: str, depth: int, *, in_namespace: bool = False) -> None:
        """Counts a value that is to be copied; for values in namespaces the limit is higher. Raises
        UnsafeValueError, which names the option ``name``, if the values are now too many or
        ``depth`` is too large: a few objects that contain each other twice, or themselves, would
        unfold to a huge copy."""
        if in_namespace:
            self.values_in_namespaces += 1
        else:
            self.values += 1
        for values, most in (
            (self.values, _MOST_VALUES),
            (self.values_in_namespaces, _MOST_IN_NAMESPACES),
        ):
            if values > most:
                raise UnsafeValueError(name, "…", f"which is beyond the limit of {most} values")
        if depth > _DEEPEST:
            raise UnsafeValueError(name, "…", f"which is nested more than {_DEEPEST} levels deep")

    def _check(self, name: str, plain: object) -> None:
        if not isinstance(plain, (str, bytes)):
            return
        if isinstance(plain, bytes):
            reason = why_refused(name, plain)
        else:
            if (name, plain) not in self.reasons:
                self._count(name, plain)
                self.reasons[name, plain] = why_refused(name, plain)
            reason = self.reasons[name, plain]
        if reason is not None:
            raise UnsafeValueError(name, plain, reason)

    def _count(self, name: str, text: str) -> None:
        """Counts the characters of ``text``, the value of the option ``name``, if it has to be
        parsed; raises UnsafeValueError if parsing all texts so far would take too long."""
        if "$" in text or "\\" in text or is_evaluated(name):
            self.characters += len(text)
        if self.characters > _MOST_CHARACTERS:
            raise UnsafeValueError(
                name, "…", f"which is beyond the limit of {_MOST_CHARACTERS} characters"
            )

    def _namespace(self, name: str, arguments: object, depth: int) -> argparse.Namespace:
        copied = argparse.Namespace()
        for key, value in list(_vars_of(arguments).items()):
            if type(key) is not str:
                raise UnsafeValueError(name, key, "which is not a name of an option")
            vars(copied)[str(_key(name, key))] = self.copy(key, value, depth + 1, plain_texts=True)
        for option in LOOKED_UP:
            value = vars(copied).get(option)
            if value is not None and not (isinstance(value, str) and _NAME.fullmatch(value)):
                raise UnsafeValueError(option, value, "which is not a name of anything registered")
        return copied

    def _target(self, name: str, path: str, depth: int) -> object:
        """The value that a reference (``${path}``) leads to; ``???``, with which OmegaConf marks a
        missing value, if there is none.

        Args:
            name: the option that holds the reference.
            path: the keys from the root of the configuration, separated by dots.
            depth: the number of references followed so far.
        """
        self._count(name, "$" + path)
        value = self._behind(name, self.root, depth)
        for key in path.split("."):
            if type(value) in (dict, OrderedDict) and isinstance(value, dict):
                value = dict.get(value, key, _MISSING)
            elif (
                type(value) is list
                and isinstance(value, list)
                and key.isdecimal()
                and int(key) < len(value)
            ):
                value = value[int(key)]
            else:
                return _MISSING
            value = self._behind(name, value, depth)
        return value

    def _behind(self, name: str, value: object, depth: int) -> object:
        """Follows nodes of OmegaConf to what they hold, and references (texts like ``${model.lr}``)
        to what they refer to, until a value is neither; returns that value.

        Args:
            name: name of the option, for error messages.
            depth: number of references followed so far, which is limited.
        """
        while True:
            self._step(name, depth)
            if _is_of_omegaconf(value):
                value = _content_of_node(name, value)
            elif isinstance(value, str) and (reference := REFERENCE.fullmatch(value)):
                value, depth = self._target(name, reference[1], depth + 1), depth + 1
            else:
                return value


def _vars_of(value: object) -> Mapping[str, Any]:
    """The instance attributes of an object; empty if it has no ``__dict__``."""
    return getattr(value, "__dict__", {})


def _is_of_omegaconf(value: object) -> bool:
    return type(value).__module__.split(".")[0] == "omegaconf"


def _content_of_node(name: str, node: object) -> object:
    """The stored content of an OmegaConf node, read from its attributes, since the node's own
    methods would resolve references. Raises UnsafeValueError, which names the option ``name``, if
    there is none."""
    held = _vars_of(node)
    for attribute in ("_content", "_val"):
        if attribute in held:
            return held[attribute]
    raise UnsafeValueError(name, node, "which is not a value of an option")


def _key(name: str, key: object) -> object:
    if type(key) not in (str, *PLAIN) or (isinstance(key, str) and not _OPTION.fullmatch(key)):
        raise UnsafeValueError(name, key, "which is not a name of an option")
    return key


def _scalar(name: str, value: object) -> object:
    """Returns a string, bytes, number, boolean or None as a plain Python value; NumPy's scalars and
    subclasses of str are converted. Raises UnsafeValueError, which names the option ``name``, for
    any other object and for integers of more than 64 bits."""
    kind = type(value)
    if kind is int and cast(int, value).bit_length() > _MOST_BITS:
        raise UnsafeValueError(
            name, f"{cast(int, value).bit_length()} bits", "which is not a number of an option"
        )
    if kind in PLAIN:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    item = (
        getattr(value, "item", None)
        if kind.__module__ == "numpy" and kind.__name__ != "ndarray"
        else None
    )
    plain = item() if item is not None else value
    if type(plain) in PLAIN:
        return plain
    # Any other object could have attributes that fairseq reads.
    raise UnsafeValueError(name, value, "which is not a value of an option")
