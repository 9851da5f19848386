"""A benchmark's results in five columns, for a terminal.

    python examples/common/short_table.py runs/quickstart/results.json 'AT greedy (fairseq)'

Quality, decoder passes and milliseconds a sentence at batch size 1, and how many times as fast as
the named system.
"""

import json
import sys


def rows(results, reference):
    """The header and a row of strings for each system."""
    yield "", "BLEU", "passes", "ms", "× " + reference
    for system in results["systems"]:
        timing, quality = system["timings"].get("1", {}), system["quality"]
        sentences = results["settings"]["speed_sentences"]
        passes, speeds = timing.get("decoder_calls"), timing.get("sentences_per_second")
        ratio = system["ratios"].get(reference, {}).get("1")
        yield (
            system["name"],
            "–" if quality["bleu"] is None else f"{quality['bleu']:.1f}",
            "–" if not passes else f"{passes / sentences:.1f}",
            "–" if not speeds else f"{1000 / speeds['median']:.1f}",
            "–" if not ratio else f"{ratio['median']:.1f}",
        )


def main():
    """Runs the command."""
    with open(sys.argv[1], encoding="utf-8") as file:
        table = list(rows(json.load(file), sys.argv[2]))
    widths = [max(map(len, column)) for column in zip(*table)]
    for name, *numbers in table:
        print(
            "   ",
            name.ljust(widths[0]),
            *(number.rjust(width) for number, width in zip(numbers, widths[1:])),
            sep="  ",
        )


if __name__ == "__main__":
    main()
