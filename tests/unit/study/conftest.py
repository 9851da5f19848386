"""A study of two small entries."""

import entries
import pytest
import steps

# Stands in for a training: continues from its checkpoint, and stops after two steps where it is
# told to.
TRAINING = """
import os, sys
from pathlib import Path
checkpoint = Path(os.environ["OUT"], "steps")
done = len(checkpoint.read_text().split()) if checkpoint.exists() else 0
for step in range(done, 4):
    if step == 2 and done == 0:
        sys.exit(3)
    with checkpoint.open("a") as file:
        file.write(f"{step}\\n")
Path(os.environ["OUT"], "model.pt").write_text("model")
"""


@pytest.fixture
def store(tmp_path):
    own = entries.Matrix()
    own.add("training", "command", command=["python", "-c", TRAINING], result="model.pt")
    copy = "import shutil; shutil.copy('${training}/model.pt', '${out}/copy')"
    own.add("copied", "command", command=["python", "-c", copy], result="copy")
    own.add("empty", "command", command=["python", "-c", ""], result="nothing")
    return steps.Store(tmp_path / "study", own.entries)
