"""How much of a translation Mask-Predict needs to see: words of an autoregressive model's
translations are hidden and filled in by one pass (HRT, section 3 and Figure 2).

Example:

    python examples/study/masked_translations.py data-bin --out masked \\
        --translator 'name=AT,path=at/averaged.pt,task=translation_autoregressive,beam=5' \\
        --filler 'name=MP,path=mask_predict/averaged.pt'

Head and Tail hide the first or last max(1, floor(N p)) of the N subwords, Random as many anywhere
(the mean of three seeds), Chunk all but the first of every k; ``</s>`` stays. Every hidden subword
becomes the most probable one: one pass, no beam. BLEU is of the words of the data, as the paper's
(sacreBLEU's tokenizer ``none`` stands for multi-bleu.perl). The table goes to the standard output
and, with a picture and all figures, into --out: masked_translations.md, .json, .png, .svg.
"""

import argparse
import logging
import math
import random
from dataclasses import dataclass
from statistics import mean
from typing import Any, Dict, List, Sequence

import sacrebleu
import torch
from analysis import curves, report, table
from matplotlib.figure import Figure

from fairseq_hrt.cli.command import (
    add_data_arguments,
    add_out_argument,
    command,
    data_arguments,
)
from fairseq_hrt.cli.parser import HelpFormatter
from fairseq_hrt.evaluation.comparison import decode_all, target_texts
from fairseq_hrt.evaluation.systems import FairseqSystem, parse_system

logger = logging.getLogger(__name__)

RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
CHUNKS = (2, 3, 4)
SEEDS = (1, 2, 3)
BATCH = 64


@dataclass(frozen=True)
class Filled:
    """What was hidden and how good the filled translations are.

    Attributes:
        strategy: Head, Tail, Random or Chunk.
        setting: p, or k of Chunk.
        share: of the subwords that were hidden.
        bleu: of the filled translations; of Random the mean over seeds.
    """

    strategy: str
    setting: float
    share: float
    bleu: float


def hidden(length: int, strategy: str, setting: float, draw: random.Random) -> List[int]:
    """The places of a translation that are masked, in order.

    Args:
        length: N, subwords without ``</s>``.
        strategy: Head, Tail, Random or Chunk.
        setting: p; of Chunk k.
        draw: for Random.
    """
    if strategy == "Chunk":
        return [place for place in range(length) if place % int(setting)]
    # A little more, so that 0.3 * 10 is 3.
    count = min(length, max(1, math.floor(length * setting + 1e-9)))
    if strategy == "Head":
        return list(range(count))
    if strategy == "Tail":
        return list(range(length - count, length))
    return sorted(draw.sample(range(length), count))


def fill(
    system: Any, sentences: Sequence[int], rows: Sequence[torch.Tensor], places: Sequence[List[int]]
) -> List[torch.Tensor]:
    """One pass of a Mask-Predict model over translations with hidden subwords.

    Args:
        system: holds the model and the sources.
        sentences: numbers of the sources.
        rows: LongTensor ``[N + 1]`` each: a translation with its ``</s>``.
        places: what is hidden of each.

    Returns:
        The translations, in which the hidden subwords are the model's.
    """
    words, (model,) = system.task.target_dictionary, system.models
    width = max(map(len, rows)) + 1
    given = torch.full((len(rows), width), words.pad())
    masked = torch.zeros_like(given, dtype=torch.bool)
    for line, (row, own) in enumerate(zip(rows, places)):
        given[line, 0] = words.bos()
        given[line, 1 : len(row) + 1] = row
        masked[line, [place + 1 for place in own]] = True
    sample = system.collate(sentences)
    # The batch is sorted by length.
    order = [sentences.index(number) for number in sample["id"].tolist()]
    given, masked = (table[order].to(system.device) for table in (given, masked))
    with torch.no_grad():
        encoded = model.encoder(
            sample["net_input"]["src_tokens"], src_lengths=sample["net_input"]["src_lengths"]
        )
        best = model.decoder(
            normalize=False,
            prev_output_tokens=given.masked_fill(masked, words.unk()),
            encoder_out=encoded,
        ).argmax(-1)
    filled = torch.where(masked, best, given).cpu()
    found = dict(zip(order, filled))
    return [found[line][1 : len(row) + 1] for line, row in enumerate(rows)]


def study(translator: Any, filler: Any, seeds: Sequence[int] = SEEDS) -> List[Filled]:
    """BLEU of every strategy and setting; the first row is the unmasked translations."""
    rows = [torch.tensor(best.tokens) for best in decode_all(translator, BATCH)]
    references = target_texts(translator)

    def bleu(found: Sequence[torch.Tensor]) -> float:
        texts = [translator.text(tokens) for tokens in found]
        return sacrebleu.corpus_bleu(texts, [references], tokenize="none").score

    results = [Filled("none", 0.0, 0.0, bleu(rows))]
    settings = [(name, p) for name in ("Head", "Tail", "Random") for p in RATES]
    for strategy, setting in [*settings, *(("Chunk", float(k)) for k in CHUNKS)]:
        scores, share = [], 0.0
        for seed in seeds if strategy == "Random" else seeds[:1]:
            draw = random.Random(seed)
            places = [hidden(len(row) - 1, strategy, setting, draw) for row in rows]
            share = sum(map(len, places)) / max(1, sum(len(row) - 1 for row in rows))
            scores.append(bleu(filled_in_batches(filler, rows, places)))
        results.append(Filled(strategy, setting, share, mean(scores)))
        logger.info("%s %g: %.2f BLEU", strategy, setting, results[-1].bleu)
    return results


def filled_in_batches(
    filler: Any, rows: Sequence[torch.Tensor], places: Sequence[List[int]]
) -> List[torch.Tensor]:
    """:func:`fill` for all translations, those of similar length together."""
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    found: Dict[int, torch.Tensor] = {}
    for start in range(0, len(order), BATCH):
        own = order[start : start + BATCH]
        found.update(zip(own, fill(filler, own, [rows[n] for n in own], [places[n] for n in own])))
    return [found[number] for number in range(len(rows))]


def markdown(results: Sequence[Filled]) -> str:
    """One row a setting."""
    rows = [
        [own.strategy, f"{own.setting:g}", f"{own.share:.2f}", f"{own.bleu:.2f}"] for own in results
    ]
    return table(["hidden", "p, k", "share", "BLEU"], rows)


def draw(results: Sequence[Filled]) -> Figure:
    """A line a strategy; each begins with nothing hidden."""
    found = {}
    for name in ("Head", "Tail", "Random", "Chunk"):
        own = [results[0], *(result for result in results if result.strategy == name)]
        found[name] = ([one.share for one in own], [one.bleu for one in own])
    return curves(found, "hidden share of the translation", "BLEU")


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    add_data_arguments(parser, "test")
    for flag, role in (("translator", "whose translations are masked"), ("filler", "Mask-Predict")):
        parser.add_argument(f"--{flag}", required=True, metavar="name=...,path=...", help=role)
    add_out_argument(parser, "table, figures and picture")
    return parser


def run(options: argparse.Namespace) -> None:
    """Decodes, masks, fills and writes the table.

    Raises:
        ValueError: a filler that is not a Mask-Predict model, and whatever the systems refuse.
    """
    data = data_arguments(options)
    translator, filler = (
        FairseqSystem(parse_system(text), data) for text in (options.translator, options.filler)
    )
    if filler.task_name not in ("translation_lev", "translation_mask_predict"):
        raise ValueError(
            f"--filler {filler.name}: {filler.task_name} is not the task of a Mask-Predict model"
        )
    results = study(translator, filler)
    report(options.out, "masked_translations", markdown(results), results, draw(results))


main = command(build_parser, run)
