"""Who may import whom, and what a module looks like."""

import ast
import functools
import importlib
import re
from pathlib import Path

import fairseq_hrt
from fairseq_hrt.native.families import NAMES

PACKAGE = Path(fairseq_hrt.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))
FAMILIES = set(NAMES)
# A part imports from parts before it alone; families do not import each other.
ORDER = [
    "native", "compat", "ops", "loading", "training", "engine", "decoding_task", "task",
    *sorted(FAMILIES), "export", "evaluation", "cli", "registration", "__init__", "__main__",
]  # fmt: skip


def module_name(path):
    """``fairseq_hrt/text/pipeline.py`` → ``text.pipeline``; a package has the name of its folder,
    the whole package none."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


@functools.cache
def imports(path):
    """The modules of this package that a file imports, wherever the statement stands."""
    here = ("fairseq_hrt", *path.relative_to(PACKAGE).with_suffix("").parts)
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            base = [*here[: -node.level or None]] if node.level else []
            base += node.module.split(".") if node.module else []
            if base[0] == "fairseq_hrt":
                outer = ".".join(base[1:])
                inner = (f"{outer}.{alias.name}".lstrip(".") for alias in node.names)
                found.update(name if name in MODULES else outer for name in inner)
        elif isinstance(node, ast.Import):
            found.update(
                alias.name.partition(".")[2]
                for alias in node.names
                if alias.name.split(".")[0] == "fairseq_hrt"
            )
    return frozenset(found)


def test_imports_are_seen():
    assert {"engine", "hrt.completion"} <= imports(PACKAGE / "hrt" / "generator.py")
    # in a function
    assert "evaluation.comet" in imports(PACKAGE / "cli" / "benchmark.py")


def test_what_translates_without_pytorch_imports_nothing_above_it():
    above = {
        f"{path.relative_to(ROOT)} imports {module or 'fairseq_hrt'}"
        for path in (PACKAGE / "native").rglob("*.py")
        for module in imports(path)
        if module.split(".")[0] != "native"
    }
    assert not above


def test_imports_lead_downwards():
    for path in FILES:
        part = path.relative_to(PACKAGE).with_suffix("").parts[0]
        lower = {part, *ORDER[: ORDER.index(part)]} - (
            FAMILIES - {part} if part in FAMILIES else set()
        )
        upward = {module.split(".")[0] or "__init__" for module in imports(path)} - lower
        assert not upward, f"{path.relative_to(ROOT)} imports {upward}"


def circles(arrows):
    """Modules that lead back to themselves, by arrows from name to names."""
    reached = {module: set(targets) for module, targets in arrows.items()}
    for through in arrows:
        for module in arrows:
            if through in reached[module]:
                reached[module] |= reached[through]
    return sorted(module for module in arrows if module in reached[module])


def test_no_module_imports_itself_by_others():
    """Nor at a later time, in a function."""
    arrows = {module: set(imports(path)) - {"", module} for module, path in MODULES.items()}
    assert circles(arrows) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]


def test_habits():
    for path in FILES:
        tree = parsed(path)
        assert ast.get_docstring(tree), f"{path}: a module has a docstring"
        part = path.relative_to(PACKAGE).parts[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert not (node.module or "").startswith("fairseq_hrt"), (
                    f"{path}: relative imports"
                )
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
                assert part in ("cli", "__main__.py"), f"{path}: print in line {node.lineno}"
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                said = node.body[0].end_lineno if ast.get_docstring(node) else node.lineno
                assert node.end_lineno - said < 90, f"{path}: {node.name} is too long"


def resolve(base, parts):
    """What a dotted reference in a docstring names; AttributeError if nothing."""
    found, name = importlib.import_module(base), base
    for part in parts:
        name = f"{name}.{part}"
        found = (
            importlib.import_module(name)
            if name.partition(".")[2] in MODULES
            else getattr(found, part)
        )
    return found


def test_references_lead_somewhere():
    lost = []
    for path in FILES:
        package = ("fairseq_hrt", *path.relative_to(PACKAGE).parts[:-1])
        for dots, name in re.findall(
            r":(?:mod|func|class|data|meth|attr):`~?(\.+)([\w.]+)`", path.read_text()
        ):
            try:
                resolve(".".join(package[: len(package) + 1 - len(dots)]), name.split("."))
            except (AttributeError, ImportError, ValueError) as error:
                if getattr(error, "name", "") == "triton":
                    # Kernels, which only a machine with a GPU can import.
                    continue
                lost.append(f"{path.relative_to(ROOT)}: {dots}{name}: {error}")
    assert not lost


def test_examples_and_tests_are_no_packages():
    """fairseq imports ``examples.…``; a package of that name here would hide its own."""
    for folder in ("examples", "tests"):
        assert not list((ROOT / folder).rglob("__init__.py"))
