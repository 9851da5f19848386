"""Fixtures for all tests: fixed seeds, the stock commands, and a small translation task."""

import gc
import importlib.util
import logging
import os
import random
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Callable

import _pytest.logging
import pytest
from forked_commands import ForkedCommands, shared_folder
from hypothesis import HealthCheck, settings

import fairseq_hrt  # noqa: F401  (repairs fairseq, registers what the tests use)
from fairseq_hrt.native.runtime import build, library

# How quick the machine is decides nothing: neither a deadline for an example nor the time of
# drawing one.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# Scripts beside each other import each other.
sys.path += [str(EXAMPLES / name) for name in ("common", "measure", "study")]
SCRIPTS = Path(sysconfig.get_path("scripts"))
# The folder of the processes whose forks are commands.
FORKS = pytest.StashKey[Path]()


class CatchingLogs(_pytest.logging.catching_logs):
    """Pytest's, for loggers whose messages reach the root: six times a test it would look through
    the hundreds that there are, and attach itself to PyTorch's forty that keep theirs."""

    def __enter__(self) -> logging.Handler:
        if self.level is not None:
            return super().__enter__()
        logging.root.addHandler(self.handler)
        self.attached_loggers.append(logging.root)
        return self.handler


def pytest_configure(config: pytest.Config) -> None:
    """Builds the kernel where it is missing or older than its sources: no test is left out for want
    of it.

    Once, before the processes that share the tests begin. Whoever has built fairseq has a compiler.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell has started it in the background: what tests start would ignore Ctrl-C as well.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        # It imports fairseq, which the process that only hands tests out does not need.
        importlib.import_module("composed_configs").install()
        _pytest.logging.catching_logs = CatchingLogs
        # Until all is imported and collected.
        gc.disable()
    if hasattr(config, "workerinput"):
        return
    if hasattr(os, "mkfifo"):
        forks = shared_folder()
        config.stash[FORKS] = forks.__enter__()
        config.add_cleanup(lambda: forks.__exit__(None, None, None))
    try:
        library.load_library()
    except library.LibraryUnavailable:
        built = build.build(objects=build.HERE.parents[2] / build.OBJECTS, only_here=True)
        if not built.library:
            raise pytest.UsageError(built.reason) from None


def pytest_collection_finish() -> None:
    """Has the garbage collector pass over what lives as long as the tests: it would look through
    half a million objects whenever a test makes many. It also looks less often than by default."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    """Tells a process that shares the tests where the forks of all of them are."""
    node.workerinput["forks"] = str(node.config.stash.get(FORKS, ""))


@pytest.fixture(autouse=True)
def _seeded() -> None:
    from tiny_weights import seed_host

    random.seed(1)
    seed_host(1)


@pytest.fixture(scope="session")
def forks(request) -> ForkedCommands:
    """Starts commands as forks of a process that has imported fairseq."""
    own = getattr(request.config, "workerinput", None)
    return ForkedCommands(Path(own["forks"] if own else request.config.stash.get(FORKS, "")))


@pytest.fixture(scope="session")
def command(forks) -> Callable[..., subprocess.CompletedProcess]:
    """Run a command of this environment: ``command("fairseq-train", data, "--cpu")``.

    A failure raises AssertionError with the end of the output, unless ``check=False``.
    Keyword arguments: `check`, `cwd`, `stdin` (text), `environment` (added variables), `fresh` (a
    process that starts from nothing, as a user's; otherwise a fork of one that has imported
    fairseq, where variables that Python or the imports read come too late).
    """

    def run(name, *arguments, check=True, cwd=None, stdin=None, environment=None, fresh=False):
        program = [sys.executable] if name == "python" else [str(SCRIPTS / name)]
        written = list(map(str, arguments))
        forkable = name != "python" or written[:1] == ["-m"] or EXAMPLES in Path(written[0]).parents
        if forkable and not fresh and hasattr(os, "fork"):
            finished = forks.run(
                name,
                written,
                cwd=None if cwd is None else str(cwd),
                stdin=stdin or "",
                environment=environment,
            )
        else:
            finished = subprocess.run(
                [*program, *written],
                cwd=cwd,
                input=stdin,
                env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
                capture_output=True,
                text=True,
            )
        if check and finished.returncode:
            raise AssertionError(
                f"{name} failed with exit status"
                f" {finished.returncode}:\n{(finished.stdout + finished.stderr)[-3000:]}"
            )
        return finished

    return run


@pytest.fixture(scope="session")
def load_example() -> Callable[[str], ModuleType]:
    """A function that loads a script: ``load_example("common/precision.py")``. Its imports may
    stand beside it, as when it is run."""

    def load(path: str) -> ModuleType:
        script = EXAMPLES / path
        spec = importlib.util.spec_from_file_location(
            "example_" + path.removesuffix(".py").replace("/", "_"), script
        )
        module = importlib.util.module_from_spec(spec)
        before = set(sys.modules)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(script.parent))
            patch.setitem(sys.modules, spec.name, module)
            spec.loader.exec_module(module)
        # Found by what is defined in it (data classes, worker processes).
        sys.modules[spec.name] = module
        # Scripts of other folders and the tests' own modules may have the names of what it has
        # imported.
        for name in set(sys.modules) - before - {spec.name}:
            if Path(getattr(sys.modules[name], "__file__", None) or "").parent == script.parent:
                del sys.modules[name]
        return module

    return load


@pytest.fixture(scope="session")
def toy_corpus(tmp_path_factory) -> Path:
    """A folder with ``{train,valid,test}.{de,en}``: letters into capital letters, in order."""
    folder = tmp_path_factory.mktemp("corpus")
    generator = random.Random(7)
    for split, size in (("train", 200), ("valid", 20), ("test", 20)):
        sources = [generator.choices("abcdefghij", k=generator.randint(2, 9)) for _ in range(size)]
        (folder / f"{split}.de").write_text("".join(" ".join(s) + "\n" for s in sources))
        (folder / f"{split}.en").write_text("".join(" ".join(s).upper() + "\n" for s in sources))
    return folder


@pytest.fixture(scope="session")
def toy_data(toy_corpus, command) -> Path:
    """`toy_corpus` binarized by the stock ``fairseq-preprocess``."""
    data = toy_corpus / "bin"
    splits = [f"--{split}pref={toy_corpus / split}" for split in ("train", "valid", "test")]
    command("fairseq-preprocess", "-s", "de", "-t", "en", *splits, "--destdir", data)
    return data
