"""A bounded cache of function values, for characters and words."""

from typing import Callable, Dict, TypeVar

# Most keys in the cache; more than the words in everyday use of a language.
MOST = 1 << 16
# Longer texts than this are not cached.
LONGEST = 32
Key = TypeVar("Key")
Value = TypeVar("Value")


class Remembered(Dict[Key, Value]):
    """A dictionary that computes missing values and keeps them, except those of texts longer than
    :data:`LONGEST`. It is emptied when it has :data:`MOST` keys.

    Args:
        find: computes the value of a missing key.
    """

    def __init__(self, find: Callable[[Key], Value]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, key: Key) -> Value:
        found = self._find(key)
        if not isinstance(key, str) or len(key) <= LONGEST:
            if len(self) >= MOST:
                self.clear()
            self[key] = found
        return found
