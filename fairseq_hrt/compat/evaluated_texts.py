"""Texts of a configuration that fairseq 0.12.2 runs as Python, or that OmegaConf looks up.

fairseq calls ``eval`` on some strings while it builds a model, an optimizer or a task
(``encoder_layers`` of fconv, ``adaptive_softmax_cutoff`` and ``xformers_att_config`` of every
Transformer, …). From a file they must be plain
literals: ``"[(512, 3)] * 20"`` is one, a call or a name is none.

The standard library only, as everything that is imported before torch and fairseq are.
"""

import ast
import re
import warnings
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from .display import shown

# Every attribute that fairseq 0.12.2 hands to eval, eval_str_list, eval_str_dict or eval_bool.
EVALUATED = frozenset(
    """
    adafactor_eps adam_betas adamax_betas adaptive_input_cutoff adaptive_softmax_cutoff
    character_filters conv_aggregator_layers conv_feature_layers decoder_attention decoder_layers
    downsample encoder_attention encoder_layers gated_attention lamb_betas left_pad_source
    left_pad_target pipeline_balance pipeline_decoder_balance pipeline_decoder_devices
    pipeline_devices pipeline_encoder_balance pipeline_encoder_devices pretrained project_input
    self_attention wer_args xformers_att_config
    """.split()
)
# The flat form of a nested option: encoder.xformers_att_config.
_PREFIXES = ("encoder_", "decoder_", "quant_noise_")
# "${dataset.train_subset}" refers to another value; "${oc.env:HOME}" asks a resolver.
REFERENCE = re.compile(r"\$\{((?:\w+\.)*(\w+))\}")
# A name alone runs nothing, and options of other packages may be called like fairseq's.
_WORD = re.compile(r"[A-Za-z_][\w-]*")
# Elsewhere the name of a file, whose dots and slashes call nothing.
_FILE = re.compile(r"[A-Za-z_][\w-]*(?:[/.][\w-]+)*")
# Larger results of "[0] * 10 ** 9" and the like are not configurations.
_LARGEST = 100_000
_LONGEST = 10_000


def literal(text: str) -> object:
    """The value of a text of numbers, strings, True, False, None, tuples, lists, dictionaries,
    ``+``, ``-`` and ``*``.

    Raises:
        SyntaxError: the text is not an expression of Python; ``eval`` would say the same.
        ValueError: the expression holds anything else, or stands for something huge.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"{len(text)} characters")
    try:
        return _value(_parsed(text).body)[0]
    except (TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _parsed(text: str) -> ast.Expression:
    """Just what eval would read, which skips these two signs; without the warnings about odd forms
    (``0or 1``)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text.lstrip(" \t"), mode="eval")


def _value(node: ast.AST) -> Tuple[Any, int]:
    """What an expression stands for, and the elements and characters in it at all depths."""
    if isinstance(node, ast.Constant) and isinstance(
        node.value, (int, float, str, bool, type(None))
    ):
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
            raise ValueError("a sign before something that is not a number")
        return (-value if isinstance(node.op, ast.USub) else value), size
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return _combined(node.op, _value(node.left), _value(node.right))
    raise ValueError(f"{type(node).__name__} is not a literal")


def _values(nodes: Sequence[ast.AST]) -> Tuple[List[Any], int]:
    found = [_value(node) for node in nodes]
    return [value for value, _ in found], _allowed(1 + sum(size for _, size in found))


def _combined(
    operator: ast.operator, left: Tuple[Any, int], right: Tuple[Any, int]
) -> Tuple[Any, int]:
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
    return (first + second if isinstance(operator, ast.Add) else first - second), _allowed(
        size + more
    )


def _allowed(size: int) -> int:
    if size > _LARGEST:
        raise ValueError(f"{size} elements")
    return size


def why_refused(name: str, value: object) -> Optional[str]:
    """Why fairseq must not see an option with a value; None: it may.

    Args:
        name: of the option.
        value: one that is not a container.
    """
    if isinstance(value, bytes):
        # eval reads them, too.
        return "which is not a plain literal" if is_evaluated(name) else None
    if not isinstance(value, str):
        return None
    reference = REFERENCE.fullmatch(value)
    # A reference within a text can become another one: old arguments are read twice ("$${a.b}",
    # where b is "{oc.env:HOME}").
    if ("${" in value and reference is None) or _hides_a_reference(value):
        return "which may be looked up outside the file"
    if (
        not is_evaluated(name)
        or _WORD.fullmatch(value)
        or (name == "pretrained" and _FILE.fullmatch(value))
    ):
        return None
    if reference is not None:
        # In old arguments: fairseq gets what OmegaConf puts there. Another evaluated option is
        # checked where it stands, one of another name could be anything.
        return (
            None
            if is_evaluated(reference[2])
            else "which fairseq would run as Python; it must be a plain literal"
        )
    if "\\" in value:
        # Of old arguments hydra halves those before a quote, and what was inside a text stands
        # outside.
        return "which fairseq would run as Python; it must be a plain literal without backslashes"
    try:
        meant = literal(value)
    except SyntaxError:
        # Nothing that could be run: some other package's option of this name.
        return None
    except ValueError as error:
        return f"which fairseq would run as Python; it must be a plain literal ({_one_line(error)})"
    # Of old arguments fairseq evaluates some texts twice.
    return next(
        (reason for inner in _texts(meant) if (reason := why_refused(name, inner)) is not None),
        None,
    )


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
    """Whether it is Python's way to write a reference, such as ``'\\x24{a.b}'``, which fairseq
    unquotes in old arguments."""
    if "\\" not in text and "$" not in text:
        return False
    if len(text) > _LONGEST:
        return True
    try:
        nodes = list(ast.walk(_parsed(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and "${" in node.value
        for node in nodes
    )


def is_evaluated(name: str) -> bool:
    """Whether fairseq may hand an option of this name to ``eval``."""
    return name in EVALUATED or any(
        name.startswith(prefix) and is_evaluated(name[len(prefix) :]) for prefix in _PREFIXES
    )


def _one_line(error: Exception) -> str:
    return shown(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1]
