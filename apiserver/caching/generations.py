"""Keeps a bounded number of values under their keys; forgets those that nobody asked for in two generations.

Nothing else is forgotten: what a key stands for must never change, as with revisions, digests and immutable
values.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class TwoGenerationCache(Generic[K, V]):
    """A mapping of at most twice `size` entries; every operation is a dict look-up or two.

    With `weigh`, a generation also ends once its entries weigh more than `weight_max` (bytes, mostly).
    """

    def __init__(self, size: int, weigh: Callable[[K, V], int] | None = None, weight_max: int = 0) -> None:
        self._size = size
        self._weight_max = weight_max
        self._weigh = weigh
        self._weight = 0  # of what was put into the young generation
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Returns the last value put under `key`, None if it is forgotten."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        if len(self._young) >= self._size or self._weight > self._weight_max:
            self._old, self._young = self._young, {}
            self._weight = 0
        if self._weigh is not None:
            self._weight += self._weigh(key, value)
        self._young[key] = value

    def __contains__(self, key: K) -> bool:
        return key in self._young or key in self._old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
