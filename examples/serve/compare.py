"""Several translation servers under the same load, one after the other: requests per second,
latency, memory, start.

    python examples/serve/compare.py --lines sentences.en --clients 1 8 32 --seconds 60 \\
        --server 'native AT=fairseq-hrt serve at' \\
        --server 'native HRT=fairseq-hrt serve hrt' \\
        --server 'CTranslate2 int8=python examples/serve/ctranslate2_server.py at --model
        at.ctranslate2'

A server is a name and a command that prints its address when it answers, as `fairseq-hrt serve`
does; `--port 0` is added. Each is started, measured, and ended by SIGTERM. The load is made by this
program on the same machine: give it a core of its own, or read the figures as a comparison only.
Clients send one sentence a request, wait for the answer, and send the next.
"""

import argparse
import asyncio
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from load import bodies_of, measure, quantiles, resident  # noqa: E402

TABLE = (
    "server",
    "clients",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "longest ms",
    "failures",
    "memory MB",
    "start s",
    "first answer ms",
)


def parse_server(text):
    """('name', ['command', …]) of NAME=COMMAND; "python" is the one that runs this program.

    Raises:
        ValueError: a part is missing, or there is no such program.
    """
    name, _, command = text.partition("=")
    words = shlex.split(command)
    if not name.strip() or not words:
        raise ValueError(f"--server {text!r}: write NAME=COMMAND")
    if words[0] == "python":
        words[0] = sys.executable
    elif words[0] == "fairseq-hrt":
        words[:1] = [sys.executable, "-m", "fairseq_hrt"]
    if shutil.which(words[0]) is None:
        raise ValueError(
            f"--server {text!r}: there is no program {words[0]!r}; the first '=' ends the name"
        )
    return name.strip(), words


def languages(address):
    """The first pair of different languages that a server has."""
    with urllib.request.urlopen(f"{address}/languages", timeout=30) as answer:
        return next(
            (one["code"], target)
            for one in json.load(answer)
            for target in one["targets"]
            if target != one["code"]
        )


def first_answer(address, body):
    """Milliseconds of one request."""
    start = time.monotonic()
    request = urllib.request.Request(
        f"{address}/translate", body, {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=60).read()
    return 1000 * (time.monotonic() - start)


def measure_server(name, command, lines, options):
    """Rows of one server, as dictionaries.

    Raises:
        ValueError: it does not start, or does not end well.
    """
    start = time.monotonic()
    with subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise ValueError(f"server {name!r} does not start: run {shlex.join(command)}")
            started, rows = time.monotonic() - start, []
            bodies = bodies_of(lines, *languages(address))
            first = first_answer(address, bodies[0])
            # What is made on first use is made before anything is measured.
            asyncio.run(measure(urlsplit(address), bodies, 4, options.warm_up))
            for clients in options.clients:
                rate, latencies, failures = asyncio.run(
                    measure(urlsplit(address), bodies, clients, options.seconds)
                )
                p50, p99, longest = quantiles(latencies)
                values = (
                    name,
                    clients,
                    round(rate, 1),
                    round(p50, 2),
                    round(p99, 2),
                    round(longest, 1),
                    len(failures),
                )
                rows.append(
                    dict(
                        zip(
                            TABLE,
                            (
                                *values,
                                round(resident(process.pid)),
                                round(started, 2),
                                round(first, 1),
                            ),
                        )
                    )
                )
        finally:
            process.send_signal(signal.SIGTERM)
    if process.returncode:
        raise ValueError(f"server {name!r} ended with status {process.returncode}")
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--server",
        action="append",
        required=True,
        metavar="NAME=COMMAND",
        help="repeat for each server",
    )
    parser.add_argument(
        "--lines",
        type=Path,
        required=True,
        help="sentences to translate, one a line; each is a request",
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="seconds for each number of clients (default: %(default)s)",
    )
    parser.add_argument(
        "--warm-up", type=float, default=2.0, help="seconds before that (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args()
    try:
        servers = [parse_server(text) for text in options.server]
        lines = [
            line for line in options.lines.read_text(encoding="utf-8").splitlines() if line.strip()
        ]
        if not lines:
            raise ValueError(f"{options.lines} has no lines")
        rows = []
        print("| " + " | ".join(TABLE) + " |\n|" + "---|" * len(TABLE), flush=True)
        for name, command in servers:
            for row in measure_server(name, command, lines, options):
                rows.append(row)
                print("| " + " | ".join(str(row[column]) for column in TABLE) + " |", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
