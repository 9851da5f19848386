"""Memory of what was found out about characters and words, bounded whatever the texts are."""

from typing import Callable, Dict, TypeVar

# Keys that are remembered; more than a language has words in everyday use.
MOST = 1 << 16
# Characters of the longest of them.
LONGEST = 32
Key = TypeVar("Key")
Value = TypeVar("Value")


class Remembered(Dict[Key, Value]):
    """The values of a function. All are forgotten when there are :data:`MOST`, and those of long
    texts are not kept.

    Args:
        find: called for a key that is not remembered.
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
