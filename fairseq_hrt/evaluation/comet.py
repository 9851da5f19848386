"""Scores translations with COMET by running its command ``comet-score``: COMET needs older packages
than fairseq_hrt and therefore an environment of its own."""

import logging
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Dict, List, Mapping, Sequence

import torch

from .comparison import Comparison

logger = logging.getLogger(__name__)


def check_comet(model: Path, program: str) -> None:
    """Checks, before a long run begins, that ``model``, the file of COMET's model (.ckpt), and
    ``program``, the command ``comet-score`` or its path, exist.

    Raises:
        ValueError: one of them does not exist.
    """
    if not model.is_file():
        raise ValueError(
            f"--comet {model}: no such file; give the path of a COMET model on disk (a .ckpt file)"
        )
    if shutil.which(program) is None:
        raise ValueError(
            f"--comet-program {program}: no such program; install unbabel-comet in an environment"
            " of its own and give the path of its comet-score"
        )


def comet_scores(
    sources: Sequence[str],
    references: Sequence[str],
    translations: Mapping[str, Sequence[str]],
    model: Path,
    program: str,
) -> Dict[str, float]:
    """COMET's score of each system's translations, by the name of the system.

    Args:
        sources, references: raw text, a line for each sentence.
        translations: detokenised translations, a line for each sentence, by the name of the system.
        model: the file of COMET's model (.ckpt).
        program: the command ``comet-score``, or its path.

    Raises:
        ValueError: the program fails, or prints something other than scores.
    """
    with tempfile.TemporaryDirectory() as folder:

        def write(name: str, lines: Sequence[str]) -> str:
            path = Path(folder) / name
            # COMET splits where Python does; a translation must stay one line.
            text = "".join(re.sub(r"[\r\n]", " ", line) + "\n" for line in lines)
            path.write_text(text, encoding="utf-8", newline="\n")
            return str(path)

        files: List[str] = [
            write(f"{number}.txt", lines) for number, lines in enumerate(translations.values())
        ]
        gpus = "1" if torch.cuda.is_available() else "0"
        command = [
            program, "--sources", write("source", sources), "--references",
            write("reference", references), "--translations", *files, "--model", str(model),
            "--gpus", gpus, "--only_system", "--quiet",
        ]  # fmt: skip
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        said = (finished.stdout + finished.stderr).strip().splitlines() or ["nothing"]
        raise ValueError(
            f"--comet-program {program} failed with exit status {finished.returncode}; the last"
            f" line of its output: {said[-1]}"
        )
    found = {
        name: float(score)
        for name, score in re.findall(
            r"^(.+)\tscore: (-?[\d.]+|nan)$", finished.stdout, re.MULTILINE
        )
    }
    by_number = {Path(name).name: score for name, score in found.items()}
    if set(by_number) != {Path(file).name for file in files}:
        raise ValueError(
            f"--comet-program {program} printed the scores of {sorted(found)} instead of"
            f" {len(files)} systems; give the comet-score of unbabel-comet"
        )
    return {name: by_number[Path(file).name] for name, file in zip(translations, files)}


def add_comet(
    comparison: Comparison,
    sources: Sequence[str],
    references: Sequence[str],
    model: Path,
    program: str,
) -> None:
    """Adds the scores of :func:`comet_scores` to ``comparison``, in place. If COMET fails, logs the
    reason and stores it in ``comparison.comet`` instead of raising an error: all other results stay
    valid."""
    logger.info("scoring with COMET")
    translations = {result.name: result.hypotheses for result in comparison.results}
    try:
        scores = comet_scores(sources, references, translations, model, program)
    except (OSError, ValueError) as error:
        logger.warning("%s", error)
        comparison.comet = f"not run ({error})"
        return
    for result in comparison.results:
        result.comet = scores[result.name]
    comparison.comet = f"`{model.name}`"
