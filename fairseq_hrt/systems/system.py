"""The interface of every system, whatever decodes it."""

from typing import Any, Dict, List, Optional, Protocol, Sequence

import torch
from fairseq.data import FairseqDataset
from fairseq.tasks import FairseqTask

from ..engine import GenerationCounters
from .specification import SystemSpec


class System(Protocol):
    """A loaded system.

    Attributes:
        spec: what it was loaded from.
        name: shown in tables.
        task: of fairseq, with both dictionaries.
        task_name: as it is registered; that of the engine where no task decodes.
        device: where it computes.
        dtype: the kind of its numbers.
        models: modules of PyTorch; none where another engine decodes.
        generator: of the task; None where another engine decodes.
        counters: encoder and decoder calls since the last reset, the generator's own if it counts.
        subset: of the data.
        post_process: how the subwords of a translation are joined.
    """

    spec: SystemSpec
    name: str
    task: FairseqTask
    task_name: str
    device: torch.device
    dtype: str
    models: List[Any]
    generator: Any
    counters: GenerationCounters
    subset: str
    post_process: Optional[str]

    @property
    def reloadable(self) -> SystemSpec:
        """What another process loads this very system from, as long as this object lives."""

    @property
    def model_bytes(self) -> int:
        """Size of the weights that it decodes with."""

    @property
    def longest_source(self) -> Optional[int]:
        """Tokens of a source that it reads at most, ``</s>`` included, a model that chooses among
        its translations, too; None: not known."""

    @property
    def dataset(self) -> FairseqDataset:
        """The sentences of the subset."""

    def collate(self, ids: Sequence[int]) -> Dict[str, Any]:
        """The batch of the sentences ``ids``, as :meth:`decode` takes it."""

    def collate_text(self, lines: Sequence[str]) -> Dict[str, Any]:
        """The batch of sentences given as words of the source dictionary (tokenised, in
        subwords)."""

    def decode(self, sample: Dict[str, Any]) -> List[List[Dict[str, Any]]]:
        """Hypotheses of each sentence in ``sample``, best first, as fairseq's generators give
        them."""

    def text(self, tokens: torch.Tensor) -> str:
        """The words of target ``tokens`` ``[T]``, subwords joined, special symbols left out."""

    def signature(self) -> Dict[str, str]:
        """How the system decodes: task, checkpoint, every given option, number type, device."""
