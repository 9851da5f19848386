"""Compares systems on the same sentences: quality on the whole test set, speed on a random sample
of it."""

import logging
import os
import platform
import random
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set

import fairseq
import numpy as np
import sacrebleu
import torch

from ..native.decoding import Hypothesis
from ..native.io.progress import Progress
from ..native.text.pipeline import TextPipeline
from .footprint import Footprint
from .quality import Detokenizer, Quality, bleu_metric, evaluate
from .raw_lines import RawLines, differing_sentences
from .speed import Timing, make_batches, measure
from .systems import System, continuation

logger = logging.getLogger(__name__)


@dataclass
class Settings:
    """How systems are compared.

    Attributes:
        batch_sizes: the batch sizes at which speed is measured; 1 gives the latency of a sentence.
        repeats: how often each speed is measured.
        speed_sentences: number of sentences in the sample for speed.
        quality_batch: batch size for decoding the whole test set.
        seed: the seed that draws the sample.
        threads: number of PyTorch's threads, for the report; the caller has to set it.
    """

    batch_sizes: List[int] = field(default_factory=lambda: [1, 32])
    repeats: int = 5
    speed_sentences: int = 100
    quality_batch: int = 64
    seed: int = 1
    threads: int = 1


@dataclass
class Result:
    """The results of one system.

    Attributes:
        name: the name of the system.
        signature: engine, task, checkpoint and decoding options by name, see
            :meth:`.systems.System.signature`.
        hypotheses: the translations as detokenised text, in the order of the test set.
        best: the translations as tokens with scores, as decoding found them.
        quality: the scores of ``hypotheses``.
        timings: the times by batch size.
        raw: the latencies of raw lines translated one at a time, text preparation included; None
            if they were not measured.
        footprint: loading time and memory; None if they were not measured.
        comet: the score of COMET; None if it was not run.
    """

    name: str
    signature: Dict[str, str]
    hypotheses: List[str]
    best: List[Hypothesis]
    quality: Quality
    timings: Dict[int, Timing] = field(default_factory=dict)
    raw: Optional[Timing] = None
    footprint: Optional[Footprint] = None
    comet: Optional[float] = None


class RawText(NamedTuple):
    """The raw source lines of the test set, and the text preparation that turns them into the
    model's words, and translated words back into raw text."""

    pipeline: TextPipeline
    lines: List[str]


@dataclass
class Comparison:
    """All results of one run.

    Attributes:
        results: in the order in which the systems were given.
        references: names of the systems that speed ratios refer to.
        source_words: number of source words in the sample for speed (separated by spaces, subwords
            joined).
        settings: how the systems were compared.
        environment: the machine and the versions of packages, by name.
        identical_to: name of the system with whose translations those of all systems are compared,
            token by token; None for no such comparison.
        raw_words: number of words in the raw lines of the sample; 0 if they were not given.
        comet: the name of COMET's model, or the reason why COMET was not run.
        language: the code of the target language; empty if it is not known.
    """

    results: List[Result]
    references: List[str]
    source_words: int
    settings: Settings
    environment: Dict[str, str]
    identical_to: Optional[str] = None
    raw_words: int = 0
    comet: str = "not run (no model named by --comet)"
    language: str = ""

    def identical(self, result: Result) -> int:
        """The number of sentences that ``result`` and the system ``identical_to`` translated with
        the same tokens."""
        reference = next(other for other in self.results if other.name == self.identical_to)
        return sum(
            mine.tokens == theirs.tokens for mine, theirs in zip(result.best, reference.best)
        )

    def timing(self, name: str, batch_size: int) -> Timing:
        """The times of the system ``name`` at a batch size."""
        return next(result for result in self.results if result.name == name).timings[batch_size]


def compare(
    systems: Sequence[System],
    *,
    references: Sequence[str],
    reference_texts: Sequence[str],
    valid: Optional[Sequence[Set[str]]],
    detokenize: Detokenizer,
    settings: Settings,
    rouge: bool = False,
    identical_to: Optional[str] = None,
    raw: Optional[RawText] = None,
) -> Comparison:
    """Decodes the test set with every system, scores the translations, and measures the speed.

    Args:
        systems: the loaded systems; all must have the same sentences.
        references: names of the systems that speed ratios refer to.
        reference_texts: detokenised reference translations.
        valid: all valid translations of each sentence; None if they are not known.
        detokenize: turns tokenised words into text.
        settings: how to measure.
        rouge: True also computes ROUGE, for summaries.
        identical_to: name of the system with whose tokens those of all systems are compared.
        raw: the test set as raw lines, to measure also how long each takes from raw text to raw
            text; None: this is not measured.

    Raises:
        ValueError: a name is not one of the systems, the number of references, valid translations
            or raw lines is not that of the sentences, or a metric's package is missing.
    """
    names = [system.name for system in systems]
    for name in [*references, *([identical_to] if identical_to else [])]:
        if name not in names:
            raise ValueError(
                f"{name!r} (--ratio-to or --identical-to) is not one of the systems {names}; name"
                " one of these"
            )
    if raw is not None:
        different = differing_sentences(systems[0], raw.pipeline, raw.lines)
        if different:
            logger.warning(
                "%d of %d raw lines are prepared differently from the data; check --sources,"
                " --tokenizer, --subwords and --codes",
                different,
                len(raw.lines),
            )
    language = target_language(systems[0])
    # A missing tokenizer is reported before anything is decoded.
    bleu_metric(language)
    results = []
    for system in systems:
        logger.info("decoding the test set: %s", system.name)
        best = decode_all(system, settings.quality_batch)
        _warn_of_masks(system, best)
        hypotheses = [detokenize(system.text(hypothesis.tokens)) for hypothesis in best]
        quality = evaluate(hypotheses, reference_texts, valid, rouge=rouge, language=language)
        results.append(Result(system.name, system.signature(), hypotheses, best, quality))
    sample = speed_sample(len(systems[0].dataset), settings.speed_sentences, settings.seed)
    lengths = [systems[0].dataset.num_tokens(i) for i in sample]
    for batch_size in settings.batch_sizes:
        timings = measure(
            systems,
            make_batches(sample, lengths, batch_size),
            repeats=settings.repeats,
            progress=partial(logger.info, "speed at batch size %d: %s", batch_size),
        )
        for result in results:
            result.timings[batch_size] = timings[result.name]
    words = sum(len(source_text(systems[0], i).split()) for i in sample)
    comparison = Comparison(
        results, list(references), words, settings, environment(settings.threads), identical_to
    )
    comparison.language = language
    if raw is not None:
        timings = measure(
            [RawLines(system, raw.pipeline, raw.lines) for system in systems],
            [[i] for i in sample],
            repeats=settings.repeats,
            progress=lambda text: logger.info("latency of raw lines: %s", text),
        )
        for result in results:
            result.raw = timings[result.name]
        comparison.raw_words = sum(len(raw.lines[i].split()) for i in sample)
    return comparison


def decode_all(system: System, batch_size: int) -> List[Hypothesis]:
    """The best hypothesis of each sentence of the system's data, in the order of the data;
    ``batch_size`` sentences are decoded at a time."""
    ids = list(range(len(system.dataset)))
    best: Dict[int, Hypothesis] = {}
    with Progress("sentences", len(ids), visible=True) as progress:
        for batch in make_batches(ids, [system.dataset.num_tokens(i) for i in ids], batch_size):
            sample = system.collate(batch)
            for sentence, hypotheses in zip(sample["id"].tolist(), system.decode(sample)):
                best[sentence] = hypotheses[0]
            progress.add(len(batch))
    return [best[i] for i in ids]


def _warn_of_masks(system: System, best: Sequence[Hypothesis]) -> None:
    """Logs a warning if translations contain ``<unk>``, with which fairseq's iterative models mask
    words that are not written yet: decoding may have stopped too early."""
    # fairseq's IterativeRefinementGenerator, told to stop where two passes agree.
    if not getattr(system.generator, "adaptive", False):
        return
    mask = system.task.target_dictionary.unk()
    unfinished = sum(mask in hypothesis.tokens for hypothesis in best)
    if unfinished:
        logger.warning(
            "%d of %d translations of %s contain masks: fairseq stops where two passes mask the"
            " same words; iter_decode_force_max_iter=true makes all passes",
            unfinished,
            len(best),
            system.name,
        )


def speed_sample(size: int, wanted: int, seed: int) -> List[int]:
    """Draws ``wanted`` of the numbers 0 to ``size`` - 1 at random without replacement and returns
    them sorted; all of them if there are fewer."""
    return sorted(random.Random(seed).sample(range(size), min(size, wanted)))


def target_language(system: System) -> str:
    """The code of the target language in the names of the data files; empty if it is not known."""
    return str(getattr(getattr(system.task, "cfg", None), "target_lang", None) or "")


def target_texts(system: System) -> List[str]:
    """The target of each sentence in the system's data as words separated by spaces, subwords
    joined."""
    return [system.text(system.dataset[i]["target"]) for i in range(len(system.dataset))]


def source_text(system: System, sentence: int) -> str:
    """The source with index ``sentence`` in the system's data as words separated by spaces,
    subwords joined."""
    dictionary = system.task.source_dictionary
    return dictionary.string(system.dataset[sentence]["source"], continuation(dictionary))


def source_texts(system: System) -> List[str]:
    """The source of each sentence in the system's data, see :func:`source_text`."""
    return [source_text(system, number) for number in range(len(system.dataset))]


def environment(threads: int) -> Dict[str, str]:
    """Facts about the machine for a report, {name: text}: processor, GPU if there is one,
    ``threads``, the versions of Python and of packages, and the commit of this package."""
    from ..native import __version__

    entries = {
        "cpu": processor(),
        "threads": str(threads),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "fairseq": fairseq.__version__,
        "fairseq_hrt": __version__,
        "commit": commit(),
        "sacrebleu": sacrebleu.__version__,
    }
    if torch.cuda.is_available():
        entries["gpu"] = torch.cuda.get_device_name()
    return entries


def processor() -> str:
    """The model of the processor and the number of its cores."""
    name = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name} ({os.cpu_count()} cores)"


def commit() -> str:
    """The commit of the repository that holds this package, with ``+`` appended if files have been
    changed since; ``-`` outside a repository."""
    folder = Path(__file__).resolve().parent
    try:
        head = [
            "git",
            "-C",
            str(folder),
            "describe",
            "--always",
            "--dirty=+",
            "--exclude=*",
            "--abbrev=10",
        ]
        return subprocess.run(
            head, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "-"


def to_json(comparison: Comparison) -> Dict[str, Any]:
    """A comparison as plain data: everything that was measured, every repeat of every batch
    included, but no translations."""
    systems = []
    for result in comparison.results:
        timings = {
            str(size): {
                **asdict(timing),
                "sentences_per_second": asdict(timing.sentences_per_second()),
            }
            for size, timing in result.timings.items()
        }
        systems.append(
            {
                "name": result.name,
                "signature": result.signature,
                "quality": asdict(result.quality),
                "comet": result.comet,
                "identical": comparison.identical(result) if comparison.identical_to else None,
                "raw": None if result.raw is None else asdict(result.raw),
                "footprint": None if result.footprint is None else asdict(result.footprint),
                "timings": timings,
                "ratios": {
                    reference: {
                        str(size): asdict(timing.ratio_to(comparison.timing(reference, size)))
                        for size, timing in result.timings.items()
                    }
                    for reference in comparison.references
                },
            }
        )
    return {
        "command": sys.argv,
        "environment": comparison.environment,
        "settings": asdict(comparison.settings),
        "source_words": comparison.source_words,
        "raw_words": comparison.raw_words,
        "comet": comparison.comet,
        "references": comparison.references,
        "identical_to": comparison.identical_to,
        "systems": systems,
    }
