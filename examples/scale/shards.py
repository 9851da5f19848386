"""A corpus in shards: each is translated by whoever has time, written whole or not at all, and
known by its place and its contents.

    OUT/shards/000017.txt    translations, one a line
    OUT/shards/000017.json   number, lines, SHA-256 of source and translations, what made them

A shard whose files agree is finished; whatever was interrupted is made again. Nothing here needs
Ray.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence

from fairseq_hrt.cli.jobs import input_lines, read_line
from fairseq_hrt.native.io.streams import writing


@dataclass(frozen=True)
class Shard:
    """A part of the corpus.

    Attributes:
        number: its place, from 0.
        lines: how many.
        source: SHA-256 of the source texts, each with a line feed behind it.
        path: file with the source texts, one a line.
    """

    number: int
    lines: int
    source: str
    path: str


def texts_of(corpus: Path, column: str) -> Iterator[str]:
    """The texts of a corpus: lines (plain or gzip), or a column of a Parquet file."""
    if corpus.suffix == ".parquet":
        import pyarrow.parquet

        for batch in pyarrow.parquet.ParquetFile(corpus).iter_batches(columns=[column]):
            for text in batch.column(0).to_pylist():
                yield " ".join((text or "").split("\n"))
        return
    with input_lines(corpus) as lines:
        for number, line in enumerate(lines):
            yield read_line(line, first=not number)


def split_corpus(corpus: Path, out: Path, size: int, column: str = "text") -> List[Shard]:
    """Writes the sources of all shards to ``out/sources``; those that are there already with the
    same contents stay.

    Raises:
        ValueError: the corpus is empty, or ``size`` is not a size.
    """
    if size < 1:
        raise ValueError(f"--shard-lines {size} must be at least 1")
    folder, shards, block = out / "sources", [], []
    folder.mkdir(parents=True, exist_ok=True)

    def add() -> None:
        data = "".join(text + "\n" for text in block).encode("utf-8")
        path = folder / f"{len(shards):06}.txt"
        if not path.is_file() or path.read_bytes() != data:
            with writing(path) as target:
                target.write(data)
        shards.append(
            Shard(len(shards), len(block), hashlib.sha256(data).hexdigest(), str(path.resolve()))
        )
        block.clear()

    for text in texts_of(corpus, column):
        block.append(text)
        if len(block) == size:
            add()
    if block:
        add()
    if not shards:
        raise ValueError(f"{corpus} has no lines")
    return shards


def place_of(shard: Shard, out: Path) -> Path:
    """The file with the shard's translations."""
    return out / "shards" / f"{shard.number:06}.txt"


def is_finished(shard: Shard, out: Path, made_with: Dict[str, Any]) -> bool:
    """Whether the shard's files agree with each other, with its source, and with what would be used
    now.

    Raises:
        ValueError: it was made with something else; the two must not be mixed.
    """
    place = place_of(shard, out)
    try:
        known = {name: read_index(place)[name] for name in ("made_with", "source", "sha256")}
        data = place.read_bytes()
    except (OSError, ValueError, KeyError):
        return False
    if known["made_with"] != made_with:
        raise ValueError(
            f"{place} was made with another bundle or other options: give another --out"
        )
    return known["source"] == shard.source and known["sha256"] == hashlib.sha256(data).hexdigest()


def read_index(place: Path) -> Dict[str, Any]:
    """What is noted beside a translated shard.

    Raises:
        ValueError: nothing that a shard's index could be.
        OSError: it cannot be read.
    """
    try:
        index = json.loads(place.with_suffix(".json").read_bytes())
    except ValueError:
        index = None
    if not isinstance(index, dict):
        raise ValueError(
            f"{place.with_suffix('.json')} is not an index of a shard: remove it and start again"
        )
    return index


def translate_shard(
    shard: Shard,
    out: Path,
    made_with: Dict[str, Any],
    translate: Callable[[Sequence[str]], Sequence[str]],
) -> Dict[str, Any]:
    """Translates a shard and writes its files, the index last; returns the index.

    Raises:
        ValueError: its source has changed since the corpus was split.
    """
    source = Path(shard.path).read_bytes()
    if hashlib.sha256(source).hexdigest() != shard.source:
        raise ValueError(f"{shard.path} has changed since the corpus was split: start again")
    found = translate(source.decode("utf-8").split("\n")[:-1])
    data = "".join(text + "\n" for text in found).encode("utf-8")
    index = {**asdict(shard), "sha256": hashlib.sha256(data).hexdigest(), "made_with": made_with}
    place = place_of(shard, out)
    place.parent.mkdir(parents=True, exist_ok=True)
    for path, content in (
        (place, data),
        (place.with_suffix(".json"), json.dumps(index, indent=1).encode()),
    ):
        with writing(path) as target:
            target.write(content)
    return index


def join_shards(shards: Sequence[Shard], out: Path, target: Path) -> None:
    """All translations in the order of the corpus: lines, or a Parquet file of source and
    translation if ``target`` is called so.

    Raises:
        ValueError: a shard is missing or damaged.
    """

    def contents(shard: Shard) -> bytes:
        place = place_of(shard, out)
        index, data = read_index(place), place.read_bytes()
        if (
            index.get("source") != shard.source
            or index.get("sha256") != hashlib.sha256(data).hexdigest()
            or data.count(b"\n") != shard.lines
        ):
            raise ValueError(f"{place} is damaged: remove it and start again")
        return data

    with writing(target) as joined:
        if target.suffix != ".parquet":
            for shard in shards:
                joined.write(contents(shard))
            return
        import pyarrow
        import pyarrow.parquet

        schema = pyarrow.schema([("source", pyarrow.string()), ("translation", pyarrow.string())])
        with pyarrow.parquet.ParquetWriter(joined, schema) as writer:
            for shard in shards:
                pair = (Path(shard.path).read_bytes(), contents(shard))
                writer.write_table(
                    pyarrow.table(
                        [data.decode("utf-8").split("\n")[:-1] for data in pair], schema=schema
                    )
                )
