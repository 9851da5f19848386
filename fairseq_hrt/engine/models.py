"""Builds models and decoding options the way ``fairseq-generate`` does.

Everything that decodes outside fairseq's own commands (bundles, comparisons) uses this module, so
that all decoders are prepared by the same rules.
"""

import ast
import contextlib
import io
from pathlib import Path
from typing import (
    Any,
    Callable,
    Container,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import torch
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import nn

from ..loading.checkpoints import one_line, read_checkpoint, reading, require_known_task, task_name
from ..loading.data_options import task_of_training
from ..loading.language_tokens import TASK as MULTILINGUAL
from ..native.decoding import Hypothesis, NumericalError
from ..native.families import LEFT_TO_RIGHT
from ..native.options.conditions import flag
from . import EngineGenerator, NativeGenerator, check_ranges, from_fairseq, require_effect

_NO_NUMBERS = "the model found no translation whose probability is a number"


class LoadedModels(NamedTuple):
    """Models on their device, ready to decode.

    Attributes:
        models: one, or several for an ensemble.
        saved: the configuration of the training, as stored in the checkpoint whose path was given
            last.
    """

    models: List[nn.Module]
    saved: DictConfig


def option_arguments(chosen: Mapping[str, str]) -> List[str]:
    """Command-line arguments of options: ``{"beam": "1", "print_step": "true", "fp16": "false"}``
    gives ``["--beam", "1", "--print-step"]``."""
    arguments = []
    for name, value in chosen.items():
        if value != "false":
            if value.startswith("-"):
                # Otherwise it would be read as the next option.
                arguments.append(f"{flag(name)}={value}")
            else:
                arguments += [flag(name), *([] if value == "true" else [value])]
    return arguments


def generation_config(arguments: Sequence[str], subject: str) -> DictConfig:
    """The configuration that ``fairseq-generate`` would make of ``arguments``, with its checks and
    defaults.

    Args:
        arguments: arguments of the command line.
        subject: whose options these are, such as a checkpoint's path; error messages begin with it.

    Raises:
        ValueError: the command would refuse the arguments.
    """
    parser = options.get_generation_parser()

    def refuse(message: str) -> None:
        raise ValueError(f"{subject}: {message}")

    # argparse would end the process without naming the subject.
    parser.error = refuse
    said = io.StringIO()
    try:
        # fairseq's parser for --user-dir alone, and --help, end the process as well, after
        # printing.
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return convert_namespace_to_omegaconf(
                options.parse_args_and_arch(parser, list(arguments))
            )
    except SystemExit as error:
        last = (
            said.getvalue().strip().splitlines()[-1:]
            if error.code
            else ["options such as --help do not decode; leave them out"]
        )
        raise ValueError(f"{subject}: {' '.join(last)}") from error
    except (ValueError, OSError):
        raise
    except Exception as error:
        # An error of hydra or of a plugin.
        raise ValueError(f"{subject}: {one_line(error)}") from error


def choose_device(config: DictConfig) -> torch.device:
    """A GPU if there is one and ``--cpu`` is not given, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() and not config.common.cpu else "cpu")


def load_models(
    paths: Sequence[Union[str, Path]],
    config: DictConfig,
    task: FairseqTask,
    device: Optional[torch.device] = None,
    *,
    states: Optional[Mapping[str, Dict[str, Any]]] = None,
) -> LoadedModels:
    """Loads checkpoints for decoding; their contents are checked before anything is built.

    Args:
        paths: checkpoint files.
        config: the command's configuration, which has the overrides (``--model-overrides``), the
            precision and ``--cpu``.
        task: the task, with its dictionaries loaded.
        device: where to put the models; None: :func:`choose_device`.
        states: checkpoints that have been read already
            (:func:`..loading.checkpoints.read_checkpoint`), by path.

    Raises:
        OSError: a file is missing or unreadable.
        ValueError: a file is not a checkpoint, is damaged, unsafe, or does not fit the task.
    """
    overrides = dictionary_option(
        "--model-overrides", config.common_eval.model_overrides, "{'encoder_embed_path': None}"
    )
    models, saved = build_models(paths, task, overrides=overrides, states=states)
    model: Any
    for model in models:
        if config.common.fp16:
            model.half()
        elif config.common.bf16:
            model.bfloat16()
        model.to(device or choose_device(config)).eval()
        model.prepare_for_inference_(config)
    return LoadedModels(models, saved)


def build_models(
    paths: Sequence[Union[str, Path]],
    task: FairseqTask,
    *,
    overrides: Optional[Mapping[str, Any]] = None,
    states: Optional[Mapping[str, Dict[str, Any]]] = None,
) -> LoadedModels:
    """Loads checkpoints as models on the CPU; the only way from a file to a model.

    Args:
        paths: checkpoint files.
        task: the task, with its dictionaries loaded.
        overrides: {name: value}, the user's changes to the models' configurations.
        states: checkpoints that have been read already, by path; with ``overrides`` they are read
            again.

    Raises:
        OSError: a file is missing or unreadable.
        ValueError: a file is not a checkpoint, is damaged, unsafe, or does not fit the task.
    """
    models: List[nn.Module] = []
    for path in map(str, paths):
        state = (states or {}).get(path)
        if state is None or overrides:
            state = read_checkpoint(path, overrides)
        with reading(path, "cannot be loaded"):
            # Pass the state that was checked: given only a path, fairseq might read another file
            # beside it.
            found, saved = checkpoint_utils.load_model_ensemble([path], task=task, state=state)
        if getattr(task, "language", None) is not None:
            raise ValueError(
                f"{path} is a model of several languages ({MULTILINGUAL}); decode it with"
                " fairseq-generate or fairseq-interactive"
            )
        for model in found:
            require_numbers(model, path)
        models += found
    return LoadedModels([model.eval() for model in models], saved)


def require_numbers(model: nn.Module, path: str) -> None:
    """Refuses a model with NaN in its parameters.

    Infinities pass: in a bias they may mean that a word is never written.

    Raises:
        ValueError: a parameter is NaN; the message names it.
    """
    for name, weight in model.named_parameters():
        if bool(torch.isnan(weight).any()):
            raise ValueError(
                f"{path}: {name} is NaN; take a checkpoint from before the training diverged"
            )


def load_other_model(
    option: str,
    path: str,
    *,
    beside: Any,
    source: Dictionary,
    target: Dictionary,
    choose: Callable[[Any], Mapping[str, Any]],
) -> Tuple[FairseqTask, List[nn.Module]]:
    """Loads a model that a command uses besides the one that it decodes, such as a rescoring model,
    with the task that this model was trained with.

    Args:
        option: the option that names the model, for messages.
        path: the model's checkpoint.
        beside: configuration of the decoding task. Its data folder has the dictionaries, and its
            languages must be the model's.
        source, target: dictionaries of the decoding task, which the model's own must equal.
        choose: is called with the configuration of the model's task and returns the options to
            change in it, {name: value}; raises ValueError if it is the wrong task.

    Returns:
        (task, the model on the CPU).

    Raises:
        OSError: a file is missing or unreadable.
        ValueError: what ``choose`` refuses, a file that cannot be loaded, or other languages or
            dictionaries.
    """
    if not path:
        raise ValueError(
            f"{option}: a name of a checkpoint is empty; separate several by single colons"
        )
    try:
        state = read_checkpoint(path)
    except OSError as error:
        raise type(error)(error.errno, f"{option}: {error.strerror}", path) from None
    with reading(path, "cannot be loaded"):
        config = task_of_training(
            state["cfg"].task, require_known_task(task_name(state["cfg"].task), path), path
        )
        for name, value in {**choose(config), "data": beside.data}.items():
            config[name] = value
        for name in ("source_lang", "target_lang"):
            wanted = getattr(beside, name)
            # Unset if the training took the languages from file names.
            if config.get(name) is None:
                config[name] = wanted
            if wanted is not None and config[name] != wanted:
                raise ValueError(
                    f"{option} {path}: its {name.replace('_lang', ' language')} is {config[name]},"
                    f" that of the model that is decoded {wanted}; give a model of the same"
                    " languages"
                )
        task = tasks.setup_task(config)
    for side, mine, theirs in (
        ("source", source, task.source_dictionary),
        ("target", target, task.target_dictionary),
    ):
        if mine.symbols != theirs.symbols:
            raise ValueError(
                f"{option} {path}: its {side} dictionary is not that of the model that is decoded;"
                " give a model that was trained with the same dictionaries"
            )
    return task, build_models([path], task, states={path: state}).models


def load_rescoring_models(
    beside: Any,
    source: Dictionary,
    target: Dictionary,
    *,
    check: Callable[[Sequence[nn.Module]], None],
) -> List[nn.Module]:
    """Loads the models that ``--rescore-path`` names, on the CPU.

    Args:
        beside: configuration of the decoding task, with ``--rescore-path``.
        source, target: dictionaries of the decoding task.
        check: called with a list of the models of each path; raises ValueError if one does not
            write from left to right.

    Raises:
        OSError, ValueError: for the same reasons as in :func:`load_other_model`.
    """
    models: List[nn.Module] = []
    for path in utils.split_paths(beside.rescore_path):

        def choose(config: Any, path: str = path) -> Dict[str, Any]:
            if config._name not in LEFT_TO_RIGHT:
                raise ValueError(
                    f"--rescore-path {path}: the checkpoint belongs to the task {config._name};"
                    f" give an autoregressive model, which belongs to {' or '.join(LEFT_TO_RIGHT)}"
                )
            return {}

        _, found = load_other_model(
            "--rescore-path", path, beside=beside, source=source, target=target, choose=choose
        )
        check(found)
        models += found
    return models


def dictionary_option(option: str, text: str, example: str) -> Dict[str, Any]:
    """The value of an option whose ``text`` is a Python dictionary.

    Args:
        option, example: name of the option, and a valid text, for the message.

    Raises:
        ValueError: it is not a dictionary.
    """
    try:
        values = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        values = None
    if not isinstance(values, dict):
        raise ValueError(f"{option} {text!r} is not a Python dictionary, e.g. {example}")
    return values


def build_generator(
    task: Any,
    models: Sequence[nn.Module],
    config: DictConfig,
    given: Optional[Container[str]] = None,
) -> Any:
    """The generator that ``task`` makes for ``models``, with the options of the command.

    Args:
        config: the command's configuration.
        given: names of the options that the user gave, each of which must have an effect; ``seed``
            also seeds PyTorch. None: a :class:`~..decoding_task.DecodingTask` counts all options
            as given; of other tasks' options only the ranges are checked.

    Raises:
        ValueError: no decoder supports an option, or it has no effect; fairseq's own generators
            would fail later, or not at all.
    """
    check_ranges(config.generation)
    if given is not None:
        if "seed" in given:
            require_draws(config)
            # dag draws its paths by hashes of the seed, fairseq's searches by PyTorch.
            utils.set_torch_seed(config.common.seed)
        # DecodingTask checks its options itself.
        if not hasattr(task, "given"):
            require_effect(config, given)
        task.given = given
    return task.build_generator(
        models, config.generation, extra_gen_cls_kwargs={"lm_model": None, "lm_weight": 0.0}
    )


def require_draws(config: DictConfig) -> None:
    """Raises ValueError if the search of a command's configuration draws nothing at random, which
    leaves ``--seed`` without effect."""
    draws = str(getattr(config.task, "dag_decode_strategy", "")) == "sample"
    if not (draws or config.generation.sampling or config.generation.retain_dropout):
        raise ValueError(
            f"--seed {config.common.seed}: this search draws nothing at random; leave --seed out"
        )


def decode(
    task: FairseqTask, generator: Any, models: Sequence[nn.Module], sample: Any
) -> List[List[Dict[str, Any]]]:
    """The hypotheses of each sentence of the batch ``sample``, best first, as fairseq's
    dictionaries.

    Raises:
        NumericalError: the model computes NaN. This package's generators raise it themselves;
            fairseq's fail in an assertion, as no hypothesis is ever finished, or return NaN scores.
    """
    try:
        found = task.inference_step(generator, models, sample)
    except AssertionError as error:
        raise NumericalError.because(
            f"{_NO_NUMBERS} (fairseq's assertion {one_line(error)} failed)"
        ) from error
    for best in found:
        if not best or any(hypothesis["score"] != hypothesis["score"] for hypothesis in best):
            raise NumericalError.because(_NO_NUMBERS)
    return found


def find(
    task: FairseqTask, generator: Any, models: Sequence[nn.Module], sample: Any, nbest: int
) -> List[List[Hypothesis]]:
    """At most ``nbest`` hypotheses of each sentence of a batch, best first, from this package's or
    fairseq's generators; errors as of :func:`decode`."""
    if isinstance(generator, (EngineGenerator, NativeGenerator)):
        return [best[:nbest] for best in generator.find(sample)]
    return [
        [from_fairseq(hypothesis) for hypothesis in best[:nbest]]
        for best in decode(task, generator, models, sample)
    ]


def to_device(sample: Any, device: torch.device) -> Any:
    """Moves a batch to the models' device."""
    return utils.move_to_cuda(sample, device) if device.type == "cuda" else sample
