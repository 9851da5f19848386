"""Reports what this installation is, what is wrong with it, and how to fix it; the exit status is 1
if something is wrong."""

import argparse
import importlib
import importlib.util
import json
import os
import platform
import sys
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence

from ..compat import import_error, install, left_to_the_doctor, statuses
from ..native.io.progress import Doing
from ..native.runtime import library as runtime
from .distribution import PLUGIN, TRANSLATION_ONLY, install_command, only_translates, version_of
from .parser import verb_parser
from .reporting import reporting, write_output

FAIRSEQ_VERSION = "0.12.2"
INSTALL_FAIRSEQ = f"pip install --no-deps fairseq=={FAIRSEQ_VERSION}"

# distribution and lowest release, as in setup.py: without an installation there is no metadata to
# read them from
NEEDED: Dict[str, str] = {
    "torch": "2.6",
    "numpy": "1.22",
    "omegaconf": "2.3",
    "hydra-core": "1.3",
    "sacrebleu": "2.0",
    "regex": "",
    "tqdm": "",
    "bitarray": "",
    "safetensors": "0.4",
    "subword-nmt": "0.3.8",
    "sacremoses": "0.1.1",
}
# Of these only one series of releases works.
SERIES = ("omegaconf", "hydra-core")
# Needed to translate with the native engine.
NEEDED_TO_TRANSLATE = ("numpy", "safetensors")
# Useless in an installation that only translates.
OF_THE_PLUGIN = ("ctranslate2", "matplotlib")
# Module, its use, and the extra of this package that installs it.
OPTIONAL = (
    ("sentencepiece", "bundles with SentencePiece pieces", "sentencepiece"),
    ("yaml", "fairseq-hrt import of Marian's models", "import"),
    ("starlette", "fairseq-hrt serve", "serve"),
    ("ctranslate2", "fairseq-hrt export, CTranslate2 in benchmarks", "ctranslate2"),
    ("matplotlib", "pictures of benchmark, tune, trace and graph", "examples"),
    ("shtab", "fairseq-hrt completion", "completion"),
)


class Problem(NamedTuple):
    """A fault of the installation, and what the user should do about it."""

    what: str
    fix: str


@dataclass
class Report:
    """The report on an installation.

    Attributes:
        sections: the lines of each section, by its title.
        problems: the faults that were found.
    """

    sections: Dict[str, List[str]] = field(default_factory=dict)
    problems: List[Problem] = field(default_factory=list)

    def add(self, what: str, fix: str) -> None:
        """Adds a problem: what is wrong, and what the user should do about it."""
        self.problems.append(Problem(what, fix))

    def __str__(self) -> str:
        lines: List[str] = []
        for title, body in self.sections.items():
            lines += [title, *(f"  {line}" for line in body), ""]
        if not self.problems:
            return "\n".join([*lines, "No problem found."])
        lines.append(f"Problems: {len(self.problems)}")
        for number, problem in enumerate(self.problems, start=1):
            lines += [f"  {number}. {problem.what}", f"     Fix: {problem.fix}"]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The report as JSON."""
        problems = [problem._asdict() for problem in self.problems]
        return json.dumps(
            {"sections": self.sections, "problems": problems}, indent=1, ensure_ascii=False
        )


def user_dir() -> str:
    """The directory to give to fairseq as ``--user-dir``."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def examine() -> Report:
    """Examines this installation and returns the report. If the installation can train, this
    imports fairseq and all of this package's models."""
    report = Report()
    if only_translates():
        report.sections["Installation"] = [
            f"{TRANSLATION_ONLY}: translates with bundles, does not train"
        ]
        report.sections["Versions"] = _versions(report, NEEDED_TO_TRANSLATE)
        report.sections["Optional"] = _optional()
        report.sections["Runtime"] = runtime.describe()
        _check_native_library(report)
        return report
    install()
    _check_distributions(report)
    report.sections["Versions"] = _versions(report, NEEDED)
    report.sections["Optional"] = _optional()
    report.sections["For --user-dir"] = [user_dir()]
    with left_to_the_doctor():
        importable = _fairseq_is_importable(report)
    if importable:
        _check_extensions(report)
        _check_rooms(report)
        _import_what_is_repaired(report)
        report.sections["Registered"] = _registered(report)
    _check_startup(report)
    report.sections["Repairs of fairseq"] = _repairs(report)
    report.sections["Devices"] = _devices()
    report.sections["Runtime"] = runtime.describe()
    return report


def _release(version: str) -> List[int]:
    numbers = []
    for part in version.split("+")[0].split(".")[:3]:
        if not part.isdigit():
            break
        numbers.append(int(part))
    return numbers


def _versions(report: Report, needed: Iterable[str]) -> List[str]:
    lines = [f"Python {platform.python_version()} ({sys.executable})"]
    if sys.version_info < (3, 10):  # noqa: UP036 - pip's check can be switched off
        report.add(f"Python {platform.python_version()} is too old", "use Python 3.10 or newer")
    if not only_translates():
        version = version_of("fairseq")
        lines.append(f"fairseq {version or 'missing'}")
        if version is None:
            report.add("fairseq is not installed", INSTALL_FAIRSEQ)
        elif version != FAIRSEQ_VERSION:
            report.add(f"fairseq {version} is not the release this plugin is for", INSTALL_FAIRSEQ)
    for distribution in needed:
        lowest, version = NEEDED[distribution], version_of(distribution)
        lines.append(f"{distribution} {version or 'missing'}")
        fix = (
            f"pip install '{distribution}{_wanted(distribution)}'"
            if lowest
            else f"pip install {distribution}"
        )
        if version is None:
            report.add(f"{distribution} is not installed", fix)
        elif lowest and _release(version) < _release(lowest):
            report.add(f"{distribution} {version} is too old", fix)
    return lines


def _wanted(distribution: str) -> str:
    """The releases of a distribution that are supported, as setup.py states them for pip:
    ``>=2.6``."""
    lowest = NEEDED[distribution]
    return f"=={lowest}.*" if distribution in SERIES else f">={lowest}"


def _optional() -> List[str]:
    """A line for each optional package: what it is for, and whether it is installed."""
    lines = []
    for module, purpose, extra in OPTIONAL:
        if module in OF_THE_PLUGIN and only_translates():
            continue
        found = importlib.util.find_spec(module) is not None
        lines.append(
            f"{module}: {'installed' if found else 'missing'}, for {purpose}"
            + ("" if found else f"; {install_command(extra)}")
        )
    return lines


def _check_distributions(report: Report) -> None:
    if version_of(TRANSLATION_ONLY) is not None:
        report.add(
            f"{PLUGIN} and {TRANSLATION_ONLY} are both installed and hold the same files",
            f"pip uninstall {TRANSLATION_ONLY} {PLUGIN}, then install the one that you want",
        )


def _check_native_library(report: Report) -> None:
    """Adds a problem if the native engine's library does not load: an installation without PyTorch
    has no other engine."""
    try:
        runtime.load_library()
    except runtime.LibraryUnavailable as error:
        report.add("nothing can be translated here: the native engine is missing", str(error))


def _fairseq_is_importable(report: Report) -> bool:
    try:
        importlib.import_module("fairseq")
    except Exception as error:
        if version_of("fairseq") is not None:
            report.add(
                f"import fairseq fails: {type(error).__name__}: {_first_line(error)}",
                "fix what is listed before this; if nothing is, reinstall fairseq: "
                + INSTALL_FAIRSEQ.replace("install", "install --force-reinstall"),
            )
        return False
    return True


def _check_extensions(report: Report) -> None:
    for name in ("fairseq.data.data_utils_fast", "fairseq.data.token_block_utils_fast"):
        try:
            importlib.import_module(name)
        except Exception as error:
            report.add(
                f"the compiled module {name} does not load: {_first_line(error)}",
                "build it again against this NumPy: pip install --no-deps --no-cache-dir "
                f"--force-reinstall --no-binary fairseq fairseq=={FAIRSEQ_VERSION}",
            )


def _check_rooms(report: Report) -> None:
    error = import_error()
    if error is not None:
        report.add(
            f"import fairseq_hrt fails: {type(error).__name__}: {_first_line(error)}",
            "python -c 'import fairseq_hrt' shows where; reinstall fairseq_hrt if its files are"
            " incomplete",
        )


def _import_what_is_repaired(report: Report) -> None:
    """Imports every module of fairseq that this package repairs, since a repair is applied when its
    module is imported; adds a problem for each import that fails."""
    for module in sorted({module for status in statuses() for module in status.repair.modules}):
        try:
            importlib.import_module(module)
        except Exception as error:
            report.add(
                f"import {module} fails: {type(error).__name__}: {_first_line(error)}",
                f"check that fairseq is unmodified: {INSTALL_FAIRSEQ} --force-reinstall",
            )


def _registered(report: Report) -> List[str]:
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import ARCH_MODEL_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    lines = []
    for title, registry in (
        ("tasks", TASK_REGISTRY),
        ("architectures", ARCH_MODEL_REGISTRY),
        ("criterions", CRITERION_REGISTRY),
    ):
        ours = [name for name, cls in registry.items() if cls.__module__.startswith("fairseq_hrt.")]
        lines.append(f"{title}: {', '.join(sorted(ours)) or 'none'}")
        if not ours and import_error() is None:
            report.add(f"fairseq_hrt has registered no {title}", "reinstall fairseq_hrt")
    return lines


def _check_startup(report: Report) -> None:
    names = {getattr(finder, "__name__", "") for finder in sys.meta_path}
    if "RepairFairseq" not in names:
        report.add(
            "this environment does not repair fairseq at start: the stock commands get no "
            "repairs before --user-dir is read, too late for Python 3.11 and newer",
            "install the package, normally or editable: pip install --no-deps "
            + os.path.dirname(user_dir()),
        )


def _repairs(report: Report) -> List[str]:
    for status in statuses():
        if status.failed:
            report.add(
                f"the repair {status.repair.name} failed: " + "; ".join(status.failed.values()),
                f"check that fairseq is unmodified: {INSTALL_FAIRSEQ} --force-reinstall",
            )
    return [str(status) for status in statuses()]


def _devices() -> List[str]:
    try:
        import torch
    except Exception:
        return ["unknown: torch cannot be imported"]
    lines = [f"CPU, {torch.get_num_threads()} threads"]
    for index in range(torch.cuda.device_count()):
        lines.append(f"cuda:{index} {torch.cuda.get_device_name(index)}")
    return lines


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def build_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = verb_parser("doctor", __doc__)
    parser.add_argument(
        "--json",
        action="store_true",
        help="an object with the sections and the problems instead of text",
    )
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Prints the report; returns the exit status, 1 if there is a problem."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    with Doing("looking at this installation"):
        found = examine()
    with reporting(parser):
        write_output(f"{found.to_json() if options.json else found}\n")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
