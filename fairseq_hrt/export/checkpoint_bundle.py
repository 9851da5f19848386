"""Packs trained models into bundles: checkpoints, dictionaries and subword codes in one folder."""

import logging
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..loading.checkpoints import (
    architecture_name,
    read_checkpoint,
    require_known_task,
    task_name,
    value_of,
)
from ..native.bundles.bundle import (
    Bundle,
    create_bundle,
    require_dictionary,
    require_file,
    require_new,
)
from ..native.bundles.data_options import language_of_data, language_pair
from ..native.bundles.description import checked_options
from ..native.bundles.pretrained import from_pretrained
from ..native.io.escaping import shown
from ..native.io.progress import Doing, Progress
from .preparation import find_recipe
from .runtime_bundle import add_runtime
from .validation_data import LONGEST, validation_sides

logger = logging.getLogger(__name__)

# Sentences that are translated, and by how much chrF with their references has to surpass chrF with
# those of other sentences.
TRANSLATED, BETTER = 20, 1.0


def pack(
    folder: Path,
    checkpoints: Sequence[Path],
    data: Path,
    *,
    runtime: Optional[str] = None,
    lines: Optional[Sequence[str]] = None,
    shortlist: Optional[Path] = None,
    complete: Optional[Callable[[Bundle], None]] = None,
    **described: Any,
) -> Bundle:
    """Makes a bundle and, with ``runtime``, its model for the native engine. The folder appears
    after the finished bundle has been loaded and tried on the validation set, if there is one.

    Args:
        folder: the bundle's folder; it must not exist yet.
        checkpoints: the path of one checkpoint, or the paths of an ensemble's.
        data: the folder of fairseq-preprocess with the dictionaries.
        runtime: the type of the native engine's weights, ``int8`` or ``float32``; None: no model
            for the native engine is made.
        lines: raw source lines to compare the native engine with PyTorch; None: sentences of
            ``data``.
        shortlist: a lexical table, see :func:`.runtime_bundle.add_runtime`; None: no shortlist.
        complete: called with the bundle before the native engine is compared with PyTorch, to add
            entries such as example sentences.
        described: further arguments of :func:`make_bundle`.

    Raises:
        ValueError: for the reasons in :func:`make_bundle` and :func:`.runtime_bundle.add_runtime`,
            or a decoding option has no effect.
        OSError: a file cannot be read or written.
    """

    def whole(bundle: Bundle) -> None:
        if complete is not None:
            complete(bundle)
        if runtime is not None:
            add_runtime(bundle, runtime, data=data, lines=lines, shortlist=shortlist)

    engine = "torch" if runtime is None else "native"
    # Given to from_pretrained, too, which refuses options without effect.
    options: Dict[str, Any] = described.get("options") or {}

    def check(made: Path) -> None:
        with Doing("loading the bundle"):
            translator = from_pretrained(made, device="cpu", engine=engine, **options)
        warn_if_unlike_references(translator, data)

    return make_bundle(folder, checkpoints, data, **described, complete=whole, check=check)


def make_bundle(
    folder: Path,
    checkpoints: Sequence[Path],
    data: Path,
    *,
    tokenizer: Optional[str] = None,
    subwords: Optional[str] = None,
    codes: Optional[Path] = None,
    target_codes: Optional[Path] = None,
    sources: Optional[Sequence[str]] = None,
    task: Optional[str] = None,
    languages: Tuple[Optional[str], Optional[str]] = (None, None),
    options: Optional[Dict[str, str]] = None,
    card: Optional[Dict[str, Any]] = None,
    states: Optional[Sequence[Dict[str, Any]]] = None,
    check: Optional[Callable[[Path], object]] = None,
    complete: Optional[Callable[[Bundle], None]] = None,
) -> Bundle:
    """Copies checkpoints, dictionaries and subword codes into the folder of a new bundle.

    Args:
        folder: the bundle's folder; it must not exist yet.
        checkpoints: the path of one checkpoint, or the paths of an ensemble's.
        data: the folder of fairseq-preprocess with the dictionaries; its sentences, if there are
            any, are used to check the text preparation.
        tokenizer, subwords, codes, target_codes, sources: how the training text was prepared, see
            :func:`.preparation.find_recipe`.
        task: the task to decode with; None: that of the training.
        languages: source and target, needed only if neither the checkpoint nor ``data`` names them.
        options: decoding options of the bundle, {name: text}.
        card: further rows of the table in the bundle's README.md, {name: value}.
        states: the contents of the checkpoints, if they have been read already; None: read here.
        check: called with the path of the finished folder before it gets its final name; an
            exception that it raises discards the bundle.
        complete: called with the bundle while it is still in a temporary folder, to add files and
            entries.

    Raises:
        ValueError: the folder exists, a file is missing, or the text preparation is unknown or not
            that of the data.
        OSError: a file cannot be read or written.
    """
    for path in checkpoints:
        require_file(path)
    require_new(folder)
    for file in (codes, target_codes):
        if file is not None:
            require_file(file)
    if states is None:
        with Doing("reading the model"):
            states = [read_checkpoint(path) for path in checkpoints]
    config = states[0]["cfg"]["task"]
    # Nothing is packed that load_bundle would refuse.
    task = require_known_task(task or task_name(config), str(folder))
    options = checked_options(options or {}, task, "the new bundle")
    pair = languages_of(config, data, checkpoints[0], languages)
    for language in pair:
        require_dictionary(data, language)
    with Doing("comparing the text preparation with the data"):
        recipe, fit = find_recipe(
            data, pair, tokenizer=tokenizer, subwords=subwords, codes=codes,
            target_codes=target_codes, sources=sources,
        )  # fmt: skip
    checked = {} if fit is None else {"text preparation": str(fit)}
    bundle = Bundle(
        folder=folder,
        task=task,
        source_lang=pair[0],
        target_lang=pair[1],
        tokenizer=recipe.tokenizer,
        subwords=recipe.subwords,
        options=dict(options or {}),
        card={**training_card(states[0]), **checked, **(card or {})},
    )
    return create_bundle(
        bundle, data, codes, target_codes, states=states, check=check, complete=complete
    )


def languages_of(
    config: Any, data: Path, checkpoint: Path, given: Tuple[Optional[str], Optional[str]]
) -> Tuple[str, str]:
    """The source and target language of a training.

    Args:
        config: the checkpoint's ``cfg.task``.
        data: the data folder, whose file names decide if ``config`` names no languages.
        checkpoint: the checkpoint's path, for messages.
        given: source and target language from the user, used where neither ``config`` nor ``data``
            names one; a language other than the one named there is refused. None: not given.

    Raises:
        ValueError: nothing names a language, a given one differs, or one is unfit for a file name.
    """
    languages = (value_of(config, "source_lang"), value_of(config, "target_lang"))
    if None in languages:
        # The training took them from the names of the files.
        languages = language_pair(data)
    found: List[str] = []
    for side, own, asked in zip(("source", "target"), languages, given):
        language = own or asked
        if language is None:
            raise ValueError(
                f"neither {checkpoint} nor the file names in {data} tell the {side} language: with"
                " fairseq-hrt import, give --source-language and --target-language; with"
                " fairseq-hrt bundle, give a data folder that fairseq-preprocess has written"
            )
        if asked not in (None, language):
            raise ValueError(
                f"--{side}-language {shown(asked)}: {checkpoint} has the {side} language"
                f" {shown(language)}; leave the option out"
            )
        found.append(language_of_data(language, str(checkpoint)))
    return found[0], found[1]


def training_card(state: Dict[str, Any]) -> Dict[str, Any]:
    """Facts about the training for the table in a bundle's README.md, {name: value}: architecture,
    criterion, number of updates, seed, and options of optimiser, batch size and precision; None for
    a value that the checkpoint ``state`` lacks."""
    config = state["cfg"]
    card: Dict[str, Any] = {
        "architecture": architecture_name(config["model"]),
        "criterion": architecture_name(value_of(config, "criterion")),
    }
    history = state.get("optimizer_history") or [{}]
    updates = history[-1].get("num_updates")
    card["updates"] = updates if type(updates) is int else None
    for group, names in (
        ("optimization", ("lr", "max_update", "update_freq", "clip_norm")),
        ("dataset", ("max_tokens", "batch_size")), ("common", ("seed", "fp16")),
    ):  # fmt: skip
        for name in names:
            value = value_of(value_of(config, group), name)
            card[name] = (
                list(value)
                if isinstance(value, (list, tuple)) or type(value).__name__ == "ListConfig"
                else value
            )
    return card


def warn_if_unlike_references(translator: Any, data: Path) -> None:
    """Translates sentences of the validation set, from raw text to raw text, and logs a warning if
    the translations resemble their references as little as the references of other sentences: then
    dictionaries, codes or languages are probably not the model's.

    Args:
        translator: a loaded bundle, :class:`~..native.bundles.translator.Translator`.
        data: the folder of fairseq-preprocess.
    """
    import sacrebleu

    bundle = translator.bundle
    languages = (bundle.source_lang, bundle.target_lang)
    source_side, target_side = next(validation_sides(data, languages), ((), None))
    if target_side is None:
        return
    restore = [pipeline.text for pipeline in (bundle.target_pipeline(), bundle.pipeline())]
    texts: List[List[str]] = [[], []]
    step = max(1, len(source_side) // (2 * TRANSLATED))
    for number in range(0, len(source_side), step):
        rows = [side[number].tolist()[:-1] for side in (source_side, target_side)]
        if all(0 < len(row) <= LONGEST for row in rows) and len(texts[0]) < TRANSLATED:
            for side, words, row, text in zip(
                texts, (translator.source, translator.target), rows, restore
            ):
                side.append(text(" ".join(words.words[one] for one in row)))
    sources, references = texts
    if len(set(references)) < 2:
        return
    with Progress("sentences of the validation set", len(sources)) as progress:
        found = translator.translate(sources, progress=progress.reach)
    chrf = sacrebleu.CHRF()
    own = chrf.corpus_score(found, [references]).score
    others = chrf.corpus_score(found, [[*references[1:], references[0]]]).score
    if own < others + BETTER:
        logger.warning(
            "the model's translations of the validation set resemble their references (chrF %.1f)"
            " as little as those of other sentences (%.1f): are the dictionaries, the codes and the"
            " languages (%s to %s) those of the training?",
            own, others, bundle.source_lang, bundle.target_lang,
        )  # fmt: skip
