"""``python -m fairseq_hrt``: the command ``fairseq-hrt``."""

import sys

from .cli.main import main as main

if __name__ == "__main__":
    sys.exit(main())
