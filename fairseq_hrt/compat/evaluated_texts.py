"""Checks strings of a configuration that fairseq 0.12.2 runs as Python or OmegaConf looks up.

fairseq calls ``eval`` on some options while it builds a model, an optimizer or a task
(``encoder_layers`` of fconv, ``adaptive_softmax_cutoff`` and ``xformers_att_config`` of every
Transformer, …). In a checkpoint these strings must be plain literals, such as
``"[(512, 3)] * 20"``; a call or a name is refused.

Imports only the standard library: this is imported before torch and fairseq.
"""

import ast
import re
import warnings
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from .display import shown

# All options that fairseq 0.12.2 passes to eval, eval_str_list, eval_str_dict or eval_bool.
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
# Prefixes of flat names of nested options: encoder_xformers_att_config.
_PREFIXES = ("encoder_", "decoder_", "quant_noise_")
# "${dataset.train_subset}" refers to another value; "${oc.env:HOME}" asks a resolver.
REFERENCE = re.compile(r"\$\{((?:\w+\.)*(\w+))\}")
# A name alone runs nothing; options of other packages may have the names above and such values.
_WORD = re.compile(r"[A-Za-z_][\w-]*")
# The name of a file, as "pretrained" may have it; its dots and slashes call nothing.
_FILE = re.compile(r"[A-Za-z_][\w-]*(?:[/.][\w-]+)*")
# Most elements of a literal such as "[0] * 10 ** 9", and most characters of its text.
_LARGEST = 100_000
_LONGEST = 10_000


def literal(text: str) -> object:
    """The value of a Python expression that consists of numbers, strings, True, False, None,
    tuples, lists, dictionaries, ``+``, ``-`` and ``*`` alone; nothing is run.

    Raises:
        SyntaxError: the text is not a Python expression; ``eval`` would raise the same.
        ValueError: the expression contains anything else, or its value is huge.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it has {len(text)} characters, more than {_LONGEST}")
    try:
        return _value(_parsed(text).body)[0]
    except (TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _parsed(text: str) -> ast.Expression:
    """Parses a text as ``eval`` does, leading spaces and tabs skipped, but without Python's
    warnings about odd syntax (``0or 1``)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text.lstrip(" \t"), mode="eval")


def _value(node: ast.AST) -> Tuple[Any, int]:
    """(value, size) of the expression at a syntax node; the size is the number of elements and
    characters in the value at all depths. ValueError if the expression is anything but a literal
    (see :func:`literal`), or its value is huge."""
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
            raise ValueError(f"it has a + or - before a {type(value).__name__}, not a number")
        return (-value if isinstance(node.op, ast.USub) else value), size
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return _combined(node.op, _value(node.left), _value(node.right))
    raise ValueError(f"it has a {type(node).__name__}, which is not a literal")


def _values(nodes: Sequence[ast.AST]) -> Tuple[List[Any], int]:
    found = [_value(node) for node in nodes]
    return [value for value, _ in found], _allowed(1 + sum(size for _, size in found))


def _combined(
    operator: ast.operator, left: Tuple[Any, int], right: Tuple[Any, int]
) -> Tuple[Any, int]:
    """(value, size) of ``left operator right``; both sides are (value, size) as from
    :func:`_value`. ValueError if the result, or a number in it, would be huge."""
    (first, size), (second, more) = left, right
    are_numbers = not any(isinstance(side, (str, list, tuple)) for side in (first, second))
    if are_numbers and max(abs(first), abs(second)) > 2.0**53:
        raise ValueError("it calculates with a number beyond 2**53")
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
        raise ValueError(f"its value has {size} elements, more than {_LARGEST}")
    return size


def why_refused(name: str, value: object) -> Optional[str]:
    """The reason why fairseq must not get an option with this value from a checkpoint, a clause
    that begins with ``which``; None if the value is harmless.

    Args:
        name: the option.
        value: the option's value, not a container.
    """
    if isinstance(value, bytes):
        # eval accepts bytes, too.
        return "which is not a plain literal" if is_evaluated(name) else None
    if not isinstance(value, str):
        return None
    reference = REFERENCE.fullmatch(value)
    # Old arguments are resolved twice: a reference inside a string could make another one
    # ("$${a.b}" where b is "{oc.env:HOME}").
    if ("${" in value and reference is None) or _hides_a_reference(value):
        return "which may be looked up outside the file"
    if (
        not is_evaluated(name)
        or _WORD.fullmatch(value)
        or (name == "pretrained" and _FILE.fullmatch(value))
    ):
        return None
    if reference is not None:
        # In old arguments OmegaConf resolves the reference later. Its target is checked if it is an
        # evaluated option itself; any other could be a string of code.
        return (
            None
            if is_evaluated(reference[2])
            else "which fairseq would run as Python; it must be a plain literal"
        )
    if "\\" in value:
        # In old arguments hydra halves backslashes before a quote, which can end a string early.
        return "which fairseq would run as Python; it must be a plain literal without backslashes"
    try:
        meant = literal(value)
    except SyntaxError:
        # Not runnable: an option of another package with this name.
        return None
    except ValueError as error:
        return f"which fairseq would run as Python; it must be a plain literal ({_one_line(error)})"
    # In old arguments fairseq evaluates some strings twice: check those inside the literal, too.
    return next(
        (reason for inner in _texts(meant) if (reason := why_refused(name, inner)) is not None),
        None,
    )


def _texts(value: object) -> Iterator[str]:
    """Yields all strings in the value of a literal, at all depths."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _texts(pair)


def _hides_a_reference(text: str) -> bool:
    """Whether a text is the Python source of a string that holds a reference, such as
    ``'\\x24{a.b}'``: in old checkpoints' arguments fairseq evaluates such source."""
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
    """Whether fairseq may pass an option of this name to ``eval``."""
    return name in EVALUATED or any(
        name.startswith(prefix) and is_evaluated(name[len(prefix) :]) for prefix in _PREFIXES
    )


def _one_line(error: Exception) -> str:
    return shown(str(error).splitlines()[0] if str(error) else type(error).__name__)[1:-1]
