"""examples/serve: its image has what it copies, and it measures what it claims."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import uvicorn

import fairseq_hrt
from fairseq_hrt.native.server import process

ROOT = Path(fairseq_hrt.__file__).parents[1]
EXAMPLE = ROOT / "examples" / "serve"


def test_the_image_has_what_its_build_copies():
    for line in (EXAMPLE / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY "):
            assert all((ROOT / name).exists() for name in line.split()[1:-1])


@pytest.mark.slow
def test_load(make_client, tmp_path):
    (tmp_path / "lines").write_text("ab\n\ncd ef\n")
    client = make_client()
    server = uvicorn.Server(
        uvicorn.Config(
            client.app, lifespan="off", **process.server_options(client.app.state.server.settings)
        )
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
        program = [
            sys.executable,
            EXAMPLE / "load.py",
            f"http://127.0.0.1:{listening.getsockname()[1]}",
            *arguments,
        ]
        result = subprocess.run(list(map(str, program)), capture_output=True, text=True, timeout=60)
        server.should_exit = True
        thread.join(20)
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["1", "3"] and all(
        float(row[1]) > 0 and row[-1] == "0" for row in rows
    )
