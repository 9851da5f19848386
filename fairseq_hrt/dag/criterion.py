"""Criterions ``dag_nll_loss`` and ``dag_fuzzy_loss``."""

import functools
import logging
from typing import Any, Dict, List, Tuple

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from ..ops import PostponedChecks, dag_log_likelihood, fuzzy_alignment, postponed_checks
from ..training import BITS, FamilyLoss, GlanceSchedule, Sums
from .config import DagFuzzyLossConfig, DagNllLossConfig
from .glancing import choose_glanced, force
from .model import DagOutput, Glancer
from .sample import GraphSample

logger = logging.getLogger(__name__)


class DagLoss(FamilyLoss):
    """The base of both losses: glancing, the loss of the length head, and logging.

    A loss is a mean over sentences: fairseq divides the gradient by the number of sentences of the
    whole update, however it is split into batches. Sentences without any path (a target longer than
    its graph) are left out and counted as ``skipped``.

    With ``--dag-upsample-base predict`` the cross-entropy of the length head (nats per sentence),
    times ``--dag-length-loss-factor``, is added; the log shows it as ``length_loss`` and within
    ``loss``. Graphs in training are sized by their target, so the head trains only itself and the
    encoder.
    """

    family = "dag"

    def __init__(
        self,
        task: FairseqTask,
        dag_glance_schedule: str,
        dag_glance_strategy: str,
        dag_length_loss_factor: float,
    ) -> None:
        super().__init__(task)
        self.schedule = GlanceSchedule(dag_glance_schedule, "--dag-glance-schedule")
        self.strategy = str(dag_glance_strategy)
        self.length_loss_factor = dag_length_loss_factor
        self.seed: int = task.cfg.seed
        self.warned_of_clamping = False

    def forward(
        self, model: nn.Module, sample: Dict[str, Any], reduce: bool = True
    ) -> Tuple[Tensor, int, Dict]:
        """The loss of the batch ``sample``, which must have an entry ``graph``, the
        :class:`GraphSample` that the task adds; ``reduce`` has no effect.

        Returns:
            (loss summed over sentences, number of sentences with a path, logging output).
        """
        graph = sample["graph"]
        source = sample["net_input"]
        share = self.schedule.at(graph.update)
        glances = model.training and (share > 0 or self.draws_its_share)
        # On a GPU the checks of the dynamic programs are read together with the counts below.
        with postponed_checks() as checks:
            output = model(
                src_tokens=source["src_tokens"],
                src_lengths=source["src_lengths"],
                graph=graph,
                glance=self.glancer(graph, share) if glances else None,
            )
            losses, possible, log = self.losses(output, graph)
        loss = losses.sum()
        if output.length_logits is not None:
            loss = loss + self.length_loss(output, possible, log)
        log["loss"] = loss.data
        log.update(self.counts(output, graph, possible, checks))
        log.update(nsentences=len(possible), skipped=len(possible) - log["sample_size"])
        if log.get("clamped") and not self.warned_of_clamping:
            self.warned_of_clamping = True
            logger.warning(
                "%d of %d graphs of a batch are cut to the decoder's positions, further ones"
                " are counted as clamped_graphs: raise --max-target-positions, or leave such"
                " pairs out by --dag-max-vertices",
                log["clamped"],
                len(possible),
            )
        return loss, log["sample_size"], log

    def counts(
        self, output: DagOutput, graph: GraphSample, possible: Tensor, checks: PostponedChecks
    ) -> Dict[str, int]:
        """The batch's counts for the log, by name, read from the device in one transfer: sentences
        and tokens with a path, all tokens and vertices, cut graphs, and the results of glancing.

        Args:
            output: the model's output.
            graph: targets and graph sizes.
            possible: BoolTensor ``[B]``, whether a sentence has a path.
            checks: postponed checks of the dynamic programs' arguments.

        Raises:
            ValueError: one of the ``checks`` fails.
        """
        counts = {
            "sample_size": possible.sum(),
            "ntokens": (graph.target_lengths * possible).sum(),
            "vertices": graph.vertex_lengths.sum(),
            "tokens": graph.target_lengths.sum(),
        }
        if graph.clamped is not None:
            counts["clamped"] = graph.clamped.sum()
        if output.glanced is not None:
            glanced = output.glanced
            counts["path_vertices"] = (glanced.alignment >= 0).sum()
            counts["path_right"], counts["shown"] = glanced.right.sum(), glanced.shown.sum()
        suspicious = checks.suspicious(possible.device).long()
        wrong, *values = torch.stack([suspicious, *counts.values()]).tolist()
        if wrong:
            checks.explain()
        return dict(zip(counts, values))

    @property
    def draws_its_share(self) -> bool:
        """Whether the share of tokens that the decoder is shown is drawn for each sentence
        (``--dag-glance-strategy cmlm``) instead of taken from the schedule; False also if the
        schedule is 0 throughout, which switches glancing off."""
        return self.strategy == "cmlm" and any(share for _, share in self.schedule.knots)

    def losses(
        self, output: DagOutput, graph: GraphSample
    ) -> Tuple[Tensor, Tensor, Dict[str, Any]]:
        """(The loss of each sentence, ``[B]``, 0 without a path; whether it has a path, BoolTensor
        ``[B]``; further values to log, by name)."""
        raise NotImplementedError

    def glancer(self, graph: GraphSample, share: float) -> Glancer:
        """The function that chooses which target tokens of the batch the decoder is shown;
        ``share`` is the value of the schedule at this update."""
        return functools.partial(
            choose_glanced,
            targets=graph.targets,
            target_lengths=graph.target_lengths,
            share=share,
            strategy=self.strategy,
            ids=graph.ids,
            update=graph.update,
            seed=self.seed,
        )

    def length_loss(self, output: DagOutput, possible: Tensor, log: Dict[str, Any]) -> Tensor:
        """The length head's cross-entropy times its weight, summed over the sentences with a path
        (``possible`` ``[B]``); stores the unweighted sum in ``log`` as ``length_loss``."""
        assert output.length_logits is not None and output.length_labels is not None
        losses = F.cross_entropy(  # [B]
            output.length_logits.float(), output.length_labels, reduction="none"
        )
        loss = torch.where(possible, losses, 0.0).sum()
        log["length_loss"] = loss.data
        return self.length_loss_factor * loss

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Logs the skipped sentences and their share, vertices per token, the length head's loss,
        the number of graphs that were cut to the decoder's positions, and with glancing how large a
        share of the best path's vertices was right, and how large a share was shown."""
        log = Sums(logging_outputs)
        log.mean("skipped", "nsentences", name="skipped_share")
        metrics.log_scalar_sum("skipped_sentences", log("skipped"), priority=200, round=0)
        log.mean("vertices", "tokens", name="vertices_per_token")
        log.mean("length_loss", "sample_size", factor=BITS)
        if any("clamped" in output for output in logging_outputs):
            metrics.log_scalar_sum("clamped_graphs", log("clamped"), priority=210, round=0)
        if any("path_vertices" in output for output in logging_outputs):
            log.mean("path_right", "path_vertices", name="glance_accuracy")
            log.mean("shown", "path_vertices", name="glance_rate")


@register_criterion("dag_nll_loss", dataclass=DagNllLossConfig)
class DagNllLoss(DagLoss):
    """-log P(y) / T for targets y of T tokens; P(y) sums over all paths (DA-Transformer, Eq. 5).

    ``nll_loss`` (bits) and ``ppl`` are per target token, ``<s>`` and ``</s>`` included; in training
    they are measured with glancing, in the second pass.
    """

    def __init__(
        self,
        task: FairseqTask,
        dag_glance_schedule: str,
        dag_glance_strategy: str,
        dag_length_loss_factor: float,
        dag_glance_forcing: str,
    ) -> None:
        super().__init__(task, dag_glance_schedule, dag_glance_strategy, dag_length_loss_factor)
        self.forcing = str(dag_glance_forcing)

    def losses(
        self, output: DagOutput, graph: GraphSample
    ) -> Tuple[Tensor, Tensor, Dict[str, Any]]:
        match = output.match  # [B, T, L]
        if output.glanced is not None:
            match = force(match, output.glanced, self.forcing)
        likelihood = dag_log_likelihood(  # [B]
            match, output.links, graph.target_lengths, graph.vertex_lengths
        )
        possible = likelihood > float("-inf")  # [B]
        likelihood = torch.where(possible, likelihood, 0.0)  # [B]
        return -likelihood / graph.target_lengths, possible, {"nll_loss": -likelihood.sum().data}

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        log = Sums(logging_outputs)
        log.mean("loss", "sample_size", factor=BITS)
        log.mean("nll_loss", "ntokens", factor=BITS)
        metrics.log_derived("ppl", lambda meters: 2 ** min(meters["nll_loss"].avg, 1000))
        super().reduce_metrics(logging_outputs)


@register_criterion("dag_fuzzy_loss", dataclass=DagFuzzyLossConfig)
class DagFuzzyLoss(DagLoss):
    """-(brevity penalty * clipped n-gram precision), expected over all paths (FA-DAT, Eq. 17).

    For fine-tuning a model trained with ``dag_nll_loss``; this loss has no log-likelihood term.
    Tokens shown by glancing change only the decoder's input. ``--dag-length-loss-factor`` is 0 by
    default here: the length head has been trained, and its cross-entropy of about 3 per sentence
    would outweigh this loss, which lies between -1 and 0.
    """

    def __init__(
        self,
        task: FairseqTask,
        dag_glance_schedule: str,
        dag_glance_strategy: str,
        dag_length_loss_factor: float,
        dag_ngram_order: int,
    ) -> None:
        super().__init__(task, dag_glance_schedule, dag_glance_strategy, dag_length_loss_factor)
        if dag_ngram_order < 1:
            raise ValueError(f"--dag-ngram-order {dag_ngram_order} must be at least 1")
        self.order = dag_ngram_order

    def losses(
        self, output: DagOutput, graph: GraphSample
    ) -> Tuple[Tensor, Tensor, Dict[str, Any]]:
        found = fuzzy_alignment(
            output.match,
            output.links,
            graph.targets,
            graph.target_lengths,
            graph.vertex_lengths,
            order=self.order,
        )
        # A graph smaller than its target could still share n-grams with it, but never contain it.
        possible = graph.target_lengths <= graph.vertex_lengths  # [B]
        log: Dict[str, Any] = {
            name: torch.where(possible, getattr(found, name), 0.0).sum().data
            for name in ("precision", "recall", "brevity_penalty")
        }
        log["length_ratio"] = (
            torch.where(possible, found.expected_length / graph.target_lengths, 0.0).sum().data
        )
        return -torch.where(possible, found.score, 0.0), possible, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        log = Sums(logging_outputs)
        for name in ("loss", "precision", "recall", "brevity_penalty", "length_ratio"):
            log.mean(name, "sample_size")
        super().reduce_metrics(logging_outputs)
