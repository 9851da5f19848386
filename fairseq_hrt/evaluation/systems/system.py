"""The base of every system, whatever decodes it: the sentences, batches of them, and the text of
what was decoded."""

from typing import Any, Dict, List, Optional, Sequence, cast

import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import nn

from ...engine import GenerationCounters
from ...engine.models import decode, to_device
from .specification import SystemSpec


def subwords(dictionary: Dictionary, tokens: Sequence[int]) -> str:
    """``dictionary.string`` of ids, which looks at each as a tensor of its own."""
    symbols, ends = dictionary.symbols, (dictionary.bos(), dictionary.eos())
    return " ".join([symbols[token] for token in tokens if token not in ends])


class System:
    """A loaded system; complete as soon as it is made.

    Args:
        spec: what it was loaded from.
        config: the command's configuration.
        task: of fairseq, set up, with both dictionaries.
        saved: the task's configuration of the training.
        task_name: as it is registered; that of the engine where no task decodes.
        device: where it computes.
        dtype: the kind of its numbers.
        counters: encoder and decoder calls since the last reset, the generator's own if it counts.
        models: modules of PyTorch; none where another engine decodes.
        generator: of the task; None where another engine decodes.

    Attributes:
        name: shown in tables.
        subset: of the data.
        post_process: how the subwords of a translation are joined.
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
    def reloadable(self) -> SystemSpec:
        """What another process loads this very system from, as long as this object lives."""
        raise NotImplementedError

    @property
    def model_bytes(self) -> int:
        """Size of the weights that it decodes with."""
        raise NotImplementedError

    def signature(self) -> Dict[str, str]:
        """How the system decodes: task, checkpoint, every given option, number type, device."""
        raise NotImplementedError

    @property
    def longest_source(self) -> Optional[int]:
        """Tokens of a source that it reads at most, ``</s>`` included, a model that chooses among
        its translations, too; None: not known."""
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
        """Hypotheses of each sentence in ``sample``, best first, as fairseq's generators give
        them."""
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
