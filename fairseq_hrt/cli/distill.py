"""Translates a whole training set with a teacher, for sequence-level distillation (Kim and Rush,
2016).

Example:

    fairseq-hrt distill data-bin --out distilled \\
        --system 'name=teacher,path=at/checkpoint_best.pt,task=translation_autoregressive,beam=5'
    for shard in 0 1 2 3; do fairseq-hrt distill ... --num-shards 4 --shard-id $shard & done; wait
    fairseq-train distilled/data-bin ...                           (translations alone)
    fairseq-train data-bin --distilled-data distilled/data-bin ... (mixed with raw targets)

A system is a name, a checkpoint and options of fairseq-generate, as for the benchmark, and is
decoded as fairseq-generate does: on a CPU by the native engine where it can, with float32 weights;
weights=int8 is quicker and changes some translations. The log and settings.json name both.
Killed at any moment and started again, it continues with the block that was lost; the result is the
same byte by byte. Teacher and data are compared by content: another checkpoint of the same name
is refused, one that was only moved is not. The shard that finishes last (or a further call) writes
train.<src> and train.<tgt> in the order of the training set and statistics.json. It binarises the
text with the same dictionaries into data-bin and copies the validation and test sets there.
torchrun and SLURM set the shard by
themselves (RANK and WORLD_SIZE, or SLURM_PROCID and SLURM_NTASKS), and the GPU (LOCAL_RANK,
SLURM_LOCALID); without them shards take the GPUs in turn.
"""

import argparse
import importlib.util
import logging
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from ..native.io.files import content_hash, new_folder
from ..native.io.progress import Doing, Progress
from ..native.options.conditions import flag
from .child_process import run_module
from .command import (
    add_data_arguments,
    add_numbers,
    add_out_argument,
    add_system_argument,
    command,
    data_arguments,
)
from .parser import require_positive, verb_parser

logger = logging.getLogger(__name__)
# The module behind fairseq-preprocess.
PREPROCESS = "fairseq_cli.preprocess"


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("distill", __doc__)
    add_data_arguments(parser, "train")
    add_system_argument(parser, "the teacher", required=True)
    add_out_argument(parser, "the results", required=True)
    add_numbers(
        parser,
        (
            "--num-shards",
            None,
            "processes that share the work (default: 1, or those of torchrun, SLURM)",
        ),
        ("--shard-id", None, "number of this process, from 0"),
        ("--block", 1000, "sentences written at a time"),
        ("--max-tokens", 8000, "source tokens of a batch"),
        ("--threads", None, "threads of PyTorch (default: its own)"),
        ("--workers", 1, "processes that binarise the result"),
    )
    return parser


def shard_of(options: argparse.Namespace, environment: Dict[str, str]) -> Tuple[int, int]:
    """(number of shards, number of this process's shard from 0), from the options, else from the
    environment variables of torchrun or SLURM.

    Raises:
        ValueError: one of the two options is given without the other.
    """
    for given, missing in (("shard_id", "num_shards"), ("num_shards", "shard_id")):
        value = getattr(options, given)
        if value is not None and getattr(options, missing) is None:
            raise ValueError(f"{flag(given)} {value} needs {flag(missing)}; give both, or neither")
    for count, number in (("WORLD_SIZE", "RANK"), ("SLURM_NTASKS", "SLURM_PROCID")):
        if options.num_shards is None and count in environment and number in environment:
            return int(environment[count]), int(environment[number])
    return (1, 0) if options.num_shards is None else (options.num_shards, options.shard_id)


def gpu_of(environment: Dict[str, str], count: int, shard: Optional[int] = None) -> Optional[int]:
    """The number, from 0, of the GPU that this process should use on a machine with ``count`` GPUs:
    the process's local rank in the variables of torchrun, or of SLURM if that has started several
    tasks, else its ``shard`` (``--shard-id``), modulo ``count``. None if it has neither or there is
    no GPU: the process then uses PyTorch's current device."""
    ranks = [environment[name] for name in ("LOCAL_RANK", "SLURM_LOCALID") if name in environment]
    if shard is not None:
        # In a batch script, which is a single task, SLURM's rank is 0 for all in a loop.
        several = environment.get("SLURM_NTASKS", "1") != "1"
        ranks = ranks if "LOCAL_RANK" in environment or several else []
        ranks.append(str(shard))
    return int(ranks[0]) % count if ranks and count else None


def run(options: argparse.Namespace) -> None:
    """Translates this process's shard; if all other shards are complete, also merges them and
    binarises the result.

    Raises:
        ValueError: an option is invalid, a source is too long for the teacher, or ``--out`` holds
            the results of another teacher, other data or other options.
    """
    import torch

    from ..evaluation.systems import load_system, parse_system, subwords
    from ..evaluation.teacher_translations import (
        Plan,
        check_settings,
        merge,
        missing,
        translate_blocks,
    )
    from ..native.io.resuming import identified_options, model_files

    shards, shard = shard_of(options, dict(os.environ))
    gpu = gpu_of(dict(os.environ), torch.cuda.device_count(), options.shard_id)
    if gpu is not None:
        torch.cuda.set_device(gpu)
    require_positive(options, "threads", "workers")
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    require_preprocess()
    spec = parse_system(options.system)
    teacher = content_hash(model_files(spec.path))
    system = load_system(spec, data_arguments(options))
    system.without_scores()
    if content_hash(model_files(spec.path)) != teacher:
        raise ValueError(
            f"{spec.path} changed while it was being read (is a training still writing it?): run"
            " the command again"
        )
    languages = (system.task.cfg.source_lang, system.task.cfg.target_lang)
    dataset = system.dataset
    lengths = [int(size) for size in dataset.src_sizes]
    limit, longest = system.longest_source, max(lengths, default=0)
    if limit is not None and longest > limit:
        raise ValueError(
            f"sentence {lengths.index(longest)} (from 0) has {longest} tokens, system {spec.name!r}"
            f" reads at most {limit}: shorten the sentence or remove it from the data"
        )
    plan = Plan(
        sentences=len(lengths),
        lengths=lengths,
        block=options.block,
        max_tokens=options.max_tokens,
        shards=shards,
        shard=shard,
        settings={
            "teacher": f"sha256 {teacher}",
            "data": (
                f"sha256 {content_hash(data_files(options.data, options.gen_subset, languages))}"
            ),
            "task": system.task_name,
            "engine": system.engine,
            "weights": system.dtype,
            "subset": options.gen_subset,
            **identified_options(spec.options),
        },
    )
    check_settings(options.out, plan)
    words, target = system.task.source_dictionary, system.task.target_dictionary
    nbest = int(spec.options.get("nbest", 1))

    def decode(batch: Sequence[int]) -> List[List[str]]:
        sample = system.collate(batch)
        found = dict(zip(sample["id"].tolist(), system.decode(sample)))
        return [
            [subwords(target, best.tokens) for best in found[sentence][:nbest]]
            for sentence in batch
        ]

    start = time.perf_counter()
    share = sum(len(plan.members(number)) for number in range(shard, plan.blocks, shards))
    with Progress("sentences", share, visible=True) as progress:
        translate_blocks(options.out, plan, decode, progress.add)
    logger.info(
        "shard %d of %d: %d sentences in %.1f s", shard, shards, share, time.perf_counter() - start
    )
    left = missing(options.out, plan)
    if left:
        logger.info("%d blocks of other shards are not there yet; the last shard merges", left)
        return
    with Doing("merging the translations"):
        statistics = merge(
            options.out, plan, lambda number: subwords(words, dataset[number]["source"].tolist()),
            languages,
        )  # fmt: skip
    with Doing("binarising the translations"):
        binarise(options.out, options.data, languages, options.workers)
    sys.stdout.write("".join(f"{name}: {value}\n" for name, value in statistics.items()))


def data_files(data: str, subset: str, languages: Sequence[str]) -> List[Path]:
    """The binarised files of a subset in both languages, with all its parts (train, train1, …), and
    the dictionaries.

    Args:
        data: one or several data folders, separated by ``os.pathsep``.
        subset: the name of the subset, e.g. ``train``.
        languages: the source and the target language.
    """
    pair = "|".join(
        re.escape(f"{first}-{second}") for first, second in (languages, tuple(languages)[::-1])
    )
    wanted = re.compile(
        rf"{re.escape(subset)}\d*\.({pair})\..*|dict\.({'|'.join(map(re.escape, languages))})\.txt"
    )
    folders = [Path(folder) for folder in data.split(os.pathsep)]
    return [
        file
        for folder in folders
        for file in sorted(folder.iterdir())
        if wanted.fullmatch(file.name) and file.is_file()
    ]


def other_sets(folder: Path, languages: Sequence[str]) -> Dict[str, Path]:
    """Finds the files of the validation and test sets in a data folder (of several folders, fairseq
    reads these sets from the first only).

    Args:
        folder: the data folder.
        languages: the source and the target language.

    Returns:
        {name of the file for this direction, e.g. ``valid.de-en.de.bin``: file}. Where that file is
        missing, the one of the opposite direction (``valid.en-de.de.bin``) is taken, as fairseq
        does.
    """
    forward, backward = ("-".join(pair) for pair in (languages, languages[::-1]))
    found = {}
    for pair in (backward, forward):
        wanted = re.compile(rf"((?:valid|test)\d*)\.{re.escape(pair)}\.(.+)")
        for file in sorted(folder.iterdir()):
            match = wanted.fullmatch(file.name)
            if match and file.is_file():
                found[f"{match[1]}.{forward}.{match[2]}"] = file
    return found


def require_preprocess() -> None:
    """Checks that fairseq's module for binarising the result is installed, before a long
    translation begins.

    Raises:
        ValueError: the module is not installed.
    """
    try:
        found = importlib.util.find_spec(PREPROCESS) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise ValueError(
            f"{PREPROCESS}, which binarises the result, is not installed: pip install"
            " --no-deps fairseq==0.12.2"
        )


def binarise(folder: Path, data: str, languages: Sequence[str], workers: int) -> None:
    """Binarises the translations, ``folder/train.<language>``, into ``folder/data-bin``, with the
    dictionaries, validation and test sets of the first folder in ``data``, so that a student needs
    no other data. ``folder/data-bin`` appears when it is complete.

    Args:
        folder: the folder of the results (``--out``).
        data: the data folders, separated by ``os.pathsep``.
        languages: the source and the target language.
        workers: processes of fairseq-preprocess.

    Raises:
        ValueError: fairseq-preprocess fails.
    """
    first, target = data.split(os.pathsep)[0], folder / "data-bin"
    with new_folder(target) as partial:
        # With "=": names may begin with a dash.
        arguments = [
            f"--source-lang={languages[0]}", f"--target-lang={languages[1]}",
            f"--trainpref={folder / 'train'}", f"--srcdict={first}/dict.{languages[0]}.txt",
            f"--tgtdict={first}/dict.{languages[1]}.txt", f"--destdir={partial}",
            f"--workers={workers}",
        ]  # fmt: skip
        result = run_module(PREPROCESS, arguments)
        if result.returncode:
            said = (result.stdout + result.stderr).strip().splitlines()[-1:]
            raise ValueError(
                f"fairseq-preprocess failed: {' '.join(said) or f'exit status {result.returncode}'}"
            )
        other = other_sets(Path(first), languages)
        if not any(name.startswith("valid") for name in other):
            logger.info("%s has no validation set, so neither has %s", first, target)
        for name, file in other.items():
            shutil.copyfile(file, partial / name)
        # The log names times and a temporary folder; all other files are equal in every run.
        (partial / "preprocess.log").unlink(missing_ok=True)
        try:
            partial.rename(target)
        except OSError:
            # An earlier run wrote it, from equal translations: its settings were compared.
            target.mkdir(exist_ok=True)
            for file in sorted(partial.iterdir()):
                file.replace(target / file.name)


main = command(build_parser, run)
