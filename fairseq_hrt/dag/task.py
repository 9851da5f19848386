"""Task ``translation_dag``: graph sizes for training, and the decoders."""

import functools
import logging
from argparse import Namespace
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import torch
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task

from ..native.options.values import DecodingOptions
from ..task import EngineTranslationTask
from .batches import divided
from .config import DagTaskConfig
from .decoder import DagDecoder
from .generator import DagGenerator, decode_scale
from .sample import GraphSample, SizeRule, graph_sample
from .scorer import GraphScorer

logger = logging.getLogger(__name__)


@register_task("translation_dag", dataclass=DagTaskConfig)
class DagTranslationTask(EngineTranslationTask):
    """Translation by directed acyclic graphs."""

    cfg: DagTaskConfig
    family = "dag"

    def make_generator(
        self, models: Sequence[FairseqEncoderDecoderModel], options: DecodingOptions
    ) -> DagGenerator:
        return DagGenerator(models, self.target_dictionary, options, seed=self.cfg.seed)

    def make_scorer(
        self, models: Sequence[FairseqEncoderDecoderModel], args: Any, options: DecodingOptions
    ) -> GraphScorer:
        self.decoder = models[0].decoder
        return GraphScorer(self.target_dictionary, lambda sample: self.graph(sample, None))

    # ------------------------------------------------------------------ training

    def size_rule(self, decoder: DagDecoder) -> SizeRule:
        """How many vertices sentences get."""
        return SizeRule(
            scale=decoder.scale,
            fixed=decode_scale(decoder, self.decoding_options(Namespace())),
            from_target=decoder.length_head is not None,
            count_bos=decoder.count_bos,
            most=decoder.max_positions(),
        )

    def graph(self, sample: Dict[str, Any], update: Optional[int]) -> GraphSample:
        """Targets and graph sizes of a batch; in training (with an update number) a range of scales
        is drawn from."""
        dictionary = self.target_dictionary
        return graph_sample(
            sample,
            self.size_rule(self.decoder),
            update=update,
            seed=self.cfg.seed,
            bos=dictionary.bos(),
            pad=dictionary.pad(),
        )

    def prepared(self, sample: Dict[str, Any], update: Optional[int]) -> Dict[str, Any]:
        return {**sample, "graph": self.graph(sample, update)}

    def filter_indices_by_size(
        self,
        indices: Any,
        dataset: Any,
        max_positions: Any = None,
        ignore_invalid_inputs: bool = False,
    ) -> Any:
        """fairseq's filter and, for the training data alone, ``--dag-filter-ratio`` and its like.

        Raises:
            ValueError: one of these is not positive, or leaves nothing.
        """
        indices = super().filter_indices_by_size(
            indices, dataset, max_positions, ignore_invalid_inputs
        )
        # Regardless of --skip-invalid-size-inputs-valid-test: checkpoints are selected on the whole
        # validation set.
        if (
            dataset is not self.datasets.get(self.cfg.train_subset)
            or getattr(dataset, "tgt_sizes", None) is None
        ):
            return indices
        source, target = dataset.src_sizes, dataset.tgt_sizes
        # With <s>, which the graph has to emit besides what fairseq counts.
        for name, keeps in (
            ("dag_filter_ratio", lambda own, value: target[own] + 1 <= value * source[own]),
            ("dag_filter_ratio_low", lambda own, value: target[own] + 1 >= value * source[own]),
            (
                "dag_max_vertices",
                lambda own, value: self._largest_graphs(source[own], target[own]) <= value,
            ),
        ):
            value = getattr(self.cfg, name)
            if value is not None:
                indices = _filtered(
                    np.asarray(indices), "--" + name.replace("_", "-"), value, keeps
                )
        return indices

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """fairseq's; the batches of the training data keep to ``--dag-batch-vertices``."""
        limit = self.cfg.dag_batch_vertices
        if limit is None or dataset is not self.datasets.get(self.cfg.train_subset):
            return super().get_batch_iterator(dataset, *args, **kwargs)
        dataset.batch_by_size = functools.partial(self._batch_by_size, dataset, limit)
        try:
            return super().get_batch_iterator(dataset, *args, **kwargs)
        finally:
            # The batches are made; workers get the data set, and need neither this task nor its
            # model.
            del dataset.batch_by_size

    def _batch_by_size(
        self,
        dataset: Any,
        limit: int,
        indices: Any,
        max_tokens: Optional[int] = None,
        max_sentences: Optional[int] = None,
        required_batch_size_multiple: int = 1,
    ) -> List[np.ndarray]:
        """Batches of a data set, divided where their graphs are too large together.

        Raises:
            ValueError: one graph alone is too large.
        """
        own = np.asarray(indices)
        vertices = np.zeros(len(dataset), dtype=np.int64)
        vertices[own] = np.minimum(
            self._largest_graphs(dataset.src_sizes[own], dataset.tgt_sizes[own]),
            self.decoder.max_positions(),
        )
        largest = int(np.max(vertices, initial=0))
        if largest > limit:
            raise ValueError(
                f"--dag-batch-vertices {limit} has no room for the largest graph, of {largest}"
                " vertices: raise it, or leave such pairs out by --dag-max-vertices"
            )
        batches = type(dataset).batch_by_size(
            dataset, indices, max_tokens, max_sentences, required_batch_size_multiple
        )
        return [
            piece
            for batch in batches
            for piece in divided(batch, vertices[batch], limit, required_batch_size_multiple)
        ]

    def _largest_graphs(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The most vertices that training pairs of these sizes, ``</s>`` counted, may get:
        ``[n]``."""
        rule = self.size_rule(self.decoder)
        scale = torch.tensor(rule.scale.high, dtype=torch.double)
        return rule.wanted(scale, torch.from_numpy(source), torch.from_numpy(target) - 1).numpy()


def _filtered(
    indices: np.ndarray, flag: str, value: float, keeps: Callable[[np.ndarray, float], np.ndarray]
) -> np.ndarray:
    """The pairs that an option keeps; the others are counted in the log."""
    if not value > 0:
        raise ValueError(f"{flag} {value} must be greater than 0")
    kept = keeps(indices, value)
    if not kept.any():
        raise ValueError(
            f"{flag} {value} leaves no training pair:"
            f" {'lower' if flag.endswith('low') else 'raise'} it"
        )
    removed = int((~kept).sum())
    if removed:
        logger.warning(
            "%s %s leaves out %d of %d training pairs", flag, value, removed, len(indices)
        )
    return indices[kept]
