"""Expectations: how many creations and deletions a controller has ordered and not yet seen.

A controller acts on a key only when its informer has caught up with what it did itself, else it would do it
twice. Semantics of k8s.io/kubernetes/pkg/controller/controller_utils.go.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from kubeskew.apimachinery.clock import Clock

TIMEOUT_SECONDS = 300.0


@dataclass(slots=True)
class _Expected:
    since: float
    creations: int = 0
    deletions: set[Hashable] = field(default_factory=set)


class Expectations:
    """Per key; deletions are tracked by object, because a deletion is seen twice (mark, removal)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._keys: dict[Hashable, _Expected] = {}

    def satisfied(self, key: Hashable) -> bool:
        """Returns whether everything ordered has been seen, or was ordered too long ago to wait for."""
        expected = self._keys.get(key)
        if expected is None or (expected.creations <= 0 and not expected.deletions):
            return True
        return self._clock.monotonic() - expected.since > TIMEOUT_SECONDS

    def expect_creations(self, key: Hashable, count: int) -> None:
        self._keys[key] = _Expected(self._clock.monotonic(), creations=count)

    def expect_deletions(self, key: Hashable, objects: Iterable[Hashable]) -> None:
        self._keys[key] = _Expected(self._clock.monotonic(), deletions=set(objects))

    def expect(self, key: Hashable, creations: int, deletions: Iterable[Hashable]) -> None:
        """Expects creations and deletions."""
        self._keys[key] = _Expected(self._clock.monotonic(), creations, set(deletions))

    def creation_seen(self, key: Hashable) -> None:
        """Counts a creation that arrived in the informer, or failed."""
        if expected := self._keys.get(key):
            expected.creations -= 1

    def deletion_seen(self, key: Hashable, deleted: Hashable) -> None:
        if expected := self._keys.get(key):
            expected.deletions.discard(deleted)

    def forget(self, key: Hashable) -> None:
        self._keys.pop(key, None)
