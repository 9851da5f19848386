"""Devices that a mistake may destroy."""

import os
import stat
from pathlib import Path

import pytest


def private_device(folder, number):
    """A device like /dev/null (3) or /dev/full (7) that a mistake may destroy."""
    path = folder / f"device{number}"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, number))
        with open(path, "wb"):
            pass
    except OSError:
        if os.access("/dev", os.W_OK):
            pytest.skip("devices cannot be made here, and the real ones could be destroyed")
        return Path({3: "/dev/null", 7: "/dev/full"}[number])
    return path
