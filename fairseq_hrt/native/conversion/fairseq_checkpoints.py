"""Reads published models of fairseq: folders such as ``wmt19.en-de.joined-dict.ensemble``, with
checkpoints, dictionaries and subword codes."""

import re
from pathlib import Path
from typing import List, Optional, Tuple

from ..bundles.bundle import Bundle
from ..plugin import plugin
from .converted import TASK, Wishes

# Names in fairseq's archives; the first file that exists is taken.
_CODES = ("bpecodes", "codes", "ende30k.fastbpe.code", "bpe.codes", "code")
_SENTENCEPIECE = ("sentencepiece.bpe.model", "spm.model", "sentencepiece.model")
_MODEL = re.compile(r"model\d*\.pt|checkpoint.*\.pt")


def is_fairseq(folder: Path) -> bool:
    """Whether a folder holds both checkpoints and dictionaries of fairseq."""
    return bool(_checkpoints(folder)) and any(folder.glob("dict.*.txt"))


def _checkpoints(folder: Path) -> List[Path]:
    """The checkpoints of a folder: ``model1.pt``, ``model2.pt``, … of an ensemble, or if there are
    none ``model.pt`` and ``checkpoint*.pt``."""
    found = [path for path in folder.iterdir() if _MODEL.fullmatch(path.name) and path.is_file()]
    numbered = [path for path in found if re.fullmatch(r"model\d+\.pt", path.name)]
    numbered.sort(key=lambda path: int(path.stem[len("model") :]))
    return numbered or sorted(found)


def read_fairseq(
    source: Path, folder: Path, wishes: Wishes, languages: Tuple[Optional[str], Optional[str]]
) -> Bundle:
    """Makes a bundle from a folder with a published model of fairseq, or from one checkpoint in it.

    Args:
        source: the folder, or one of its checkpoints.
        folder: the bundle's folder, which must not exist.
        wishes: the user's options; by default the tokeniser is guessed from the dictionaries, and
            codes are looked for in the source folder.
        languages: source and target language; None: the one that the checkpoint or the
            dictionaries' file names give.

    Raises:
        ValueError: a file is missing or damaged; the message names it.
    """
    data = source if source.is_dir() else source.parent
    checkpoints = [source] if source.is_file() else _checkpoints(data)
    if len(checkpoints) > 1 and not re.fullmatch(r"model\d+\.pt", checkpoints[0].name):
        raise ValueError(
            f"{data} has {len(checkpoints)} checkpoints"
            f" ({', '.join(path.name for path in checkpoints)[:200]}): give the path of one; those"
            " of an ensemble are called model1.pt, model2.pt, …"
        )
    subwords, codes = wishes.subwords, wishes.codes
    for scheme, names in (("subword-nmt", _CODES), ("sentencepiece", _SENTENCEPIECE)):
        if codes is None and subwords in (None, scheme):
            codes = next((data / name for name in names if (data / name).is_file()), None)
            subwords = scheme if codes is not None else subwords
    if codes is None and subwords != "none":
        raise ValueError(
            f"{data} holds no subword codes ({', '.join((*_CODES, *_SENTENCEPIECE))}): give their"
            " file by --codes, or --subwords none if the model has whole words"
        )

    def complete(bundle: Bundle) -> None:
        bundle.examples = list(wishes.examples)
        bundle.card["imported from"] = f"fairseq: {', '.join(path.name for path in checkpoints)}"

    return plugin().import_checkpoints(
        folder,
        checkpoints,
        data,
        tokenizer=wishes.tokenizer,
        subwords=subwords,
        codes=codes,
        target_codes=wishes.target_codes,
        task=TASK,
        languages=languages,
        complete=complete,
        runtime=wishes.runtime,
        lines=wishes.lines,
    )
