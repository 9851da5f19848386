"""The matrix as tasks of doit (pydoit.org), which orders, selects and runs them side by side.

    doit -f examples/study/dodo.py -n 2 main          the main table, two entries at a time
    doit -f examples/study/dodo.py speed              while nothing else runs
    doit -f examples/study/dodo.py -n 2 -c plenty     continues where an entry fails
    doit -f examples/study/dodo.py list --all -s      what is done (U) and what is not (R)

STUDY (runs/study) is the folder of everything, THREADS (1) those of each training.
"""

import os
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

from doit.exceptions import TaskFailed
from matrix import read_matrix
from steps import REPOSITORY, Store

MATRIX, GROUPS = read_matrix()
FOLDER = Path(os.environ.get("STUDY", REPOSITORY / "runs" / "study")).resolve()
FOLDER.mkdir(parents=True, exist_ok=True)
STORE = Store(FOLDER, MATRIX.entries, int(os.environ.get("THREADS", "1")))
# Measured alone: in no group.
ALONE = tuple(name for name in MATRIX.entries if name.startswith("speed"))
DOIT_CONFIG = {"default_tasks": ["main"], "dep_file": str(FOLDER / "doit.db"), "verbosity": 2}


def perform(name: str) -> Optional[TaskFailed]:
    """Runs an entry; what is wrong is said in one line."""
    try:
        STORE.run(name)
    except (OSError, ValueError) as error:
        return TaskFailed(str(error))
    return None


def task_entries() -> Iterator[Dict[str, Any]]:
    """A task for each entry and for each group."""
    for entry in MATRIX.entries.values():
        yield {
            "basename": entry.name,
            "doc": entry.kind,
            "actions": [(perform, [entry.name])],
            "task_dep": list(entry.parents),
            "uptodate": [STORE.finished(entry.name)],
        }
    for group, names in GROUPS.items():
        yield {
            "basename": group,
            "doc": f"all of {group} but speed",
            "actions": None,
            "task_dep": [name for name in names if name not in ALONE],
        }
