"""Makes bundles of fairseq checkpoints from elsewhere: of fairseq's published models, unchanged,
and of DA-Transformer's and FA-DAT's, converted."""

import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..loading.checkpoints import make_decodable, read_checkpoint, reading
from ..native.bundles.bundle import Bundle, require_dictionary, require_file, require_new
from .checkpoint_bundle import languages_of, pack, training_card
from .da_transformer import DaTransformer, convert, is_theirs, with_segments
from .imported import checkpoint_of

_DAG_TASK = "translation_dag"


def import_checkpoints(
    folder: Path,
    checkpoints: Sequence[Path],
    data: Path,
    *,
    task: str,
    languages: Tuple[Optional[str], Optional[str]],
    complete: Callable[[Bundle], None],
    **described: Any,
) -> Bundle:
    """Makes a bundle of fairseq's, DA-Transformer's or FA-DAT's checkpoints.

    Args:
        folder: the bundle's folder; it must not exist yet.
        checkpoints: the path of one checkpoint, or the paths of an ensemble's.
        data: the folder with the dictionaries.
        task: the task to decode fairseq's own models with; the others are decoded by
            ``translation_dag``.
        languages: source and target, needed only if neither the checkpoint nor ``data`` names them.
        complete: called with the new bundle, to add entries such as example sentences.
        described: further arguments of :func:`.checkpoint_bundle.pack`, such as the codes.

    Raises:
        ValueError: a file is damaged, or its model cannot be converted; the message names the file.
        OSError: a file cannot be read or written.
    """
    for path in checkpoints:
        require_file(path)
    require_new(folder)
    states = [read_checkpoint(path, for_decoding=False) for path in checkpoints]
    theirs = [path for path, state in zip(checkpoints, states) if is_theirs(state)]
    if not theirs:
        for path, state in zip(checkpoints, states):
            with reading(path, "is not a checkpoint of fairseq"):
                make_decodable(state, path)
        return pack(
            folder, checkpoints, data, task=task, languages=languages, complete=complete,
            states=states, **described,
        )  # fmt: skip
    if len(theirs) < len(states):
        raise ValueError(
            f"{theirs[0]} is a model of DA-Transformer or FA-DAT, other checkpoints in {data} are"
            " not: give the path of a single checkpoint"
        )
    models = []
    for path, state in zip(checkpoints, states):
        with reading(path, "cannot be converted"):
            models.append(convert(state, path))
    pair = languages_of(states[0]["cfg"].task, data, checkpoints[0], languages)

    def described_as(bundle: Bundle) -> None:
        complete(bundle)
        origin = bundle.card["imported from"].partition(": ")[2]
        bundle.card.update(
            {**training_card(states[0]), "imported from": f"DA-Transformer or FA-DAT: {origin}"}
        )

    with tempfile.TemporaryDirectory() as scratch:
        place = _dictionaries(data, pair, models, Path(scratch))
        return pack(
            folder,
            checkpoints,
            place,
            task=_DAG_TASK,
            languages=pair,
            complete=described_as,
            states=[_state(model, path, pair, place) for model, path in zip(models, checkpoints)],
            # Their paths end with the graph, and may pass <unk>, which bundles otherwise forbid.
            options={"max_len_b": str(max(model.positions for model in models)), "unkpen": "0"},
            **described,
        )


def _dictionaries(
    data: Path, pair: Tuple[str, str], models: List[DaTransformer], scratch: Path
) -> Path:
    """Returns the folder with the dictionaries of converted models: ``data``, or if the models have
    segment symbols (``[P0]``, …) ``scratch``, to which the dictionaries with these symbols are
    written. ``pair``: source and target language."""
    for language in pair:
        require_dictionary(data, language)
    segments = models[0].segments
    if any(model.segments != segments for model in models):
        raise ValueError(
            f"the models in {data} have different seg_tokens: give the path of a single checkpoint"
        )
    if not segments:
        return data
    for language in dict.fromkeys(pair):
        with_segments(data, language, segments, scratch)
    return scratch


def _state(model: DaTransformer, path: Path, pair: Tuple[str, str], data: Path) -> Dict[str, Any]:
    """The contents of a checkpoint for a converted model. ``path`` is the original file, for
    messages; ``pair`` are the languages, ``data`` is the folder of their dictionaries."""
    own = model.model
    with reading(path, "cannot be converted"):
        return checkpoint_of(
            own.architecture, own.options, own.parameters, pair, data, task=_DAG_TASK
        )
