"""The translation server on a Ray cluster: replicas of the application of `fairseq-hrt serve`,
which Ray Serve spreads over the machines.

    python examples/scale/serve_deployment.py bundle --replicas 2
    python examples/scale/serve_deployment.py AT=teacher HRT=bundle --replicas 8 --threads 4
    --address auto --host 0.0.0.0

The same routes, limits and page as in one process. Ray replaces a replica that dies and, where a
machine is lost, starts it elsewhere; the request that a dying replica holds fails. Bundles lie on a
file system that all machines share. The program stays, and takes the replicas down when it is ended
by SIGTERM or Ctrl-C; those of a cluster (--address) stay with --detach.
"""

import argparse
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

# Beyond what a replica decodes at a time, so that its batches are full; more wait in Ray's proxy.
ONGOING = 256


def settings_of(options):
    """The server's settings; bundles by their whole paths, as replicas have folders of their own.

    Raises:
        ValueError: a system is not a bundle, or a number is out of range.
    """
    from fairseq_hrt.native.server.application import check
    from fairseq_hrt.native.server.settings import Settings, parse_served

    systems = tuple((name, folder.resolve()) for name, folder in map(parse_served, options.systems))
    keys = None if options.key_file is None else options.key_file.resolve()
    settings = Settings(
        systems=systems,
        threads=options.threads,
        engine=options.engine,
        time_limit=options.time_limit,
        key_file=keys,
    )
    if options.replicas < 1:
        raise ValueError(f"--replicas {options.replicas}: at least one has to answer")
    check(settings)
    return replace(settings, max_connections=max(settings.max_connections, ONGOING))


def deployment(settings, replicas):
    """Ray's application: each replica makes the server's own when it starts."""
    from ray import serve

    def build():
        from fairseq_hrt.native.server.application import create_application

        return create_application(settings)

    @serve.deployment(
        num_replicas=replicas,
        ray_actor_options={"num_cpus": settings.threads},
        max_ongoing_requests=ONGOING,
        graceful_shutdown_timeout_s=settings.time_limit,
    )
    @serve.ingress(build)
    class Translation:
        """Nothing of its own: all requests are the application's."""

    return Translation.bind()


def run(options):
    """Deploys, prints where, and waits for the end."""
    settings = settings_of(options)
    import ray
    from ray import serve

    ray.init(
        address=options.address, include_dashboard=False if options.address is None else None,
        num_cpus=None if options.address else options.replicas * options.threads + 1,
        log_to_driver=False,
    )  # fmt: skip
    # After Ray's own, which would exit in the middle of whatever is done.
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *unused: ended.set())
    # Longer than the server's own limit, which answers with the reason.
    serve.start(
        http_options={
            "host": options.host,
            "port": options.port,
            "request_timeout_s": settings.time_limit + 5,
        }
    )
    serve.run(deployment(settings, options.replicas), name="translation", route_prefix="/")
    sys.stdout.write(f"http://{options.host}:{options.port}\n")
    sys.stdout.flush()
    if options.detach:
        return
    ended.wait()
    serve.shutdown()
    ray.shutdown()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("systems", nargs="+", metavar="[NAME=]BUNDLE")
    parser.add_argument("--replicas", type=int, default=2, help="default: %(default)s")
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="threads of each, and cores that Ray keeps for it (default: %(default)s)",
    )
    parser.add_argument(
        "--engine", choices=("auto", "torch", "native"), default="auto", help="default: %(default)s"
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=30.0,
        help="time limit of a request in seconds (default: %(default)s)",
    )
    parser.add_argument("--key-file", type=Path, help="see fairseq-hrt serve")
    parser.add_argument(
        "--host", default="127.0.0.1", help="host of Ray's proxy (default: %(default)s)"
    )
    parser.add_argument("--port", type=int, default=8080, help="default: %(default)s")
    parser.add_argument(
        "--address", help="address of a Ray cluster (default: a new one on this machine)"
    )
    parser.add_argument(
        "--detach",
        action="store_true",
        help="leave the replicas of a cluster alone when this program ends",
    )
    options = parser.parse_args()
    if options.detach and options.address is None:
        parser.error(
            "--detach needs the --address of a cluster: one that is started here ends with this"
            " program"
        )
    try:
        run(options)
    except (ValueError, OSError) as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
