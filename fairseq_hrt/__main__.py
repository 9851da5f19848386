"""``python -m fairseq_hrt``: what this installation is, what is wrong with it, how to mend it.

``python -m fairseq_hrt --user-dir`` prints the path for fairseq's ``--user-dir`` and nothing else::

    fairseq-train data --user-dir "$(python -m fairseq_hrt --user-dir)" --task translation_hrt ...

``python -m fairseq_hrt --options`` explains every option that the package adds to fairseq's
commands. The exit status is 1 if something is wrong.
"""

import argparse
import os
import sys

from .compat import doctor


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_hrt", description="Report on this installation of fairseq_hrt."
    )
    parser.add_argument(
        "--user-dir", action="store_true", help="print the path for fairseq's --user-dir and stop"
    )
    parser.add_argument(
        "--options", action="store_true", help="explain the options added to fairseq's commands and stop"
    )
    arguments = parser.parse_args()
    if arguments.user_dir:
        print(doctor.user_dir())
        return 0
    if arguments.options:
        from .common.option_help import option_help

        print(option_help())
        return 0
    report = doctor.examine()
    try:
        print(report, flush=True)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
