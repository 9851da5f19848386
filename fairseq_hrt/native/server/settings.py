"""The options of a server: its systems and its limits. The defaults suit one small machine."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, Optional, Tuple

from ..io.escaping import shown
from ..options.conditions import flag
from .hosts import canonical, canonical_origin


@dataclass(frozen=True)
class Settings:
    """The options of ``fairseq-hrt serve``.

    Attributes:
        systems: (name, folder of the bundle) of each system (a bundle with decoding options); the
            first system for a pair of languages is the default for that pair.
        options: (name of a system, option, value): decoding options of that system, which override
            those of its bundle.
        glossaries: (name of a system, file) of default glossaries; an empty name stands for all
            systems without a glossary of their own.
        engine: ``auto``, ``torch`` or ``native``, see :func:`fairseq_hrt.from_pretrained`.
        device: ``cpu``, ``cuda`` or ``cuda:N``; None: the CPU for the native engine, for PyTorch a
            GPU if there is one.
        threads: threads of each system's decoder, in each worker.
        shortlist: whether translations use only words of their bundle's shortlist.
        max_body: most bytes of a request's body.
        max_characters: most characters of all texts of a request.
        max_texts: most texts of a request.
        max_sentences: most sentences of a request, counted after its texts are split.
        max_alternatives: most further translations of a text.
        max_terms: most terms in the glossary of a request.
        max_queue: most sentences that wait for a system; requests that exceed it are answered with
            status 429.
        max_connections: most open connections of each worker. Further clients replace idle ones; if
            all are busy, requests are answered with status 503.
        max_batch: most sentences decoded together.
        batch_wait: seconds that a sentence waits for others to share its batch.
        time_limit: most seconds for a request, its body included; a slower one is answered with
            status 408 or 504.
        key_file: file of the API keys, one per line; None: no key is needed.
        allow_origin: the origin, ``scheme://host:port``, of other web pages that may read answers
            (CORS); ``*``: all; ``null``: local files; None: none.
        allow_hosts: names that requests may be addressed to, besides ``localhost`` and loopback
            addresses; None: any.
    """

    systems: Tuple[Tuple[str, Path], ...]
    options: Tuple[Tuple[str, str, str], ...] = ()
    glossaries: Tuple[Tuple[str, Path], ...] = ()
    engine: str = "auto"
    device: Optional[str] = None
    threads: int = 1
    shortlist: bool = False
    max_body: int = 1 << 20
    max_characters: int = 20000
    max_texts: int = 128
    max_sentences: int = 1024
    max_alternatives: int = 5
    max_terms: int = 1000
    max_queue: int = 4096
    max_connections: int = 1000
    max_batch: int = 32
    batch_wait: float = 0.002
    time_limit: float = 30.0
    key_file: Optional[Path] = None
    allow_origin: Optional[str] = None
    allow_hosts: Optional[Tuple[str, ...]] = None

    def __post_init__(self) -> None:
        positive = (
            "threads", "max_body", "max_characters", "max_texts", "max_sentences", "max_queue",
            "max_terms", "max_connections", "max_batch", "time_limit",
        )  # fmt: skip
        for name in positive:
            # Not "<= 0": no comparison with nan is true.
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(
                    f"{flag(name)} {getattr(self, name)} must be greater than 0, and finite"
                )
        for name in ("max_alternatives", "batch_wait"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(
                    f"{flag(name)} {getattr(self, name)} must be finite and not negative"
                )
        if self.max_sentences > self.max_queue:
            raise ValueError(
                f"--max-sentences {self.max_sentences} do not fit into --max-queue"
                f" {self.max_queue}: lower --max-sentences or raise --max-queue"
            )
        _check_hosts(self.allow_hosts or (), self.allow_origin)
        names = [name for name, _ in self.systems]
        if not names:
            raise ValueError("no system: give at least one bundle")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"two systems are called {twice[0]!r}: give each a name of its own, NAME=BUNDLE"
            )

        for name, option, _ in self.options:
            if name not in names:
                raise ValueError(
                    f"--set {name}:{option}: there is no such system; there are: {', '.join(names)}"
                )

        _check_glossaries(self.glossaries)

    def glossary_of(self, name: str) -> Optional[Path]:
        """The path of the default glossary of the system ``name``, its own or the one for all
        systems; None if there is neither."""
        files = dict(self.glossaries)
        return files.get(name, files.get(""))

    def options_of(self, name: str) -> Dict[str, str]:
        """The decoding options of the system ``name``: {option: value}."""
        return {option: value for system, option, value in self.options if system == name}


def _check_glossaries(glossaries: Iterable[Tuple[str, Path]]) -> None:
    files: Dict[str, Path] = {}
    for name, file in glossaries:
        if files.setdefault(name, file) != file:
            whose = f" of {name}" if name else ""
            raise ValueError(
                f"--glossary: two files{whose}, {files[name]} and {file}: put their terms into one"
            )


def _check_hosts(hosts: Iterable[str], origin: Optional[str]) -> None:
    for host in hosts:
        if canonical(host) is None:
            raise ValueError(
                f"--allow-host {shown(host)} is not a name or address: leave out scheme and port,"
                " e.g. translate.example.org"
            )
    if origin is not None and canonical_origin(origin) is None:
        raise ValueError(
            f"--allow-origin {shown(origin)} is not one origin: write * or SCHEME://HOST[:PORT]"
            " without a path, e.g. https://example.org"
        )


def parse_served(text: str) -> Tuple[str, Path]:
    """Reads an argument ``NAME=BUNDLE`` or ``BUNDLE``; returns (name of the system, folder of the
    bundle). Without NAME, the folder's name is taken.

    Raises:
        ValueError: the name or the folder is empty.
    """
    name, sign, folder = text.partition("=")
    if not sign or Path(text).is_dir():
        name, folder = Path(text).resolve().name, text
    if not name.strip() or not folder:
        raise ValueError(f"system {text!r}: write BUNDLE or NAME=BUNDLE")
    return name.strip(), Path(folder)


def parse_glossary(text: str, names: Iterable[str]) -> Tuple[str, Path]:
    """Reads the value of ``--glossary``: ``NAME:FILE``, if NAME is one of the systems' ``names``,
    else ``FILE``. Returns (name, file); an empty name stands for all systems."""
    name, sign, file = text.partition(":")
    return (name, Path(file)) if sign and name in names else ("", Path(text))


def parse_option(text: str) -> Tuple[str, str, str]:
    """Reads the value of ``--set``: ``NAME:OPTION=VALUE``, or ``NAME:OPTION`` for a switch. Returns
    (name of the system, option with underscores, value), the value ``true`` for a switch.

    Raises:
        ValueError: the name or the option is missing.
    """
    name, sign, rest = text.partition(":")
    option, _, value = rest.partition("=")
    if not sign or "=" in name or not name.strip() or not option.strip():
        raise ValueError(f"--set {text!r}: write NAME:OPTION=VALUE, e.g. HRT3:hrt_decode_chunk=3")
    return name.strip(), option.strip().lstrip("-").replace("-", "_"), value or "true"
