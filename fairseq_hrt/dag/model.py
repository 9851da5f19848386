"""Model ``dag_transformer`` and its presets."""

from typing import Any, Callable, NamedTuple, Optional, Tuple

import torch
from fairseq.models import register_model
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..ops import dag_best_alignment, gather_log_probs, gather_with_largest
from ..training import (
    COMMON_PRESETS,
    ConfiguredTransformer,
    register_presets,
    same_random_numbers_afterwards,
)
from .config import DagModelConfig
from .decoder import DagDecoder
from .glancing import Glanced
from .sample import GraphSample


class DagOutput(NamedTuple):
    """The graphs of a training batch, as far as the losses need them.

    Attributes:
        match: ``[B, T, L]``, log P(y_i | v), of the target's token i at vertex v.
        links: ``[B, L, L]``, log P(v | u).
        length_logits: ``[B, classes]``, of the :class:`LengthHead`; None without this head.
        length_labels: LongTensor ``[B]``, the class that the head should predict; None without
            this head.
        glanced: the tokens shown to the decoder, None without glancing.
    """

    match: Tensor
    links: Tensor
    length_logits: Optional[Tensor]
    length_labels: Optional[Tensor]
    glanced: Optional[Glanced]


# (best alignment [B, L], whether a vertex's best token is the aligned one [B, L]) → tokens shown
Glancer = Callable[[Tensor, Tensor], Glanced]


@register_model("dag_transformer")
class DagTransformerModel(ConfiguredTransformer):
    """A Transformer whose decoder writes a directed acyclic graph."""

    config = DagModelConfig
    decoder_class = DagDecoder

    @classmethod
    def build_model(cls, args: Any, task: FairseqTask) -> "DagTransformerModel":
        model = super().build_model(args, task)
        if model.cfg.dag_bert_init:
            model.apply(init_bert_params)
        return model

    def max_positions(self) -> Tuple[int, int]:
        """The most tokens of a source and of a target."""
        rule = self.decoder.rule
        return self.encoder.max_positions() - rule.reads_bos, rule.most

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Optional[Tensor] = None,
        graph: Optional[GraphSample] = None,
        glance: Optional[Glancer] = None,
        **options: Any,
    ) -> Any:
        """The :class:`DagOutput` of a training batch; without ``graph`` the output of fairseq's
        Transformer.

        Only the target tokens are scored, chunk by chunk: logits ``[B, L, V]`` are never in memory
        as a whole.

        Args:
            src_tokens: LongTensor ``[B, S]``; ``src_lengths`` ``[B]``, their numbers of tokens.
            graph: targets and graph sizes.
            glance: chooses the tokens that are shown, after a first pass (see :mod:`.glancing`).
                Both passes share the encoder's output and the dropout masks.
        """
        src_tokens, src_lengths = self.decoder.read_source(src_tokens, src_lengths)
        if graph is None:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **options)
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
        inputs = self.decoder.vertex_inputs(graph.vertex_lengths, graph.width)  # [B, L]
        glanced = None
        projection = self.decoder.output_projection
        if glance is not None:
            with torch.no_grad(), same_random_numbers_afterwards(src_tokens.device):
                features = self.decoder(inputs, encoder_out=encoder_out, features_only=True)[0]
                match, largest = gather_with_largest(  # [B, T, L], [B, L]
                    features, projection.weight, graph.targets, bias=projection.bias
                )
                links = self.decoder.links(features, graph.vertex_lengths)
                alignment = dag_best_alignment(  # [B, L]
                    match, links, graph.target_lengths, graph.vertex_lengths
                )
                aligned = match.gather(1, alignment.clamp(min=0).unsqueeze(1)).squeeze(1)  # [B, L]
                glanced = glance(alignment, (alignment >= 0) & (aligned == largest))
            inputs = torch.where(glanced.shown, glanced.tokens, inputs)  # [B, L]
        features = self.decoder(inputs, encoder_out=encoder_out, features_only=True)[0]  # [B, L, D]
        match = gather_log_probs(features, projection.weight, graph.targets, bias=projection.bias)
        links = self.decoder.links(features, graph.vertex_lengths)  # [B, L, L]
        length_logits = length_labels = None
        head = self.decoder.length_head
        if head is not None:
            # [S, B, D] -> [B, S, D]
            encoded = encoder_out["encoder_out"][0].transpose(0, 1)
            length_logits = head(encoded, encoder_out["encoder_padding_mask"][0])
            length_labels = head.label(graph.target_lengths - 2, graph.source_lengths)
        return DagOutput(match, links, length_logits, length_labels, glanced)


register_presets("dag_transformer", COMMON_PRESETS)
