"""The first lines of a text file, plain or gzip, as gzip on the standard output.

    python examples/common/first_lines.py train.en.gz --lines 2000 > sample.en.gz

Only a line feed ends a line, as for the tools that prepare the data.
"""

import argparse
import gzip
import itertools
import sys
import zlib
from pathlib import Path
from typing import BinaryIO, Optional, Sequence


def copy_lines(source: BinaryIO, target: BinaryIO, lines: Optional[int]) -> int:
    """Copies ``lines`` lines (None: all); returns how many there were."""
    count = 0
    for line in itertools.islice(source, lines):
        target.write(line)
        count += 1
    return count


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, help="how many (default: all)")
    options = parser.parse_args(arguments)
    if options.lines is not None and options.lines < 1:
        parser.error(f"--lines {options.lines}: give 1 or more")
    opener = gzip.open if options.file.suffix == ".gz" else open
    # Without a time the same lines give the same bytes.
    try:
        with (
            opener(options.file, "rb") as source,
            gzip.GzipFile(fileobj=sys.stdout.buffer, mode="wb", mtime=0, filename="") as target,
        ):
            copy_lines(source, target, options.lines)
    except (OSError, EOFError, zlib.error) as error:
        raise SystemExit(f"first_lines.py: {options.file}: {error}") from None


if __name__ == "__main__":
    main()
