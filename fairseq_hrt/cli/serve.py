"""Translates over HTTP, with a page that shows how translations are written.

Example:

    fairseq-hrt serve bundle                                  # http://127.0.0.1:8080
    curl -d q="Good morning." -d source=en -d target=de http://127.0.0.1:8080/translate
    fairseq-hrt serve AT=teacher HRT=bundle --threads 2       # side by side on the page
    fairseq-hrt serve HRT2=bundle HRT3=bundle --set HRT3:hrt_decode_chunk=3   # one model, two ways

The interface is LibreTranslate's (POST /translate, GET /languages, …); /v1/translate adds scores,
tokens and steps, /metrics figures for Prometheus, /spec the description of all of it. It listens on
this machine only unless --host is given. On SIGTERM or Ctrl-C it answers accepted requests and
stops. It needs the extra serve.
"""

import argparse
from pathlib import Path

from ..native.io.files import WINDOWS
from .command import add_numbers, command
from .distribution import install_command
from .parser import verb_parser
from .settings import add_engine_arguments, add_shortlist_argument, read_settings


def build_parser() -> argparse.ArgumentParser:
    """The command's options; their defaults are those of
    :class:`..native.server.settings.Settings`."""
    from ..native.server.settings import Settings

    default = Settings(systems=(("", Path()),))
    parser = verb_parser("serve", __doc__)
    parser.add_argument(
        "systems",
        nargs="+",
        metavar="[NAME=]BUNDLE",
        help="bundles that answer; of two for the same languages the first is the default",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME:OPTION=VALUE",
        help="decoding option of a system; repeatable",
    )
    parser.add_argument(
        "--glossary",
        action="append",
        dest="glossaries",
        default=[],
        metavar="[NAME:]FILE",
        help=(
            "given translations, a term, a tab and its translation in each line, of a system or of"
            " all; requests may add terms; repeatable"
        ),
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    add_numbers(parser, ("--port", 8080, "port"))
    add_engine_arguments(parser, threads=False)
    add_numbers(
        parser,
        ("--threads", default.threads, "of each worker's decoders"),
        ("--workers", 1, "processes; one that dies is replaced"),
    )
    add_shortlist_argument(parser)
    for name, text in (
        ("max-body", "bytes of a request"),
        ("max-characters", "characters of all texts of a request"),
        ("max-texts", "texts of a request"),
        ("max-alternatives", "other translations of a text"),
        ("max-terms", "terms of a request's glossary"),
        ("max-sentences", "sentences of a request"),
        ("max-queue", "sentences that may wait; beyond it requests are answered with 429"),
        (
            "max-connections",
            "open connections of each worker; beyond it idle ones are closed, or new requests"
            " answered with 503",
        ),
        ("max-batch", "sentences decoded together"),
        ("batch-wait", "seconds that a sentence waits for others in its batch"),
        ("time-limit", "time limit of a request in seconds; then 408 or 504"),
    ):
        add_numbers(parser, (f"--{name}", getattr(default, name.replace("-", "_")), text))
    parser.add_argument(
        "--key-file",
        type=Path,
        help="file of keys, one a line; requests must carry one (default: none is needed)",
    )
    parser.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        help="web pages of this origin (https://example.org; * for all) may ask (default: none)",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        dest="allow_hosts",
        metavar="NAME",
        help=(
            "answer requests addressed to this name (in Host), too; repeatable. localhost and"
            " loopback addresses are always answered. Others are refused with 421 if the server"
            " listens on this machine only, or if a name is given (default: any name otherwise)"
        ),
    )
    return parser


def run(options: argparse.Namespace) -> None:
    """Starts the server, and returns when a signal has stopped it.

    Raises:
        ValueError: an option does not exist, is given twice or has a value that is not permitted;
            or the packages of the extra ``serve`` are not installed.
    """
    from ..native.server.settings import Settings, parse_glossary, parse_option, parse_served
    from ..native.text.glossary import Glossary

    if not 0 <= options.port <= 65535:
        raise ValueError(f"--port {options.port}: give a port from 0 to 65535; 0 takes a free one")
    if options.workers < 1:
        raise ValueError(f"--workers {options.workers}: give at least 1 process")
    if options.workers > 1 and WINDOWS:
        # On Windows a worker cannot be asked to finish the requests that it has accepted.
        raise ValueError(
            f"--workers {options.workers}: on Windows one process answers; give --threads instead"
        )
    fields = {
        name: value
        for name, value in vars(options).items()
        if name in Settings.__dataclass_fields__
    }
    systems, chosen = (
        tuple(map(parse_served, options.systems)),
        tuple(map(parse_option, options.set)),
    )
    for name, _ in systems:
        read_settings([f"{option}={value}" for system, option, value in chosen if system == name])
    if options.allow_hosts is not None:
        fields["allow_hosts"] = tuple(options.allow_hosts)
    names = [name for name, _ in systems]
    glossaries = tuple(parse_glossary(text, names) for text in options.glossaries)
    for _, file in glossaries:
        # A worker would find the same fault, later.
        Glossary.read(file)
    settings = Settings(
        **{**fields, "systems": systems, "options": chosen, "glossaries": glossaries}
    )
    try:
        from ..native.server.process import serve
    except ImportError as error:
        raise ValueError(f"{error.name} is not installed: {install_command('serve')}") from error
    serve(settings, options.host, options.port, options.workers)


main = command(build_parser, run)
