"""A system decoded by a task of fairseq's, this package's engine included.

It is built the way ``fairseq-generate`` builds it (``setup_task``, ``load_model_ensemble``,
``build_generator``, ``inference_step``), so that one decoder is never measured by kinder rules than
another.
"""

from typing import Any, Callable, Dict, Sequence

from fairseq import tasks, utils

from ...engine import GenerationCounters, PackedGenerator
from ...engine.models import build_generator, choose_device, generation_config, load_models
from ...loading.checkpoints import reading, task_of_checkpoint
from .specification import SystemSpec, generate_arguments
from .system import System


class FairseqSystem(System):
    """A system decoded through its task, as ``fairseq-generate`` does it.

    Args:
        spec: what to load.
        data: see :func:`.specification.generate_arguments`.
        engine: ``auto``, ``torch`` or ``native``, as ``--engine``.

    Raises:
        ValueError: ``fairseq-generate`` would not accept an option (named in the message).
        OSError: a checkpoint is missing or unreadable.
    """

    def __init__(self, spec: SystemSpec, data: Sequence[str], *, engine: str = "torch") -> None:
        subject = f"system {spec.name!r}"
        paths = utils.split_paths(spec.path)
        task_name = spec.task or task_of_checkpoint(paths[0])
        config = generation_config(generate_arguments(spec, data, task_name), subject)
        if "engine" in config.task:
            config.task.engine = engine
        with reading(subject, "cannot be set up"):
            task = tasks.setup_task(config.task)
        device = choose_device(config)
        models, saved = load_models(paths, config, task, device)
        generator = build_generator(task, models, config, spec.given)
        # The beam that is really used: one path of a graph has none.
        self.beam = config.generation.beam
        counters = getattr(generator, "counters", None)
        super().__init__(
            spec,
            config,
            task,
            saved.task,
            task_name=task_name,
            device=device,
            dtype=str(next(models[0].parameters()).dtype).replace("torch.", ""),
            counters=counters if counters is not None else count_calls(models),
            models=models,
            generator=generator,
        )

    @property
    def reloadable(self) -> SystemSpec:
        return self.spec

    @property
    def model_bytes(self) -> int:
        """Size of the weights as they are decoded with; what several modules share counts once."""
        weights = {
            weight.data_ptr(): weight for model in self.models for weight in model.parameters()
        }
        return sum(weight.numel() * weight.element_size() for weight in weights.values())

    def signature(self) -> Dict[str, str]:
        entries = {"task": self.task_name, **self.spec.shown()}
        if self.spec.engine == "auto":
            entries["engine"] = "native" if isinstance(self.generator, PackedGenerator) else "torch"
        return {**entries, "beam": str(self.beam), "dtype": self.dtype, "device": self.device.type}


def count_calls(models: Sequence[Any]) -> GenerationCounters:
    """Counts the calls of the encoders and decoders of stock fairseq ``models``.

    fairseq's ``EnsembleModel`` calls ``decoder.forward`` directly, which forward hooks do not see;
    therefore the method of each instance is wrapped. ``sentences`` stays 0: a decoder cannot tell
    how many it serves.
    """
    counters = GenerationCounters()

    def counted(forward: Callable[..., Any], field: str) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            setattr(counters, field, getattr(counters, field) + 1)
            return forward(*args, **kwargs)

        return wrapper

    for model in models:
        model.encoder.forward = counted(model.encoder.forward, "encoder_calls")
        model.decoder.forward = counted(model.decoder.forward, "decoder_calls")
    return counters
