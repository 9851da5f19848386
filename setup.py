"""Build of fairseq_hrt: a package, one line that Python runs at start, and the kernel of the
runtime.

The line (a .pth file beside the package) waits for ``import fairseq`` and repairs fairseq then;
see fairseq_hrt/compat. It has to be in every environment that the package is installed in,
so it is added to the wheel and to the wheel of an editable install, and pip removes it
together with the package.

The kernel (fairseq_hrt/native/runtime/kernel) is a shared library without a Python interface. It is
compiled with the package where there is a C compiler. Without one the installation succeeds, too:
the wheel is then one for any platform.

Two distributions are built from this tree: ``fairseq_hrt``, the plugin with what training needs,
and ``fairseq_hrt_translate`` (examples/translate_only), its part for machines that only translate:
``fairseq_hrt/native`` and the verbs that need nothing else.
"""

import ast
import base64
import hashlib
import importlib.util
import os
import sys
import zipfile
from pathlib import Path
from typing import Any, Dict, Tuple

from setuptools import find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel
from setuptools.errors import SetupError

ROOT = Path(__file__).resolve().parent
STARTUP_FILE = "fairseq_hrt_startup.pth"
# An environment variable: which processors' instruction sets are compiled.
KERNEL_FOR = "FAIRSEQ_HRT_KERNEL_FOR"


def startup_line() -> str:
    """compat/startup.py, without its comments, as the one line that a .pth file may hold."""
    source = (ROOT / "fairseq_hrt" / "compat" / "startup.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    if ast.get_docstring(tree) is not None:
        tree.body.pop(0)
    return f"import sys; exec({ast.unparse(tree)!r}, {{}})\n"


def add_to_wheel(wheel: Path, name: str, text: str) -> None:
    """Add one file to a finished wheel and to its RECORD, by which pip uninstalls it."""
    content = text.encode("utf-8")
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with zipfile.ZipFile(wheel) as archive:
        members = [(member, archive.read(member)) for member in archive.infolist()]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
        for member, data in members:
            if member.filename.endswith(".dist-info/RECORD"):
                data = f"{name},sha256={digest},{len(content)}\n".encode() + data
            archive.writestr(member, data)


def kernel_build() -> Any:
    """fairseq_hrt/native/runtime/build.py as a module, without importing the package, which needs
    torch."""
    spec = importlib.util.spec_from_file_location(
        "kernel_build", ROOT / "fairseq_hrt" / "native" / "runtime" / "build.py"
    )
    module = importlib.util.module_from_spec(spec)
    # NamedTuple looks its module up
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Build(build_py):
    """Compiles the kernel (into the source tree for an editable install) and puts the line at the
    root of the wheel."""

    kernel_files: Tuple[str, ...] = ()
    # the tag of the machines that the kernel was compiled for, which $CC decides
    kernel_platform = ""
    # Where fairseq is not wanted nothing waits for it.
    with_startup_line = True
    # Where PyTorch is not wanted nothing else can translate.
    needs_kernel = False

    def run(self) -> None:
        super().run()
        kernel = kernel_build()
        folder = (
            ROOT / "fairseq_hrt" / "native" / "runtime"
            if self.editable_mode
            else Path(self.build_lib, "fairseq_hrt", "native", "runtime")
        )
        # A source tree is used where it is; a wheel may go elsewhere.
        wanted = os.environ.get(KERNEL_FOR) or ("here" if self.editable_mode else "all")
        if wanted not in ("here", "all"):
            raise SetupError(
                f"{KERNEL_FOR}={wanted}: give here (the kernel is compiled for this processor) or"
                " all (for every processor of its family)"
            )
        built = kernel.build(folder, objects=ROOT / kernel.OBJECTS, only_here=wanted == "here")
        fix = (
            f"{built.reason}; fix: install a C compiler (on Debian and Ubuntu: apt install gcc; the"
            " package ziglang has one for every system), then this package again"
        )
        if built.library:
            self.kernel_platform = kernel.platform_tag(built.target)
            self.announce(f"kernel of the runtime: {', '.join(built.instruction_sets)}", 2)
        elif self.needs_kernel:
            raise SetupError(
                "nothing could be translated without the native engine, which was not compiled:"
                f" {fix}"
            )
        else:
            self.warn(f"the runtime is left out, translation will use PyTorch: {fix}")
        if not self.editable_mode:
            self.kernel_files = tuple(
                str(folder / name)
                for name in (built.library and built.library.name, kernel.REPORT)
                if name
            )
            if self.with_startup_line:
                Path(self.build_lib, STARTUP_FILE).write_text(startup_line(), encoding="utf-8")

    def get_outputs(self, include_bytecode: bool = True) -> list:
        outputs = super().get_outputs(include_bytecode)
        if not self.editable_mode:
            outputs += [
                *self.kernel_files,
                *([str(Path(self.build_lib, STARTUP_FILE))] if self.with_startup_line else []),
            ]
        return outputs


class Wheel(bdist_wheel):
    """A wheel with a kernel is one for its platform, but for every Python."""

    def get_tag(self) -> Tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        build = self.get_finalized_command("build_py")
        return python, abi, (platform == "any" and build.kernel_platform) or platform


class Editable(editable_wheel):
    """Editable wheels hold no files of `build_py`: the line is added to the finished wheel."""

    def run(self) -> None:
        super().run()
        for wheel in Path(self.dist_dir).glob("*editable*.whl"):
            add_to_wheel(wheel, STARTUP_FILE, startup_line())


REQUIREMENTS = [
    # 2.6 is the first release whose safe loading cannot be evaded (CVE-2025-32434), which
    # compat/checkpoint_loading.py builds on. No upper bound: which build (CPU, CUDA, ROCm) fits is
    # the user's choice, and a tight one would make pip replace it.
    "torch>=2.6",
    # the oldest with wheels for Python 3.10; NumPy 2 is fine, compat/numpy_aliases.py
    "numpy>=1.22",
    # what fairseq calls of these two is gone or different in other releases. fairseq's own pins
    # (omegaconf<2.1, hydra-core<1.1) have metadata that pip >= 24.1 rejects
    "omegaconf==2.3.*",
    "hydra-core==1.3.*",
    # imported by fairseq's translation and scoring code; 2.0 has the API that we call
    "sacrebleu>=2.0",
    # imported by fairseq at start: its tokenizers, progress bars, and Huffman coder
    "regex",
    "tqdm",
    "bitarray",
    # the runtime's model files: data that is checked by a library of others and can hold no code;
    # 0.4 has what we call
    "safetensors>=0.4",
    # raw text, without which nothing can be prepared or translated: tokenization and segmentation.
    # They shape the data that models are trained on, so their releases are fixed
    "subword-nmt==0.3.8",
    "sacremoses>=0.1.1,<0.3",
]

# 4.6: the oldest release that our tests pass with; 5 may change the specification that
# export/ctranslate2_model.py fills in
CTRANSLATE2 = "ctranslate2>=4.6,<5"

SHTAB = "shtab>=1.9,<2"

SENTENCEPIECE = "sentencepiece>=0.1.99"

# Marian's descriptions of models; the plugin has it through omegaconf
YAML = "PyYAML>=5.1"

SERVE = [
    "starlette>=0.40,<2",
    # takes requests apart for server/connections.py (llhttp): in linear time, and none with two
    # lengths; 0.6.3 is the first release with wheels for Python 3.13
    "httptools>=0.6.3,<1",
    # forms in parts, which the page of LibreTranslate and FormData of browsers send; 0.0.32 limits
    # the headers of a part, and is the last for Python 3.10
    "python-multipart>=0.0.32,<0.1",
    "prometheus_client>=0.20,<1",
    # another major release may split otherwise; 1.0 is quick on hostile texts, too
    "sentencex>=1.0,<2",
    # its confidences, and the name of its model's file, are those of 0.4
    "py3langid>=0.4,<0.5",
]

# Another release has other rules, formats otherwise or infers other types, so each is fixed
LINT = ["ruff==0.17.6", "mypy==2.4.1"]

DOCS = [
    # The manual. Warnings fail its build, and another release warns of other things, so each is
    # fixed. 8.1.3 is the last Sphinx for Python 3.10, and 4.0.1 the last reader of Markdown for
    # that
    "sphinx==8.1.3",
    "myst-parser==4.0.1",
    "furo==2025.12.19",
    # the tutorial, a notebook: runs it, and is what it runs in
    "nbclient>=0.10",
    "ipykernel>=6.29",
]

EXTRAS = {
    # the recipes: plots, the score of summaries, which must not change with a release, and the
    # study's tasks and tables
    "examples": [
        "matplotlib>=3.7",
        "rouge-score==0.1.2",
        "doit>=0.36",
        'tomli>=2; python_version < "3.11"',
    ],
    # xdist: two cores share the tests, the long files first; CTranslate2 and SentencePiece, because
    # their tests should not only be skipped; style, types and the manual are tested, too
    "test": [
        "pytest>=8",
        "hypothesis>=6.90",
        "pytest-xdist>=3.7",
        CTRANSLATE2,
        SHTAB,
        SENTENCEPIECE,
        *SERVE,
        "httpx>=0.27",
        *LINT,
        *DOCS,
    ],
    # imported models are compared with transformers' own translations where it is installed
    "huggingface": ["transformers>=5"],
    # without the tests: for editors and pre-commit
    "lint": LINT,
    # without the tests: sphinx-build
    "docs": DOCS,
    # fairseq-hrt serve: ASGI application and server, sentence splitter (all languages, keeps white
    # space), language detection (its model is in the package), HTML, figures for Prometheus
    "serve": SERVE,
    # fairseq-hrt export, and CTranslate2 beside our decoders in fairseq-hrt benchmark
    "ctranslate2": [CTRANSLATE2],
    # fairseq-hrt completion: reads argparse's parsers, so that no list of options has to be kept
    "completion": [SHTAB],
    # words of Chinese and Japanese text: what is cut where shapes the data, so their releases are
    # fixed. sacreBLEU cuts Japanese with the same two packages
    "chinese": ["jieba==0.42.1"],
    "japanese": ["mecab-python3==1.0.12", "ipadic==1.0.0"],
    # bundles whose subwords are SentencePiece pieces, WMT22's recipe; the language model of
    # --dag-lm-path
    "sentencepiece": [SENTENCEPIECE],
    "kenlm": ["kenlm"],
}
# Extras for users of the package. Not kenlm: it is compiled on installation, which fails where
# CMake is missing
EXTRAS["all"] = sorted(
    {
        package
        for extra, packages in EXTRAS.items()
        if extra not in ("test", "huggingface", "lint", "docs", "kenlm")
        for package in packages
    }
)

# Required to translate with a bundle for the native engine; setup.py of
# examples/translate_only has nothing else.
TRANSLATING = ("numpy", "safetensors")


class TranslationBuild(Build):
    """For machines that only translate."""

    with_startup_line = False
    needs_kernel = True

    def find_package_modules(self, package: str, package_dir: str) -> list:
        """Without the tasks, which need fairseq."""
        return [
            found
            for found in super().find_package_modules(package, package_dir)
            if package != "fairseq_hrt" or found[1] not in ("decoding_task", "task")
        ]


def setup_arguments(*, only_translation: bool = False) -> Dict[str, Any]:
    """The metadata of either distribution for setuptools; names and descriptions stand in their
    pyproject.toml."""
    requirements, extras, build = REQUIREMENTS, EXTRAS, Build
    packages = ["fairseq_hrt", "fairseq_hrt.*"]
    if only_translation:
        requirements = [line for line in REQUIREMENTS if line.startswith(TRANSLATING)]
        moses = [line for line in REQUIREMENTS if line.startswith("sacremoses")]
        # moses: detokenises a few Asian languages, which bundles of Moses' rules leave to
        # sacremoses
        extras = {
            "import": [SENTENCEPIECE, YAML],
            "serve": SERVE,
            "sentencepiece": [SENTENCEPIECE],
            "completion": [SHTAB],
            "moses": moses,
        }
        extras["all"] = sorted({package for packages in extras.values() for package in packages})
        build = TranslationBuild
        # The folder that translates, the verbs, and the repairs that the doctor reports on.
        packages = [
            *("fairseq_hrt", "fairseq_hrt.cli", "fairseq_hrt.compat"),
            *("fairseq_hrt.native", "fairseq_hrt.native.*"),
        ]
    return dict(
        packages=find_packages(str(ROOT), include=packages),
        package_dir={"": os.path.relpath(ROOT)},
        # Where setup.py is run: beside the package it would be taken for an installation. What is
        # built lies in one place.
        options={
            "egg_info": {"egg_base": "."},
            "build": {"build_base": str(ROOT / "build" / Path.cwd().name)},
        },
        # type checkers read the annotations of a package with this marker
        package_data={"fairseq_hrt": ["py.typed"], "fairseq_hrt.native.server": ["page/*"]},
        # fairseq itself is not among them: pip would follow its pins, which it then rejects, and
        # fetch torchaudio. It is installed by: pip install --no-deps fairseq==0.12.2
        install_requires=requirements,
        extras_require=extras,
        cmdclass={"build_py": build, "bdist_wheel": Wheel, "editable_wheel": Editable},
    )


# setup.py of examples/translate_only runs this file for what it defines.
if __name__ == "__main__":
    setup(**setup_arguments())
