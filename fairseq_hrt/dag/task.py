"""Task ``translation_dag``: graph sizes for training, and the decoders."""

import functools
import logging
from argparse import Namespace
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import torch
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import register_task

from ..native.options.values import DecodingOptions, flag
from ..task import EngineTranslationTask
from ..training import source_sizes, target_sizes
from .batches import divided
from .config import DagTaskConfig
from .generator import DagGenerator, decode_scale
from .sample import GraphSample, graph_sample
from .scorer import GraphScorer

logger = logging.getLogger(__name__)


@register_task("translation_dag", dataclass=DagTaskConfig)
class DagTranslationTask(EngineTranslationTask):
    """Translation by decoders that write a directed acyclic graph of words instead of a
    sentence."""

    cfg: DagTaskConfig
    family = "dag"
    by_sentence = True

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

    def graph(self, sample: Dict[str, Any], update: Optional[int]) -> GraphSample:
        """The :class:`GraphSample` of a batch. In training, at update ``update``, each sentence
        draws its lambda (vertices per token) from the model's range, e.g. 4~8; if ``update`` is
        None, all have the lambda of decoding."""
        dictionary, fixed = self.target_dictionary, None
        if update is None:
            fixed = decode_scale(self.decoder, self.decoding_options(Namespace()))
        return graph_sample(
            sample,
            self.decoder.rule,
            update=update or 0,
            fixed=fixed,
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
        """Filters the sentences ``indices`` as fairseq does by its own options; and the training
        pairs also by ``--dag-filter-ratio``, ``--dag-filter-ratio-low`` and
        ``--dag-max-vertices``. Returns the indices that are kept.

        Raises:
            ValueError: one of these three options is not positive or leaves out every pair, or no
                pair that is left has a path through its graph.
        """
        indices = np.asarray(
            super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)
        )
        # Regardless of --skip-invalid-size-inputs-valid-test: checkpoints are selected on the whole
        # validation set.
        if not self.is_training_set(dataset) or getattr(dataset, "tgt_sizes", None) is None:
            return indices
        # A wrong value of a decoding option is refused now, not at the first validation.
        self.decoding_options(Namespace())
        source, target, rule = source_sizes(dataset), target_sizes(dataset), self.decoder.rule
        # <s> of the source counts where it widens the graph.
        counted = source + (rule.reads_bos or rule.count_bos)
        # + 1: the graph also emits <s>, which fairseq does not count.
        for name, keeps in (
            ("dag_filter_ratio", lambda own, value: target[own] + 1 <= value * counted[own]),
            ("dag_filter_ratio_low", lambda own, value: target[own] + 1 >= value * counted[own]),
            (
                "dag_max_vertices",
                lambda own, value: self._largest_graphs(dataset, own) <= value,
            ),
        ):
            value = getattr(self.cfg, name)
            if value is not None:
                indices = _filtered(indices, flag(name), value, keeps)
        self._require_paths(source[indices], target[indices])
        return indices

    def _require_paths(self, source: np.ndarray, target: np.ndarray) -> None:
        """Warns of training pairs that have no path through their graph, which are skipped at
        every update.

        Args:
            source, target: ``[n]``, numbers of source and target tokens of each pair, ``</s>``
                counted.

        Raises:
            ValueError: no pair has a path.
        """
        scale = self.decoder.rule.scale
        smallest, largest = (
            np.minimum(self._graph_sizes(own, source, target), self.decoder.rule.most)
            for own in scale
        )
        # A path of target + 1 vertices: the graph also emits <s>, which fairseq does not count.
        lost = largest < target + 1
        causes = f"--dag-upsample-scale {'~'.join(f'{end:g}' for end in dict.fromkeys(scale))}"
        reach = self.decoder.links.reach
        if reach is not None:
            lost |= smallest > target * reach + 1
            causes += f" with --dag-max-transition-length {reach}"
        self.report_lost(
            lost,
            causes,
            "no path through their graph",
            ", which needs a vertex for each target word: raise --dag-upsample-scale, or"
            " --dag-max-transition-length where it is set",
        )

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """fairseq's iterator over batches; the graphs of a training batch have at most
        ``--dag-batch-vertices`` vertices together, padding included."""
        limit = self.cfg.dag_batch_vertices
        if limit is None or not self.is_training_set(dataset):
            return super().get_batch_iterator(dataset, *args, **kwargs)
        dataset.batch_by_size = functools.partial(self._batch_by_size, dataset, limit)
        try:
            return super().get_batch_iterator(dataset, *args, **kwargs)
        finally:
            # Worker processes get the data set; with this attribute they would get the model, too.
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
        """The data set's batches, as arrays of indices, divided where the graphs of a batch have
        more than ``limit`` vertices together, padding included.

        Raises:
            ValueError: one graph alone has more than ``limit`` vertices.
        """
        own = np.asarray(indices)
        vertices = np.zeros(len(dataset), dtype=np.int64)
        vertices[own] = np.minimum(self._largest_graphs(dataset, own), self.decoder.rule.most)
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

    def _largest_graphs(self, dataset: Any, indices: np.ndarray) -> np.ndarray:
        """The number of vertices of the graph of each training pair in ``indices`` at the largest
        lambda, ``[n]``; of padded pairs with ``--num-batch-buckets``, since on a GPU the graphs of
        a batch are as wide as its padded sources allow."""
        padded = self.cfg.num_batch_buckets > 0
        source = dataset.src_sizes if padded else source_sizes(dataset)
        target = dataset.tgt_sizes if padded else target_sizes(dataset)
        return self._graph_sizes(self.decoder.rule.scale.high, source[indices], target[indices])

    def _graph_sizes(self, scale: float, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        factor, words = torch.tensor(scale, dtype=torch.double), torch.from_numpy(target) - 1
        return self.decoder.rule.wanted(factor, torch.from_numpy(source), words).numpy()


def _filtered(
    indices: np.ndarray, flag: str, value: float, keeps: Callable[[np.ndarray, float], np.ndarray]
) -> np.ndarray:
    """Those of ``indices`` for which the mask ``keeps(indices, value)`` is True; logs how many
    pairs the option ``flag`` leaves out by this.

    Raises:
        ValueError: ``value`` is not positive, or no pair is left.
    """
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
