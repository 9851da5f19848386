"""Compares parallel decoding with greedy decoding, token by token, on a whole test set.

    python examples/multi30k/jacobi/check_lossless.py DATA-BIN --path at/checkpoint_best.pt -s en -t
    de

Every mode, in double and in single precision, at several batch sizes, against our own greedy
decoding one sentence at a time. In double precision every token has to be equal. In single
precision a sentence may differ where the two best tokens of the first different place are closer
than 1e-4: products of different shapes round differently. The exit status is 1 if a difference is
not excused by that.
"""

import argparse
import sys
from typing import Any, Dict, List, Sequence, Tuple

import torch

import fairseq_hrt  # noqa: F401  (repairs fairseq, registers the tasks)
from fairseq_hrt.evaluation.comparison import decode_all
from fairseq_hrt.evaluation.systems import FairseqSystem, SystemSpec

GAP = 1e-4
MODES: Dict[str, Dict[str, str]] = {
    "frontier w=3": dict(jacobi_window="3"),
    "frontier w=8 n-grams": dict(jacobi_window="8", jacobi_draft="ngram"),
    "pgj b=5": dict(jacobi_mode="pgj", jacobi_block_size="5"),
    "hgj b=3 m=8": dict(jacobi_mode="hgj", jacobi_prefix_length="8"),
    # Wide enough for every sentence, and the same in every batch: fairseq counts a share
    # (--max-len-a) of the padded source.
    "pj": dict(jacobi_mode="pj", max_len_b="60"),
}


def load(
    path: str, data: Sequence[str], task: str, options: Dict[str, str], dtype: torch.dtype
) -> FairseqSystem:
    """A system in the given precision."""
    spec = SystemSpec(task, path, task, {"beam": "1", **options}, engine="torch")
    system = FairseqSystem(spec, data)
    for model in system.models:
        model.to(dtype)
    return system


def gap_at(system: FairseqSystem, number: int, tokens: Sequence[int]) -> float:
    """Distance of the two best log-probabilities behind ``tokens`` in sentence ``number``."""
    model, eos = system.models[0], system.task.target_dictionary.eos()
    source = system.collate([number])["net_input"]
    with torch.no_grad():
        encoded = model.encoder(source["src_tokens"], src_lengths=source["src_lengths"])
        logits = model.decoder(torch.tensor([[eos, *tokens]]), encoder_out=encoded)[0][0, -1]
    logits[system.task.target_dictionary.pad()] = float("-inf")
    first, second = torch.log_softmax(logits, -1).topk(2).values.tolist()
    return first - second


def compare(
    reference: FairseqSystem, expected: List[Any], system: FairseqSystem, batch: int
) -> Tuple[int, List[float]]:
    """(equal sentences, gaps of the others)."""
    equal, gaps = 0, []
    for number, (mine, theirs) in enumerate(zip(decode_all(system, batch), expected)):
        left, right = mine.tokens, theirs.tokens
        if left == right:
            equal += 1
            continue
        place = next(
            (i for i, pair in enumerate(zip(left, right)) if pair[0] != pair[1]),
            min(len(left), len(right)),
        )
        gaps.append(gap_at(reference, number, right[:place]))
    return equal, gaps


def main() -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="folder written by fairseq-preprocess")
    parser.add_argument("--path", required=True, help="checkpoint of an autoregressive Transformer")
    parser.add_argument("-s", "--source-lang")
    parser.add_argument("-t", "--target-lang")
    parser.add_argument("--gen-subset", default="test")
    parser.add_argument("--batch-sizes", default="1,8,32", help="default: %(default)s")
    options = parser.parse_args()
    data = [options.data, "--gen-subset", options.gen_subset]
    for flag, language in (
        ("--source-lang", options.source_lang),
        ("--target-lang", options.target_lang),
    ):
        data += [flag, language] if language else []
    sizes = [int(size) for size in options.batch_sizes.split(",")]
    failed = False
    print(
        "| precision | mode | "
        + " | ".join(f"batch {size}" for size in sizes)
        + " | largest gap where different |"
    )
    print("|---|---|" + "---:|" * (len(sizes) + 1))
    for dtype in (torch.float64, torch.float32):
        for name, mode in MODES.items():
            limits = {key: value for key, value in mode.items() if key.startswith("max_len")}
            reference = load(options.path, data, "translation_autoregressive", limits, dtype)
            expected = decode_all(reference, 1)
            system = load(options.path, data, "translation_jacobi", mode, dtype)
            cells, gaps = [], []
            for size in sizes:
                equal, different = compare(reference, expected, system, size)
                cells.append(f"{equal}/{len(expected)}")
                gaps += different
            failed |= bool(gaps) and (dtype == torch.float64 or max(gaps) > GAP)
            shown = f"{max(gaps):.1e}" if gaps else "—"
            print(
                f"| {str(dtype)[6:]} | {name} | " + " | ".join(cells) + f" | {shown} |", flush=True
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
