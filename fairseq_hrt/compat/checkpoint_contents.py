"""What a checkpoint says, before fairseq acts on it.

A file that holds nothing but data can still run code: fairseq 0.12.2 calls ``eval`` on some strings of a
configuration while it builds a model, an optimizer or a task (``encoder_layers`` of fconv,
``adaptive_softmax_cutoff`` and ``xformers_att_config`` of every Transformer, …). So those strings must
be plain literals here; ``"[(512, 3)] * 20"`` is one, a call or a name is none. Nor may a value ask
OmegaConf for the environment (``${oc.env:…}``): references lead to other values of the file, which
take their places.

The standard library only: this is imported before torch and fairseq are.
"""

import argparse
import ast
import re
import reprlib
from collections import OrderedDict
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

# Every attribute that fairseq 0.12.2 hands to eval, eval_str_list, eval_str_dict or eval_bool.
EVALUATED = frozenset(
    """
    adafactor_eps adam_betas adamax_betas adaptive_input_cutoff adaptive_softmax_cutoff character_filters
    conv_aggregator_layers conv_feature_layers decoder_attention decoder_layers downsample encoder_attention
    encoder_layers gated_attention lamb_betas left_pad_source left_pad_target pipeline_balance
    pipeline_decoder_balance pipeline_decoder_devices pipeline_devices pipeline_encoder_balance
    pipeline_encoder_devices pretrained project_input self_attention wer_args xformers_att_config
    """.split()
)
# The flat form of a nested option: encoder.xformers_att_config.
_PREFIXES = ("encoder_", "decoder_", "quant_noise_")
# What fairseq makes hydra look up, as the name of one of its configuration files, when it reads an old checkpoint's ``args``.
LOOKED_UP = ("task", "arch", "criterion", "optimizer", "lr_scheduler", "tokenizer", "bpe", "scoring", "simul_type")
_NAME = re.compile(r"[\w.-]*")
# "${dataset.train_subset}" refers to another value; "${oc.env:HOME}" asks a resolver.
_REFERENCE = re.compile(r"\$\{((?:\w+\.)*(\w+))\}")
# OmegaConf's word for a value that is missing.
_MISSING = "???"

# A name alone runs nothing, and options of other packages may be called like fairseq's.
_WORD = re.compile(r"[A-Za-z_][\w-]*")
# Elsewhere the name of a file, whose dots and slashes call nothing.
_FILE = re.compile(r"[A-Za-z_][\w-]*(?:[/.][\w-]+)*")
# fairseq takes "encoder_x" for x of the encoder by a pattern that stops at a line feed.
_OPTION = re.compile(r"(?!__)[\w.:-]{1,100}", re.ASCII)
# Larger results of "[0] * 10 ** 9" and the like are no configuration.
_LARGEST = 100_000
_LONGEST = 10_000
# A configuration has some hundred values. OmegaConf needs a second for 6,000; in a namespace, which it does not look into, a model of 200
# languages names all of their pairs, perhaps twice.
_MOST_VALUES = 30_000
_MOST_IN_NAMESPACES = 300_000
# Of texts that have to be read as Python or as references.
_MOST_CHARACTERS = 1_000_000
# OmegaConf needs time and memory beyond all bounds for what is nested deeper than any configuration is.
_DEEPEST = 64
_PLAIN = (int, float, complex, bool, type(None))
_SHOWN = 100


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


class _Short(reprlib.Repr):
    """The beginning of a value; of an object, whose own text may be endless, only its kind."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 3, _SHOWN, _SHOWN, _SHOWN

    def repr_instance(self, x: object, level: int) -> str:
        return repr(x) if type(x) in _PLAIN or isinstance(x, type) else f"<{type(x).__name__}>"


def shown(value: object) -> str:
    """A value of unknown origin for a message: on one line, without control characters, not longer than a line."""
    try:
        text = repr(value[:_SHOWN]) if isinstance(value, (str, bytes)) else _Short().repr(value)
    except Exception:
        # A damaged object cannot even be shown; its kind can.
        text = f"<{type(value).__name__}>"
    text = escaped(text)
    cut = len(text) > _SHOWN + 2 or (isinstance(value, (str, bytes)) and len(value) > _SHOWN)
    return text[: _SHOWN + 2] + "…" if cut else text


def escaped(text: str) -> str:
    """The text with all signs that cannot be printed, ends of lines too, as ``\\x1b`` and the like."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def literal(text: str) -> object:
    """The value of a text of numbers, strings, True, False, None, tuples, lists, dictionaries, ``+``, ``-`` and ``*``.

    Raises:
        SyntaxError: the text is no expression of Python; ``eval`` would say the same.
        ValueError: the expression holds anything else, or stands for something huge.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"{len(text)} characters")
    try:
        # Just what eval would read: it skips these two signs.
        return _value(ast.parse(text.lstrip(" \t"), mode="eval").body)[0]
    except (TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _value(node: ast.AST) -> Tuple[Any, int]:
    """What an expression stands for, and the elements and characters in it at all depths."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, bool, type(None))):
        return node.value, len(node.value) if isinstance(node.value, str) else 1
    if isinstance(node, (ast.Tuple, ast.List)):
        values, size = _values(node.elts)
        return (tuple(values) if isinstance(node, ast.Tuple) else values), size
    if isinstance(node, ast.Dict) and None not in node.keys:
        keys, size = _values([key for key in node.keys if key is not None])
        values, more = _values(node.values)
        return dict(zip(keys, values)), size + more
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value, size = _value(node.operand)
        if not isinstance(value, (int, float)):
            raise ValueError("a sign before something that is no number")
        return (-value if isinstance(node.op, ast.USub) else value), size
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return _combined(node.op, _value(node.left), _value(node.right))
    raise ValueError(f"{type(node).__name__} is no literal")


def _values(nodes: Sequence[ast.AST]) -> Tuple[List[Any], int]:
    found = [_value(node) for node in nodes]
    return [value for value, _ in found], _allowed(1 + sum(size for _, size in found))


def _combined(operator: ast.operator, left: Tuple[Any, int], right: Tuple[Any, int]) -> Tuple[Any, int]:
    """``left operator right``, refused where the result would be huge."""
    (first, size), (second, more) = left, right
    are_numbers = not any(isinstance(side, (str, list, tuple)) for side in (first, second))
    if are_numbers and max(abs(first), abs(second)) > 2.0**53:
        raise ValueError("a huge number")
    if isinstance(operator, ast.Mult):
        if not are_numbers:
            size = size * max(second, 0) if isinstance(second, int) else more * max(first, 0)
        size = _allowed(size)
        return first * second, size
    return (first + second if isinstance(operator, ast.Add) else first - second), _allowed(size + more)


def _allowed(size: int) -> int:
    if size > _LARGEST:
        raise ValueError(f"{size} elements")
    return size


def make_plain(state: object) -> None:
    """Puts a copy in the place of a checkpoint's configuration, of plain values alone, none of which fairseq would evaluate or look up.

    fairseq gets what was looked at here, not the file's objects: those could show it other values, by attributes that are called like
    methods, types of nodes, or references that are resolved only when they are read.

    Args:
        state: what was unpickled; configurations are its ``cfg`` and ``args``, in whatever form they were saved.

    Raises:
        UnsafeValueError: a value is none that an option can have, or would be evaluated or looked up.
    """
    if type(state) not in (dict, OrderedDict) or not _vars_of(state).keys() <= {"_metadata"}:
        # OmegaConf's nodes, a class derived from dict: they could show fairseq another configuration than the one that is replaced.
        if hasattr(state, "keys"):
            raise UnsafeValueError("the file", state, "which is no plain dictionary")
        return
    assert isinstance(state, dict)
    for part, kinds, what in (("cfg", (dict,), "configuration"), ("args", (argparse.Namespace,), "namespace of arguments")):
        if state.get(part) is None:
            continue
        copied = _Copier(state[part]).copy(part, state[part])
        if not isinstance(copied, kinds):
            # OmegaConf would read a text as YAML, after these checks.
            raise UnsafeValueError(part, copied, f"which is no {what}")
        state[part] = copied
    _require_no_node(
        [pair for pair in list(dict.items(state)) if type(pair[0]) is not str or pair[0] not in ("cfg", "args")]
    )


def _require_no_node(value: object) -> None:
    """Refuses OmegaConf's nodes outside of the configuration: fairseq writes down what it reads there, and they could read the environment.

    Raises:
        UnsafeValueError: there is one, or objects whose contents cannot be seen.
    """
    waiting, seen = [value], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, (str, bytes, type, *_PLAIN)) or id(value) in seen:
            continue
        seen.add(id(value))
        if _is_of_omegaconf(value):
            raise UnsafeValueError("the file", value, "which is a part of a configuration that stands outside of it")
        dtype = getattr(value, "dtype", value) if type(value).__module__.split(".")[0] == "numpy" else None
        if getattr(dtype, "hasobject", False):
            raise UnsafeValueError("the file", value, "which is an array of objects")
        if isinstance(value, dict):
            waiting.extend(inner for pair in list(dict.items(value)) for inner in pair)
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting.extend(list(value))
        waiting.extend(list(_vars_of(value).values()))
        # Of tensors, where it is no attribute of their own.
        waiting.append(getattr(value, "_backward_hooks", None))


class _Copier:
    """Copies a configuration, however it is nested: dictionaries, lists, namespaces, OmegaConf's nodes.

    Values are read by the types' own methods, as attributes of an object may be called like them.

    Args:
        root: the whole of it, which references start from.
    """

    def __init__(self, root: object) -> None:
        self.root = root
        self.values = self.values_in_namespaces = self.characters = 0
        self.reasons: Dict[Tuple[str, str], Optional[str]] = {}

    def copy(self, name: str, value: object, depth: int = 0, *, plain_texts: bool = False) -> object:
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
            return self.copy(name, _content_of_node(name, value), depth + 1, plain_texts=plain_texts)
        if kind is argparse.Namespace:
            return self._namespace(name, value, depth)
        # Exactly these: what is derived from one of them can have methods of its own.
        if kind in (dict, OrderedDict):
            assert isinstance(value, dict)
            return {
                _key(name, key): self.copy(key if type(key) is str else name, inner, depth + 1, plain_texts=plain_texts)
                for key, inner in list(dict.items(value))
            }
        if kind in (list, tuple, set, frozenset):
            assert isinstance(value, (list, tuple, set, frozenset))
            return kind(self.copy(name, inner, depth + 1, plain_texts=plain_texts) for inner in list(value))
        plain = _scalar(name, value)
        if isinstance(plain, str) and not plain_texts and (reference := _REFERENCE.fullmatch(plain)):
            return self.copy(name, self._target(name, reference[1], depth + 1), depth + 1)
        self._check(name, plain)
        return plain

    def _step(self, name: str, depth: int, *, in_namespace: bool = False) -> None:
        """Refuses few objects that are huge, because each holds another one twice, or itself."""
        if in_namespace:
            self.values_in_namespaces += 1
        else:
            self.values += 1
        for values, most in ((self.values, _MOST_VALUES), (self.values_in_namespaces, _MOST_IN_NAMESPACES)):
            if values > most:
                raise UnsafeValueError(name, "…", f"which is one of more than {most} values")
        if depth > _DEEPEST:
            raise UnsafeValueError(name, "…", f"which is nested more than {_DEEPEST} levels deep")

    def _check(self, name: str, plain: object) -> None:
        if not isinstance(plain, (str, bytes)):
            return
        if isinstance(plain, bytes):
            reason = _reason(name, plain)
        else:
            if (name, plain) not in self.reasons:
                self._count(name, plain)
                self.reasons[name, plain] = _reason(name, plain)
            reason = self.reasons[name, plain]
        if reason is not None:
            raise UnsafeValueError(name, plain, reason)

    def _count(self, name: str, text: str) -> None:
        """Refuses texts that take too long to be checked."""
        if "$" in text or "\\" in text or _is_evaluated(name):
            self.characters += len(text)
        if self.characters > _MOST_CHARACTERS:
            raise UnsafeValueError(name, "…", f"which is one of texts of more than {_MOST_CHARACTERS} characters")

    def _namespace(self, name: str, arguments: object, depth: int) -> argparse.Namespace:
        copied = argparse.Namespace()
        for key, value in list(_vars_of(arguments).items()):
            if type(key) is not str:
                raise UnsafeValueError(name, key, "which is no name of an option")
            vars(copied)[str(_key(name, key))] = self.copy(key, value, depth + 1, plain_texts=True)
        for option in LOOKED_UP:
            value = vars(copied).get(option)
            if value is not None and not (isinstance(value, str) and _NAME.fullmatch(value)):
                raise UnsafeValueError(option, value, "which is no name of anything registered")
        return copied

    def _target(self, name: str, path: str, depth: int) -> object:
        """The value that a reference leads to; that OmegaConf would find none is said when it is asked for.

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
            elif type(value) is list and isinstance(value, list) and key.isdecimal() and int(key) < len(value):
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
            elif isinstance(value, str) and (reference := _REFERENCE.fullmatch(value)):
                value, depth = self._target(name, reference[1], depth + 1), depth + 1
            else:
                return value


def _vars_of(value: object) -> Mapping[str, Any]:
    """The attributes of an object itself, none where it can have none."""
    return getattr(value, "__dict__", {})


def _is_of_omegaconf(value: object) -> bool:
    return type(value).__module__.split(".")[0] == "omegaconf"


def _content_of_node(name: str, node: object) -> object:
    """What one of OmegaConf's nodes was saved with: asked itself, it would already resolve its references."""
    held = _vars_of(node)
    for attribute in ("_content", "_val"):
        if attribute in held:
            return held[attribute]
    raise UnsafeValueError(name, node, "which is no value of an option")


def _key(name: str, key: object) -> object:
    if type(key) not in (str, *_PLAIN) or (isinstance(key, str) and not _OPTION.fullmatch(key)):
        raise UnsafeValueError(name, key, "which is no name of an option")
    return key


def _scalar(name: str, value: object) -> object:
    """A value that is no container; NumPy's are made Python's."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    item = getattr(value, "item", None) if kind.__module__ == "numpy" and kind.__name__ != "ndarray" else None
    plain = item() if item is not None else value
    if type(plain) in _PLAIN:
        return plain
    # It could have the attributes that fairseq reads.
    raise UnsafeValueError(name, value, "which is no value of an option")


def _reason(name: str, value: object) -> Optional[str]:
    """Why fairseq must not see this option with this value; None: it may."""
    if isinstance(value, bytes):
        # eval reads them, too.
        return "which is no plain literal" if _is_evaluated(name) else None
    if not isinstance(value, str):
        return None
    reference = _REFERENCE.fullmatch(value)
    # A reference within a text can become another one: old arguments are read twice ("$${a.b}", where b is "{oc.env:HOME}").
    if ("${" in value and reference is None) or _hides_a_reference(value):
        return "which may be looked up outside the file"
    if not _is_evaluated(name) or _WORD.fullmatch(value) or (name == "pretrained" and _FILE.fullmatch(value)):
        return None
    if reference is not None:
        # In old arguments: fairseq gets what OmegaConf puts there. Another evaluated option is checked where it stands, one of another
        # name could be anything.
        return None if _is_evaluated(reference[2]) else "which fairseq would run as Python; it must be a plain literal"
    if "\\" in value:
        # Of old arguments hydra halves those before a quote, and what was inside a text stands outside.
        return "which fairseq would run as Python; it must be a plain literal without backslashes"
    try:
        meant = literal(value)
    except SyntaxError:
        # Nothing that could be run: some other package's option of this name.
        return None
    except ValueError as error:
        return f"which fairseq would run as Python; it must be a plain literal ({_one_line(error)})"
    # Of old arguments fairseq evaluates some texts twice.
    return next((reason for inner in _texts(meant) if (reason := _reason(name, inner)) is not None), None)


def _texts(value: object) -> Iterator[str]:
    """All texts in a literal's value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _texts(pair)


def _hides_a_reference(text: str) -> bool:
    """Whether it is Python's way to write a reference, such as ``'\\x24{a.b}'``, which fairseq unquotes in old arguments."""
    if "\\" not in text and "$" not in text:
        return False
    if len(text) > _LONGEST:
        return True
    try:
        nodes = list(ast.walk(ast.parse(text.lstrip(" \t"), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.Constant) and isinstance(node.value, str) and "${" in node.value for node in nodes)


def _is_evaluated(name: str) -> bool:
    return name in EVALUATED or any(name.startswith(prefix) and _is_evaluated(name[len(prefix) :]) for prefix in _PREFIXES)


def _one_line(error: Exception) -> str:
    return shown(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1]
