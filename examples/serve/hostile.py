"""Requests that no client means to send, thousands of them: each must be answered or refused, and
the server must continue.

    python examples/serve/hostile.py http://127.0.0.1:8080 --source en --target de --requests 10000

Right requests that were damaged byte by byte, wrong types and huge numbers in JSON, bodies that are
too long or stop in the middle, floods of headers, paths that try to leave the server, what is no
HTTP. It prints how each kind was answered, and ends with 1 if an answer was 500 or 502, if a
connection was not closed in time, or if a right request is not translated in the end. It needs
nothing but Python; only for servers that are your own.
"""

import argparse
import collections
import concurrent.futures
import json
import random
import socket
import sys
import time
from urllib.parse import urlsplit

PATHS = (
    "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/page/../application.py", "//etc/passwd",
    "/page.js%00.html", "/translate/", "/\\x", "/" + "a" * 5000,
)  # fmt: skip
VALUES = (
    None, True, -1, 1e308, 10**400, "", "\ud800", "x" * 30000, [], [[]], {}, {"a": {}},
    ["a"] * 2000, "\u0000", "<b>" * 500, {"$ref": "#"}, "DROP TABLE",
)  # fmt: skip


def head(path, length, more=b""):
    """The head of a request with a JSON body."""
    kind = b"Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return b"POST %s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n" % (
        path.encode(),
        kind,
        more,
        length,
    )


def strange_fields(source, right):
    """A right request with some values that are none."""
    fields = dict(
        right,
        options={"beam": 2},
        alternatives=1,
        format="text",
        system="x",
        graph=False,
        api_key="k",
    )
    for name in source.sample(sorted(fields), source.randint(1, 3)):
        fields[name] = source.choice(VALUES)
    if source.random() < 0.3:
        fields["options"] = {
            source.choice(
                ["beam", "nbest", "user_dir", "lenpen", "hrt_decode_chunk"]
            ): source.choice(VALUES)
        }
    return json.dumps(fields).encode()


def requests_of(source, right):  # noqa: C901 (one branch for each kind)
    """(kind, parts of a request, seconds between them), one after the other for ever."""
    body = json.dumps(right).encode()
    while True:
        kind = source.choice(
            [
                "damaged",
                "damaged",
                "strange",
                "strange",
                "strange",
                "path",
                "headers",
                "huge",
                "cut",
                "no http",
                "nested",
                "slow",
            ]
        )
        path = source.choice(["/translate", "/v1/translate", "/detect"])
        if kind == "damaged":
            text = bytearray(head(path, len(body)) + body)
            for _ in range(source.choice([1, 3, 30])):
                place = source.randrange(len(text))
                text[place : place + source.choice([0, 1, 5])] = bytes(
                    source.choices(range(256), k=source.choice([0, 1, 2]))
                )
            yield kind, [bytes(text), b"\r\n\r\n"], 0.0
        elif kind == "strange":
            wrong = strange_fields(source, right)
            yield kind, [head(path, len(wrong)) + wrong], 0.0
        elif kind == "path":
            yield (
                kind,
                [
                    b"GET "
                    + source.choice(PATHS).encode()
                    + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                ],
                0.0,
            )
        elif kind == "headers":
            flood = b"".join(
                b"X-%d: %s\r\n" % (number, b"v" * source.choice([1, 50]))
                for number in range(source.choice([100, 3000]))
            )
            yield kind, [head(path, len(body), flood) + body], 0.0
        elif kind == "huge":
            # For the rest of the second one the server waits as long as it waits for anything.
            size = 2_000_000 if source.random() < 0.98 else 10**12
            yield kind, [head(path, size), *[b"x" * 65536] * 31], 0.0
        elif kind == "cut":
            yield kind, [head(path, len(body)) + body[: source.randrange(len(body))]], 0.0
        elif kind == "no http":
            yield (
                kind,
                [bytes(source.choices(range(256), k=source.randint(1, 300))), b"\r\n\r\n"],
                0.0,
            )
        elif kind == "nested":
            deep = source.choice([b"[", b'{"q":', b'{"q":[']) * 20000
            yield kind, [head(path, len(deep)) + deep], 0.0
        elif source.random() < 0.02:
            # These cost the time that the server gives them.
            yield kind, [head(path, len(body)), *(bytes([byte]) for byte in body[:5])], 0.2


def send(address, parts, pause, patience, leaves):
    """The status of the answer; "closed" without one, "hung" when the server neither answers nor
    closes."""
    try:
        with socket.create_connection(address, timeout=patience) as connection:
            for part in parts:
                try:
                    connection.sendall(part)
                except (BrokenPipeError, ConnectionResetError):
                    break
                time.sleep(pause)
            if leaves:
                connection.shutdown(socket.SHUT_WR)
            found = b""
            while part := connection.recv(65536):
                found += part
    except TimeoutError:
        return "hung"
    except OSError:
        return "closed"
    return (
        found.split(b" ", 2)[1].decode("ascii", "replace")
        if found.startswith(b"HTTP/1.1 ")
        else "closed"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("address", help="address of the server, e.g. http://127.0.0.1:8080")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--requests", type=int, default=10000, help="default: %(default)s")
    parser.add_argument(
        "--clients", type=int, default=16, help="clients at a time (default: %(default)s)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=90.0,
        help="seconds until an answer counts as none (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    url = urlsplit(options.address)
    address, right = (
        (url.hostname, url.port or 80),
        {"q": "A man. Ein Haus.", "source": options.source, "target": options.target},
    )
    made, counts = requests_of(random.Random(options.seed), right), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
        sent = []
        for _ in range(options.requests):
            kind, parts, pause = next(made)
            sent.append(
                (
                    kind,
                    pool.submit(
                        send, address, parts, pause, options.patience, kind in ("cut", "damaged")
                    ),
                )
            )
        for kind, answer in sent:
            counts[kind, answer.result()] += 1
    for (kind, status), count in sorted(counts.items()):
        print(f"{kind:8}  {status:6}  {count:6}")
    body = json.dumps(right).encode()
    last = send(address, [head("/translate", len(body)) + body], 0.0, options.patience, False)
    failed = sum(count for (_, status), count in counts.items() if status in ("hung", "500", "502"))
    print(
        f"{options.requests} requests, {failed} failures of the server; a right one afterwards:"
        f" {last}"
    )
    sys.exit(1 if failed or last != "200" else 0)


if __name__ == "__main__":
    main()
