"""How much of a translation Mask-Predict needs to see to fill in the rest at once (HRT, section 3,
Figure 2).

    python examples/study/masking.py data-bin --source-lang en --target-lang de --teacher
    at/model.pt --model mask_predict/model.pt \
        --references raw/test.de.gz --detokenize moses:de --out folder

The teacher translates the test set with a beam; a share of the tokens of each translation is
masked: the first ones (head), the last ones (tail), random ones (three seeds), or all but the first
    of every chunk of k tokens (chunk); ``</s>`` stays. A fairseq cmlm_transformer fills
them in, in one pass and greedily. N_mask = max(1, ⌊N·p⌋). Writes masking.md, masking.json
({strategy: {percent or k: BLEU}}) and masking.png.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from tables import markdown

PERCENTS = (10, 20, 30, 40, 50, 60, 70, 80)
CHUNKS = (2, 3, 4)
SEEDS = (1, 2, 3)


def masked_positions(strategy: str, length: int, amount: int, seed: int = 0) -> Set[int]:
    """Positions (from 0) of a translation of ``length`` tokens that are hidden.

    Args:
        strategy: head, tail, random or chunk.
        length: tokens without ``</s>``.
        amount: per cent of the tokens, or the size of a chunk.
        seed: of random.

    Raises:
        ValueError: for another strategy.
    """
    if length == 0:
        return set()
    if strategy == "chunk":
        return {position for position in range(length) if position % amount}
    count = max(1, length * amount // 100)
    if strategy == "head":
        return set(range(count))
    if strategy == "tail":
        return set(range(length - count, length))
    if strategy == "random":
        return set(random.Random(seed).sample(range(length), count))
    raise ValueError(f"strategy {strategy!r}: give head, tail, random or chunk")


def translate(options: argparse.Namespace) -> List[List[str]]:
    """The teacher's translations as subwords, in the order of the test set; kept in the folder of
    the results."""
    log = options.out / "teacher.log"
    if not log.exists():
        generate = str(Path(sys.executable).with_name("fairseq-generate"))
        command = [
            generate,
            options.data,
            "--task",
            "translation",
            "-s",
            options.source_lang,
            "-t",
            options.target_lang,
        ]
        command += [
            "--path",
            str(options.teacher),
            "--beam",
            "5",
            "--max-tokens",
            "8000",
            "--gen-subset",
            options.gen_subset,
        ]
        partial = log.with_suffix(".partial")
        with partial.open("w", encoding="utf-8") as file:
            subprocess.run(command, check=True, stdout=file)
        partial.replace(log)
    found = {}
    for line in log.read_text(encoding="utf-8").split("\n"):
        if line.startswith("H-"):
            label, _, text = line.split("\t", 2)
            found[int(label[2:])] = text.split()
    return [found[number] for number in range(len(found))]


class Filler:
    """A cmlm_transformer that replaces masks in one pass.

    Args:
        options: of the command.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        import torch
        from fairseq import checkpoint_utils

        import fairseq_hrt  # noqa: F401  (repairs fairseq)

        self.torch = torch
        overrides = {"data": options.data}
        (model,), _, self.task = checkpoint_utils.load_model_ensemble_and_task(
            [str(options.model)], arg_overrides=overrides
        )
        self.model = model.eval()
        self.task.load_dataset(options.gen_subset)
        self.dataset = self.task.dataset(options.gen_subset)

    def fill(
        self, translations: Sequence[Sequence[str]], positions: Sequence[Set[int]], size: int = 64
    ) -> List[List[str]]:
        """The translations with other tokens at the ``positions``."""
        words, torch = self.task.target_dictionary, self.torch
        filled: List[List[str]] = [[] for _ in translations]
        order = sorted(range(len(translations)), key=lambda number: len(translations[number]))
        for start in range(0, len(order), size):
            numbers = order[start : start + size]
            longest = max(len(translations[number]) for number in numbers)
            tokens = torch.full((len(numbers), longest + 2), words.pad())
            for row, number in enumerate(numbers):
                own = [
                    words.unk() if i in positions[number] else words.index(word)
                    for i, word in enumerate(translations[number])
                ]
                tokens[row, : len(own) + 2] = torch.tensor([words.bos(), *own, words.eos()])
            sources = [self.dataset[number]["source"] for number in numbers]
            source = torch.full(
                (len(numbers), max(map(len, sources))), self.task.source_dictionary.pad()
            )
            for row, own_source in enumerate(sources):
                # fairseq pads sources on the left.
                source[row, source.size(1) - len(own_source) :] = own_source
            lengths = torch.tensor([len(own_source) for own_source in sources])
            with torch.inference_mode():
                encoded = self.model.encoder(source, src_lengths=lengths)
                scores = self.model.decoder(
                    normalize=False, prev_output_tokens=tokens, encoder_out=encoded
                )
                for symbol in (words.bos(), words.pad(), words.unk(), words.eos()):
                    scores[..., symbol] = float("-inf")
                best = scores.argmax(-1)
            for row, number in enumerate(numbers):
                own_words = list(translations[number])
                for position in positions[number]:
                    own_words[position] = words[int(best[row, position + 1])]
                filled[number] = own_words
        return filled


def measure(
    translations: Sequence[Sequence[str]],
    fill: Callable[..., List[List[str]]],
    score: Callable[[List[List[str]]], float],
) -> Dict[str, Any]:
    """BLEU by strategy and amount; "none" is that of the translations themselves."""

    def scored(strategy: str, amount: int, seed: int = 0) -> float:
        positions = [
            masked_positions(strategy, len(own), amount, seed + 1000 * number)
            for number, own in enumerate(translations)
        ]
        return score(fill(translations, positions))

    found: Dict[str, Any] = {"none": score([list(own) for own in translations])}
    for strategy in ("head", "tail"):
        found[strategy] = {str(percent): scored(strategy, percent) for percent in PERCENTS}
    found["random"] = {
        str(percent): statistics.mean(scored("random", percent, seed) for seed in SEEDS)
        for percent in PERCENTS
    }
    found["chunk"] = {str(chunk): scored("chunk", chunk) for chunk in CHUNKS}
    return found


def draw(path: Path, found: Dict[str, Any]) -> None:
    """As Figure 2: BLEU against the share that is masked."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.2), layout="constrained")
    for strategy in ("head", "tail", "random"):
        axes.plot(
            [int(percent) for percent in found[strategy]],
            list(found[strategy].values()),
            marker="o",
            label=strategy,
        )
    axes.plot(
        [100 - 100 / int(chunk) for chunk in found["chunk"]],
        list(found["chunk"].values()),
        marker="s",
        label="chunk",
    )
    axes.axhline(found["none"], color="black", linewidth=0.8, linestyle="--", label="teacher")
    axes.set_xlabel("masked, %")
    axes.set_ylabel("BLEU")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def add_test_set(parser: argparse.ArgumentParser) -> None:
    """Which sentences are translated, how they are scored, and where the results go."""
    parser.add_argument("data", help="folder written by fairseq-preprocess")
    parser.add_argument("-s", "--source-lang", required=True)
    parser.add_argument("-t", "--target-lang", required=True)
    parser.add_argument("--gen-subset", default="test", help="(default: %(default)s)")
    parser.add_argument("--references", type=Path, required=True)
    parser.add_argument(
        "--detokenize",
        default="none",
        metavar="HOW",
        help="as for fairseq-hrt benchmark (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, required=True)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_test_set(parser)
    parser.add_argument(
        "--teacher", type=Path, required=True, help="checkpoint of an autoregressive transformer"
    )
    parser.add_argument(
        "--model", type=Path, required=True, help="checkpoint of a cmlm_transformer"
    )
    options = parser.parse_args(arguments)
    from fairseq_hrt.evaluation.quality import build_detokenizer, evaluate, read_lines

    options.out.mkdir(parents=True, exist_ok=True)
    references, detokenize = read_lines(options.references), build_detokenizer(options.detokenize)

    def score(lines: List[List[str]]) -> float:
        texts = [detokenize(" ".join(line).replace("@@ ", "")) for line in lines]
        return evaluate(texts, references).bleu

    found = measure(translate(options), Filler(options).fill, score)
    rows = [
        [strategy, *(f"{found[strategy][str(percent)]:.2f}" for percent in PERCENTS)]
        for strategy in ("head", "tail", "random")
    ]
    chunks = [f"{found['chunk'][str(chunk)]:.2f}" for chunk in CHUNKS]
    text = markdown(["BLEU, masked", *(f"{percent} %" for percent in PERCENTS)], rows)
    text += "\n\n" + markdown(
        ["BLEU", *(f"chunks of {chunk}" for chunk in CHUNKS), "nothing masked"],
        [["chunk", *chunks, f"{found['none']:.2f}"]],
    )
    (options.out / "masking.md").write_text(text + "\n", encoding="utf-8")
    draw(options.out / "masking.png", found)
    (options.out / "masking.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
