"""Load on a translation server: requests per second and latency for some numbers of clients, each with one request at a time.

    python examples/serve/load.py http://127.0.0.1:8080 --source en --target de --lines sentences.en --clients 1 8 32 --seconds 60

It needs nothing but Python. Run it on another machine, or its own work is measured as well.
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
    """Sends requests over one connection until the deadline; a lost connection is opened again."""
    writer = None
    while time.monotonic() < deadline:
        body = next(requests)
        start = time.monotonic()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(address.hostname, address.port or 80)
            head = f"POST /translate HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
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


async def measure(address, bodies, clients, seconds):
    """One row: (requests per second, sorted latencies, failures)."""
    latencies, failures, start = [], [], time.monotonic()
    requests = itertools.cycle(bodies)
    await asyncio.gather(*(client(address, requests, start + seconds, latencies, failures) for _ in range(clients)))
    return len(latencies) / (time.monotonic() - start), sorted(latencies), failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="of the server, e.g. http://127.0.0.1:8080")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--lines", type=Path, required=True, help="sentences to translate, one a line; each is a request")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each number of clients (default: %(default)s)")
    options = parser.parse_args()
    lines = [line for line in options.lines.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        parser.error(f"{options.lines} has no lines")
    bodies = [json.dumps({"q": line, "source": options.source, "target": options.target}).encode() for line in lines]
    print("clients  requests/s  p50 ms  p99 ms  longest ms  failures")
    for clients in options.clients:
        rate, latencies, failures = asyncio.run(measure(urlsplit(options.address), bodies, clients, options.seconds))
        cuts = statistics.quantiles(latencies, n=100, method="inclusive") if len(latencies) > 1 else [float("nan")] * 99
        longest = latencies[-1] if latencies else float("nan")
        print(f"{clients:7}  {rate:10.1f}  {1000 * cuts[49]:6.1f}  {1000 * cuts[98]:6.1f}  {1000 * longest:10.1f}  {len(failures)}")


if __name__ == "__main__":
    main()
