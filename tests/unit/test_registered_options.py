"""The options that the package adds to fairseq's commands: each is explained, none clashes."""

import re
from dataclasses import fields

import pytest
from fairseq import options
from fairseq.dataclass import FairseqDataclass
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_hrt.autoregressive.config import MarianModelConfig
from fairseq_hrt.autoregressive.task import AutoregressiveTranslationConfig
from fairseq_hrt.bidirectional.config import BidirectionalModelConfig, BidirectionalTaskConfig
from fairseq_hrt.cli.option_help import option_help
from fairseq_hrt.ctc.config import (
    CtcModelConfig,
    CtcNgramLossConfig,
    CtcNllLossConfig,
    CtcTaskConfig,
)
from fairseq_hrt.dag.config import (
    DagFuzzyLossConfig,
    DagLossConfig,
    DagModelConfig,
    DagNllLossConfig,
    DagTaskConfig,
)
from fairseq_hrt.hrt.config import HRTModelConfig, HRTTaskConfig
from fairseq_hrt.jacobi.config import JacobiTaskConfig
from fairseq_hrt.native.options.schema import EVERY_TASK
from fairseq_hrt.native.options.values import SCHEMA
from fairseq_hrt.training.config import ConventionsConfig, DistillationConfig, SmoothedLossConfig

CONFIGS = {
    HRTModelConfig: "hrt_",
    HRTTaskConfig: "hrt_",
    SmoothedLossConfig: "",
    BidirectionalModelConfig: "bidirectional_",
    BidirectionalTaskConfig: "bidirectional_",
    **dict.fromkeys(
        (DagModelConfig, DagTaskConfig, DagLossConfig, DagNllLossConfig, DagFuzzyLossConfig), "dag_"
    ),
    **dict.fromkeys((CtcModelConfig, CtcTaskConfig, CtcNllLossConfig, CtcNgramLossConfig), "ctc_"),
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
    "translation_ctc",
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
                field.name.startswith(
                    ("hrt_", "bidirectional_", "dag_", "ctc_", "jacobi_", "marian_")
                )
                or field.name in UNPREFIXED
            ):
                assert f"--{field.name.replace('_', '-')}" in text
    assert "--encoder-layers" not in text and "--max-update MAX" not in text
    assert "--task translation_jacobi" in text
    for family, losses in (
        ("hrt", ["hrt_loss"]),
        ("bidirectional", ["bidirectional_loss"]),
        ("dag", ["dag_nll_loss", "dag_fuzzy_loss"]),
        ("ctc", ["ctc_nll_loss", "ctc_ngram_loss"]),
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
