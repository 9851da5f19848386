"""What one hostile client costs a server of your own: its memory, and the time that others wait.

    python examples/serve/attack.py bundle
    python examples/serve/attack.py http://127.0.0.1:8080 --process PID

The first form starts a server for the bundle and ends it afterwards; the second attacks one that
runs, whose process --process names. Either way only this machine is attacked. The first table
shows requests that do not end or whose answers nobody reads, each over one connection; the second,
long texts whose clients leave. It needs nothing but Python, and Linux to read the memory.
"""

import argparse
import contextlib
import http.client
import ipaddress
import itertools
import json
import random
import socket
import string
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

# What is sent at a time.
BLOCK = 1 << 16
HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
# name: (what is sent first, what is sent after it again and again, whether the answers are read)
FLOODS = {
    "requests, answers read": (b"", (HEAD + b"\r\n") * (BLOCK // len(HEAD)), True),
    "requests, answers not read": (b"", (HEAD + b"\r\n") * (BLOCK // len(HEAD)), False),
    "long heads, answers read": (b"", HEAD + b"X: " + b"x" * (BLOCK // 2) + b"\r\n\r\n", True),
    "long heads, answers not read": (
        b"",
        HEAD + b"X: " + b"x" * (BLOCK // 2) + b"\r\n\r\n",
        False,
    ),
    "an endless head": (HEAD + b"X: ", b"x" * BLOCK, False),
    "an endless body": (POST + b"Content-Length: %d\r\n\r\n" % 10**12, b"x" * BLOCK, False),
    "endless small chunks": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n",
        b"1\r\nx\r\n" * 9000,
        False,
    ),
    "an endless chunk extension": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n1;",
        b"x" * BLOCK,
        False,
    ),
    # A character that no head may hold comes last: whoever looks for it again and again is slow.
    "a head of spaces": (HEAD + b"X:" + b" " * 60000 + b"\x00\r\n\r\n", b"", False),
}


class Watch:
    """Looks at a server from outside while something happens to it.

    Attributes:
        memory: its resident memory at first, in MB.
        peak: the most that it had since.
        wait: seconds that another client waited for an answer, at most.
    """

    def __init__(self, address, process, patience):
        self._address, self._process, self._patience = address, process, patience
        self.memory = self.peak = resident(process)
        self.wait = 0.0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._remember, self._ask)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _remember(self):
        while not self._over.wait(0.02):
            self.peak = max(self.peak, resident(self._process))

    def _ask(self):
        while True:
            start = time.monotonic()
            with contextlib.suppress(OSError, http.client.HTTPException):
                ask(self._address, "/health", patience=self._patience)
            self.wait = max(self.wait, time.monotonic() - start)
            if self._over.wait(0.1):
                break


def resident(process):
    """The memory of a process, in MB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise SystemExit(f"process {process} has ended")


def ask(address, path, fields=None, patience=60.0):
    """(status, answer) of a request."""
    connection = http.client.HTTPConnection(*address, timeout=patience)
    try:
        if fields is None:
            connection.request("GET", path)
        else:
            kind = {"Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(fields), kind)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def flood(address, first, again, read, size, seconds):
    """Sends over one connection; (bytes that were taken, how it ended)."""
    deadline, taken = time.monotonic() + seconds, 0
    with socket.create_connection(address, timeout=1) as connection:
        if read:
            threading.Thread(target=drain, args=(connection,), daemon=True).start()
        # Count only bytes that the server takes, not those in a buffer on the way.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BLOCK)
        waiting = memoryview(first or again)
        while taken < size and time.monotonic() < deadline:
            try:
                sent = connection.send(waiting)
            except TimeoutError:
                continue
            except OSError:
                return taken, "closed"
            taken += sent
            waiting = waiting[sent:] or memoryview(again)
            if not waiting:
                # All has been said: the server answers, or closes.
                connection.settimeout(max(0.1, deadline - time.monotonic()))
                with contextlib.suppress(TimeoutError):
                    return taken, "answered" if connection.recv(BLOCK) else "closed"
                break
    return taken, "ended by us"


def drain(connection):
    """Reads what is answered until the connection ends."""
    with contextlib.suppress(OSError, ValueError):
        while True:
            try:
                if not connection.recv(BLOCK):
                    break
            except TimeoutError:
                continue


def attack_connections(address, process, options):
    """Requests that do not end, or whose answers nobody reads."""
    print(
        "| one connection sends | MB taken | seconds | then | memory grows by MB | another client"
        " waits, s |"
    )
    print("| --- | ---: | ---: | --- | ---: | ---: |")
    for name, (first, again, read) in FLOODS.items():
        start = time.monotonic()
        with Watch(address, process, options.patience) as watch:
            taken, end = flood(address, first, again, read, options.size * 10**6, options.seconds)
            seconds = time.monotonic() - start
        print(
            f"| {name} | {taken / 1e6:.1f} | {seconds:.1f} | {end} |"
            f" {watch.peak - watch.memory:.1f} | {watch.wait:.2f} |",
            flush=True,
        )


def attack_texts(address, process, options):
    """Long words and lines, and what they cost others after their clients have left."""
    system = ask(address, "/v1/systems")[1][0]
    fields = {"source": system["source"], "target": system["target"]}
    # Units of all kinds can be merged in it, in many places.
    word = "".join(random.Random(1).choices(string.ascii_lowercase, k=options.word))
    line = " ".join(itertools.islice(itertools.cycle(("ab", "cde", "fghij")), options.line // 4))[
        : options.line
    ]
    print("| request | status | seconds | memory grows by MB | another client waits, s |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, text in (
        ("five words", "a b c d e"),
        (f"a word of {len(word)} characters", word),
        (f"a line of {len(line)} characters", line),
    ):
        with Watch(address, process, options.patience) as watch:
            start = time.monotonic()
            status = status_of(address, {**fields, "q": text}, options.patience)
            seconds = time.monotonic() - start
        print(
            f"| {name} | {status} | {seconds:.2f} | {watch.peak - watch.memory:.1f} |"
            f" {watch.wait:.2f} |",
            flush=True,
        )
    with Watch(address, process, options.patience) as watch:
        with contextlib.ExitStack() as stack:
            for number in range(1, options.clients + 1):
                # Each another one: units of words that were asked for are remembered.
                body = json.dumps({**fields, "q": word[number:] + word[:number]}).encode()
                client = stack.enter_context(
                    socket.create_connection(address, timeout=options.patience)
                )
                client.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            # The server has to have seen them.
            time.sleep(0.5)
        start = time.monotonic()
        status = status_of(address, {**fields, "q": "a b c d e"}, options.patience)
        seconds = time.monotonic() - start
    print(
        f"| five words after {options.clients} such words whose clients have left | {status} |"
        f" {seconds:.2f} | {watch.peak - watch.memory:.1f} | {watch.wait:.2f} |",
        flush=True,
    )


def status_of(address, fields, patience):
    """How a request for a translation is answered."""
    try:
        return str(ask(address, "/translate", fields, patience)[0])
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__


@contextlib.contextmanager
def server(options):
    """(address, process) of the server that is attacked."""
    if "://" in options.server:
        url = urlsplit(options.server)
        if url.hostname != "localhost" and not is_loopback(url.hostname):
            raise SystemExit(
                f"{options.server}: only servers of this machine are attacked, e.g."
                " http://127.0.0.1:8080"
            )
        if options.process is None:
            raise SystemExit(
                "--process is missing: the number of the server's process, whose memory is watched"
            )
        yield (url.hostname, url.port or 80), options.process
        return
    command = [sys.executable, "-m", "fairseq_hrt", "serve", options.server, "--port", "0"]
    # Long lines are what is tried.
    command += [
        "--max-characters",
        str(max(20000, options.line, options.word)),
        "--time-limit",
        str(options.patience),
    ]
    log = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            url = urlsplit(process.stdout.readline().strip())
            if url.port is None:
                raise SystemExit(f"{' '.join(command)} does not start")
            yield (url.hostname, url.port), process.pid
        finally:
            process.kill()


def is_loopback(host):
    """Whether an address is one of this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server", help="folder of a bundle, or address of a server of this machine")
    parser.add_argument(
        "--process", type=int, help="number of the server's process, where its address is given"
    )
    parser.add_argument(
        "--only", choices=("connections", "texts"), help="one of the two tables (default: both)"
    )
    parser.add_argument(
        "--size", type=float, default=1200, help="MB sent on a connection (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=60, help="seconds for a connection (default: %(default)s)"
    )
    parser.add_argument(
        "--word", type=int, default=20000, help="characters of the word (default: %(default)s)"
    )
    parser.add_argument(
        "--line", type=int, default=100000, help="characters of the line (default: %(default)s)"
    )
    parser.add_argument(
        "--clients", type=int, default=24, help="clients that leave (default: %(default)s)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=300,
        help="seconds until an answer counts as none (default: %(default)s)",
    )
    options = parser.parse_args()
    with server(options) as (address, process):
        # A server that has just started still loads what it tells languages by.
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(address, "/detect", {"q": "warm up"}, options.patience)
        if options.only != "texts":
            attack_connections(address, process, options)
        if options.only != "connections":
            attack_texts(address, process, options)


if __name__ == "__main__":
    main()
