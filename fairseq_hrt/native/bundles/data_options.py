"""Which options data of unknown origin may set, and to what: numbers, switches, choices, and a few
words; never a file or code.

Options that the user gives on the command line or as arguments are not looked at here.
"""

import math
import re
from argparse import Namespace
from dataclasses import fields
from enum import Enum
from typing import Any, Mapping, Optional, Tuple

from ...compat.display import shown
from ..families import NAMES

# Of fairseq's generation options those that shape the search; none of them names a file.
SEARCH = frozenset(
    """
    beam nbest max_len_a max_len_b min_len match_source_len unnormalized no_early_stop
    no_beamable_mm lenpen unkpen prefix_size no_repeat_ngram_size sampling sampling_topk
    sampling_topp temperature diverse_beam_groups diverse_beam_strength diversity_rate
    iter_decode_eos_penalty iter_decode_max_iter iter_decode_force_max_iter iter_decode_with_beam
    retain_iter_history decoding_format print_step
    """.split()
)
# Of the options of the translation task those that belong to the model.
MODEL = frozenset(
    "left_pad_source left_pad_target max_source_positions max_target_positions "
    "truncate_source".split()
)
# Texts of these kinds are tables of numbers ("10:1,30:2,inf:1"), ranges ("4~8") and words ("auto").
_WORDS = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.,:;~@+-]{0,199}")
# How subwords are joined; fairseq has a few names and the sign of subword-nmt.
_JOINING = ("@@ ", "@@", "subword_nmt", "sentencepiece", "wordpiece", "none")
_JOINED = ("post_process", "remove_bpe")
# Texts that name files or carry further options, what means nothing without such a file, and how a
# training validates.
_NEVER = re.compile(
    r"eval_.*|.*_(path|paths|file|files|dir|dirs|data|options|args)|data|.*lm_path.*|rescore_.*|engine|weights"
)
# Options of this package's tasks, told without fairseq: those of a family begin with its name.
_FAMILIES = tuple(f"{name}_" for name in NAMES)
_OF_TASKS = ("seed", "max_update", "raw_probability", "forced_start")
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@-]{0,39}")
_PACKAGE = __name__.split(".")[0]


def allowed_options(task: str) -> Mapping[str, Optional[type]]:
    """The options that data may set for a task, with their types; None for the names of how
    subwords are joined."""
    # Languages are checked without fairseq, too.
    from fairseq.dataclass.configs import GenerationConfig
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    found = {
        own.name: _type(GenerationConfig, own.name)
        for own in fields(GenerationConfig)
        if own.name in SEARCH
    }
    found.update(dict.fromkeys(_JOINED))
    found["fp16"] = bool
    config = TASK_DATACLASS_REGISTRY.get(task)
    if config is not None:
        found.update(
            {
                own.name: _type(config, own.name)
                for own in fields(config)
                if _is_decoding(config, own.name)
            }
        )
    return found


def _is_decoding(config: type, name: str) -> bool:
    if name in MODEL:
        return True
    # Options that this package's families declare themselves; fairseq's own tasks have options that
    # open files.
    owner = next(
        base for base in reversed(config.__mro__) if name in getattr(base, "__annotations__", {})
    )
    return owner.__module__.startswith(_PACKAGE + ".") and not _NEVER.fullmatch(name)


def _type(config: type, name: str) -> Any:
    from fairseq.dataclass.utils import interpret_dc_type

    return interpret_dc_type(next(own.type for own in fields(config) if own.name == name))


def option_of_data(
    name: object, value: object, allowed: Mapping[str, Optional[type]], subject: str
) -> Tuple[str, str]:
    """An option that a file gives, as (name, text for the command line).

    Args:
        name, value: as they stand in the file.
        allowed: :func:`allowed_options`.
        subject: the file, for the message.

    Raises:
        ValueError: a name that data must not set, or a value that is none of its kind; the message
            names both.
    """
    given = f"{subject} sets the option {shown(name)} to {shown(value)}"
    known = name.replace("-", "_") if isinstance(name, str) else ""
    text = _text_of_option(known in allowed, value, given)
    wanted = _wanted(allowed[known], text)
    if wanted is not None:
        raise ValueError(f"{given}: it must be {wanted}")
    return known, text


def option_for_runtime(name: object, value: object, subject: str) -> Tuple[str, str]:
    """The same without fairseq, which has the options of each task: any of them, with a value
    that could be right. The runtime checks it.

    Raises:
        ValueError: as :func:`option_of_data`.
    """
    given = f"{subject} sets the option {shown(name)} to {shown(value)}"
    known = name.replace("-", "_") if isinstance(name, str) else ""
    text = _text_of_option(_may_be_set(known), value, given)
    kind = None if known in _JOINED else str
    if not _is_number(float, text) and _wanted(kind, text) is not None:
        raise ValueError(f"{given}: it must be a number, or {_wanted(kind, text)}")
    return known, text


def _may_be_set(name: str) -> bool:
    """Whether data may set an option of this name for some task."""
    if name in SEARCH or name in MODEL or name in _JOINED or name in _OF_TASKS or name == "fp16":
        return True
    return (
        name.isidentifier()
        and name.isascii()
        and name.startswith(_FAMILIES)
        and not _NEVER.fullmatch(name)
    )


def _text_of_option(may_be_set: bool, value: object, given: str) -> str:
    if not may_be_set:
        raise ValueError(
            f"{given}: a file may not set it; remove it there, and give it yourself if you want it"
        )
    if not isinstance(value, (str, int, float)):
        raise ValueError(f"{given}: it must be a number, a text, true or false")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wanted(kind: Any, text: str) -> Optional[str]:
    """What a value should have been; None: it is."""
    if text == "false" and kind is not str:
        # The option is left out, whatever it is.
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


def language_of_data(name: object, subject: str) -> str:
    """A language, which becomes part of a file's name (``dict.de.txt``) and an argument of a
    command.

    Raises:
        ValueError: it could lead elsewhere, or is none.
    """
    if not isinstance(name, str) or not _LANGUAGE.fullmatch(name):
        raise ValueError(
            f"{subject} names the language {shown(name)}: it must be letters, digits, - and _, e.g."
            " de or zh_CN"
        )
    return name


def options_of_training(saved: Any, task: str) -> Mapping[str, Any]:
    """Those options of a checkpoint's ``cfg.task`` that decoding with the same task may take over.

    Values of another kind than the option's are left out: they are of no use to decoding.
    """
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    from ...loading.checkpoints import value_of

    config, allowed = TASK_DATACLASS_REGISTRY.get(task), allowed_options(task)
    own = {field.name for field in fields(config)} if config is not None else set()
    held = vars(saved) if isinstance(saved, Namespace) else saved
    found = {}
    for name in sorted(own & allowed.keys() & set(held)):
        value = value_of(saved, name)
        value = value.value if isinstance(value, Enum) else value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if value is None or (
            isinstance(value, (str, int, float)) and _wanted(allowed[name], text) is None
        ):
            found[name] = value
    return found


def task_of_training(saved: Any, name: str, subject: str) -> Any:
    """The configuration of a task, made anew: its defaults, and what a checkpoint may say of
    decoding and of its languages.

    Nothing else of the checkpoint's own ``cfg.task`` is handed on: fairseq and others may go by
    different ones of its names (``task``, ``_name``), and keys that are no option of one task open
    files in another.

    Args:
        saved: the checkpoint's ``cfg.task``.
        name: of the task, a known one (:func:`...loading.checkpoints.require_known_task`).
        subject: the file, for messages.

    Raises:
        ValueError: languages that are none.
    """
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.tasks import TASK_DATACLASS_REGISTRY
    from omegaconf import OmegaConf

    from ...loading.checkpoints import value_of

    made = TASK_DATACLASS_REGISTRY.get(name)
    # Options that stand for others (a seed, the name of the training subset) find these one level
    # up.
    whole = OmegaConf.structured(FairseqConfig())
    whole.task = (
        OmegaConf.structured(made())
        if made is not None
        else OmegaConf.create({"data": None, "_name": None})
    )
    config = whole.task
    OmegaConf.set_struct(config, False)
    config._name = name
    for option, value in options_of_training(saved, name).items():
        if value is not None:
            config[option] = value
    for side in ("source_lang", "target_lang"):
        language = value_of(saved, side)
        config[side] = None if language is None else language_of_data(language, subject)
    return config
