"""Task ``translation_dag``: graph sizes for training, and the decoders."""

import logging
from typing import Any, Dict, Sequence, Tuple

import numpy as np
import torch
from fairseq.criterions import FairseqCriterion
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task
from torch import Tensor

from ..common.hashing import hash_uniform
from ..common.options import DecodingOptions
from ..common.task import EngineTranslationTask
from .config import DagTaskConfig
from .generator import DagGenerator
from .graph_size import vertices_from_source, vertices_from_target
from .model import DagTransformerModel
from .sample import GraphSample, whole_targets
from .scorer import GraphScorer

logger = logging.getLogger(__name__)
# Purpose of random numbers.
_SCALE = 13


@register_task("translation_dag", dataclass=DagTaskConfig)
class DagTranslationTask(EngineTranslationTask):
    """Translation by directed acyclic graphs."""

    cfg: DagTaskConfig
    family = "dag_transformer"
    losses = ("dag_nll_loss", "dag_fuzzy_loss")

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> DagTransformerModel:
        model = super().build_model(cfg, from_checkpoint)
        self.decoder = model.decoder
        return model

    def decode_scale(self, decoder: Any) -> float:
        """lambda of decoding and validation.

        Raises:
            ValueError: it is not positive.
        """
        given = self.cfg.dag_decode_upsample_scale
        if given is not None and given <= 0:
            raise ValueError(f"--dag-decode-upsample-scale {given} must be greater than 0")
        return decoder.scale.middle if given is None else given

    def make_generator(self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions) -> DagGenerator:
        return DagGenerator(
            models, self.target_dictionary, options, config=self.cfg, scale=self.decode_scale(models[0].decoder)
        )

    def make_scorer(self, models: Sequence[FairseqEncoderDecoderModel], args: Any) -> GraphScorer:
        self.decoder = models[0].decoder
        return GraphScorer(self.target_dictionary, lambda sample: self.graph(sample, None))

    # ------------------------------------------------------------------ training

    def graph(self, sample: Dict[str, Any], update: Any) -> GraphSample:
        """Targets and graph sizes of a batch; in training (with an update number) a range of scales is drawn from."""
        targets = whole_targets(sample["target"], bos=self.target_dictionary.bos())
        target_lengths = targets.ne(self.target_dictionary.pad()).sum(1)
        source_lengths = sample["net_input"]["src_lengths"]
        ids, decoder = sample["id"], self.decoder
        if update is None:
            scale = torch.full(ids.shape, self.decode_scale(decoder), dtype=torch.double, device=ids.device)
        else:
            scale = decoder.scale.at(hash_uniform(self.cfg.seed, update, ids, _SCALE))
        if decoder.length_head is None:
            sizes = vertices_from_source(source_lengths + decoder.count_bos, scale)
        else:
            sizes = vertices_from_target(target_lengths - 2, scale)
        return GraphSample(
            ids=ids,
            update=0 if update is None else update,
            targets=targets,
            target_lengths=target_lengths,
            source_lengths=source_lengths,
            vertex_lengths=sizes.clamp(max=decoder.max_positions()),
        )

    def train_step(
        self,
        sample: Dict[str, Any],
        model: torch.nn.Module,
        criterion: FairseqCriterion,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
    ) -> Tuple[Tensor, int, Dict[str, Any]]:
        sample = {**sample, "graph": self.graph(sample, update_num)}
        return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def valid_step(
        self, sample: Dict[str, Any], model: torch.nn.Module, criterion: FairseqCriterion
    ) -> Tuple[Tensor, int, Dict[str, Any]]:
        sample = {**sample, "graph": self.graph(sample, None)}
        return super().valid_step(sample, model, criterion)

    def filter_indices_by_size(
        self, indices: Any, dataset: Any, max_positions: Any = None, ignore_invalid_inputs: bool = False
    ) -> Any:
        """fairseq's filter and, in training, ``--dag-filter-ratio``."""
        indices = super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)
        ratio = self.cfg.dag_filter_ratio
        if ratio is None or not ignore_invalid_inputs or getattr(dataset, "tgt_sizes", None) is None:
            return indices
        if ratio <= 0:
            raise ValueError(f"--dag-filter-ratio {ratio} must be greater than 0")
        indices = np.asarray(indices)
        # With <s>, which the graph has to emit besides what fairseq counts.
        kept = dataset.tgt_sizes[indices] + 1 <= ratio * dataset.src_sizes[indices]
        if not kept.any():
            raise ValueError(f"--dag-filter-ratio {ratio} leaves no training pair: raise it")
        removed = int((~kept).sum())
        if removed:
            logger.warning("--dag-filter-ratio %s leaves out %d of %d training pairs", ratio, removed, len(indices))
        return indices[kept]
