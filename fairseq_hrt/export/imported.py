"""Makes checkpoints of fairseq from models of other toolkits."""

from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

import numpy as np
import torch
from fairseq import options as fairseq_options
from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf, open_dict

from ..engine.models import option_arguments
from ..native.options.conditions import option_text

# fairseq requires a training history; an imported model has none.
_UNTRAINED: Dict[str, Any] = {
    "criterion_name": "CrossEntropyCriterion",
    "optimizer_name": "FairseqAdam",
    "lr_scheduler_state": {},
    "num_updates": None,
}


def checkpoint_of(
    architecture: str,
    options: Mapping[str, Any],
    parameters: Mapping[str, np.ndarray],
    languages: Tuple[str, str],
    data: Path,
    *,
    task: str = "translation",
) -> Dict[str, Any]:
    """Makes the contents of a checkpoint, as ``fairseq-train`` writes it, for an imported model.

    Args:
        architecture: the model's ``--arch`` in fairseq.
        options: the model's options of ``fairseq-train``, and perhaps options of ``task``, {name
            without leading dashes: value}.
        parameters: {fairseq's name: float32 array}.
        languages: the source and the target language.
        data: the folder of the model's dictionaries.
        task: the name of fairseq's task that decodes the model.

    Raises:
        ValueError: names or shapes of the parameters differ from the architecture's.
    """
    arguments = [str(data), "--task", task, "--arch", architecture]
    arguments += ["--source-lang", languages[0], "--target-lang", languages[1], "--dropout", "0.1"]
    arguments += option_arguments({name: option_text(value) for name, value in options.items()})
    namespace = fairseq_options.parse_args_and_arch(
        fairseq_options.get_training_parser(), arguments
    )
    config = convert_namespace_to_omegaconf(namespace)
    # The user did not choose the model's options: none is refused for having no effect.
    built = tasks.setup_task(config.task).build_model(config.model, from_checkpoint=True)
    state = built.state_dict()
    own_parameters = {name for name, _ in built.named_parameters(remove_duplicate=False)}
    for name, value in parameters.items():
        if name not in state or tuple(state[name].shape) != value.shape:
            own = tuple(state[name].shape) if name in state else "nothing"
            raise ValueError(
                f"{name}: the imported model has the shape {value.shape}, but {architecture} has"
                f" {own} by this name: the model's options do not fit its parameters"
            )
        state[name] = torch.from_numpy(np.ascontiguousarray(value, np.float32))
    for name, value in state.items():
        if name.endswith("_float_tensor"):
            # fairseq reads only its device; the value is uninitialised memory.
            value.zero_()
    missing = sorted(own_parameters - set(parameters))
    if missing:
        raise ValueError(
            f"{architecture} has {missing[0]}, which the imported model does not have: the model's"
            " options do not fit its parameters"
        )
    # The model's own state is saved: shared matrices are stored once.
    built.load_state_dict(state)
    with open_dict(config):
        # A temporary folder of this machine.
        config.task.data = None
        config.model.data = None
    return {
        "args": None,
        "cfg": OmegaConf.to_container(config, resolve=True, enum_to_str=True),
        "model": built.state_dict(),
        "criterion": None,
        "optimizer_history": [_UNTRAINED],
        "task_state": {},
    }
