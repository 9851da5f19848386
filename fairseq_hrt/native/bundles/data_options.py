"""Checks options that a file of unknown origin (a bundle, a checkpoint) sets: only known names, and
as values numbers, switches, choices and a few words; never files or code.

Options that the user gives on the command line or as arguments are not checked here.
"""

import math
import re
from enum import Enum
from pathlib import Path
from typing import Any, Mapping, Optional, Tuple

from ..families import NAMES
from ..io.escaping import shown
from ..options.conditions import option_text

# fairseq's generation options that shape the search; none of them names a file.
SEARCH = frozenset(
    """
    beam nbest max_len_a max_len_b min_len match_source_len unnormalized no_early_stop
    no_beamable_mm lenpen unkpen prefix_size no_repeat_ngram_size sampling sampling_topk
    sampling_topp temperature diverse_beam_groups diverse_beam_strength diversity_rate
    iter_decode_eos_penalty iter_decode_max_iter iter_decode_force_max_iter iter_decode_with_beam
    retain_iter_history decoding_format print_step
    """.split()
)
# Options of the translation task that belong to the model.
MODEL = frozenset(
    "left_pad_source left_pad_target max_source_positions max_target_positions "
    "truncate_source".split()
)
# Permitted texts: tables of numbers ("10:1,30:2,inf:1"), ranges ("4~8") and words ("auto").
_WORDS = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.,:;~@+-]{0,199}")
# Values of options for joining subwords: fairseq's names, and the marker of subword-nmt.
_JOINING = ("@@ ", "@@", "subword_nmt", "sentencepiece", "wordpiece", "none")
JOINED = ("post_process", "remove_bpe")
# Never permitted: options that name files or contain further options, options that depend on such a
# file, and how a training validates.
NEVER = re.compile(
    r"eval_.*|.*_(path|paths|file|files|dir|dirs|data|options|args)|data|.*lm_path.*|rescore_.*|engine|weights"
)
# Options of this package's tasks, recognised without fairseq: a family's begin with its name.
_FAMILIES = tuple(f"{name}_" for name in NAMES)
_OF_TASKS = ("seed", "max_update", "raw_probability", "forced_start")
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@-]{0,39}")


def option_of_data(
    name: object, value: object, allowed: Mapping[str, Optional[type]], subject: str
) -> Tuple[str, str]:
    """Checks an option that a file sets; returns (its name with underscores, its value as a text
    for the command line).

    Args:
        name, value: the option as the file gives it; the value may have any type.
        allowed: {name: type} of the options that a file may set for a task; for the types see
            :func:`wanted`.
        subject: the file, for the message.

    Raises:
        ValueError: a file must not set this option, or the value has the wrong type; the message
            names option and value.
    """
    given = f"{subject} sets the option {shown(name)} to {shown(value)}"
    known = name.replace("-", "_") if isinstance(name, str) else ""
    text = _text_of_option(known in allowed, value, given)
    right = wanted(allowed[known], text)
    if right is not None:
        raise ValueError(f"{given}: it must be {right}")
    return known, text


def option_for_runtime(name: object, value: object, subject: str) -> Tuple[str, str]:
    """Like :func:`option_of_data`, but without fairseq, and so without the list of a task's
    options: accepts any option that some task may have, if its value is a number, a switch, a
    short word or a table of numbers. The native engine later checks name and value itself.

    Raises:
        ValueError: as :func:`option_of_data`.
    """
    given = f"{subject} sets the option {shown(name)} to {shown(value)}"
    known = name.replace("-", "_") if isinstance(name, str) else ""
    text = _text_of_option(_may_be_set(known), value, given)
    kind = None if known in JOINED else str
    if not _is_number(float, text) and wanted(kind, text) is not None:
        raise ValueError(f"{given}: it must be a number, or {wanted(kind, text)}")
    return known, text


def _may_be_set(name: str) -> bool:
    """Whether a file of unknown origin may set an option of this name, for some task."""
    if name in SEARCH or name in MODEL or name in JOINED or name in _OF_TASKS or name == "fp16":
        return True
    return (
        name.isidentifier()
        and name.isascii()
        and name.startswith(_FAMILIES)
        and not NEVER.fullmatch(name)
    )


def _text_of_option(may_be_set: bool, value: object, given: str) -> str:
    if not may_be_set:
        raise ValueError(
            f"{given}: a file may not set it; remove the option from the file, and give it to your"
            " command or call if you want it"
        )
    if not isinstance(value, (str, int, float)):
        raise ValueError(f"{given}: it must be a number, a text, true or false")
    return option_text(value)


def wanted(kind: Any, text: str) -> Optional[str]:
    """Returns None if an option of type ``kind`` accepts the value ``text``; else describes the
    values that it accepts, e.g. "a number". ``kind`` is bool, int, float, str or an Enum; None for
    the options that join subwords (JOINED). All kinds but str accept "false", too, which leaves an
    option out; a ``kind`` not listed here accepts only "false"."""
    if text == "false" and kind is not str:
        # The value that leaves an option out.
        return None
    if kind is None:
        return None if text in _JOINING else f"one of {', '.join(map(repr, _JOINING))}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        choices = [str(choice.value) for choice in kind]
        return None if text in choices else f"one of {', '.join(choices)}"
    if kind is bool:
        return None if text in ("true", "false") else "true or false"
    if kind in (int, float):
        return None if _is_number(kind, text) else "an integer" if kind is int else "a number"
    if kind is str:
        return None if _WORDS.fullmatch(text) else "a short word or table of numbers"
    return "left out"


def _is_number(kind: type, text: str) -> bool:
    # float() would skip white space.
    if len(text) > 40 or not text.isascii() or text != text.strip():
        return False
    try:
        return math.isfinite(kind(text))
    except ValueError:
        return False


def language_pair(data: Path) -> Tuple[Optional[str], Optional[str]]:
    """The two languages that the names of a data folder's files give, as fairseq finds them:
    (``en``, ``de``) for ``train.en-de.en.bin``. A pair counts only if the folder has both
    dictionaries, so that ``checkpoint.avg-10.pt`` names none. (None, None) if there is no such
    pair."""
    for file in sorted(data.iterdir()) if data.is_dir() else ():
        pair = "".join(file.name.split(".")[1:2]).split("-")
        if len(pair) == 2 and all((data / f"dict.{name}.txt").is_file() for name in pair):
            return pair[0], pair[1]
    return None, None


def language_of_data(name: object, subject: str) -> str:
    """Checks the name of a language that a file gives, and returns it. The name becomes part of a
    file name (``dict.de.txt``) and of a command.

    Raises:
        ValueError: the name is not plain, so it might lead to another file; the message begins
            with ``subject``, the file.
    """
    if not isinstance(name, str) or not _LANGUAGE.fullmatch(name):
        raise ValueError(
            f"{subject} names the language {shown(name)}: it must be letters, digits, - and _, e.g."
            " de or zh_CN"
        )
    return name
