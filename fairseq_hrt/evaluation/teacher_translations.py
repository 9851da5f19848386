"""A teacher's translations of a training set, written in blocks of lines.

The file of a block appears when it is complete: a killed run continues at the block that it lost,
and several processes can share the work. Batches are cut within blocks, so the merged text is the
same, byte by byte, however it was made.
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
    """What is translated, and which share this process takes.

    Attributes:
        sentences: of the training set.
        lengths: source tokens of each.
        block: sentences of a block.
        max_tokens: padded source tokens of a batch.
        shards, shard: this process takes the blocks whose number leaves ``shard`` when divided by
        ``shards``.
        settings: whatever else shapes the result; a folder holds blocks of one setting only.
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
                f"--shard-id {self.shard} with --num-shards {self.shards}: it must be at least 0"
                " and less than that"
            )

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.sentences // self.block)

    def members(self, number: int) -> range:
        """Sentences of a block."""
        return range(number * self.block, min((number + 1) * self.block, self.sentences))


def block_path(folder: Path, number: int) -> Path:
    """Where a block is written."""
    return folder / "blocks" / f"{number:06d}.json"


def check_settings(folder: Path, plan: Plan) -> None:
    """Notes the settings in a new folder; refuses to mix translations of different ones.

    Raises:
        ValueError: the folder holds translations with other settings; the message names them.
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
            f"{folder} holds translations with other settings ({changes}); give another folder or"
            " remove it"
        )


def translate_blocks(
    folder: Path, plan: Plan, decode: Decode, progress: Optional[Callable[[int], None]] = None
) -> None:
    """Translates the blocks of this shard that are not there yet.

    Args:
        folder: of the results.
        decode: translates a batch.
        progress: called with the number of sentences of each batch, and of each block found done.
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
    """Sentences of similar length together, at most ``max_tokens`` source tokens with their
    padding."""
    batches: List[List[int]] = []
    current: List[int] = []
    for sentence in sorted(members, key=lambda number: (-lengths[number], number)):
        if current and lengths[current[0]] * (len(current) + 1) > max_tokens:
            batches.append(current)
            current = []
        current.append(sentence)
    return batches + [current] if current else batches


def missing(folder: Path, plan: Plan) -> int:
    """Blocks of all shards that are not there yet."""
    return sum(not block_path(folder, number).exists() for number in range(plan.blocks))


def _translations(line: str, path: Path) -> List[str]:
    """The translations in a line of a block.

    Raises:
        ValueError: it is not a list of texts.
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
            f"{path} is damaged: {line!r:.80} does not hold translations; remove it and start again"
        )
    return found


def merge(
    folder: Path, plan: Plan, source: Callable[[int], str], languages: Sequence[str], prefix: str
) -> Dict[str, Any]:
    """Writes the aligned text, ``<prefix>.<language>`` for both sides, and returns its statistics.

    With several translations of a sentence, each stands beside a copy of the source.

    Raises:
        ValueError: a block is damaged.
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
        replacing(folder / f"{prefix}.{languages[0]}") as left,
        replacing(folder / f"{prefix}.{languages[1]}") as right,
    ):
        for number in range(plan.blocks):
            path = block_path(folder, number)
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
            if len(lines) != len(plan.members(number)):
                raise ValueError(
                    f"{path} has {len(lines)} lines instead of {len(plan.members(number))}: remove"
                    " it and start again"
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
