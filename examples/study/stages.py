"""What each of HRT's two stages costs: its second stage behind words that the same model has written one by one.

    python examples/study/stages.py data-bin --source-lang en --target-lang de --model hrt/model.pt \
        --references raw/test.de.gz --detokenize moses:de --out folder

A model decodes the test set greedily three times for each of its chunk sizes k: word by word (C_d = 1); in chunks, both stages (1,1); and
its second stage alone, behind every k-th token of its own translations word by word. The last is as good as chunks can be whose first
stage makes no mistake that the model, word by word, would not make; so BLEU from C_d = 1 to it is lost by the second stage, the rest by the
first. Writes stages.md and stages.json ({"1": BLEU, k: {"given": BLEU, "both": BLEU, "kept": share}}; kept: share of the first stage's tokens that
are those of the translation word by word at the same place, counted to the shorter end).
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq import checkpoint_utils
from tables import markdown

from fairseq_hrt.decoding import DecodingOptions, Hypothesis
from fairseq_hrt.evaluation.quality import build_detokenizer, read_lines
from fairseq_hrt.hrt.chunking import ChunkChooser
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.hrt.sample import skip_at_sample


class SecondStage(HRTGenerator):
    """HRT whose first stage writes what it is told.

    Attributes:
        given: every k-th token of each sentence of the next batch, as the first stage would write them.
    """

    given: List[List[int]]

    def skip_at(self, memories: Any, chunk_size: int) -> List[List[Hypothesis]]:
        self.ensemble.reserve_positions(chunk_size * max(map(len, self.given)) + 1)
        return [[as_first_stage(tokens)] for tokens in self.given]


def as_first_stage(tokens: List[int]) -> Hypothesis:
    """Tokens as the result of a first stage that was sure of them."""
    count = len(tokens)
    return Hypothesis(tokens, 0.0, [0.0] * count, list(range(1, count + 1)), count)


def kept_tokens(translation: Sequence[int], chunk_size: int, eos: int) -> List[int]:
    """Every k-th token of a translation with ``</s>``, which fills up the last chunk."""
    target = torch.tensor([token for token in translation if token != eos], dtype=torch.long)
    return skip_at_sample(target, chunk_size, eos=eos, bos=eos)[2].tolist()


def same_share(given: Sequence[Sequence[int]], written: Sequence[Sequence[int]]) -> float:
    """Share of tokens that are the same at the same place, of those that both sentences have."""
    pairs = [pair for one, other in zip(given, written) for pair in zip(one, other)]
    return sum(one == other for one, other in pairs) / max(len(pairs), 1)


class Decoder:
    """The model's ways to decode a test set.

    Args:
        options: of the command.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        (model,), _, self.task = checkpoint_utils.load_model_ensemble_and_task(
            [str(options.model)], arg_overrides={"data": options.data}
        )
        if not hasattr(model.decoder, "chunk_sizes"):
            raise ValueError(f"{options.model} is no HRT model")
        self.model = model.eval()
        self.sizes: List[int] = sorted(model.decoder.chunk_sizes)
        self.task.load_dataset(options.gen_subset)
        self.dataset = self.task.dataset(options.gen_subset)
        self.words = self.task.target_dictionary

    def decode(self, chunk_size: int, given: Optional[Sequence[List[int]]] = None, rows: int = 64) -> List[List[int]]:
        """Tokens of all sentences in the order of the test set, ``</s>`` included.

        Args:
            chunk_size: k, or 1 for word by word.
            given: what the first stage has written of each sentence; None: it writes itself.
        """
        generator = (HRTGenerator if given is None else SecondStage)(
            [self.model], self.words, DecodingOptions(beam=1), chooser=ChunkChooser([(math.inf, chunk_size)])
        )
        found: Dict[int, List[int]] = {}
        order = sorted(range(len(self.dataset)), key=lambda number: len(self.dataset[number]["source"]))
        for start in range(0, len(order), rows):
            batch = self.dataset.collater([self.dataset[number] for number in order[start : start + rows]])
            numbers = batch["id"].tolist()
            if given is not None:
                generator.given = [given[number] for number in numbers]
            for number, (best, *_) in zip(numbers, generator.generate([self.model], batch)):
                found[number] = best["tokens"].tolist()
        return [found[number] for number in range(len(found))]

    def text(self, tokens: Sequence[int]) -> str:
        """A translation without subwords."""
        return self.words.string(torch.tensor(tokens), bpe_symbol="subword_nmt")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder written by fairseq-preprocess")
    parser.add_argument("-s", "--source-lang", required=True)
    parser.add_argument("-t", "--target-lang", required=True)
    parser.add_argument("--gen-subset", default="test", help="(default: %(default)s)")
    parser.add_argument("--model", type=Path, required=True, help="checkpoint of an HRT model")
    parser.add_argument("--references", type=Path, required=True)
    parser.add_argument(
        "--detokenize", default="none", metavar="HOW", help="as for fairseq-hrt benchmark (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    import sacrebleu

    references, detokenize = read_lines(options.references), build_detokenizer(options.detokenize)
    decoder = Decoder(options)
    eos = decoder.words.eos()

    def score(translations: Sequence[Sequence[int]]) -> float:
        return sacrebleu.corpus_bleu([detokenize(decoder.text(tokens)) for tokens in translations], [references]).score

    one_by_one = decoder.decode(1)
    found: Dict[str, Any] = {"1": score(one_by_one)}
    rows = []
    for size in decoder.sizes:
        given = [kept_tokens(tokens, size, eos) for tokens in one_by_one]
        both = decoder.decode(size)
        own = found[str(size)] = {
            "given": score(decoder.decode(size, given)),
            "both": score(both),
            "kept": same_share(given, [kept_tokens(tokens, size, eos) for tokens in both]),
        }
        losses = (own["given"] - found["1"], own["both"] - own["given"])
        cells = [f"{found['1']:.2f}", f"{own['given']:.2f}", f"{own['both']:.2f}", *(f"{loss:+.2f}" for loss in losses)]
        rows.append([f"k = {size}", *(cell.replace("-", "−") for cell in cells), f"{own['kept']:.0%}"])
    header = [
        "BLEU",
        "word by word",
        "second stage alone",
        "both stages (1,1)",
        "by the second stage",
        "by the first",
        "kept tokens that agree",
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "stages.md").write_text(markdown(header, rows) + "\n", encoding="utf-8")
    (options.out / "stages.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
