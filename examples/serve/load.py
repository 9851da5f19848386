"""Load on a translation server: requests per second and latency for some numbers of clients, each
with one request at a time.

    python examples/serve/load.py http://127.0.0.1:8080 --source en --target de \\
        --lines sentences.en --clients 1 8 32 --seconds 60
    python examples/serve/load.py http://127.0.0.1:8080 --source en --target de \\
        --lines sentences.en --requests 20000 --process PID

The second command watches the memory of the server, whose number --process gives (on Linux), over
so many requests of 8 clients. It needs nothing but Python. Run it on another machine, or its own
work is measured as well.
"""

import argparse
import asyncio
import itertools
import json
import statistics
import time
from pathlib import Path
from urllib.parse import urlsplit


async def client(address, requests, deadline, latencies, failures):
    """Sends requests over one connection until the deadline or their end; a lost connection is
    opened again."""
    writer = None
    while time.monotonic() < deadline:
        body = next(requests, None)
        if body is None:
            break
        start = time.monotonic()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(address.hostname, address.port or 80)
            head = (
                f"POST /translate HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type:"
                f" application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(answer.partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError) as error:
            failures.append(type(error).__name__)
            writer = None
            continue
        status = answer.split()[1].decode()
        if status == "200":
            latencies.append(time.monotonic() - start)
        else:
            failures.append(status)
        if b"connection: close" in answer:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


def bodies_of(lines, source, target):
    """The requests, one for each line."""
    return [json.dumps({"q": line, "source": source, "target": target}).encode() for line in lines]


async def measure(address, bodies, clients, seconds, requests=None):
    """One row: (requests per second, sorted latencies, failures); ends after some seconds, or so
    many requests."""
    latencies, failures, start = [], [], time.monotonic()
    given = itertools.islice(itertools.cycle(bodies), requests)
    await asyncio.gather(
        *(client(address, given, start + seconds, latencies, failures) for _ in range(clients))
    )
    return len(latencies) / (time.monotonic() - start), sorted(latencies), failures


def quantiles(latencies):
    """Median, 99th percentile and the longest of some sorted latencies, in milliseconds; NaN where
    there are none."""
    cuts = (
        statistics.quantiles(latencies, n=100, method="inclusive")
        if len(latencies) > 1
        else [float("nan")] * 99
    )
    return 1000 * cuts[49], 1000 * cuts[98], 1000 * latencies[-1] if latencies else float("nan")


def resident(process):
    """MB of memory that a process and its children hold, shared pages counted once for each
    (Linux)."""
    total, open_ones = 0.0, [process]
    while open_ones:
        number = open_ones.pop()
        try:
            status = Path(f"/proc/{number}/status").read_text()
            open_ones += Path(f"/proc/{number}/task/{number}/children").read_text().split()
        except FileNotFoundError:
            continue
        total += (
            sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
            / 1024
        )
    return total


def watch_memory(address, bodies, options):
    """Prints the server's memory after each tenth of the requests."""
    print("requests  requests/s  p99 ms  failures  memory MB")
    done, part, clients = 0, max(options.requests // 10, 1), options.clients[0]
    while done < options.requests:
        part = min(part, options.requests - done)
        rate, latencies, failures = asyncio.run(
            measure(address, bodies, clients, float("inf"), part)
        )
        done += part
        # Each part begins at another line.
        bodies = bodies[part % len(bodies) :] + bodies[: part % len(bodies)]
        print(
            f"{done:8}  {rate:10.1f}  {quantiles(latencies)[1]:6.1f}  {len(failures):8} "
            f" {resident(options.process):9.1f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("address", help="address of the server, e.g. http://127.0.0.1:8080")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument(
        "--lines",
        type=Path,
        required=True,
        help="sentences to translate, one a line; each is a request",
    )
    parser.add_argument("--clients", type=int, nargs="+", help="default: 1 8 32; with --requests 8")
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="seconds for each number of clients (default: %(default)s)",
    )
    parser.add_argument(
        "--requests", type=int, help="send this many instead, and watch the memory of --process"
    )
    parser.add_argument("--process", type=int, metavar="PID", help="process of the server")
    options = parser.parse_args()
    if (options.requests is None) != (options.process is None) or (options.requests or 1) < 1:
        parser.error("--requests (at least 1) and --process belong together")
    options.clients = options.clients or ([1, 8, 32] if options.requests is None else [8])
    lines = [
        line for line in options.lines.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    if not lines:
        parser.error(f"{options.lines} has no lines")
    bodies, address = bodies_of(lines, options.source, options.target), urlsplit(options.address)
    if options.requests is not None:
        watch_memory(address, bodies, options)
        return
    print("clients  requests/s  p50 ms  p99 ms  longest ms  failures")
    for clients in options.clients:
        rate, latencies, failures = asyncio.run(measure(address, bodies, clients, options.seconds))
        p50, p99, longest = quantiles(latencies)
        print(
            f"{clients:7}  {rate:10.1f}  {p50:6.1f}  {p99:6.1f}  {longest:10.1f}  {len(failures)}"
        )


if __name__ == "__main__":
    main()
