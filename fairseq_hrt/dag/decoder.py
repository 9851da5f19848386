"""fairseq's Transformer decoder without the causal mask, and with links between its positions."""

from typing import Any, Dict, Optional, Tuple

import torch.nn.functional as F
from fairseq.data import Dictionary
from torch import Tensor, nn

from ..engine import ParallelDecoder
from ..native.runtime.header import Header
from .config import DagModelConfig
from .graph_size import UpsampleScale
from .links import LinkPredictor
from .sample import SizeRule, vertex_inputs


class LengthHead(nn.Module):
    """Predicts the number of the target's words minus that of the source's tokens, as one of
    ``classes`` differences.

    Args:
        width: D, the width of the encoder's output.
        classes: the number of differences told apart, -(classes // 2) … (classes - 1) // 2; those
            beyond are clipped to these ends.
        absolute: whether to predict the number of words itself, clipped to 0 … classes - 1.
    """

    def __init__(self, width: int, classes: int, absolute: bool = False) -> None:
        super().__init__()
        if classes < 2:
            raise ValueError(f"--dag-length-classes {classes} must be at least 2")
        self.classes, self.absolute = classes, absolute
        self.output = nn.Linear(width, classes)

    def forward(self, encoded: Tensor, padding: Tensor) -> Tensor:
        """The logits of each class, a difference of lengths (or a length), for each sentence:
        ``[B, classes]``, from the mean of the encoder's output over the source tokens.

        Args:
            encoded: ``[B, S, D]``, the encoder's output.
            padding: BoolTensor ``[B, S]``, True for padding.
        """
        real = (~padding).unsqueeze(2).to(encoded)  # [B, S, 1]
        return self.output((encoded * real).sum(1) / real.sum(1))  # [B, classes]

    def label(self, words: Tensor, source_lengths: Tensor) -> Tensor:
        """The index of the class to predict for targets of ``words`` ``[B]`` words and sources of
        ``source_lengths`` ``[B]`` tokens: LongTensor ``[B]``."""
        if not self.absolute:
            words = words - source_lengths + self.classes // 2
        return words.clamp(0, self.classes - 1)  # [B]

    def words(self, logits: Tensor, source_lengths: Tensor) -> Tensor:
        """The number of target words of the most probable class: LongTensor ``[B]``, at least 1
        where classes are differences.

        Args:
            logits: ``[B, classes]``, from :meth:`forward`.
            source_lengths: LongTensor ``[B]``, source tokens.
        """
        best = logits.argmax(1)  # [B]
        if self.absolute:
            return best
        return (best - self.classes // 2 + source_lengths).clamp(min=1)


class DagDecoder(ParallelDecoder):
    """Writes a graph: features of all vertices in one pass, and the links between them.

    Attributes:
        links: the :class:`LinkPredictor`.
        length_head: the :class:`LengthHead` with ``--dag-upsample-base predict``, else None.
        rule: the :class:`SizeRule` for the number of vertices.
    """

    family = "dag"
    only_task = "translation_dag"

    def __init__(
        self, cfg: DagModelConfig, dictionary: Dictionary, embed_tokens: nn.Embedding
    ) -> None:
        super().__init__(cfg, dictionary, embed_tokens)
        self.special = {name: getattr(dictionary, name)() for name in ("bos", "unk", "eos", "pad")}
        base, reads = str(cfg.dag_upsample_base), cfg.dag_read_bos
        self.rule = SizeRule(
            scale=UpsampleScale.parse(cfg.dag_upsample_scale),
            from_target=base == "predict",
            count_bos=cfg.dag_count_bos,
            most=self.max_positions(),
            reads_bos=reads,
            besides=1 + reads if base == "source-words" else 0,
        )
        if self.rule.count_bos and reads:
            raise ValueError(
                "--dag-count-bos and --dag-read-bos: a start symbol that is read counts already;"
                " leave --dag-count-bos out"
            )
        self.links = LinkPredictor(
            self.output_embed_dim,
            cfg.decoder.attention_heads,
            features=cfg.dag_link_features,
            size=self.rule.most,
            reach=cfg.dag_max_transition_length,
        )
        # How the loaded checkpoint differs from this model, if parameters had to be added.
        self.refitted = ""
        self.length_head: Optional[LengthHead] = None
        if self.rule.from_target:
            self.length_head = LengthHead(
                cfg.encoder.embed_dim, cfg.dag_length_classes, cfg.dag_absolute_lengths
            )

    def vertex_inputs(self, vertex_lengths: Tensor, width: Optional[int] = None) -> Tensor:
        """The decoder's input ``<s> <unk> … <unk> </s>`` for graphs of these numbers of vertices,
        padded on the right: LongTensor ``[B, L]``. L is ``width``, which may exceed the largest
        graph; None: as many as the largest graph has."""
        return vertex_inputs(vertex_lengths, **self.special, width=width)

    def read_source(self, tokens: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        """The sources as the encoder reads them, and their lengths: with ``<s>`` before each if
        ``--dag-read-bos``, else as in the data.

        Args:
            tokens: LongTensor ``[B, S]``, padded on either side.
            lengths: LongTensor ``[B]``.
        """
        if not self.rule.reads_bos:
            return tokens, lengths
        pad = self.special["pad"]
        before = tokens.ne(pad).cumsum(1).eq(0).sum(1, keepdim=True)  # [B, 1], padding on the left
        widened = F.pad(tokens, (1, 0), value=pad)  # [B, S + 1]
        return widened.scatter(1, before, self.special["bos"]), lengths + 1

    def native_fields(self, longest_target: int) -> Dict[str, Any]:
        links, head, rule = self.links, self.length_head, self.rule
        return dict(
            link_heads=links.heads,
            link_rows=1 if links.features == ["feature"] else longest_target,
            reach=links.reach or 0, scale=float(rule.scale.middle), count_bos=bool(rule.count_bos),
            length_classes=0 if head is None else head.classes, read_bos=rule.reads_bos,
            besides=rule.besides, absolute_lengths=head is not None and head.absolute,
        )  # fmt: skip

    def native_tensors(self, header: Header) -> Dict[str, Tensor]:
        links, table = self.links.packed(header.link_rows)
        found = {"links": links, "links.table": table}
        if self.length_head is not None:
            output = self.length_head.output
            found.update({"length_head": output.weight, "length_head.bias": output.bias})
        return found

    def upgrade_state_dict_named(
        self, state_dict: Dict[str, Tensor], name: str
    ) -> Dict[str, Tensor]:
        """Adds newly initialised parameters of the links and the length head to ``state_dict``, in
        place, where they are missing, so that another Transformer can be fine-tuned. Keys of the
        decoder begin with ``name``."""
        super().upgrade_state_dict_named(state_dict, name)
        for key, value in self.state_dict().items():
            if key.startswith(("links.", "length_head.")) and f"{name}.{key}" not in state_dict:
                state_dict[f"{name}.{key}"] = value.detach().clone()
                self.refitted = f"that model has no {key.partition('.')[0]} of a dag_transformer"
        return state_dict
