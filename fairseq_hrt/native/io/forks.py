"""Has forked processes, which have no threads but the one that forked, renew locks and buffers."""

import os
import weakref
from typing import Any, Callable, TypeVar

Owner = TypeVar("Owner")

_renewals: "weakref.WeakKeyDictionary[Any, Callable[[Any], None]]" = weakref.WeakKeyDictionary()


def renew_in_forks(owner: Owner, renew: Callable[[Owner], None]) -> None:
    """Has forked processes call ``renew(owner)`` while ``owner`` is alive. Another thread of the
    parent may have held a lock of the owner's, which nobody would release in a fork, or have left
    its buffers in between two states. ``renew`` must not refer to ``owner``, as a bound method
    does, since that would keep ``owner`` alive."""
    _renewals[owner] = renew


def _renew() -> None:
    for owner, renew in list(_renewals.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
