"""Models and decoding options, through the door that ``fairseq-generate`` uses.

Whoever decodes outside fairseq's own commands comes in here (bundles, comparisons), so that no decoder is prepared by kinder rules
than another.
"""

import ast
from pathlib import Path
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Union

import torch
from fairseq import checkpoint_utils, options, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import nn


class LoadedModels(NamedTuple):
    """Models on their device, ready to decode.

    Attributes:
        models: one, or several for an ensemble.
        saved: the configuration of their training.
    """

    models: List[nn.Module]
    saved: DictConfig


def option_text(value: Any) -> str:
    """How a value is written in a mapping of options: ``"true"`` stands for a switch, ``"false"`` leaves it away."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def option_arguments(chosen: Mapping[str, str]) -> List[str]:
    """``{"beam": "1", "print_step": "true", "fp16": "false"}`` → ``["--beam", "1", "--print-step"]``."""
    arguments = []
    for name, value in chosen.items():
        if value != "false":
            arguments += ["--" + name.replace("_", "-"), *([] if value == "true" else [value])]
    return arguments


def generation_config(arguments: Sequence[str], subject: str) -> DictConfig:
    """What ``fairseq-generate`` would make of ``arguments``: every option has its own checks and defaults.

    Args:
        arguments: of the command.
        subject: whose options these are, for the message.

    Raises:
        ValueError: the command would refuse them.
    """
    parser = options.get_generation_parser()

    def refuse(message: str) -> None:
        raise ValueError(f"{subject}: {message}")

    # argparse would end the process before anybody can say whose option it was.
    parser.error = refuse  # type: ignore[method-assign, assignment]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, list(arguments)))


def choose_device(config: DictConfig) -> torch.device:
    """A GPU where there is one and ``--cpu`` is not given."""
    return torch.device("cuda" if torch.cuda.is_available() and not config.common.cpu else "cpu")


def load_models(
    paths: Sequence[Union[str, Path]], config: DictConfig, task: FairseqTask, device: Optional[torch.device] = None
) -> LoadedModels:
    """Loads checkpoints for decoding.

    Args:
        paths: checkpoint files.
        config: of the command; gives overrides and precision.
        task: set up.
        device: None: :func:`choose_device`.

    Raises:
        OSError: a file is missing or unreadable.
    """
    overrides = ast.literal_eval(config.common_eval.model_overrides)
    models, saved = checkpoint_utils.load_model_ensemble([str(path) for path in paths], arg_overrides=overrides, task=task)
    for model in models:
        if config.common.fp16:
            model.half()
        model.to(device or choose_device(config)).eval()
        model.prepare_for_inference_(config)
    return LoadedModels(models, saved)


def build_generator(task: FairseqTask, models: Sequence[nn.Module], config: DictConfig) -> Any:
    """The task's generator with the command's options."""
    return task.build_generator(models, config.generation, extra_gen_cls_kwargs={"lm_model": None, "lm_weight": 0.0})


def to_device(sample: Any, device: torch.device) -> Any:
    """A batch where the models are."""
    return utils.move_to_cuda(sample, device) if device.type == "cuda" else sample
