"""examples/serve: what it installs is what the package asks for, and it measures what it says."""

import ast
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import uvicorn

import fairseq_hrt
from fairseq_hrt.server import process

ROOT = Path(fairseq_hrt.__file__).parents[1]
EXAMPLE = ROOT / "examples" / "serve"


def lists_of_setup():
    """The lists of setup.py by name."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.List)]
    return {node.targets[0].id: ast.literal_eval(node.value) for node in assigned}


def test_the_requirements_are_those_of_the_package():
    lines = [line for line in (EXAMPLE / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    lists = lists_of_setup()
    light = [line for line in lists["REQUIREMENTS"] if line.startswith(("numpy", "safetensors"))]
    assert lines == [*light, *lists["SERVE"]]


def test_the_image_has_what_its_build_copies():
    for line in (EXAMPLE / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY "):
            assert all((ROOT / name).exists() for name in line.split()[1:-1])


@pytest.mark.slow
def test_load(make_client, tmp_path):
    (tmp_path / "lines").write_text("ab\n\ncd ef\n")
    client = make_client()
    server = uvicorn.Server(
        uvicorn.Config(client.app, lifespan="off", **process.server_options(client.app.state.server.settings))
    )
    with process.bound_socket("127.0.0.1", 0) as listening:
        listening.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        arguments = [
            "--source",
            "en",
            "--target",
            "de",
            "--lines",
            tmp_path / "lines",
            "--clients",
            "1",
            "3",
            "--seconds",
            "0.3",
        ]
        program = [sys.executable, EXAMPLE / "load.py", f"http://127.0.0.1:{listening.getsockname()[1]}", *arguments]
        result = subprocess.run(list(map(str, program)), capture_output=True, text=True, timeout=60)
        server.should_exit = True
        thread.join(20)
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["1", "3"] and all(float(row[1]) > 0 and row[-1] == "0" for row in rows)
