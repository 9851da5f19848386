"""The part of a system that its task gives: the sentences, and the text of what was decoded."""

from typing import Any, Dict, List, Optional, Sequence, cast

import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import nn

from ..engine import GenerationCounters
from ..engine.models import decode, to_device
from .specification import SystemSpec


def subwords(dictionary: Dictionary, tokens: Sequence[int]) -> str:
    """``dictionary.string`` of ids, which looks at each as a tensor of its own."""
    symbols, ends = dictionary.symbols, (dictionary.bos(), dictionary.eos())
    return " ".join([symbols[token] for token in tokens if token not in ends])


class TaskSystem:
    """Base of the systems; complete as soon as it is made.

    Args:
        spec: the system.
        config: the command's configuration.
        task: set up.
        saved: the task's configuration of the training.
        task_name, device, dtype, models, generator, counters: see :class:`.system.System`.
    """

    def __init__(
        self,
        spec: SystemSpec,
        config: DictConfig,
        task: FairseqTask,
        saved: DictConfig,
        *,
        task_name: str,
        device: torch.device,
        dtype: str,
        counters: GenerationCounters,
        models: Optional[List[nn.Module]] = None,
        generator: Any = None,
    ) -> None:
        self.spec, self.name = spec, spec.name
        self.task, self.task_name, self._saved = task, task_name, saved
        self.device, self.dtype, self.counters = device, dtype, counters
        self.models: List[nn.Module] = [] if models is None else models
        self.generator = generator
        self.subset: str = config.dataset.gen_subset
        self.post_process: Optional[str] = config.common_eval.post_process

    @property
    def longest_source(self) -> Optional[int]:
        """See :class:`.system.System`."""
        limits = [cast(Any, model).max_positions()[0] for model in self.models]
        rescorer = getattr(self.generator, "rescorer", None)
        return min(
            limits if rescorer is None else [*limits, rescorer.judge.longest_source], default=None
        )

    @property
    def dataset(self) -> FairseqDataset:
        """The sentences, loaded when they are first asked for: whoever translates text of his own
        needs none."""
        if self.subset not in self.task.datasets:
            self.task.load_dataset(self.subset, task_cfg=self._saved)
        return self.task.dataset(self.subset)

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """The batch of the sentences ``ids``, on the system's device."""
        return to_device(self.dataset.collater([self.dataset[i] for i in ids]), self.device)

    def collate_text(self, lines: Sequence[str]) -> Dict[str, Any]:
        """The batch of sentences given as words of the source dictionary (tokenised, in
        subwords)."""
        dictionary = self.task.source_dictionary
        tokens = [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
        dataset = self.task.build_dataset_for_inference(tokens, [len(row) for row in tokens])
        return to_device(dataset.collater([dataset[i] for i in range(len(tokens))]), self.device)

    def decode(self, sample: Dict[str, Any]) -> List[List[Dict[str, Any]]]:
        """Hypotheses of each sentence in ``sample``, best first."""
        hypotheses = decode(self.task, self.generator, self.models, sample)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return hypotheses

    def text(self, tokens: torch.Tensor) -> str:
        """The words of target ``tokens`` ``[T]``, subwords joined, special symbols left out."""
        dictionary = self.task.target_dictionary
        ignored = getattr(self.generator, "symbols_to_strip_from_output", {dictionary.eos()})
        return dictionary.string(
            tokens.int().cpu(), self.post_process or "@@ ", extra_symbols_to_ignore=ignored
        )
