"""The text of ``fairseq-hrt --options``: explains the options that this package adds to fairseq's
commands. fairseq's own ``--help`` stops before it reads which task's options are needed."""

import argparse
from dataclasses import fields, is_dataclass
from typing import Any, Dict, Iterator, List, Tuple

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

from .parser import HelpFormatter

PACKAGE = __name__.split(".")[0]


class WithDefaults(argparse.ArgumentDefaultsHelpFormatter, HelpFormatter):
    """Formats help like :class:`.parser.HelpFormatter`, and adds the default of each option."""


def option_help() -> str:
    """A text that explains every option that this package adds to fairseq's commands, under a
    heading for each task, model and criterion."""
    parts = [
        "usage: fairseq-train | fairseq-generate | … DATA --user-dir fairseq_hrt --task TASK"
        " …\n\nOptions that fairseq_hrt adds. Those of fairseq itself:\nfairseq-train --help and"
        " the like.\n"
    ]
    for title, _, actions in own_parsers():
        # A parser for each heading: two criterions may have an option of the same name.
        shown = argparse.ArgumentParser(
            usage=argparse.SUPPRESS, add_help=False, formatter_class=WithDefaults
        )
        group = shown.add_argument_group(title)
        for action in actions:
            group._add_action(action)
        parts.append(shown.format_help())
    return "\n".join(parts)


def own_parsers() -> Iterator[Tuple[str, type, List[argparse.Action]]]:
    """Yields (heading, class, options that fairseq lacks) for each task, model and criterion of
    this package."""
    registered: List[Tuple[str, type, Any]] = [
        *(
            (f"--task {name}", TASK_REGISTRY[name], config)
            for name, config in TASK_DATACLASS_REGISTRY.items()
        ),
        *(
            (f"--arch {name}…", model, getattr(model, "config", None))
            for name, model in MODEL_REGISTRY.items()
        ),
        *(
            (f"--criterion {name}", CRITERION_REGISTRY[name], config)
            for name, config in CRITERION_DATACLASS_REGISTRY.items()
        ),
    ]
    for title, owner, config in registered:
        if not isinstance(config, type) or not is_dataclass(config):
            continue
        if not config.__module__.startswith(PACKAGE):
            continue
        own = _own_fields(config)
        everything = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
        gen_parser_from_dataclass(everything, config())
        yield title, owner, [action for action in everything._actions if action.dest in own]


def _own_fields(config: type) -> Dict[str, Any]:
    """The fields of a configuration, by name, that it does not inherit from fairseq's dataclasses
    and that do not take their value from another option (``${...}``)."""
    foreign = {
        field.name
        for base in config.__mro__
        if is_dataclass(base)
        and issubclass(base, FairseqDataclass)
        and not base.__module__.startswith(PACKAGE)
        for field in fields(base)
    }
    return {
        field.name: field
        for field in fields(config)
        if field.name not in foreign and not str(field.default).startswith("${")
    }
