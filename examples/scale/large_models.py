"""How time and memory of making things grow: a bundle with the model's size, an average with the
number of checkpoints, a shortlist of a large vocabulary with the lines.

    python examples/scale/large_models.py --work work --out large.json

Data are random words, the frequent ones often (Zipf); models are trained for one update. Needs
Linux and some 10 GB of disk.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
from corpus_growth import run

LENGTH = 20
LANGUAGES = ("en", "de")


def write_data(folder: Path, words: int, lines: int, seed: int) -> None:
    """A binary training set: each word has its translation."""
    import torch
    from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder

    folder.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    often = np.cumsum(1 / np.arange(1, words + 1))
    drawn = np.searchsorted(often / often[-1], generator.random((lines, LENGTH)))
    first = min(drawn.max() + 1, words)
    other = generator.permutation(words)
    for language, ids in zip(LANGUAGES, (drawn, other[drawn.clip(0, first - 1)])):
        known = "".join(f"w{word} {words - word}\n" for word in range(words))
        (folder / f"dict.{language}.txt").write_text(known)
        place = folder / f"train.en-de.{language}"
        builder = MMapIndexedDatasetBuilder(f"{place}.bin", dtype=np.int32)
        # Behind the special symbols; </s> ends each.
        for row in torch.from_numpy(np.pad(ids + 4, ((0, 0), (0, 1)), constant_values=2)):
            builder.add_item(row)
        builder.finalize(f"{place}.idx")


def measured(
    given: argparse.Namespace, size: str, value: int, command: List[str]
) -> Dict[str, Any]:
    """A command's time and memory."""
    found = run(given, command)
    return {size: value, "seconds": round(found.seconds, 1), "cpu": round(found.cpu, 1),
            "MB": round(found.own_peak)}  # fmt: skip


def train(given: argparse.Namespace, data: Path, width: int) -> Path:
    """A checkpoint of six layers on each side after one update."""
    folder = given.work / f"width.{width}"
    sides = [
        f"--{side}-{name}={value}"
        for side in ("encoder", "decoder")
        for name, value in (("embed-dim", width), ("ffn-embed-dim", 4 * width),
                            ("attention-heads", 8), ("layers", given.layers))
    ]  # fmt: skip
    options = (
        "--task translation --source-lang en --target-lang de --arch transformer"
        " --share-all-embeddings --optimizer adam --lr 0.001 --max-update 1 --max-tokens 500"
        " --valid-subset train --disable-validation --no-epoch-checkpoints --num-workers 0"
    ).split()
    if not folder.exists():
        run(given, ["fairseq-train", str(data), *options, *sides, "--save-dir", str(folder)])
    return folder / "checkpoint_last.pt"


def main(arguments: Any = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, metavar="FOLDER", help="is filled")
    parser.add_argument("--words", type=int, default=64_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--layers", type=int, default=6, metavar="N", help="(%(default)s)")
    parser.add_argument("--widths", nargs="+", type=int, default=[128, 256, 512], metavar="D")
    parser.add_argument("--checkpoints", nargs="+", type=int, default=[1, 2, 4, 8], metavar="N")
    parser.add_argument("--lines", nargs="+", type=int, default=[25_000, 100_000], metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(%(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON")
    given = parser.parse_args(arguments)
    given.quickstart = given.work
    given.work.mkdir(parents=True, exist_ok=True)
    found: Dict[str, List[Dict[str, Any]]] = {}

    def add(part: str, size: str, value: int, *command: object) -> None:
        row = measured(given, size, value, ["fairseq-hrt", *map(str, command)])
        found.setdefault(part, []).append(row)
        given.out.write_text(json.dumps(found, indent=1) + "\n")

    table = given.work / "lex.txt"
    data = given.work / f"words.{max(given.lines)}"
    if not data.exists():
        write_data(data, given.words, max(given.lines), given.seed)
    for lines in given.lines:
        add("shortlist of 64,000 words", "lines", lines,
            "shortlist", data, "--output", table, "--sentences", lines)  # fmt: skip
    for width in given.widths:
        checkpoint = train(given, data, width)
        add("bundle", "width", width,
            "bundle", checkpoint, "--data", data, "--tokenizer", "space", "--subwords", "none",
            "--runtime", "int8", "--shortlist", table, "--set", "beam=1", "--set", "max_len_b=20",
            "--output", given.work / f"bundle.{width}")  # fmt: skip
    for count in given.checkpoints:
        inputs = ["--inputs", *[checkpoint] * count]
        add("average", "checkpoints", count, "average", *inputs, "--output", given.work / "mean.pt")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
