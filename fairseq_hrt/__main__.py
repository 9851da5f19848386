"""``python -m fairseq_hrt``: what this installation is, what is wrong with it, how to mend it.

``python -m fairseq_hrt --user-dir`` prints the path for fairseq's ``--user-dir`` and nothing else::

    fairseq-train data --user-dir "$(python -m fairseq_hrt --user-dir)" --task translation_hrt ...

The exit status is 1 if something is wrong.
"""

import argparse
import sys

from .compat import doctor


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_hrt", description="Report on this installation of fairseq_hrt."
    )
    parser.add_argument(
        "--user-dir", action="store_true", help="print the path for fairseq's --user-dir and stop"
    )
    if parser.parse_args().user_dir:
        print(doctor.user_dir())
        return 0
    report = doctor.examine()
    print(report)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
