"""Which distribution of this package pip has installed, and how to install what is missing. Imports
only the standard library."""

import os
import shlex
from importlib import metadata
from typing import List, Optional

# The distributions that hold this package: the plugin, and the one for machines that only
# translate.
PLUGIN, TRANSLATION_ONLY = "fairseq_hrt", "fairseq_hrt_translate"


def version_of(distribution: str) -> Optional[str]:
    """The installed release of a distribution, a package of pip; None if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def only_translates() -> bool:
    """Whether only fairseq_hrt_translate is installed, the smaller distribution, which cannot
    train."""
    return version_of(TRANSLATION_ONLY) is not None and version_of(PLUGIN) is None


def install_command(extra: str) -> str:
    """The pip command that installs the packages of one of this package's extras (optional
    dependencies), such as ``serve``."""
    found: List[str] = []
    for name in (PLUGIN, TRANSLATION_ONLY):
        if version_of(name) is not None:
            lines = metadata.requires(name) or []
            found = found or [
                line.partition(";")[0].strip() for line in lines if f'extra == "{extra}"' in line
            ]
    # The shells of Windows know no single quotes.
    quoted = [f'"{line}"' if os.name == "nt" else shlex.quote(line) for line in found]
    return f"pip install {' '.join(quoted)}" if found else f"install the extra {extra} of {PLUGIN}"


def not_installed(module: Optional[str], command: str) -> str:
    """An error message of one line that names what a command lacks, and the fix.

    Args:
        module: the missing module; None: one of those that fairseq_hrt_translate leaves out.
        command: the command that needs the module.
    """
    missing = (module or "a module").partition(".")[0]
    if not only_translates():
        return (
            f"{command} needs {missing}, which is not installed: fairseq-hrt doctor names the fix"
        )
    needed = f"{missing}, which" if module else "what"
    return (
        f"{command} needs {needed} an installation that only translates does not have: install the"
        f" whole plugin, {PLUGIN}, in an environment of its own: bash examples/setup_env.sh in a"
        " clone (docs/installation.md)"
    )
