"""Makes ``fairseq-score --sacrebleu`` work with sacreBLEU 2, which scores lists of strings.

fairseq 0.12.2 passes open files (fairseq_cli/score.py:60). It imports sacreBLEU inside a function;
therefore ``__import__`` is replaced in the builtins of that module.
"""

import builtins
import functools
import types
from typing import Any, Iterable, Optional

from .importing import ModuleView, Repair


def _reason() -> Optional[str]:
    import sacrebleu

    version = sacrebleu.__version__
    return None if version.startswith("1.") else f"sacreBLEU {version} does not score open files"


def _watch_import(module: types.ModuleType) -> None:
    def with_files(name: str, *args: Any, **kwargs: Any) -> Any:
        found = builtins.__import__(name, *args, **kwargs)
        if name != "sacrebleu":
            return found

        @functools.wraps(found.corpus_bleu)
        def corpus_bleu(
            hypotheses: Iterable[str], references: Iterable[Iterable[str]], **options: Any
        ) -> Any:
            return found.corpus_bleu(list(hypotheses), list(map(list, references)), **options)

        return ModuleView(found, corpus_bleu=corpus_bleu)

    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": with_files}


REPAIR = Repair(
    name="scored-files",
    modules=("fairseq_cli.score",),
    reason=_reason,
    apply=_watch_import,
    before_execution=True,
)
