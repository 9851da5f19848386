"""Refuses to decode a checkpoint with its languages swapped (``-s de -t en`` of a model from ``en``
to ``de``), and stores the languages in every checkpoint.

fairseq 0.12.2 takes the languages from the command and the names of the data's files alone. With a
joined dictionary every other check passes, and the translations mean nothing. A checkpoint has the
languages only if its training was given ``-s`` and ``-t``.
"""

from typing import Any

from .display import escaped
from .importing import around

_NAMES = ("source_lang", "target_lang")


def _translated(load: Any, filenames: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls ``load``, fairseq's ``load_model_ensemble_and_task(filenames, ..., task)``, and returns
    its result. Raises ValueError if the languages of ``task`` are those of the checkpoint, swapped;
    languages that the user sets (``--model-overrides``) count as the checkpoint's."""
    loaded = load(filenames, *args, **kwargs)
    _, saved, task = loaded
    theirs, own = (
        [str(getattr(config, name, None)) for name in _NAMES]
        for config in (saved["task"], getattr(task, "cfg", None))
    )
    if theirs == own[::-1] != own:
        source, target = map(escaped, own)
        raise ValueError(
            f"{filenames[-1]} was trained from {target} to {source}, not from {source} to {target}:"
            " swap --source-lang and --target-lang, or take a model of this direction (for a model"
            " of both directions give --model-overrides"
            f" \"{{'source_lang': '{source}', 'target_lang': '{target}'}}\")"
        )
    return loaded


def _stored(state_dict: Any, trainer: Any) -> Any:
    """Calls ``state_dict``, fairseq's ``Trainer.state_dict``, and returns its result, the contents
    of a checkpoint. A language that its options lack is set to the task's, which fairseq has taken
    from the names of the data's files."""
    state = state_dict(trainer)
    stored = state["cfg"].get("task")
    if isinstance(stored, dict):
        for name in _NAMES:
            if name in stored and stored[name] is None:
                stored[name] = getattr(trainer.task.cfg, name)
    return state


REPAIR = around(
    "swapped-languages",
    "fairseq decodes with source and target language swapped, without a warning",
    {
        "fairseq.checkpoint_utils:load_model_ensemble_and_task": _translated,
        "fairseq.trainer:Trainer.state_dict": _stored,
    },
)
