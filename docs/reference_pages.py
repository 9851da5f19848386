"""What the manual needs besides Sphinx: its reference from the program, links to files of the
repository.

Directives: ``decoding-options ORIGIN``, the schema's options of one origin; ``training-options
FAMILY``, those of its task, model and losses; ``verbs``, the command line of every verb.
"""

import argparse
import importlib
import inspect
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List

from docutils import nodes
from fairseq import options as fairseq_options
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

import fairseq_hrt
from fairseq_hrt.cli.main import VERBS, module_of
from fairseq_hrt.cli.option_help import own_parsers
from fairseq_hrt.native.options.option import LARGEST_COUNT, LARGEST_WEIGHT, Option
from fairseq_hrt.native.options.schema import FAIRSEQ
from fairseq_hrt.native.options.values import SCHEMA, options_of
from fairseq_hrt.training.task_options import TASK_DEFAULTS


def inline(text: str) -> List[nodes.Node]:
    """Text in which flags and what backticks enclose are code."""
    parts = re.split(r"(``?.+?``?|(?<![\w-])--[a-z][\w-]*)", text)
    return [
        nodes.literal(text=part.strip("`")) if number % 2 else nodes.Text(part)
        for number, part in enumerate(parts)
    ]


def paragraphs(text: str) -> Iterator[nodes.Node]:
    """A docstring: paragraphs, and commands where it is indented."""
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        lines = block.splitlines()
        if lines[0].startswith("    "):
            yield nodes.literal_block(text=inspect.cleandoc("\n" + block), language="bash")
        else:
            yield nodes.paragraph("", "", *inline(" ".join(block.split())))


def entry(flags: str, *texts: str) -> nodes.definition_list_item:
    """An option and what is said of it."""
    said = [nodes.paragraph("", "", *inline(text)) for text in texts if text]
    return nodes.definition_list_item(
        "", nodes.term("", "", nodes.literal(text=flags)), nodes.definition("", *said)
    )


def entries(actions: List[argparse.Action]) -> nodes.definition_list:
    """The options of a parser's group."""
    formatter = argparse.HelpFormatter("", width=10_000)
    items = []
    for action in actions:
        said = "" if action.help is None else formatter._expand_help(action)
        known = action.default in (None, False, [], argparse.SUPPRESS) or "default" in said
        default = "" if known or not action.option_strings else f"Default: ``{action.default}``."
        items.append(entry(formatter._format_action_invocation(action), said, default))
    return nodes.definition_list("", *items)


def facts(option: Option, default: Any) -> str:
    """Default, range, choices, engine and condition of a decoding option."""
    said = ["" if default is None or default is False else f"Default: ``{default}``."]
    # Limits that only keep numbers from overflowing are not worth printing.
    least = option.least if option.least not in (None, -LARGEST_WEIGHT) else None
    most = option.most if option.most not in (None, LARGEST_WEIGHT, LARGEST_COUNT) else None
    said.append(f"At least {least:g}." if least is not None else "")
    said.append(f"At most {most:g}." if most is not None else "")
    said.append(f"One of: {', '.join(option.choices)}." if option.choices else "")
    if not option.torch:
        said.append("Native engine only.")
    elif option.native is False:
        said.append("PyTorch's engine only.")
    elif option.native is not True:
        said.append(f"Native engine: {', '.join(option.native)}.")
    if option.when is not None:
        # Those of fairseq's own options are about graphs, and hold for all other models.
        subject = "With dag models it has" if option.origin == FAIRSEQ else "Has"
        said.append(f"{subject} an effect only with {option.when.text}.")
    return " ".join(filter(None, said))


class DecodingOptions(SphinxDirective):
    required_arguments = 1

    def run(self) -> List[nodes.Node]:
        helps = {
            action.dest: action.help for action in fairseq_options.get_generation_parser()._actions
        }
        items = []
        for item in options_of(self.arguments[0]):
            option = SCHEMA[item.name]
            text = option.help or (helps.get(item.name) or "") % {"default": item.default}
            default = TASK_DEFAULTS.get(item.name, item.default)
            items.append(entry("--" + item.name.replace("_", "-"), text, facts(option, default)))
        return [nodes.definition_list("", *items)]


class TrainingOptions(SphinxDirective):
    required_arguments = 1

    def run(self) -> List[nodes.Node]:
        package, found = f"{fairseq_hrt.__name__}.{self.arguments[0]}.", []
        for title, owner, actions in own_parsers():
            training = [action for action in actions if action.dest not in SCHEMA]
            if owner.__module__.startswith(package) and training:
                found += [nodes.rubric("", "", nodes.literal(text=title)), entries(training)]
        return found


class Verbs(SphinxDirective):
    def run(self) -> List[nodes.Node]:
        return [self.section(verb) for verb in VERBS]

    def section(self, verb: str) -> nodes.section:
        parser = importlib.import_module(f"fairseq_hrt.cli.{module_of(verb)}").build_parser()
        section = nodes.section("", nodes.title("", verb), ids=[verb], names=[verb])
        section += paragraphs(parser.description)
        for group in parser._action_groups:
            shown = [
                action
                for action in group._group_actions
                if not isinstance(action, argparse._HelpAction)
            ]
            if shown:
                section += [nodes.rubric("", group.title), entries(shown)]
        return section


class FilesOfTheRepository(SphinxTransform):
    """Links to files that are no pages lead to copies; to folders, to their page or nowhere."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        for link in list(self.document.findall(pending_xref)):
            domain, target = link.get("refdomain"), link["reftarget"]
            path = (
                Path(self.env.relfn2path(target, self.env.docname)[1]) if domain is None else None
            )
            if domain == "doc" and target not in self.env.found_docs:
                attributes: Dict[str, Any] = {
                    **link.attributes,
                    "refdomain": None,
                    "reftarget": f"/{target}.md",
                }
                link.replace_self(download_reference("", "", *link.children, **attributes))
            elif path is not None and path.is_dir():
                page = self.env.path2doc(str(path / "README.md"))
                if page in self.env.found_docs:
                    link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", page, None
                else:
                    link.replace_self(link.children)


def setup(app: Sphinx) -> Dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("decoding-options", DecodingOptions)
    app.add_directive("training-options", TrainingOptions)
    app.add_directive("verbs", Verbs)
    app.add_transform(FilesOfTheRepository)
    return {"parallel_read_safe": True}
