"""Combines raw and distilled targets of the same sources in one data set (Zhou et al., 2020), and
draws which one a sentence is trained on (HRT, Algorithm 1).

The data set returns both targets of a sentence. The training step draws one of them: worker
processes that load data live longer than an epoch, so they could not draw reproducibly.
"""

import os
from typing import Any, Dict, Iterable, List, Optional

import numpy as np
import torch
from fairseq import utils
from fairseq.data import (
    AppendTokenDataset,
    LanguagePairDataset,
    StripTokenDataset,
    TruncateDataset,
    data_utils,
)
from fairseq.tasks.translation import load_langpair_dataset

from .hashing import Purpose, hash_uniform
from .sentence_sizes import target_sizes

# In larger corpora this many evenly spaced sources are compared (and the lengths of all): to
# compare millions would delay every start by minutes.
COMPARED_SOURCES = 200_000


class MixedTargetDataset(LanguagePairDataset):
    """A :class:`LanguagePairDataset` whose batches hold raw targets as ``target`` ``[B, T]``, and
    distilled ones as ``distilled_target`` ``[B, T']``.

    Lengths, filters and batches follow the longer of the two targets. ``raw_sizes`` and
    ``distilled_sizes`` ``[n]`` are the numbers of tokens in the raw and in the distilled targets.

    Args:
        raw: a data set of sources and raw targets.
        distilled: a data set of the same sources and their distilled targets.
    """

    def __init__(self, raw: LanguagePairDataset, distilled: LanguagePairDataset) -> None:
        super().__init__(
            raw.src,
            raw.src_sizes,
            raw.src_dict,
            raw.tgt,
            np.maximum(raw.tgt_sizes, distilled.tgt_sizes),
            raw.tgt_dict,
            left_pad_source=raw.left_pad_source,
            left_pad_target=raw.left_pad_target,
            shuffle=raw.shuffle,
            eos=raw.eos,
            pad_to_multiple=raw.pad_to_multiple,
        )
        self.distilled = distilled.tgt
        self.raw_sizes, self.distilled_sizes = raw.tgt_sizes, distilled.tgt_sizes

    def __getitem__(self, index: int) -> Dict[str, Any]:
        return {**super().__getitem__(index), "distilled_target": self.distilled[index]}

    def collater(
        self, samples: List[Dict[str, Any]], pad_to_length: Optional[Dict[str, int]] = None
    ) -> Dict[str, Any]:
        batch = super().collater(samples, pad_to_length=pad_to_length)
        if not batch:
            return batch
        # The parent sorts by source length: "id" has the new order.
        by_id = {sample["id"]: sample["distilled_target"] for sample in samples}
        batch["distilled_target"] = data_utils.collate_tokens(
            [by_id[number] for number in batch["id"].tolist()],
            self.tgt_dict.pad(),
            self.tgt_dict.eos(),
            self.left_pad_target,
            pad_to_multiple=self.pad_to_multiple,
        )
        return batch

    @property
    def supports_prefetch(self) -> bool:
        return super().supports_prefetch and getattr(self.distilled, "supports_prefetch", False)

    def prefetch(self, indices: List[int]) -> None:
        super().prefetch(indices)
        self.distilled.prefetch(indices)


def with_distilled_targets(
    raw: LanguagePairDataset,
    cfg: Any,
    split: str,
    epoch: int,
    *,
    combine: bool,
    prepend_bos: bool = False,
) -> LanguagePairDataset:
    """Adds the targets of ``--distilled-data`` to the training split; returns other splits
    unchanged.

    Args:
        raw: the split as the task loaded it.
        cfg: the task's configuration.
        split: the name of the split.
        epoch: the number of the epoch, from 1; of several data folders (shards), each epoch uses
            the next one.
        combine: True loads ``train``, ``train1``, … as one split.
        prepend_bos: whether the task's sentences begin with ``<s>``.

    Raises:
        FileNotFoundError: the folder ``--distilled-data`` lacks the split or a dictionary.
        ValueError: a dictionary, the number of sentences or a source differs from the raw data, or
            an option is not supported.
    """
    if cfg.distilled_data is None or split != cfg.train_subset:
        return raw
    shards, raw_shards = utils.split_paths(cfg.distilled_data), utils.split_paths(cfg.data)
    if len(shards) != len(raw_shards):
        raise ValueError(
            f"--distilled-data names {len(shards)} folders but the data {len(raw_shards)}: give"
            " one for each folder of the data"
        )
    folder, raw_folder = (paths[(epoch - 1) % len(paths)] for paths in (shards, raw_shards))
    if cfg.num_batch_buckets > 0 or cfg.load_alignments:
        raise ValueError(
            "--distilled-data cannot be combined with --num-batch-buckets or --load-alignments;"
            " leave them out"
        )
    for language in (cfg.source_lang, cfg.target_lang):
        _same_dictionary(folder, raw_folder, f"dict.{language}.txt")
    distilled = load_langpair_dataset(
        folder,
        split,
        cfg.source_lang,
        raw.src_dict,
        cfg.target_lang,
        raw.tgt_dict,
        combine=combine,
        dataset_impl=cfg.dataset_impl,
        upsample_primary=cfg.upsample_primary,
        left_pad_source=cfg.left_pad_source,
        left_pad_target=cfg.left_pad_target,
        max_source_positions=cfg.max_source_positions,
        max_target_positions=cfg.max_target_positions,
        truncate_source=cfg.truncate_source,
        pad_to_multiple=cfg.required_seq_len_multiple,
        prepend_bos=prepend_bos,
    )
    _same_sources(raw, distilled, folder, raw_folder)
    return MixedTargetDataset(raw, distilled)


def _same_dictionary(folder: str, raw_folder: str, name: str) -> None:
    """Raises FileNotFoundError if a folder lacks the dictionary file ``name``, and ValueError if
    the two files differ: an id would then be a different word in each folder."""
    contents = []
    for place in (folder, raw_folder):
        path = os.path.join(place, name)
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"{path} does not exist: --distilled-data needs a folder written by"
                " fairseq-preprocess with --srcdict/--tgtdict taken from the raw data"
            )
        with open(path, "rb") as lines:
            contents.append(lines.read())
    if contents[0] != contents[1]:
        raise ValueError(
            f"{name} differs between {folder} and {raw_folder}: binarise the distilled targets "
            "with --srcdict/--tgtdict taken from the raw data"
        )


def _same_sources(
    raw: LanguagePairDataset, distilled: LanguagePairDataset, folder: str, raw_folder: str
) -> None:
    """Raises ValueError unless both data sets have the same sources, line by line: their lengths
    are all compared, their words in at most COMPARED_SOURCES evenly spaced lines."""
    if len(raw) != len(distilled):
        raise ValueError(
            f"{folder} has {len(distilled)} sentences but {raw_folder} has {len(raw)}: "
            "the distilled targets must be translations of the same lines in the same order"
        )
    differing: Iterable[int] = np.flatnonzero(raw.src_sizes != distilled.src_sizes).tolist()
    if not differing:
        stride = max(1, -(-len(raw) // COMPARED_SOURCES))
        differing = (
            i for i in range(0, len(raw), stride) if not torch.equal(raw.src[i], distilled.src[i])
        )
    line = next(iter(differing), None)
    if line is not None:
        raise ValueError(
            f"the source of sentence {line} differs between {folder} and {raw_folder}: "
            "the distilled targets must be translations of the same lines in the same order"
        )


def with_drawn_targets(batch: Dict[str, Any], cfg: Any, update: int, pad: int) -> Dict[str, Any]:
    """The batch with the targets to train on in an update, raw or distilled, as ``target``,
    LongTensor ``[B, max(T, T')]``; unchanged if it has no distilled ones.

    The choice for a sentence is a hash of seed, update and sentence id: it does not depend on the
    number of workers, on resuming, or on the rest of the batch.

    Args:
        batch: fairseq's batch: ``id`` ``[B]``, ``target`` ``[B, T]`` and, with
            ``--distilled-data``, ``distilled_target`` ``[B, T']``; targets are padded on the right.
        cfg: the task's configuration: ``seed``, and ``raw_probability``, the probability that the
            raw target is chosen where there are both.
        update: the number of updates so far.
        pad: the id of padding.
    """
    if "distilled_target" not in batch:
        return batch
    use_raw = draw_raw(cfg.seed, update, batch["id"], cfg.raw_probability)  # [B]
    targets = batch["target"], batch["distilled_target"]
    width = max(target.size(1) for target in targets)
    raw, distilled = (
        torch.nn.functional.pad(target, (0, width - target.size(1)), value=pad)
        for target in targets
    )
    # [B, max(T, T')]
    return {**batch, "target": torch.where(use_raw.unsqueeze(1), raw, distilled)}


def shortest_target_sizes(data: LanguagePairDataset, raw_probability: float) -> np.ndarray:
    """The number of tokens of the shortest target that each sentence may be trained on, ``[n]``;
    ``raw_probability`` is the probability that a raw target is drawn."""
    if not isinstance(data, MixedTargetDataset):
        return target_sizes(data)
    if raw_probability in (0, 1):
        return data.raw_sizes if raw_probability else data.distilled_sizes
    return np.minimum(data.raw_sizes, data.distilled_sizes)


def draw_raw(seed: int, update: int, ids: torch.Tensor, probability: float) -> torch.Tensor:
    """Whether each sentence is trained on its raw target: BoolTensor ``[B]``, True with the given
    ``probability``, drawn by a hash of seed, update and the sentence ids ``ids`` ``[B]``."""
    return hash_uniform(seed, update, ids, Purpose.RAW_TARGET) < probability


def truncate_targets(data: LanguagePairDataset, longest: int, eos: int) -> None:
    """Truncates the targets of a data set, in place, to ``longest`` tokens, the last of which is
    ``</s>`` (id ``eos``) as before."""

    def cut(targets: Any) -> AppendTokenDataset:
        return AppendTokenDataset(
            TruncateDataset(StripTokenDataset(targets, eos), longest - 1), eos
        )

    if data.tgt is not None:
        data.tgt, data.tgt_sizes = cut(data.tgt), np.minimum(data.tgt_sizes, longest)
    if isinstance(data, MixedTargetDataset):
        data.distilled = cut(data.distilled)
        data.raw_sizes = np.minimum(data.raw_sizes, longest)
        data.distilled_sizes = np.minimum(data.distilled_sizes, longest)
