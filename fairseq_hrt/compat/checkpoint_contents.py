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
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

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
_TOO_DEEP = ("…",)
_PLAIN = (int, float, complex, bool, type(None))
_SHOWN = 100


class UnsafeValue(NamedTuple):
    """What is wrong with a checkpoint's configuration.

    Attributes:
        name: of the option.
        value: as it stands there, shortened, on one line.
        reason: what it would do.
    """

    name: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}, {self.reason}"


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


def unsafe_value(state: object) -> Optional[UnsafeValue]:
    """What fairseq would evaluate or look up when it uses a checkpoint; None if there is nothing of the kind.

    Args:
        state: what was unpickled; configurations are its ``cfg`` and ``args``, in whatever form they were saved.
    """
    if type(state) not in (dict, OrderedDict) or not _vars_of(state).keys() <= {"_metadata"}:
        # Whatever else has keys (OmegaConf's nodes, a class derived from dict) could show fairseq other values than are seen here.
        return UnsafeValue("the file", shown(state), "which is no plain dictionary") if hasattr(state, "keys") else None
    assert isinstance(state, dict)
    for part in ("cfg", "args"):
        config = state.get(part)
        # OmegaConf would read a text as YAML, after these checks.
        if isinstance(config, (str, bytes)):
            return UnsafeValue(part, shown(config), "which is a text instead of a configuration")
        for name, value in _leaves(config):
            reason = _reason(name, value)
            if reason is not None:
                return UnsafeValue(name, shown(value.value if isinstance(value, _Foreign) else value), reason)
    arguments = state.get("args")
    if arguments is not None and not isinstance(arguments, argparse.Namespace):
        return UnsafeValue("args", shown(arguments), "which is no namespace of arguments")
    return None


def _vars_of(value: object) -> Mapping[str, Any]:
    """The attributes of an object itself, none where it can have none."""
    return getattr(value, "__dict__", {})


def _reason(name: str, value: object) -> Optional[str]:
    """Why fairseq must not see this option with this value; None: it may."""
    if value is _TOO_DEEP:
        return f"which is nested more than {_DEEPEST} levels deep"
    if isinstance(value, _Foreign):
        return value.reason
    if not isinstance(value, str):
        # eval reads bytes, and whatever else lies in memory as bytes do.
        return "which is no plain literal" if _is_evaluated(name) else None
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
    return next((reason for _, inner in _leaves(meant) if (reason := _reason(name, inner)) is not None), None)


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


class _Foreign(NamedTuple):
    """Stands for what must not be in a configuration.

    Attributes:
        value: which that is.
        reason: why.
    """

    value: object
    reason: str


def _leaves(config: object) -> Iterator[Tuple[str, object]]:
    """(name, value) of all texts and strange objects in a configuration, however it is nested: dictionaries, namespaces, OmegaConf."""
    waiting: List[Tuple[str, object, int]] = [("", config, 0)]
    # With the name: OmegaConf's node of a harmless option may also stand for another one.
    seen: Set[Tuple[int, str]] = set()
    while waiting:
        name, value, depth = waiting.pop()
        if type(value) in _PLAIN:
            continue
        if isinstance(value, (str, bytes, bytearray, _Foreign)) or _is_number(value):
            yield name, value
        elif not _is_container(value):
            # It could have the attributes that fairseq reads.
            yield name, _Foreign(value, "which is no value of an option")
        elif (id(value), name) not in seen:
            seen.add((id(value), name))
            if depth > _DEEPEST:
                yield name, _TOO_DEEP
                return
            waiting.extend((key, inner, depth + 1 if key != "_parent" else 0) for key, inner in _parts(name, value))


def _is_number(value: object) -> bool:
    """Whether it is one of NumPy's scalars; texts among them are texts."""
    kind = type(value)
    return (
        kind.__module__ == "numpy" and hasattr(kind, "item") and not hasattr(kind, "__setitem__") and kind.__name__ != "void"
    )


def _is_container(value: object) -> bool:
    # Exactly these: what is derived from one of them can have methods of its own.
    return type(value) in (dict, OrderedDict, list, tuple, set, frozenset, argparse.Namespace) or _is_of_omegaconf(value)


def _is_of_omegaconf(value: object) -> bool:
    return type(value).__module__.split(".")[0] == "omegaconf"


def _parts(name: str, value: object) -> Iterator[Tuple[str, object]]:
    """(name, value) of what a container holds, by its type's own methods: attributes of the object may be called like them."""
    if _is_of_omegaconf(value):
        # As it was saved: asked itself, a node would already resolve its references.
        yield from _parts_of_node(name, value)
        return
    if isinstance(value, argparse.Namespace):
        yield from _names_to_look_up(value)
        pairs: Iterator[Tuple[str, object]] = ((str(key), inner) for key, inner in list(vars(value).items()))
    elif isinstance(value, dict):
        for key, inner in list(_vars_of(value).items()):
            yield str(key), _Foreign(inner, "which is an attribute of a dictionary")
        pairs = ((str(key), inner) for key, inner in list(dict.items(value)))
    else:
        assert isinstance(value, (list, tuple, set, frozenset))
        pairs = ((name, inner) for inner in list(value))
    for key, inner in pairs:
        # Of old arguments fairseq would write its value, unquoted, into an override for hydra.
        alone = _is_of_omegaconf(inner) and "_val" in _vars_of(inner)
        yield key, _Foreign(inner, "which is a part of a configuration that stands outside of it") if alone else inner


def _names_to_look_up(arguments: argparse.Namespace) -> Iterator[Tuple[str, object]]:
    for name in LOOKED_UP:
        value = vars(arguments).get(name)
        if value is not None and (type(value) is not str or not _NAME.fullmatch(value)):
            yield name, _Foreign(value, "which is no name of anything registered")


def _parts_of_node(name: str, node: object) -> Iterator[Tuple[str, object]]:
    is_metadata = type(node).__name__ in ("Metadata", "ContainerMetadata")
    for key, inner in list(_vars_of(node).items()):
        if is_metadata:
            # Types of the values, and a cache that is empty in a file.
            if not (
                isinstance(inner, type) or type(inner).__module__ == "typing" or (key == "resolver_cache" and not inner)
            ):
                yield str(key), inner
        elif key == "_content" and type(inner) is dict:
            yield from ((str(own), one) for own, one in list(inner.items()))
        elif key == "_content" and type(inner) is list:
            yield from ((name, one) for one in list(inner))
        elif key in ("_content", "_val"):
            yield name, inner
        elif key in ("_metadata", "_parent", "_flags_cache"):
            yield str(key), inner
        else:
            yield str(key), _Foreign(inner, "which is no part of a configuration")
