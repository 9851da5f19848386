"""The first lines of a text file, plain or gzip, as gzip on the standard output.

    python examples/common/first_lines.py train.en.gz --lines 2000 > sample.en.gz

Only a line feed ends a line, as for the tools that prepare the data.
"""

import argparse
import gzip
import itertools
import sys
from pathlib import Path
from typing import BinaryIO, Iterable, Optional, Sequence

from fairseq_hrt.native.io.streams import raw_lines, reading


def copy_lines(source: Iterable[bytes], target: BinaryIO, lines: Optional[int]) -> int:
    """Copies ``lines`` lines (None: all); returns how many there were."""
    count = 0
    for line in itertools.islice(source, lines):
        target.write(line)
        count += 1
    return count


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, help="how many (default: all)")
    options = parser.parse_args(arguments)
    if options.lines is not None and options.lines < 1:
        parser.error(f"--lines {options.lines}: give 1 or more")
    # Without a time the same lines give the same bytes.
    try:
        with (
            reading(options.file) as source,
            gzip.GzipFile(fileobj=sys.stdout.buffer, mode="wb", mtime=0, filename="") as target,
        ):
            copy_lines(raw_lines(source, str(options.file)), target, options.lines)
    except OSError as error:
        raise SystemExit(f"first_lines.py: {options.file}: {error}") from None
    except ValueError as error:
        raise SystemExit(f"first_lines.py: {error}") from None


if __name__ == "__main__":
    main()
