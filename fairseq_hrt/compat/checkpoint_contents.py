"""What a checkpoint says, before fairseq acts on it.

A file that holds nothing but data can still run code: fairseq 0.12.2 calls ``eval`` on some strings of a
configuration while it builds a model, an optimizer or a task (``encoder_layers`` of fconv,
``adaptive_softmax_cutoff`` and ``xformers_att_config`` of every Transformer, …). So those strings must
be plain literals here; ``"[(512, 3)] * 20"`` is one, a call or a name is none. Nor may a value ask
OmegaConf for the environment (``${oc.env:…}``).

The standard library only: this is imported before torch and fairseq are.
"""

import argparse
import ast
import re
from collections import OrderedDict
from typing import Any, Iterator, Mapping, Optional

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
_REFERENCE = re.compile(r"\$\{\.*(?:\w+\.)*(\w+)\}")

# A name alone runs nothing, and options of other packages may be called like fairseq's.
_WORD = re.compile(r"[A-Za-z_][\w-]*")
# Elsewhere the name of a file, whose dots and slashes call nothing.
_FILE = re.compile(r"[A-Za-z_][\w-]*(?:[/.][\w-]+)*")
# Larger results of "[0] * 10 ** 9" and the like are no configuration.
_LARGEST = 100_000
_LONGEST = 10_000
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


def shown(value: object) -> str:
    """A value of unknown origin for a message: on one line, without control characters, not longer than a line."""
    try:
        text = repr(value[:_SHOWN] if isinstance(value, (str, bytes)) else value)
    except Exception:
        # A damaged object cannot even be shown; its kind can.
        text = f"<{type(value).__name__}>"
    text = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)
    cut = len(text) > _SHOWN + 2 or (isinstance(value, (str, bytes)) and len(value) > _SHOWN)
    return text[: _SHOWN + 2] + "…" if cut else text


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
        return _value(ast.parse(text.lstrip(" \t"), mode="eval").body)
    except (TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _value(node: ast.AST) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str, bool, type(None))):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_value(element) for element in node.elts)
    if isinstance(node, ast.List):
        return [_value(element) for element in node.elts]
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_value(key): _value(value) for key, value in zip(node.keys, node.values) if key is not None}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _value(node.operand)
        if not isinstance(value, (int, float)):
            raise ValueError("a sign before something that is no number")
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return _combined(node.op, _value(node.left), _value(node.right))
    raise ValueError(f"{type(node).__name__} is no literal")


def _combined(operator: ast.operator, left: Any, right: Any) -> Any:
    """``left operator right``, refused where the result would be huge."""
    lengths = [len(side) if isinstance(side, (str, list, tuple)) else None for side in (left, right)]
    if lengths == [None, None] and max(abs(left), abs(right)) > 2.0**53:
        raise ValueError("a huge number")
    if isinstance(operator, ast.Mult):
        size = max(lengths[0] * right if lengths[0] is not None else 0, lengths[1] * left if lengths[1] is not None else 0)
    else:
        size = sum(length or 0 for length in lengths)
    if size > _LARGEST:
        raise ValueError(f"{size} elements")
    if isinstance(operator, ast.Mult):
        return left * right
    return left + right if isinstance(operator, ast.Add) else left - right


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
        if hasattr(state, "keys"):
            # OmegaConf's nodes, a class derived from dict: they could show fairseq another configuration than the one that is replaced.
            raise UnsafeValueError("the file", state, "which is no plain dictionary")
        return
    assert isinstance(state, dict)
    for part in ("cfg", "args"):
        config = state.get(part)
        # OmegaConf would read a text as YAML, after these checks.
        if isinstance(config, (str, bytes)):
            raise UnsafeValueError(part, config, "which is a text instead of a configuration")
        if part in state:
            state[part] = _Copier().copy("", config)
    arguments = state.get("args")
    if arguments is not None and not isinstance(arguments, argparse.Namespace):
        raise UnsafeValueError("args", arguments, "which is no namespace of arguments")


class _Copier:
    """Copies a configuration, however it is nested: dictionaries, lists, namespaces, OmegaConf's nodes.

    Values are read by the types' own methods, as attributes of an object may be called like them.
    """

    def __init__(self) -> None:
        self.values = 0

    def copy(self, name: str, value: object, depth: int = 0) -> object:
        """A copy of plain values.

        Args:
            name: of the option: the nearest key or attribute.
            value: it or what is in it.
            depth: how many containers it is in.
        """
        self.values += 1
        if self.values > _LARGEST:
            # Few objects can be huge when each holds another one twice.
            raise UnsafeValueError(name, value, f"which is one of more than {_LARGEST} values")
        if depth > _DEEPEST:
            raise UnsafeValueError(name, "…", f"which is nested more than {_DEEPEST} levels deep")
        kind = type(value)
        if _is_of_omegaconf(value):
            return self.copy(name, _content_of_node(name, value), depth + 1)
        if kind is argparse.Namespace:
            return self._namespace(value, depth)
        # Exactly these: what is derived from one of them can have methods of its own.
        if kind in (dict, OrderedDict):
            assert isinstance(value, dict)
            return {_key(name, key): self.copy(str(key), inner, depth + 1) for key, inner in list(dict.items(value))}
        if kind in (list, tuple, set, frozenset):
            assert isinstance(value, (list, tuple, set, frozenset))
            return kind(self.copy(name, inner, depth + 1) for inner in list(value))
        plain = _scalar(name, value)
        reason = _reason(name, plain)
        if reason is not None:
            raise UnsafeValueError(name, plain, reason)
        return plain

    def _namespace(self, arguments: object, depth: int) -> argparse.Namespace:
        copied = argparse.Namespace()
        for name, value in list(_vars_of(arguments).items()):
            if type(name) is not str or name.startswith("__"):
                raise UnsafeValueError("a name", name, "which is none of an option")
            vars(copied)[name] = self.copy(name, value, depth + 1)
        for name in LOOKED_UP:
            value = vars(copied).get(name)
            if value is not None and not (isinstance(value, str) and _NAME.fullmatch(value)):
                raise UnsafeValueError(name, value, "which is no name of anything registered")
        return copied


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
    if type(key) not in (str, *_PLAIN):
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
        return "which would be looked up outside the file"
    if not _is_evaluated(name) or _WORD.fullmatch(value) or (name == "pretrained" and _FILE.fullmatch(value)):
        return None
    if reference is not None:
        # fairseq gets what OmegaConf puts there. Another evaluated option is checked where it stands, one of another name could be anything.
        return None if _is_evaluated(reference[1]) else "which fairseq would run as Python; it must be a plain literal"
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
    return name in EVALUATED or any(name.startswith(prefix) and name[len(prefix) :] in EVALUATED for prefix in _PREFIXES)


def _one_line(error: Exception) -> str:
    return shown(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1]
