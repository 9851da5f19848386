"""Writes a teacher's translations of a training set, in blocks of sentences (``fairseq-hrt
distill``).

A block's file appears when the block is complete: a killed run continues with the block that it had
begun, and several processes can share the work. Batches never span blocks, so that the merged text
is the same, byte by byte, however the work was shared or interrupted.
"""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..native.io.files import remove_leftovers, replacing, write_new, write_text
from ..native.io.resuming import different_settings

logger = logging.getLogger(__name__)

# A decoder of one batch: from sentence numbers to the hypotheses of each, as subwords joined by
# spaces.
Decode = Callable[[Sequence[int]], List[List[str]]]


@dataclass(frozen=True)
class Plan:
    """What is to be translated, and which share of it this process takes.

    Attributes:
        sentences: number of sentences in the training set.
        lengths: number of source tokens of each sentence.
        block: sentences per block; the last block may have fewer.
        max_tokens: most source tokens of a batch, padding included.
        shards, shard: this process takes the blocks whose number, from 0, has the remainder
            ``shard`` when divided by ``shards``.
        settings: what else the translations depend on, as plain data by name (teacher, task,
            decoding options, …); all blocks in a folder have the same settings.
    """

    sentences: int
    lengths: Sequence[int]
    block: int
    max_tokens: int
    shards: int
    shard: int
    settings: Dict[str, Any]

    def __post_init__(self) -> None:
        if self.block < 1 or self.max_tokens < 1:
            raise ValueError(
                f"--block {self.block} and --max-tokens {self.max_tokens} must be at least 1"
            )
        if not 0 <= self.shard < self.shards:
            raise ValueError(
                f"--shard-id {self.shard} with --num-shards {self.shards}: the shard's number must"
                " be at least 0 and less than the number of shards"
            )

    @property
    def blocks(self) -> int:
        """The number of blocks of all shards."""
        return -(-self.sentences // self.block)

    def members(self, number: int) -> range:
        """The numbers of the sentences in block ``number``, both from 0."""
        return range(number * self.block, min((number + 1) * self.block, self.sentences))


def block_path(folder: Path, number: int) -> Path:
    """The file that holds block ``number`` of the results in ``folder``."""
    return folder / "blocks" / f"{number:06d}.json"


def check_settings(folder: Path, plan: Plan) -> None:
    """Writes the plan's settings into a new folder. In a folder that has settings already, checks
    that they equal the plan's, so that no translations of different settings are mixed.

    Raises:
        ValueError: the folder holds translations with other settings (the message names them), or
            its ``settings.json`` is damaged.
    """
    path = folder / "settings.json"
    mine = {
        **plan.settings,
        "sentences": plan.sentences,
        "block": plan.block,
        "max_tokens": plan.max_tokens,
    }
    mine = json.loads(json.dumps(mine))
    for place in (folder, folder / "blocks"):
        remove_leftovers(place)
    # Of processes that begin together the first writes its settings, the others compare.
    if write_new(path, json.dumps(mine, indent=1, ensure_ascii=False) + "\n"):
        return
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        changes = different_settings(known, mine)
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}): remove {folder} and start again") from error
    if changes:
        raise ValueError(
            f"{folder} holds translations with other settings ({changes}); give"
            " another folder or remove this one"
        )


def translate_blocks(
    folder: Path, plan: Plan, decode: Decode, progress: Optional[Callable[[int], None]] = None
) -> None:
    """Translates those blocks of this process's shard that have no file yet.

    Args:
        folder: the folder of the results.
        plan: the blocks and this process's share of them.
        decode: translates the sentences with the given numbers; returns for each a list of
            hypotheses, as subwords joined by spaces.
        progress: called with the number of sentences after each batch, and for each block that has
            a file already.
    """
    for number in range(plan.shard, plan.blocks, plan.shards):
        members = plan.members(number)
        report = progress or (lambda count: None)
        if block_path(folder, number).exists():
            report(len(members))
            continue
        found: Dict[int, List[str]] = {}
        for batch in make_batches(members, plan.lengths, plan.max_tokens):
            found.update(zip(batch, decode(batch)))
            report(len(batch))
        lines = [json.dumps(found[sentence], ensure_ascii=False) + "\n" for sentence in members]
        write_text(block_path(folder, number), "".join(lines))


def make_batches(
    members: Sequence[int], lengths: Sequence[int], max_tokens: int
) -> List[List[int]]:
    """Divides the sentences ``members`` into batches of similar length, each with at most
    ``max_tokens`` source tokens, padding included (a longer sentence is a batch of its own)."""
    batches: List[List[int]] = []
    current: List[int] = []
    for sentence in sorted(members, key=lambda number: (-lengths[number], number)):
        if current and lengths[current[0]] * (len(current) + 1) > max_tokens:
            batches.append(current)
            current = []
        current.append(sentence)
    return batches + [current] if current else batches


def missing(folder: Path, plan: Plan) -> int:
    """The number of blocks, of all shards, that have no file yet."""
    return sum(not block_path(folder, number).exists() for number in range(plan.blocks))


def _translations(line: str, path: Path) -> List[str]:
    """The translations of one sentence, from its line in the file ``path`` of a block.

    Raises:
        ValueError: the line is not a JSON list of texts without line breaks.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    # A line feed in a translation would pair all that follow with other sources.
    whole = isinstance(found, list) and all(
        isinstance(one, str) and "\n" not in one and "\r" not in one for one in found
    )
    if not whole:
        raise ValueError(
            f"{path} is damaged: {line!r:.80} is not a JSON list of translations; remove"
            " the file and run the command again"
        )
    return found


def merge(
    folder: Path, plan: Plan, source: Callable[[int], str], languages: Sequence[str]
) -> Dict[str, Any]:
    """Merges all blocks into two files with aligned lines in ``folder``, ``train.<language>``
    for the source and the target language. A sentence with several translations is repeated in the
    source file beside each.

    Args:
        folder: the folder of the results.
        plan: the plan by which the blocks were translated.
        source: returns the words of the source sentence with a given number, from 0.
        languages: source and target language.

    Returns:
        Statistics, which are also written into ``statistics.json``: the numbers of sentences, pairs
        of lines, tokens, empty translations and copies of the source.

    Raises:
        ValueError: the file of a block is damaged.
        OSError: a block has no file yet, see :func:`missing`.
    """
    counts = {
        "sentences": plan.sentences,
        "pairs": 0,
        "source_tokens": 0,
        "target_tokens": 0,
        "empty": 0,
        "copies": 0,
    }
    with (
        replacing(folder / f"train.{languages[0]}") as left,
        replacing(folder / f"train.{languages[1]}") as right,
    ):
        for number in range(plan.blocks):
            path = block_path(folder, number)
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
            if len(lines) != len(plan.members(number)):
                raise ValueError(
                    f"{path} has {len(lines)} lines instead of {len(plan.members(number))}: remove"
                    " the file and run the command again"
                )
            for sentence, line in zip(plan.members(number), lines):
                words = source(sentence)
                for translation in _translations(line, path):
                    left.write(f"{words}\n".encode())
                    right.write(f"{translation}\n".encode())
                    counts["pairs"] += 1
                    counts["source_tokens"] += len(words.split())
                    counts["target_tokens"] += len(translation.split())
                    counts["empty"] += not translation
                    counts["copies"] += translation == words
    tokens = counts["target_tokens"] / max(counts["source_tokens"], 1)
    statistics = {**counts, "target_tokens_by_source_tokens": round(tokens, 4)}
    write_text(folder / "statistics.json", json.dumps(statistics, indent=1) + "\n")
    return statistics
