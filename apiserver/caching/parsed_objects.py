"""Keeps stored objects as they were parsed, by revision; forgets those not asked for in two generations."""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.caching.generations import TwoGenerationCache
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.unreadable import object_of


class ParsedObjects:
    """Parses each of the few objects that most writes are held against once; they are never changed."""

    def __init__(self, size: int) -> None:
        self._by_revision: TwoGenerationCache[int, Object] = TwoGenerationCache(size)

    def of(self, entry: Entry) -> Object:
        """Returns the object of `entry`, as it is stored; raises what reading it raises."""
        obj = self._by_revision.get(entry.revision)
        if obj is None:
            obj = object_of(entry)
            self._by_revision.put(entry.revision, obj)
        return obj
