"""The repair `cpu-precision`; that a training on a CPU learns in bfloat16 is an integration
test."""

import importlib.util
import logging
import types

import pytest
import torch
from fairseq import options
from omegaconf import OmegaConf

from fairseq_hrt.compat.cpu_precision import REPAIR

FLAGS = ("cpu", "tpu", "fp16", "bf16", "amp", "memory_efficient_fp16", "memory_efficient_bf16")


def configuration(*given):
    return OmegaConf.create({"common": {flag: flag in given for flag in FLAGS}})


@pytest.fixture
def machine(monkeypatch):
    """Pretends that a machine has a GPU, or what drives TPUs."""

    def pretend(*has):
        found = importlib.util.find_spec
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "gpu" in has)
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name, *rest: (
                ("tpu" in has or None) if name == "torch_xla" else found(name, *rest)
            ),
        )

    return pretend


@pytest.fixture
def trainer():
    """A repaired class in the place of fairseq's, whose steps multiply matrices."""

    class Trainer:
        def __init__(self, cfg, task):
            self.cfg, self.task = cfg, task

        def train_step(self, size):
            return torch.ones(size, size) @ torch.ones(size, size)

        def valid_step(self, size):
            return self.train_step(size)

    module = types.ModuleType("fairseq.trainer")
    module.Trainer = Trainer
    REPAIR.apply(module)
    return module.Trainer


def tpu_of(*arguments):
    parser = options.get_training_parser()
    return options.parse_args_and_arch(parser, ["data", "--arch=transformer", *arguments]).tpu


@pytest.mark.parametrize("has, arguments, tpu", [
    ((), ["--bf16"], False), ((), ["--bf16", "--cpu"], False), (("gpu",), ["--bf16"], False),
    (("gpu",), [], False), ((), ["--bf16", "--tpu"], True), (("tpu",), ["--bf16"], True),
    (("tpu",), ["--bf16", "--cpu"], False), ((), ["--memory-efficient-bf16"], False),
])  # fmt: skip
def test_bfloat16_asks_for_a_tpu_only_where_there_can_be_one(machine, has, arguments, tpu):
    machine(*has)
    assert tpu_of(*arguments) == tpu


def test_options_of_the_command_line_are_read_and_unknown_ones_kept(machine, monkeypatch):
    machine()
    monkeypatch.setattr(
        "sys.argv", ["fairseq-train", "data", "--bf16", "--tpu", "--arch=transformer"]
    )
    assert options.parse_args_and_arch(options.get_training_parser()).tpu
    parsed, unknown = options.parse_args_and_arch(
        options.get_training_parser(),
        ["data", "--bf16", "--arch=transformer", "--other"],
        parse_known=True,
    )
    assert parsed.bf16 and not parsed.tpu and unknown == ["--other"]
    given = options.parse_args_and_arch(
        options.get_validation_parser(),
        ["data", "--task=translation", "--path=x"],
        suppress_defaults=True,
    )
    assert given.path == "x" and not hasattr(given, "bf16")


@pytest.mark.parametrize("has, flags, inside", [
    ((), ["bf16"], True), (("gpu",), ["bf16", "cpu"], True), ((), [], False),
    (("gpu",), ["bf16"], False), ((), ["bf16", "tpu"], False),
    ((), ["bf16", "memory_efficient_bf16"], False),
])  # fmt: skip
def test_steps_on_a_cpu_multiply_in_bfloat16(machine, trainer, has, flags, inside):
    machine(*has)
    made = trainer(configuration(*flags), task="t")
    for step in (made.train_step, made.valid_step):
        assert step(2).dtype == (torch.bfloat16 if inside else torch.float32)
    # fairseq's reading of the flag, which checkpoints keep.
    assert made.cfg.common.bf16 == ("bf16" in flags and not inside)
    assert made.task == "t"


def test_a_namespace_is_read_like_a_configuration(machine, trainer):
    machine()
    made = trainer(types.SimpleNamespace(**configuration("bf16").common), task=None)
    assert made.train_step(2).dtype == torch.bfloat16 and not made.cfg.bf16


@pytest.mark.parametrize("has, warned", [((), True), (("gpu",), False)])
def test_amp_warns_on_a_cpu(machine, trainer, caplog, has, warned):
    machine(*has)
    with caplog.at_level(logging.WARNING):
        trainer(configuration("amp"), task=None)
    assert ("--amp has no effect on a CPU" in caplog.text) == warned


@pytest.mark.parametrize("has, flags, refused", [
    ((), ["fp16"], True), (("gpu",), ["fp16", "cpu"], True), (("gpu",), ["fp16"], False),
    ((), ["fp16", "memory_efficient_fp16"], False), ((), ["bf16"], False), ((), [], False),
])  # fmt: skip
def test_fp16_on_a_cpu_is_refused_in_one_line(machine, capsys, has, flags, refused):
    machine(*has)
    module = types.ModuleType("fairseq_cli.train")
    module.main = lambda cfg: "trained"
    REPAIR.apply(module)
    if not refused:
        assert module.main(configuration(*flags)) == "trained"
        return
    with pytest.raises(SystemExit) as stopped:
        module.main(configuration(*flags))
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: --fp16 needs a GPU") and error.count("\n") == 1
