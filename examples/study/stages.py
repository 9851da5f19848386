"""Where hybrid-regressive chunks lose: HRT's second stage behind words that the same model has
written one by one.

    python examples/study/stages.py data-bin --source-lang en --target-lang de --model hrt/model.pt
    \
        --references raw/test.de.gz --detokenize moses:de --out folder

A model decodes the test set greedily word by word (C_d = 1), and then for each of its chunk sizes k
in two ways: its second stage alone, behind every k-th token of its own translations word by word;
and both stages, (1,1). What is lost from the first to the second is the second stage's, behind good
words; the rest is what the first stage writes instead of them, and what the second makes worse
behind that. Length ratios tell how much of either is brevity.

Writes stages.md and stages.json ({"1": {"bleu", "length_ratio"}, k: {"given": the same, "both": the
same, "kept": share}}); kept: of the tokens that the first stage writes, </s> apart, the share that
stands in the translation word by word in the same order.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import torch
from fairseq import checkpoint_utils
from masking import add_test_set
from tables import markdown

from fairseq_hrt.decoding import Hypothesis
from fairseq_hrt.evaluation.quality import build_detokenizer, evaluate, read_lines
from fairseq_hrt.hrt.generator import HRTGenerator
from fairseq_hrt.options import DecodingOptions


class Stages(HRTGenerator):
    """HRT whose first stage can be told what to write.

    Attributes:
        given: what the first stage writes of each sentence of the next batch; None: what it would
            write.
        written: what it has written of each sentence of the last batch.
    """

    given: Optional[List[List[int]]] = None
    written: List[List[int]]

    def skip_at(self, memories: Any, chunk_size: int) -> List[List[Hypothesis]]:
        if self.given is None:
            found = super().skip_at(memories, chunk_size)
        else:
            self.ensemble.reserve_positions(chunk_size * max(map(len, self.given)) + 1)
            found = [[as_first_stage(tokens)] for tokens in self.given]
        self.written = [best.tokens for best, *_ in found]
        return found


def as_first_stage(tokens: List[int]) -> Hypothesis:
    """Tokens as the result of a first stage that was sure of them."""
    count = len(tokens)
    return Hypothesis(tokens, 0.0, [0.0] * count, list(range(1, count + 1)), count)


def kept_tokens(translation: Sequence[int], chunk_size: int, eos: int) -> List[int]:
    """Every k-th token of a translation with ``</s>``, which fills up the last chunk."""
    words = [token for token in translation if token != eos]
    # At least one </s>, and as many as fill the last chunk.
    return [*words, *[eos] * chunk_size][chunk_size - 1 : len(words) + chunk_size : chunk_size]


def in_order(own: Sequence[int], others: Sequence[int]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(others) + 1)
    for token in own:
        before = row
        row = [0]
        for place, other in enumerate(others):
            row.append(before[place] + 1 if token == other else max(before[place + 1], row[place]))
    return row[-1]


def share_in_order(
    written: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]], eos: int
) -> float:
    """Share of the tokens of ``written``, without ``</s>``, that the sentences of ``wanted`` have
    in the same order."""
    words = [[token for token in own if token != eos] for own in written]
    return sum(map(in_order, words, wanted)) / max(sum(map(len, words)), 1)


class Decoded(NamedTuple):
    """Tokens of all sentences.

    Attributes:
        translations: ``</s>`` included.
        kept: what the first stage wrote; empty where there is none.
    """

    translations: List[List[int]]
    kept: List[List[int]]


class Decoder:
    """The model's ways to decode a test set.

    Args:
        options: of the command.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        (model,), _, self.task = checkpoint_utils.load_model_ensemble_and_task(
            [str(options.model)],
            arg_overrides={
                "data": options.data,
                "source_lang": options.source_lang,
                "target_lang": options.target_lang,
            },
        )
        if not hasattr(model.decoder, "chunk_sizes"):
            raise ValueError(f"{options.model} is no HRT model")
        self.model = model.eval()
        self.sizes: List[int] = sorted(model.decoder.chunk_sizes)
        self.task.load_dataset(options.gen_subset)
        self.dataset = self.task.dataset(options.gen_subset)
        self.words = self.task.target_dictionary

    def decode(
        self, chunk_size: int, given: Optional[Sequence[List[int]]] = None, rows: int = 64
    ) -> Decoded:
        """All sentences in the order of the test set.

        Args:
            chunk_size: k, or 1 for word by word.
            given: what the first stage writes of each sentence; None: what it would write.
        """
        options = DecodingOptions(beam=1, hrt_decode_chunk=str(chunk_size))
        generator = Stages([self.model], self.words, options)
        found: Dict[int, List[int]] = {}
        kept: Dict[int, List[int]] = {}
        order = sorted(
            range(len(self.dataset)), key=lambda number: len(self.dataset[number]["source"])
        )
        for start in range(0, len(order), rows):
            batch = self.dataset.collater(
                [self.dataset[number] for number in order[start : start + rows]]
            )
            numbers = batch["id"].tolist()
            if given is not None:
                generator.given = [given[number] for number in numbers]
            for number, (best, *_) in zip(numbers, generator.generate([self.model], batch)):
                found[number] = best["tokens"].tolist()
            if chunk_size > 1:
                kept.update(zip(numbers, generator.written))
        return Decoded(
            [found[number] for number in range(len(found))],
            [kept[number] for number in range(len(kept))],
        )

    def text(self, tokens: Sequence[int]) -> str:
        """A translation without subwords."""
        return self.words.string(torch.tensor(tokens), bpe_symbol="subword_nmt")


def run(options: argparse.Namespace) -> None:
    """Decodes, scores and writes.

    Raises:
        OSError: a file is missing.
        ValueError: the model has no two stages, or the references are of another test set.
    """
    references, detokenize = read_lines(options.references), build_detokenizer(options.detokenize)
    decoder = Decoder(options)
    eos = decoder.words.eos()
    if len(references) != len(decoder.dataset):
        raise ValueError(
            f"{options.references} has {len(references)} lines, the {options.gen_subset} set"
            f" {len(decoder.dataset)} sentences"
        )

    def scored(translations: Sequence[Sequence[int]]) -> Dict[str, float]:
        quality = evaluate(
            [detokenize(decoder.text(tokens)) for tokens in translations], references
        )
        return {"bleu": quality.bleu, "length_ratio": quality.length_ratio}

    one_by_one = decoder.decode(1).translations
    found: Dict[str, Any] = {"1": scored(one_by_one)}
    rows = []
    for size in decoder.sizes:
        both = decoder.decode(size)
        own = found[str(size)] = {
            "given": scored(
                decoder.decode(
                    size, [kept_tokens(tokens, size, eos) for tokens in one_by_one]
                ).translations
            ),
            "both": scored(both.translations),
            "kept": share_in_order(both.kept, one_by_one, eos),
        }
        ways = (found["1"], own["given"], own["both"])
        cells = [f"{way['bleu']:.2f} ({way['length_ratio']:.3f})" for way in ways]
        cells += [
            f"{after['bleu'] - before['bleu']:+.2f}".replace("-", "−")
            for before, after in zip(ways, ways[1:])
        ]
        rows.append([f"k = {size}", *cells, f"{own['kept']:.0%}"])
    header = [
        "BLEU (length ratio)", "word by word", "second stage behind its words", "both stages (1,1)",
        "the second stage, given good words", "the rest",
        "of the first stage's words also word by word",
    ]  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "stages.md").write_text(markdown(header, rows) + "\n", encoding="utf-8")
    (options.out / "stages.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_test_set(parser)
    parser.add_argument("--model", type=Path, required=True, help="checkpoint of an HRT model")
    options = parser.parse_args(arguments)
    try:
        run(options)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
