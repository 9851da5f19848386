"""The package keeps its order: who may import whom, what code may contain, and that every option can be asked for."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
from fairseq import options
from fairseq.dataclass import FairseqDataclass
from fairseq.models import ARCH_MODEL_REGISTRY

import fairseq_hrt
from fairseq_hrt.bidirectional.config import (
    BidirectionalLossConfig,
    BidirectionalModelConfig,
    BidirectionalTaskConfig,
)
from fairseq_hrt.common.config import DistillationConfig
from fairseq_hrt.common.option_help import option_help
from fairseq_hrt.dag.config import DagFuzzyLossConfig, DagLossConfig, DagModelConfig, DagNllLossConfig, DagTaskConfig
from fairseq_hrt.hrt.config import HRTLossConfig, HRTModelConfig, HRTTaskConfig
from fairseq_hrt.jacobi.config import JacobiTaskConfig

PACKAGE = Path(fairseq_hrt.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))
FAMILIES = {"hrt", "bidirectional", "dag", "jacobi", "autoregressive"}
# What each part may import of the package besides itself.
ALLOWED = {
    **{family: {"common", "ops"} for family in FAMILIES},
    "common": {"ops", "compat"},
    "ops": set(),
    # the doctor reports on the compiled kernel
    "compat": {"runtime"},
    "runtime": set(),
    "evaluation": {"common", "ops", "hub", "runtime"},
    "hub": {"common", "runtime"},
    "server": {"hub", "runtime"},
    # the doctor is there
    "cli": {"evaluation", "common", "hub", "server", "compat"},
}


def parts_imported(path):
    """The parts of the package that a file imports, from its relative and absolute imports."""
    here = path.relative_to(PACKAGE).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = ("fairseq_hrt", *here)[: -node.level or None] if node.level else ()
            target = [*base, *(node.module or "").split(".")] if node.module else list(base)
            names = [".".join([*target, alias.name]) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            split = name.split(".")
            if split[0] == "fairseq_hrt" and len(split) > 1 and not split[1].startswith("__"):
                yield split[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows(path):
    part = path.relative_to(PACKAGE).parts[0]
    if part in ALLOWED:
        assert set(parts_imported(path)) <= ALLOWED[part] | {part}


def test_the_arrows_are_seen():
    assert "common" in set(parts_imported(PACKAGE / "hrt" / "generator.py"))


def test_there_is_a_rule_for_every_folder():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= set(ALLOWED)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_habits(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "a module says what it is"
    part = path.relative_to(PACKAGE).parts[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names)
            assert node.module != "fairseq_hrt" and not (node.module or "").startswith("fairseq_hrt."), "relative imports"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            assert part in ("cli", "__main__.py"), f"print in line {node.lineno}"
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno - node.lineno < 100, f"{node.name} is too long"
    assert len(path.read_text().splitlines()) <= 380


def test_examples_and_tests_are_no_packages():
    """fairseq imports ``examples.…``; a package of that name here would hide its own."""
    for folder in ("examples", "tests"):
        assert not list((ROOT / folder).rglob("__init__.py"))


CONFIGS = {
    HRTModelConfig: "hrt_",
    HRTTaskConfig: "hrt_",
    HRTLossConfig: "",
    BidirectionalModelConfig: "bidirectional_",
    BidirectionalTaskConfig: "bidirectional_",
    BidirectionalLossConfig: "",
    **{config: "dag_" for config in (DagModelConfig, DagTaskConfig, DagLossConfig, DagNllLossConfig, DagFuzzyLossConfig)},
    JacobiTaskConfig: "jacobi_",
    DistillationConfig: "",
}


@pytest.mark.parametrize("config", CONFIGS)
def test_every_field_of_ours_explains_itself(config):
    inherited = {f.name for base in config.__mro__[1:] if hasattr(base, "__dataclass_fields__") for f in fields(base)}
    for field in fields(config):
        if field.name in inherited or str(field.default).startswith("${"):
            continue
        assert len(field.metadata.get("help", "")) > 20, field.name
        assert "%" not in field.metadata["help"], "argparse would choke on it"
        assert field.name.startswith(CONFIGS[config]), "two families must not share a flag by accident"


def test_fields_are_fairseq_configs():
    assert all(issubclass(config, FairseqDataclass) for config in CONFIGS)


TASKS = ("translation_hrt", "translation_bidirectional", "translation_dag", "translation_jacobi", "translation_autoregressive")
ARCHITECTURES = sorted(name for name in ARCH_MODEL_REGISTRY if name.startswith("hrt_transformer"))


@pytest.mark.parametrize("task", TASKS)
def test_generation_options(task):
    parser = options.get_generation_parser(default_task=task)
    arguments = ["data", "--task", task, "--path", "model.pt", "--beam", "3"]
    assert hasattr(options.parse_args_and_arch(parser, arguments), "hrt_decode_chunk") == (task == "translation_hrt")


SHARED = ("label_smoothing", "distilled_data", "raw_probability")


def test_every_option_of_ours_is_explained():
    text = re.sub(r"\s+", " ", option_help())
    for config in CONFIGS:
        for field in fields(config):
            if field.name.startswith(("hrt_", "bidirectional_", "dag_", "jacobi_")) or field.name in SHARED:
                assert f"--{field.name.replace('_', '-')}" in text
    assert "--encoder-layers" not in text and "--max-update MAX" not in text
    assert "--task translation_jacobi" in text
    for family, losses in (("hrt", ["hrt_loss"]), ("bidirectional", ["bidirectional_loss"]), ("dag", ["dag_nll_loss", "dag_fuzzy_loss"])):
        for title in (f"--task translation_{family}", f"--arch {family}_transformer", *(f"--criterion {loss}" for loss in losses)):
            assert title in text


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_training_options(architecture):
    parser = options.get_training_parser(default_task="translation_hrt")
    arguments = ["data", "--task", "translation_hrt", "--arch", architecture, "--criterion", "hrt_loss"]
    plain = options.parse_args_and_arch(parser, arguments)
    assert HRTModelConfig.from_namespace(plain).hrt_chunk_sizes == [2]
    parser = options.get_training_parser(default_task="translation_hrt")
    mine = options.parse_args_and_arch(
        parser, [*arguments, "--encoder-layers", "5", "--decoder-embed-dim", "96", "--hrt-chunk-sizes", "2,4"]
    )
    assert mine.encoder_layers == 5 and mine.hrt_chunk_sizes == [2, 4]
    assert mine.decoder_embed_dim == mine.decoder_input_dim == mine.decoder_output_dim == 96


def test_the_presets_of_the_paper_have_its_sizes(monkeypatch):
    """RoyalFlush, Table 4: 39.5M, 58.4M and 83.6M parameters with one shared vocabulary of 32,000."""
    import torch
    from argparse import Namespace
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
