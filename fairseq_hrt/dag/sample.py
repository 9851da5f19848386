"""Training samples of dag: targets and graph sizes."""

from typing import Any, Mapping, NamedTuple, Optional

import torch
from torch import Tensor

from ..training import Purpose, hash_uniform
from .graph_size import UpsampleScale, vertices_from_source, vertices_from_target

# On a GPU the graphs of a batch are padded to a multiple of this number of vertices, unless the
# decoder has fewer positions.
_ALIGNED = 16


class GraphSample(NamedTuple):
    """Targets and graph sizes of a batch.

    Attributes:
        ids: LongTensor ``[B]``, indices of the sentences in the data set, from which random choices
            are drawn.
        update: number of the update; 0 outside training.
        targets: LongTensor ``[B, T]``, ``<s> y_1 … y_n </s>``, padded on the right.
        target_lengths: LongTensor ``[B]``, n + 2.
        source_lengths: LongTensor ``[B]``, source tokens with ``</s>``, and with ``<s>`` where the
            encoder reads it.
        vertex_lengths: LongTensor ``[B]``, L, the vertices of each graph.
        clamped: BoolTensor ``[B]``, whether a graph was cut to the decoder's positions; None: not
            known.
        width: number of vertices in the batch's tensors, padding included; None: as many as the
            largest graph has.
    """

    ids: Tensor
    update: int
    targets: Tensor
    target_lengths: Tensor
    source_lengths: Tensor
    vertex_lengths: Tensor
    clamped: Optional[Tensor] = None
    width: Optional[int] = None


class SizeRule(NamedTuple):
    """The rule for the number of vertices of a sentence.

    Attributes:
        scale: lambda, or the range from which training draws it.
        from_target: whether to multiply the target's words by lambda instead of the source's
            tokens.
        count_bos: whether to count one source token more, as if there were a start symbol.
        most: the decoder's positions, which limit the number of vertices.
        reads_bos: whether the encoder reads a start symbol that the data do not have.
        besides: how many source tokens, as start and end symbols, get one vertex instead of lambda;
            see :func:`.graph_size.vertices_from_source`.
    """

    scale: UpsampleScale
    from_target: bool
    count_bos: bool
    most: int
    reads_bos: bool = False
    besides: int = 0

    def wanted(self, scale: Tensor, source_lengths: Tensor, words: Tensor) -> Tensor:
        """L, the number of vertices, before it is cut to the decoder's positions: LongTensor
        ``[B]``.

        Args:
            scale: lambda, float64 ``[B]`` or a number.
            source_lengths: LongTensor ``[B]``, source tokens in the data, with ``</s>``.
            words: LongTensor ``[B]``, words of the target, without ``<s>`` and ``</s>``.
        """
        if self.from_target:
            return vertices_from_target(words, scale)
        return self.of_source(source_lengths + self.reads_bos, scale)

    def of_source(self, source_lengths: Tensor, scale: Tensor) -> Tensor:
        """L of graphs that are sized by the source, before it is cut to the decoder's positions:
        LongTensor ``[B]``. ``source_lengths``, LongTensor ``[B]``, are source tokens as the encoder
        reads them; ``scale`` is lambda, float64 ``[B]`` or a number."""
        return vertices_from_source(source_lengths + self.count_bos, scale, self.besides)

    def most_wanted(self, scale: float, source_width: int, target_width: int) -> int:
        """The most vertices that a graph of a batch can have, cut to the decoder's positions; known
        without reading the lengths of its sentences from the device.

        Args:
            scale: the largest lambda.
            source_width: tokens to which the sources are padded.
            target_width: tokens to which the targets are padded, ``<s>`` and ``</s>`` included.
        """
        most = self.wanted(
            torch.tensor(scale, dtype=torch.double),
            torch.tensor(source_width),
            torch.tensor(target_width - 2),
        )
        return min(int(most), self.most)


def graph_sample(
    batch: Mapping[str, Any],
    rule: SizeRule,
    *,
    update: int,
    fixed: Optional[float] = None,
    seed: int,
    bos: int,
    pad: int,
) -> GraphSample:
    """Targets and graph sizes of a batch; a pure function of its arguments.

    Args:
        batch: a batch of :class:`LanguagePairDataset`.
        rule: determines the sizes.
        update: number of the update; each sentence draws its lambda by a hash of this number, the
            seed and its index. 0 outside training.
        fixed: the lambda of all sentences; None: it is drawn.
        seed: ``--seed``.
        bos, pad: ids of ``<s>`` and padding in the target dictionary.
    """
    targets, source_lengths, ids = (
        whole_targets(batch["target"], bos=bos),
        batch["net_input"]["src_lengths"],
        batch["id"],
    )
    target_lengths = targets.ne(pad).sum(1)  # [B]
    if fixed is None:
        scale = rule.scale.at(hash_uniform(seed, update, ids, Purpose.GRAPH_SCALE))  # [B]
    else:
        scale = torch.full(ids.shape, fixed, dtype=torch.double, device=ids.device)
    wanted = rule.wanted(scale, source_lengths, target_lengths - 2)  # [B]
    width = None
    if ids.device.type != "cpu":
        # To read the longest graph's size, the host would have to wait for the device: an upper
        # bound is taken. Kernels read rows of aligned lengths several numbers at a time.
        most = rule.most_wanted(
            rule.scale.high if fixed is None else fixed,
            batch["net_input"]["src_tokens"].size(1),
            targets.size(1),
        )
        width = min(-(-most // _ALIGNED) * _ALIGNED, rule.most)
    return GraphSample(
        ids=ids,
        update=update,
        targets=targets,
        target_lengths=target_lengths,
        source_lengths=source_lengths + rule.reads_bos,
        vertex_lengths=wanted.clamp(max=rule.most),
        clamped=wanted > rule.most,
        width=width,
    )


def whole_targets(targets: Tensor, *, bos: int) -> Tensor:
    """fairseq's targets ``[B, n + 1]`` with ``<s>`` in front: ``[B, T]``."""
    return torch.cat([targets.new_full((len(targets), 1), bos), targets], 1)  # [B, T]


def vertex_inputs(
    vertex_lengths: Tensor, *, bos: int, unk: int, eos: int, pad: int, width: Optional[int] = None
) -> Tensor:
    """The decoder's input ``<s> <unk> … <unk> </s>``, padded on the right: LongTensor ``[B, L]``.

    Args:
        vertex_lengths: LongTensor ``[B]``, the vertices of each graph.
        bos, unk, eos, pad: ids of ``<s>``, ``<unk>``, ``</s>`` and padding.
        width: L; None: the largest of ``vertex_lengths``.
    """
    if width is None:
        width = int(vertex_lengths.max())
    vertex = torch.arange(width, device=vertex_lengths.device)  # [L]
    last = vertex_lengths.unsqueeze(1) - 1  # [B, 1]
    inputs = torch.where(vertex < last, unk, pad)  # [B, L]
    inputs = inputs.masked_fill(vertex == last, eos)
    inputs[:, 0] = bos
    return inputs
