"""fairseq_hrt for machines that only translate: the package of this repository without PyTorch,
fairseq and what training needs."""

import runpy
from pathlib import Path

from setuptools import setup

if __name__ == "__main__":
    shared = runpy.run_path(
        str(Path(__file__).resolve().parents[2] / "setup.py"), run_name="fairseq_hrt_setup"
    )
    setup(**shared["setup_arguments"](only_translation=True))
