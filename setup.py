"""Build of fairseq_hrt: a package and one line that Python runs at start.

The line (a .pth file beside the package) waits for ``import fairseq`` and repairs fairseq then;
see fairseq_hrt/compat. It has to be in every environment that the package is installed in,
so it is added to the wheel and to the wheel of an editable install, and pip removes it
together with the package.
"""

import ast
import base64
import hashlib
import zipfile
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).parent
STARTUP_FILE = "fairseq_hrt_startup.pth"


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


class BuildWithStartup(build_py):
    """Put the line at the root of the wheel."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, STARTUP_FILE).write_text(startup_line(), encoding="utf-8")

    def get_outputs(self, include_bytecode: bool = True) -> list:
        outputs = super().get_outputs(include_bytecode)
        if not self.editable_mode:
            outputs.append(str(Path(self.build_lib, STARTUP_FILE)))
        return outputs


class EditableWithStartup(editable_wheel):
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
]

# 4.6: the oldest release that our tests pass with; 5 may change the specification that hub/export.py fills in
CTRANSLATE2 = "ctranslate2>=4.6,<5"

EXTRAS = {
    # the recipes: segmentation, tokenization, plots, and the score of summaries. The first two shape
    # the data that models are trained on, so their releases are fixed; a score must not change either
    "examples": ["subword-nmt==0.3.8", "sacremoses>=0.1.1,<0.3", "matplotlib>=3.7", "rouge-score==0.1.2"],
    # xdist: two cores share the tests, the long files first; CTranslate2, because its tests should not only be skipped
    "test": ["pytest>=8", "hypothesis>=6.90", "pytest-xdist>=3.7", CTRANSLATE2],
    # tests/mutation/run.py takes its faults and their application from it; what it draws depends on the release
    "mutation": ["cosmic-ray==8.7.*"],
    # fairseq-hrt export, and CTranslate2 beside our decoders in fairseq-hrt benchmark
    "ctranslate2": [CTRANSLATE2],
    # bundles whose subwords are SentencePiece pieces; the language model of --dag-lm-path
    "sentencepiece": ["sentencepiece>=0.1.99"],
    "kenlm": ["kenlm"],
}

setup(
    name="fairseq_hrt",
    version="0.1.0",
    description="Fast machine translation as a plugin for stock fairseq 0.12.2",
    license="MIT",
    python_requires=">=3.10",
    packages=find_packages(include=["fairseq_hrt", "fairseq_hrt.*"]),
    # fairseq itself is not among them: pip would follow its pins, which it then rejects, and
    # fetch torchaudio. It is installed by: pip install --no-deps fairseq==0.12.2
    install_requires=REQUIREMENTS,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["fairseq-hrt = fairseq_hrt.__main__:main"]},
    cmdclass={"build_py": BuildWithStartup, "editable_wheel": EditableWithStartup},
)
