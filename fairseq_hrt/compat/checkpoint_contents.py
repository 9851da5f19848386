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
from typing import Any, Iterator, List, NamedTuple, Optional, Set, Tuple

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
    if not isinstance(state, dict):
        return None
    for part in ("cfg", "args"):
        config = state.get(part)
        # OmegaConf would read a text as YAML, after these checks.
        if isinstance(config, (str, bytes)):
            return UnsafeValue(part, shown(config), "which is a text instead of a configuration")
        for name, value in _leaves(config):
            reason = _reason(name, value)
            if reason is not None:
                return UnsafeValue(name, shown(value), reason)
    arguments = state.get("args")
    if arguments is not None and not isinstance(arguments, argparse.Namespace):
        return UnsafeValue("args", shown(arguments), "which is no namespace of arguments")
    for name in LOOKED_UP:
        value = getattr(arguments, name, None)
        if isinstance(value, str) and not _NAME.fullmatch(value):
            return UnsafeValue(name, shown(value), "which is no name of anything registered")
    return None


def _reason(name: str, value: object) -> Optional[str]:
    """Why fairseq must not see this option with this value; None: it may."""
    if value is _TOO_DEEP:
        return f"which is nested more than {_DEEPEST} levels deep"
    if not isinstance(value, str):
        # eval reads bytes, and whatever else lies in memory as bytes do.
        return "which is no plain literal" if _is_evaluated(name) else None
    if "${" in value and "${" in _REFERENCE.sub("", value):
        return "which would be looked up outside the file"
    if not _is_evaluated(name) or _WORD.fullmatch(value) or (name == "pretrained" and _FILE.fullmatch(value)):
        return None
    if "${" in value:
        # fairseq gets what OmegaConf puts there. Another evaluated option is checked where it stands; within a text ("[${model.note}]") or of
        # another name it could be anything.
        reference = _REFERENCE.fullmatch(value)
        if reference is not None and _is_evaluated(reference[1]):
            return None
        return "which fairseq would run as Python; it must be a plain literal"
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


def _is_evaluated(name: str) -> bool:
    return name in EVALUATED or any(name.startswith(prefix) and name[len(prefix) :] in EVALUATED for prefix in _PREFIXES)


def _one_line(error: Exception) -> str:
    return shown(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1]


def _leaves(config: object) -> Iterator[Tuple[str, object]]:
    """(name, value) of all texts and strange objects in a configuration, however it is nested: dictionaries, namespaces, OmegaConf."""
    waiting: List[Tuple[str, object, int]] = [("", config, 0)]
    # With the name: OmegaConf's node of a harmless option may also stand for another one.
    seen: Set[Tuple[int, str]] = set()
    while waiting:
        name, value, depth = waiting.pop()
        if type(value) in _PLAIN:
            continue
        if isinstance(value, str) or not _is_container(value):
            yield name, value
        elif (id(value), name) not in seen:
            seen.add((id(value), name))
            if depth > _DEEPEST:
                yield name, _TOO_DEEP
                return
            waiting.extend((key, inner, depth + 1 if key != "_parent" else 0) for key, inner in _parts(name, value))


def _is_container(value: object) -> bool:
    return isinstance(value, (dict, list, tuple, set, frozenset, argparse.Namespace)) or (
        type(value).__module__.split(".")[0] == "omegaconf"
    )


def _parts(name: str, value: object) -> Iterator[Tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((str(key), inner) for key, inner in list(value.items()))
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((name, inner) for inner in list(value))
    # A node of OmegaConf is read as it was saved: asked itself, it would already resolve its references.
    for key, inner in list(getattr(value, "__dict__", {}).items()):
        yield (name if key in ("_content", "_val") else str(key)), inner
