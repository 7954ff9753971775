"""A sorted set of keys that grows to any size: changes cost the same, counts of ranges are cheap."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from kubeskew.apiserver.storage.etcd.backing import ALL_KEYS

_CHUNK = 512  # keys in a piece; one of twice as many is cut


class SortedKeys:
    """Ranges are etcd's: `end` is ALL_KEYS for all that follows `key`."""

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        ordered = sorted(keys)
        self._chunks = [ordered[first : first + _CHUNK] for first in range(0, len(ordered), _CHUNK)]
        self._greatest = [chunk[-1] for chunk in self._chunks]

    def add(self, key: bytes) -> None:
        """The key is not there yet."""
        if not self._chunks:
            self._chunks.append([key])
            self._greatest.append(key)
            return
        place = min(bisect_left(self._greatest, key), len(self._chunks) - 1)
        chunk = self._chunks[place]
        insort(chunk, key)
        if len(chunk) > 2 * _CHUNK:
            self._chunks[place : place + 1] = [chunk[:_CHUNK], chunk[_CHUNK:]]
            self._greatest[place : place + 1] = [chunk[_CHUNK - 1], chunk[-1]]
        else:
            self._greatest[place] = chunk[-1]

    def remove(self, key: bytes) -> None:
        """The key is there."""
        place = bisect_left(self._greatest, key)
        chunk = self._chunks[place]
        del chunk[bisect_left(chunk, key)]
        if chunk:
            self._greatest[place] = chunk[-1]
        else:
            del self._chunks[place], self._greatest[place]

    def between(self, key: bytes, end: bytes) -> Iterator[bytes]:
        """The set does not change meanwhile."""
        place = bisect_left(self._greatest, key)
        if place == len(self._chunks):
            return
        last = len(self._chunks) - 1 if end == ALL_KEYS else bisect_left(self._greatest, end)
        for index in range(place, min(last, len(self._chunks) - 1) + 1):
            chunk = self._chunks[index]
            first = bisect_left(chunk, key) if index == place else 0
            stop = len(chunk) if end == ALL_KEYS else bisect_left(chunk, end)
            yield from chunk[first:stop]

    def count(self, key: bytes, end: bytes) -> int:
        stop = self._total() if end == ALL_KEYS else self._position(end)
        return max(0, stop - self._position(key))

    def _total(self) -> int:
        return sum(map(len, self._chunks))

    def _position(self, key: bytes) -> int:
        """Counts the keys before `key`."""
        place = bisect_left(self._greatest, key)
        before = sum(map(len, self._chunks[:place]))
        return before + bisect_left(self._chunks[place], key) if place < len(self._chunks) else before


def prefix_end(prefix: bytes) -> bytes:
    """The end of the range of all keys that begin with `prefix`."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else ALL_KEYS


def prefix_of(key: bytes, end: bytes) -> bytes | None:
    """The prefix whose keys are those from `key` until `end`, if that is what the range is."""
    return key if key and end and prefix_end(key) == end else None
