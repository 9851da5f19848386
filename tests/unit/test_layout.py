"""The package keeps its order: who may import whom, what code may contain, and that every option
can be asked for."""

import ast
import functools
import importlib
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from fairseq import options
from fairseq.dataclass import FairseqDataclass
from fairseq.models import ARCH_MODEL_REGISTRY

import fairseq_hrt
from fairseq_hrt.autoregressive.config import MarianModelConfig
from fairseq_hrt.autoregressive.task import AutoregressiveTranslationConfig
from fairseq_hrt.bidirectional.config import (
    BidirectionalModelConfig,
    BidirectionalTaskConfig,
)
from fairseq_hrt.cli.option_help import option_help
from fairseq_hrt.dag.config import (
    DagFuzzyLossConfig,
    DagLossConfig,
    DagModelConfig,
    DagNllLossConfig,
    DagTaskConfig,
)
from fairseq_hrt.hrt.config import HRTModelConfig, HRTTaskConfig
from fairseq_hrt.jacobi.config import JacobiTaskConfig
from fairseq_hrt.options import SCHEMA
from fairseq_hrt.schema import EVERY_TASK
from fairseq_hrt.training.config import ConventionsConfig, DistillationConfig, SmoothedLossConfig

PACKAGE = Path(fairseq_hrt.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))
FAMILIES = {"hrt", "bidirectional", "dag", "jacobi", "autoregressive"}
# All of them stand on these, none of which imports a family.
SHARED = {
    "task",
    "task_options",
    "decoding",
    "engine",
    "training",
    "loading",
    "ops",
    "files",
    "options",
    "option_effects",
}
SHARED |= {"option", "schema"}
# The imports from fairseq_hrt that each package, or module beside the packages, may have: only
# what stands above it here.
ALLOWED = {
    # what both engines read: the standard library, and in decoding NumPy
    "conditions": set(),
    "option": {"conditions"},
    "schema": {"conditions", "option"},
    "families": set(),
    "chunk_sizes": {"schema"},
    "options": {"option", "schema", "families", "conditions", "chunk_sizes"},
    "option_effects": {"schema", "conditions"},
    "decoding": {"options"},
    "files": set(),
    "streams": {"files"},
    "resuming": {"files"},
    "child_process": set(),
    "distribution": set(),
    "compat": set(),
    "escaping": {"compat"},
    "runtime": {"decoding", "option", "options", "schema", "families", "option_effects",
                "chunk_sizes"},
    "loading": {"families", "escaping", "compat"},
    # PyTorch; the native engine stands behind the generators of the other one
    "engine": {"loading", "runtime", "decoding", "options", "option_effects", "schema", "families"},
    "ops": set(),
    "training": {"ops"},
    "task_options": {"options", "schema"},
    "decoding_task": {"engine", "runtime", "decoding", "loading", "options", "option_effects",
                      "families"},
    "task": {"decoding_task", "engine", "training", "loading", "option_effects"},
    **dict.fromkeys(FAMILIES, SHARED),
    "hrt": SHARED | {"chunk_sizes"},
    "registration": {"compat", "families"},
    # text on both sides of a model, and what is built on that
    "text": {"escaping"},
    "bundles": {
        "text", "loading", "engine", "runtime", "decoding", "options", "schema", "families",
        "files", "streams", "escaping",
    },
    "conversion": {"bundles", "text", "loading", "runtime", "escaping", "compat"},
    "systems": {
        "bundles", "text", "loading", "engine", "runtime", "decoding", "options", "schema",
        "families", "option_effects", "files", "resuming",
    },
    "evaluation": {
        "systems", "text", "engine", "ops", "files", "streams", "resuming", "escaping",
        "fairseq_hrt",
    },
    "server": {
        "bundles", "runtime", "decoding", "options", "schema", "families", "option_effects",
        "conditions", "escaping", "fairseq_hrt",
    },
    # __main__: completion needs the whole command line
    "cli": {
        "evaluation", "systems", "conversion", "bundles", "text", "server", "engine", "loading",
        "runtime", "options", "schema", "conditions", "files", "streams", "resuming", "escaping",
        "child_process", "distribution", "compat", "__main__",
    },
    "__main__": {"cli", "compat", "distribution", "fairseq_hrt"},
    "__init__": {"compat", "registration", "families", "bundles"},
}  # fmt: skip


def of_each_file(files):
    """Makes one test of a check of a file: to start a test takes longer than the check. It names
    every file that fails."""

    def decorate(check):
        @functools.wraps(check, assigned=("__module__", "__name__", "__doc__"), updated=())
        def test():
            failed = []
            for path in files:
                try:
                    check(path)
                except (AssertionError, AttributeError, ImportError) as error:
                    failed.append(f"{path.relative_to(ROOT)}: {error}")
            assert not failed, "\n".join(failed)

        # pytest would look for a fixture "path".
        del test.__wrapped__
        return test

    return decorate


def module_name(path):
    """``fairseq_hrt/text/pipeline.py`` → ``text.pipeline``; a package has the name of its folder,
    the whole package none."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


def imports(path):
    """(package or module beside them, module, name) of every import of this package in a file,
    wherever it stands.

    The module is None where a name is imported from the package itself, the name where the module
    is imported.
    """
    here = ("fairseq_hrt", *path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            base = [*here[: -node.level or None]] if node.level else []
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                found = ".".join(base[1:])
                inner = f"{found}.{alias.name}".lstrip(".")
                module, name = (inner, None) if inner in MODULES else (found, alias.name)
                if base[0] == "fairseq_hrt":
                    yield module, name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "fairseq_hrt":
                    yield ".".join(alias.name.split(".")[1:]), None


def part_of(module):
    """The package, or the module beside the packages, that a module belongs to."""
    return module.split(".")[0] or "fairseq_hrt"


def part_of_file(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@of_each_file(FILES)
def test_arrows(path):
    part = part_of_file(path)
    assert {part_of(module) for module, _ in imports(path)} <= ALLOWED[part] | {part}


def test_the_arrows_point_upwards_in_the_table():
    """The foundations do not import what stands on them; completion alone looks at the command line
    that it is part of."""
    above = {"fairseq_hrt"}
    for part, allowed in ALLOWED.items():
        assert allowed - above == ({"__main__"} if part == "cli" else set()) - above, part
        above.add(part)
    for part in ("conditions", "option", "schema", "families", "chunk_sizes", "options",
                 "option_effects"):  # fmt: skip
        tree = ast.parse((PACKAGE / f"{part}.py").read_text())
        outside = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
        outside += [
            node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level
        ]
        names = {
            (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
            for node in outside
        }
        assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names, part


def test_the_arrows_are_seen():
    assert {("engine", "search"), ("hrt.sample", "skip_cmlm_input")} <= set(
        imports(PACKAGE / "hrt" / "generator.py")
    )
    assert ("evaluation.comet", None) in set(imports(PACKAGE / "cli" / "benchmark.py"))


def test_there_is_a_rule_for_every_part():
    assert {part_of_file(path) for path in FILES} == set(ALLOWED)


def face_of(part):
    """What the ``__all__`` of a package names, or what a module beside the packages defines without
    an underscore."""
    module = importlib.import_module(f"fairseq_hrt.{part}")
    return (
        set(module.__all__)
        if hasattr(module, "__path__")
        else {name for name in vars(module) if not name.startswith("_")}
    )


@of_each_file(FILES)
def test_other_packages_are_met_by_their_faces(path):
    for module, name in imports(path):
        part = part_of(module)
        if (
            part in (part_of_file(path), "fairseq_hrt", "registration")
            or part_of_file(path) == "registration"
        ):
            continue
        assert not (name or "").startswith("_"), f"{module}.{name} is private"
        # A module that the face names, a name of the package itself, or the package.
        _, _, inner = module.partition(".")
        offered = (
            inner.split(".")[0] in face_of(part) if inner else name is None or name in face_of(part)
        )
        assert offered, f"{part} does not offer {'.'.join(filter(None, (module, name)))}"


@pytest.mark.parametrize(
    "part", sorted({module.split(".")[0] for module in MODULES if "." in module} - FAMILIES)
)
def test_faces_name_what_there_is(part):
    package = importlib.import_module(f"fairseq_hrt.{part}")
    assert len(set(package.__all__)) == len(package.__all__)
    for name in package.__all__:
        # A module need not be loaded with its package: whoever wants one of them must not load the
        # others.
        assert f"{part}.{name}" in MODULES or hasattr(package, name)


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
    arrows = {module: set() for module in MODULES}
    for module, path in MODULES.items():
        for target, _ in imports(path):
            # The version stands in the package's own file, which is loaded first of all.
            if target and target != module:
                arrows[module].add(target)
    assert circles(arrows) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]


@of_each_file(FILES)
def test_habits(path):
    tree = parsed(path)
    assert ast.get_docstring(tree), "a module has a docstring"
    part = path.relative_to(PACKAGE).parts[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names)
            assert node.module != "fairseq_hrt" and not (node.module or "").startswith(
                "fairseq_hrt."
            ), "relative imports"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            assert part in ("cli", "__main__.py"), f"print in line {node.lineno}"
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno - node.lineno < 100, f"{node.name} is too long"
    assert len(path.read_text().splitlines()) <= 470


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


@of_each_file(FILES)
def test_references_lead_somewhere(path):
    package = ("fairseq_hrt", *path.relative_to(PACKAGE).parts[:-1])
    for dots, name in re.findall(
        r":(?:mod|func|class|data|meth|attr):`~?(\.+)([\w.]+)`", path.read_text()
    ):
        resolve(".".join(package[: len(package) + 1 - len(dots)]), name.split("."))


def test_examples_and_tests_are_no_packages():
    """fairseq imports ``examples.…``; a package of that name here would hide its own."""
    for folder in ("examples", "tests"):
        assert not list((ROOT / folder).rglob("__init__.py"))


# Tests of what several modules do together, by the name of that; all others are named after the
# module that they test.
TOGETHER = {
    "batch_independence": "no sentence depends on its batch",
    "criterion_and_task": "which sentence is trained how, and the loss of it",
    "devices": "nothing is computed on another device, and the host waits seldom",
    "pinned_defaults": "the defaults are those of the papers",
    "batches": "batches, threads and instruction sets change nothing",
    "equality": "the runtime equals the eager engine",
    "int8": "the runtime equals an emulation of its arithmetic",
    "files": "damaged model files are refused",
    "given": "the runtime scores given translations as fairseq's modules do",
    "judges": "either engine chooses among translations",
    "memory": "the kernel's memory",
    "operations": "the operations of the kernel",
    "screen": "the best word from the upper bits of the weights",
    "other_builds": "the kernel under sanitizers and on ARM",
    "example": "the example of a server",
    "scale_example": "the example of many machines",
    "package": "the package as it is imported",
    "documentation": "commands that the documentation shows",
    "layout": "this file",
    "style": "rules, format and types",
    "constraints": "constraints.txt",
    "setup": "setup.py",
    "workflows": "the workflows of the repository",
}
# Folders that test something else than a package.
ELSEWHERE = {"corpus", "helpers", "recipes", "study"}


@of_each_file(sorted((ROOT / "tests" / "unit").rglob("test_*.py")))
def test_tests_mirror_modules(path):
    folder = path.parent.relative_to(ROOT / "tests" / "unit")
    name = path.stem[len("test_") :]
    if str(folder) not in ELSEWHERE and name not in TOGETHER:
        assert (PACKAGE / folder / f"{name}.py").is_file(), f"there is no module {folder}/{name}.py"


@of_each_file(FILES)
def test_every_module_has_a_file_of_tests(path):
    """A package's own file names what others may use; what it defines is tested with the modules
    that it comes from."""
    if path.name != "__init__.py":
        assert (
            ROOT / "tests" / "unit" / path.relative_to(PACKAGE).with_name(f"test_{path.name}")
        ).is_file()


def test_the_exceptions_of_the_mirror_exist():
    names = {path.stem[len("test_") :] for path in (ROOT / "tests" / "unit").rglob("test_*.py")}
    assert set(TOGETHER) <= names


CONFIGS = {
    HRTModelConfig: "hrt_",
    HRTTaskConfig: "hrt_",
    SmoothedLossConfig: "",
    BidirectionalModelConfig: "bidirectional_",
    BidirectionalTaskConfig: "bidirectional_",
    **dict.fromkeys(
        (DagModelConfig, DagTaskConfig, DagLossConfig, DagNllLossConfig, DagFuzzyLossConfig), "dag_"
    ),
    JacobiTaskConfig: "jacobi_",
    AutoregressiveTranslationConfig: "autoregressive_",
    DistillationConfig: "",
    # Of several models.
    ConventionsConfig: "marian_",
    MarianModelConfig: "marian_",
}


# Options of every task.
EVERYWHERE = [option for option in SCHEMA.values() if option.origin == EVERY_TASK]


@pytest.mark.parametrize("config", CONFIGS)
def test_every_field_of_ours_explains_itself(config):
    inherited = {
        f.name
        for base in config.__mro__[1:]
        if hasattr(base, "__dataclass_fields__")
        for f in fields(base)
    }
    for field in fields(config):
        if field.name in inherited or str(field.default).startswith("${"):
            continue
        assert len(field.metadata.get("help", "")) > 20, field.name
        assert "%" not in field.metadata["help"], "argparse would choke on it"
        if SCHEMA.get(field.name) not in EVERYWHERE and field.name not in UNPREFIXED:
            assert field.name.startswith(CONFIGS[config]), (
                "two families must not share a flag by accident"
            )


def test_fields_are_fairseq_configs():
    assert all(issubclass(config, FairseqDataclass) for config in CONFIGS)


TASKS = (
    "translation_hrt",
    "translation_bidirectional",
    "translation_dag",
    "translation_jacobi",
    "translation_autoregressive",
)
ARCHITECTURES = sorted(name for name in ARCH_MODEL_REGISTRY if name.startswith("hrt_transformer"))


@pytest.mark.parametrize("task", TASKS)
def test_generation_options(task):
    parser = options.get_generation_parser(default_task=task)
    arguments = ["data", "--task", task, "--path", "model.pt", "--beam", "3"]
    assert hasattr(options.parse_args_and_arch(parser, arguments), "hrt_decode_chunk") == (
        task == "translation_hrt"
    )


UNPREFIXED = (
    "label_smoothing", "distilled_data", "raw_probability", "rescore_path", "rescore_lenpen",
    "engine", "weights", "forced_start", "eval_bleu_tokenizer",
)  # fmt: skip


def test_every_option_of_ours_is_explained():
    text = re.sub(r"\s+", " ", option_help())
    for config in CONFIGS:
        for field in fields(config):
            if (
                field.name.startswith(("hrt_", "bidirectional_", "dag_", "jacobi_", "marian_"))
                or field.name in UNPREFIXED
            ):
                assert f"--{field.name.replace('_', '-')}" in text
    assert "--encoder-layers" not in text and "--max-update MAX" not in text
    assert "--task translation_jacobi" in text
    for family, losses in (
        ("hrt", ["hrt_loss"]),
        ("bidirectional", ["bidirectional_loss"]),
        ("dag", ["dag_nll_loss", "dag_fuzzy_loss"]),
    ):
        for title in (
            f"--task translation_{family}",
            f"--arch {family}_transformer",
            *(f"--criterion {loss}" for loss in losses),
        ):
            assert title in text


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_training_options(architecture):
    parser = options.get_training_parser(default_task="translation_hrt")
    arguments = [
        "data",
        "--task",
        "translation_hrt",
        "--arch",
        architecture,
        "--criterion",
        "hrt_loss",
    ]
    plain = options.parse_args_and_arch(parser, arguments)
    assert HRTModelConfig.from_namespace(plain).hrt_chunk_sizes == [2]
    parser = options.get_training_parser(default_task="translation_hrt")
    mine = options.parse_args_and_arch(
        parser,
        [
            *arguments,
            "--encoder-layers",
            "5",
            "--decoder-embed-dim",
            "96",
            "--hrt-chunk-sizes",
            "2,4",
        ],
    )
    assert mine.encoder_layers == 5 and mine.hrt_chunk_sizes == [2, 4]
    assert mine.decoder_embed_dim == mine.decoder_input_dim == mine.decoder_output_dim == 96


def test_the_presets_of_the_paper_have_its_sizes(monkeypatch):
    """RoyalFlush, Table 4: 39.5M, 58.4M and 83.6M parameters with one shared vocabulary of
    32,000."""
    from argparse import Namespace

    import torch
    from fairseq.data import Dictionary
    from fairseq.models import ARCH_CONFIG_REGISTRY

    from fairseq_hrt.hrt.model import HRTTransformerModel

    dictionary = Dictionary()
    for number in range(32_000 - len(dictionary)):
        dictionary.add_symbol(str(number))
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    for depth, millions in ((6, 39.5), (12, 58.4), (20, 83.6)):
        args = Namespace(share_all_embeddings=True)
        ARCH_CONFIG_REGISTRY[f"hrt_transformer_e{depth}d1"](args)
        with torch.device("meta"):
            model = HRTTransformerModel.build_model(args, task)
        counted = {id(p): p.numel() for p in model.parameters() if p.requires_grad}
        assert sum(counted.values()) / 1e6 == pytest.approx(millions, abs=0.06)
