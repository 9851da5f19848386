"""Options without effect: refused if the user gives them, otherwise reset to their defaults.

A given option that does nothing is a mistake that nobody notices, so it is refused with what it
needs: ``--dag-decode-beta 0.5 has an effect only with --dag-decode-strategy lookahead``. Options in
a checkpoint, a bundle or a grid were not written for this decoding; they silently get their
defaults. An option's condition is declared with it (:class:`.option.Option`). Standard library
only.
"""

import logging
from dataclasses import replace
from typing import Any, Container, Dict, Mapping, Optional

from ..families import FAMILIES, Family
from .conditions import flag, same
from .option import Option
from .schema import CALLER, EVERY_TASK, FAIRSEQ, SCHEMA
from .values import NEUTRAL, DecodingOptions

logger = logging.getLogger(__name__)


def set_aside(
    values: Mapping[str, Any],
    given: Optional[Container[str]] = None,
    options: Mapping[str, Option] = SCHEMA,
) -> Dict[str, Any]:
    """Finds the options that have no effect beside the other values, and returns values to use for
    them instead, by name: their defaults, or ``acts_as`` (see :class:`.option.Option`).

    ``{"hrt_decode_chunk": "2", "hrt_chunk_table": "9:1,inf:2"}`` gives the default table
    ``{"hrt_chunk_table": "10:1,30:2,inf:1"}``, since a table is read only if the chunk is ``auto``.

    Args:
        values: the values of options by name; a condition holds if it depends on an option that is
            missing here.
        given: names of the options that the user gives now; if one of them has no effect, it is
            refused or, if it has ``acts_as``, logged as a warning. None: all options count as
            given.
        options: the options to check, each after those that its condition depends on.

    Raises:
        ValueError: a given option has no effect; the message has its value and the condition.
    """
    values, found = dict(values), {}
    for name, option in options.items():
        if option.when is None or option.when.holds(values):
            continue
        value, instead = values.get(name), option.default
        asked = option.is_asked_for(value)
        if asked and (given is None or name in given):
            shown = flag(name) if value is True else f"{flag(name)} {value}"
            message = f"{shown} has an effect only with {option.when.missing(values)}"
            if option.acts_as is None:
                raise ValueError(message)
            logger.warning("%s; here it acts as %s", message, option.acts_as)
        if option.acts_as is not None:
            asked, instead = True, option.acts_as
        if asked:
            values[name] = found[name] = instead
    return found


def settled(
    options: DecodingOptions, family: str, given: Optional[Container[str]] = None
) -> DecodingOptions:
    """The options with which a family's models are decoded: options of other families, and options
    without effect, have their defaults.

    Args:
        options: the options to start from.
        family: name of the models' or the task's family; with ``autoregressive`` the options of
            jacobi, which decodes such models, are kept too.
        given: names of the options that the user gives now, see :func:`set_aside`; None: all.

    Raises:
        ValueError: a given option belongs to another family or has no effect; the message names it.
    """
    known = {FAIRSEQ, EVERY_TASK}
    known.update(one.name for one in FAMILIES if family in (one.name, one.decodes))
    own = {
        name: getattr(options, name) for name, option in SCHEMA.items() if option.origin in known
    }
    foreign: Dict[str, Any] = {}
    for name, value in options.changed().items():
        option = SCHEMA[name]
        if option.origin == CALLER or name in own:
            continue
        if given is None or name in given:
            theirs = next(one.decodes or one.name for one in FAMILIES if one.name == option.origin)
            raise ValueError(
                f"{flag(name)} {value} belongs to models of the family {theirs}, and this model is"
                f" of the family {family}; leave out {flag(name)}"
            )
        foreign[name] = option.default
    changes = {**foreign, **set_aside(own, given)}
    return replace(options, **changes) if changes else options


# fairseq's options that print what only a search finds.
_PRINTED = ("print_alignment", "retain_iter_history")


def require_rating(
    options: DecodingOptions, family: Family, given: Optional[Container[str]] = None
) -> None:
    """Refuses options that do not change the scores of given translations (``--score-reference``).
    For most of fairseq's own, such as ``beam`` and ``max_len_b``, a warning is logged instead:
    the same arguments often serve to translate and to score.

    Args:
        options: the options to check.
        family: the task's family; values that this family's ``default`` sets are accepted.
        given: names of the options that the user gives now; only these are checked. None: all.

    Raises:
        ValueError: an option has no effect on these scores; the message names the option.
    """
    rating = {name: option for name, option in SCHEMA.items() if option.rates}
    set_aside(vars(options), given, rating)
    for name, value in options.changed().items():
        option = SCHEMA[name]
        if option.origin == CALLER or option.rates or same(value, family.default.get(name)):
            continue
        # ``--engine torch`` is accepted: PyTorch scores with any engine.
        if value == "torch" or not (given is None or name in given):
            continue
        why = "PyTorch scores the references, without any search"
        if name == "forced_start":
            why = "references have their own beginning"
        if name == "print_alignment":
            if not family.model:
                # fairseq's own scorer aligns, too.
                continue
            why = f"the references of a {family.model} are not aligned"
        shown = flag(name) if value is True else f"{flag(name)} {value}"
        message = f"{shown} with --score-reference: {why}; leave out {flag(name)}"
        if option.origin != FAIRSEQ or name in _PRINTED:
            raise ValueError(message)
        logger.warning("%s", message)


# Prefixes of the names of options that belong to fairseq's own searches alone.
_SEARCHES = (
    "sampling", "diverse_beam", "diversity_rate", "constraints", "match_source_len", "lm_",
    "iter_decode",
)  # fmt: skip


def require_scoring(given: Mapping[str, Any]) -> None:
    """Refuses options of a search, which the scoring of given translations does without: those of
    ``fairseq-generate`` and of the families, and ``replace_unk``.

    Args:
        given: the options that the user gives now, {name: value}; only these are checked.

    Raises:
        ValueError: there is such an option; the message names it.
    """
    for name, value in given.items():
        option = SCHEMA.get(name)
        if option is None:
            of_search = name == "replace_unk" or name.startswith(_SEARCHES)
        else:
            of_search = not option.rates and option.origin != EVERY_TASK
        neutral = (False, "false", *NEUTRAL.get(name, ()))
        if of_search and value not in neutral and str(value) not in neutral:
            raise ValueError(
                f"{flag(name)} {value} changes no score: given translations are scored without a"
                f" search; leave out {flag(name)}"
            )


def read(options: Mapping[str, Option], *configurations: Any) -> Dict[str, Any]:
    """Collects the values of options, and of the options that their conditions depend on, from
    configurations: {name: value}. Options that no configuration has are left out.

    Args:
        options: declarations of the options by name.
        configurations: mappings or objects with attributes; later ones override earlier ones.
    """
    names = {
        name
        for own, option in options.items()
        for name in (own, *(option.when.reads if option.when else ()))
    }
    found: Dict[str, Any] = {}
    for configuration in configurations:
        # Not hasattr(): the errors of an OmegaConf configuration keep the frames of all callers
        # alive, and so their generators.
        held = configuration if isinstance(configuration, Mapping) else vars(configuration)
        found.update((name, held[name]) for name in names if name in held)
    return found
