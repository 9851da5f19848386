"""The contents of a checkpoint, before fairseq acts on them.

A file that holds nothing but data can still run code: fairseq evaluates some strings of a
configuration (:mod:`.evaluated_texts`), and objects of harmless types can show it something else
than they show whoever checks them. So fairseq gets a copy of plain values. References
(``${dataset.train_subset}``) lead to other values of the file, which take their places; what would
ask OmegaConf for the environment (``${oc.env:…}``) is refused.

The standard library only: this is imported before torch and fairseq are.
"""

import argparse
import re
from collections import OrderedDict
from typing import Any, Dict, Mapping, Optional, Tuple, cast

from .display import PLAIN, shown
from .evaluated_texts import REFERENCE, is_evaluated, why_refused

# Keys that fairseq makes hydra look up, as names of its configuration files, when it reads an
# old checkpoint's ``args``.
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

# fairseq takes "encoder_x" for x of the encoder by a pattern that stops at a line feed.
_OPTION = re.compile(r"(?!__)[\w.:-]{1,100}", re.ASCII)
# A configuration has some hundred values. OmegaConf needs a second for 6,000; in a namespace, which
# it does not look into, a model of 200 languages names all of their pairs, perhaps twice.
_MOST_VALUES = 30_000
_MOST_IN_NAMESPACES = 300_000
# Of texts that have to be read as Python or as references.
_MOST_CHARACTERS = 1_000_000
# OmegaConf needs time and memory beyond all bounds for what is nested deeper than any configuration
# is.
_DEEPEST = 64
# Digits of an integer; longer ones take pages to write, or fail to be written.
_MOST_BITS = 64


class UnsafeValueError(ValueError):
    """A checkpoint's configuration holds what fairseq must not see.

    Attributes:
        name: of the option.
        value: as it stands there, shortened, on one line.
        reason: what it would do.
    """

    def __init__(self, name: str, value: object, reason: str) -> None:
        self.name, self.value, self.reason = name, shown(value), reason
        super().__init__(f"{name}={self.value}, {reason}")


def make_plain(state: object) -> None:
    """Puts a copy in the place of a checkpoint's configuration, of plain values alone, none of
    which fairseq would evaluate or look up.

    fairseq gets what was looked at here, not the file's objects: those could show it other values,
    by attributes that are called like methods, types of nodes, or references that are resolved only
    when they are read.

    Args:
        state: what was unpickled; configurations are its ``cfg`` and ``args``, in whatever form
            they were saved.

    Raises:
        UnsafeValueError: a value is none that an option can have, or would be evaluated or looked
            up.
    """
    if type(state) not in (dict, OrderedDict) or not _vars_of(state).keys() <= {"_metadata"}:
        # OmegaConf's nodes, a class derived from dict: they could show fairseq another
        # configuration than the one that is replaced.
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
            # OmegaConf would read a text as YAML, after these checks.
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
    """Refuses OmegaConf's nodes outside of the configuration: fairseq writes down what it reads
    there, and they could read the environment.

    Raises:
        UnsafeValueError: there is one, or objects whose contents cannot be seen.
    """
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, (str, bytes, type, *PLAIN)) or id(value) in seen:
            continue
        seen.add(id(value))
        if _is_of_omegaconf(value):
            raise UnsafeValueError(
                "the file", value, "which is a part of a configuration but stands outside it"
            )
        if isinstance(value, dict):
            waiting.extend(inner for pair in list(dict.items(value)) for inner in pair)
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting.extend(list(value))
        waiting.extend(list(_vars_of(value).values()))
        # Of tensors, where it is not an attribute of their own.
        waiting.append(getattr(value, "_backward_hooks", None))


class _Copier:
    """Copies a configuration, however it is nested: dictionaries, lists, namespaces, OmegaConf's
    nodes.

    Values are read by the types' own methods, as attributes of an object may be called like them.

    Args:
        root: the whole of it, which references start from.
    """

    def __init__(self, root: object) -> None:
        self.root = root
        self.values = self.values_in_namespaces = self.characters = 0
        self.reasons: Dict[Tuple[str, str], Optional[str]] = {}

    def copy(
        self, name: str, value: object, depth: int = 0, *, plain_texts: bool = False
    ) -> object:
        """A copy of plain values.

        Args:
            name: of the option: the nearest key or attribute.
            value: it or what is in it.
            depth: how many containers and references it is in.
            plain_texts: it is in a namespace, where OmegaConf follows no references.
        """
        self._step(name, depth, in_namespace=plain_texts)
        kind = type(value)
        if _is_of_omegaconf(value):
            return self.copy(
                name, _content_of_node(name, value), depth + 1, plain_texts=plain_texts
            )
        if kind is argparse.Namespace:
            return self._namespace(name, value, depth)
        # Exactly these: what is derived from one of them can have methods of its own.
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
        """Refuses few objects that are huge, because each holds another one twice, or itself."""
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
        """Refuses texts that take too long to be checked."""
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
        """The value that a reference leads to; that OmegaConf would find none is said when it is
        asked for.

        Args:
            name: of the option that holds the reference.
            path: the names on the way, from the root, with dots between them.
            depth: how many references it is in.
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
        """What a node holds, or a reference leads to."""
        while True:
            self._step(name, depth)
            if _is_of_omegaconf(value):
                value = _content_of_node(name, value)
            elif isinstance(value, str) and (reference := REFERENCE.fullmatch(value)):
                value, depth = self._target(name, reference[1], depth + 1), depth + 1
            else:
                return value


def _vars_of(value: object) -> Mapping[str, Any]:
    """The attributes of an object itself, none where it can have none."""
    return getattr(value, "__dict__", {})


def _is_of_omegaconf(value: object) -> bool:
    return type(value).__module__.split(".")[0] == "omegaconf"


def _content_of_node(name: str, node: object) -> object:
    """What one of OmegaConf's nodes was saved with: asked itself, it would already resolve its
    references."""
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
    """A value that is not a container; NumPy's are made Python's."""
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
    # It could have the attributes that fairseq reads.
    raise UnsafeValueError(name, value, "which is not a value of an option")
