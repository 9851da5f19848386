"""Chooses decoding options on the validation set: decodes and scores every setting of a grid, and
finds the best one."""

import hashlib
import itertools
import json
import logging
import math
import os
import re
import time
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

import torch

from ..engine import require_decoding_options
from ..engine.graphs import free_dropped
from ..native import __version__
from ..native.io.files import content_hash, write_text
from ..native.io.resuming import identified_options, model_files
from .comparison import decode_all, target_language, target_texts
from .quality import Detokenizer, evaluate
from .systems import System, SystemSpec, load_system
from .systems.system import OF_SYSTEMS

logger = logging.getLogger(__name__)
METRICS = {"bleu": "BLEU", "chrf": "chrF"}


@dataclass(frozen=True)
class Trial:
    """One setting of the options and its results.

    Attributes:
        options: the values of the tuned options, by name.
        bleu: sacreBLEU, 0 to 100.
        chrf: chrF2, 0 to 100.
        length_ratio: number of words in the translations divided by that in the references, as
            sacreBLEU counts them.
        seconds: time of decoding the whole set.
    """

    options: Dict[str, str]
    bleu: float
    chrf: float
    length_ratio: float
    seconds: float


def parse_grid(texts: Sequence[str]) -> List[Dict[str, str]]:
    """All combinations of values in a grid such as ``["lenpen=0.6,1", "beam=4"]``; the value of the
    last option changes fastest.

    Raises:
        ValueError: a text does not have this form, an option or a value is given twice, an option
            changes no translation, or the grid is empty.
    """
    axes: Dict[str, List[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name, parts = (
            name.strip().lstrip("-").replace("-", "_"),
            [part.strip() for part in values.split(",")],
        )
        if not equals or not re.fullmatch(r"[A-Za-z]\w*", name) or not all(parts):
            raise ValueError(
                f"--grid {text!r}: give an option and its values, e.g. lenpen=0.6,1.0,1.4"
            )
        require_decoding_options({name} - OF_SYSTEMS, f"--grid {text!r}")
        if name in axes:
            raise ValueError(
                f"--grid {text!r}: {name} has values already; give all of them in one --grid"
            )
        if len(set(parts)) < len(parts):
            raise ValueError(f"--grid {text!r}: give each value once")
        axes[name] = parts
    if not axes:
        raise ValueError("nothing to tune: give --grid OPTION=VALUE,VALUE,...")
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


def tune(
    spec: SystemSpec,
    data: Sequence[str],
    grid: Sequence[Mapping[str, str]],
    *,
    references: Optional[Sequence[str]],
    detokenize: Detokenizer,
    batch_size: int,
    cache: Optional[Path] = None,
) -> List[Trial]:
    """Decodes the data with every setting of the options, and scores the translations.

    Args:
        spec: the system, without the tuned options.
        data: the data folder and the options that choose its sentences and languages, see
            :func:`.systems.generate_arguments`.
        grid: the settings, each {option: value}, as :func:`parse_grid` returns them.
        references: detokenised references; None: the targets of the data, detokenised.
        detokenize: turns tokenised words into text.
        batch_size: sentences decoded at a time.
        cache: folder where each setting's scores are stored, so that an interrupted run can
            continue. Stored scores are used only if the contents of models, sentences, references
            and options are the same.

    Raises:
        ValueError: an option is in the system and in the grid, or is not supported; or model, data
            and references do not fit each other.
        OSError: a file cannot be read or written.
    """
    twice = sorted(set(spec.options) & {name for options in grid for name in options})
    if twice:
        raise ValueError(
            f"{', '.join(twice)}: given in --system and in --grid; leave it out of one of them"
        )
    identity = None if cache is None else _identity(spec, data, references, detokenize)
    found = []
    for number, options in enumerate(grid, start=1):
        # As defaults they may lack effect: a grid also combines a penalty with a strategy that does
        # not read it.
        chosen = replace(
            spec, options={**spec.options, **options}, defaults=spec.defaults | set(options)
        )
        stored = (
            None
            if cache is None
            else cache / f"{_digest([identity, identified_options(chosen.options)])}.json"
        )
        trial = None if stored is None else _stored(stored, options)
        shown = title(options)
        if trial is None:
            logger.info("setting %d of %d: %s", number, len(grid), shown)
            trial = _measure(
                load_system(chosen, data), dict(options), references, detokenize, batch_size
            )
            free_dropped()
            if stored is not None:
                write_text(stored, json.dumps(asdict(trial), indent=1) + "\n")
        else:
            logger.info("setting %d of %d: %s (measured before)", number, len(grid), shown)
        logger.info(
            "%s: BLEU %.2f, chrF %.2f, length ratio %.3f",
            shown,
            trial.bleu,
            trial.chrf,
            trial.length_ratio,
        )
        found.append(trial)
    return found


def best_trial(trials: Sequence[Trial], metric: str) -> Trial:
    """The trial with the highest ``metric`` (``bleu`` or ``chrf``); the first of equal ones."""
    return max(trials, key=attrgetter(metric))


def title(options: Mapping[str, str]) -> str:
    """A setting as text that can be appended to a ``--system``:
    ``dag_decode_beta=1.0,lenpen=0.6``."""
    return ",".join(f"{name}={value}" for name, value in options.items())


def markdown(trials: Sequence[Trial], metric: str) -> str:
    """A Markdown table with a row for each setting, in which the best one is marked; below it the
    best setting's options."""
    names, best = list(trials[0].options), best_trial(trials, metric)
    lines = [
        "| " + " | ".join([*names, "BLEU", "chrF", "length ratio", "s", ""]) + " |",
        "|" + "---:|" * (len(names) + 4) + "---|",
    ]
    for trial in trials:
        figures = [
            f"{trial.bleu:.2f}",
            f"{trial.chrf:.2f}",
            f"{trial.length_ratio:.3f}",
            f"{trial.seconds:.1f}",
        ]
        cells = [value.replace("|", "\\|") for value in trial.options.values()]
        lines.append("| " + " | ".join([*cells, *figures, "best" if trial is best else ""]) + " |")
    return "\n".join(lines) + f"\n\nbest by {METRICS[metric]}: {title(best.options)}\n"


def to_json(spec: SystemSpec, trials: Sequence[Trial], metric: str) -> Dict[str, object]:
    """The system, every setting with its results, and the best setting, as plain data."""
    best = best_trial(trials, metric)
    return {
        "system": {
            "name": spec.name,
            "path": spec.path,
            "task": spec.task,
            "engine": spec.engine,
            **spec.options,
        },
        "metric": metric,
        "best": best.options,
        "settings": [asdict(trial) for trial in trials],
    }


def _measure(
    system: System,
    options: Dict[str, str],
    references: Optional[Sequence[str]],
    detokenize: Detokenizer,
    batch_size: int,
) -> Trial:
    if references is None:
        references = [detokenize(text) for text in target_texts(system)]
    start = time.perf_counter()
    best = decode_all(system, batch_size)
    seconds = time.perf_counter() - start
    quality = evaluate(
        [detokenize(system.text(hypothesis.tokens)) for hypothesis in best],
        references,
        language=target_language(system),
    )
    return Trial(options, quality.bleu, quality.chrf, quality.length_ratio, seconds)


def _identity(
    spec: SystemSpec,
    data: Sequence[str],
    references: Optional[Sequence[str]],
    detokenize: Detokenizer,
) -> Dict[str, object]:
    """What the scores depend on besides the decoding options, as plain data: models, sentences and
    dictionaries (each as a hash of its files' contents), references, detokeniser, task, engine,
    whether there is a GPU, and version."""
    folder, subset = Path(data[0].split(os.pathsep)[0]), data[list(data).index("--gen-subset") + 1]
    files = (
        sorted([*folder.glob(f"{subset}.*"), *folder.glob("dict.*.txt")]) if folder.is_dir() else []
    )
    return {
        "models": content_hash(model_files(spec.path)),
        "data": [[path.name, content_hash([path])] for path in files],
        "selection": list(data[1:]),
        "references": None if references is None else list(references),
        # A detokeniser is identified by what it makes of this text.
        "detokenised": detokenize("It is n't &quot; ( a ) , b ' s ."),
        "task": spec.task,
        "engine": spec.engine,
        # Close choices may fall otherwise on a GPU, which also takes another time.
        "gpu": torch.cuda.is_available() and spec.options.get("cpu", "false") == "false",
        "version": __version__,
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _stored(path: Path, options: Mapping[str, str]) -> Optional[Trial]:
    """The trial stored in a file; None if there is none, or if it is damaged or belongs to other
    options."""
    try:
        trial = Trial(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    numbers = (trial.bleu, trial.chrf, trial.length_ratio, trial.seconds)
    known = all(type(value) in (int, float) and math.isfinite(value) for value in numbers)
    return trial if known and trial.options == dict(options) else None
