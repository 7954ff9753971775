"""Keeps the items of lists as bytes, from one list to the next.

Of a long list most is what it was when somebody asked for it last. So it is put together from runs of items,
and only runs in which something has changed are made again: the objects of the others are not touched. A run
is forgotten when two generations of others have pushed it out; one whose entries are no longer those of the
list is never served, for it is compared with them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.caching.offload import TimeSlice
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.storage.encoding import list_items
from kubeskew.apiserver.storage.records import Entry

_RUN_BYTES = 1 << 19  # also what is written at once, and what a client that does not read may hold
_RUNS_MAX = 10_000
_KEPT_BYTES = 32 << 20  # of one generation
_DECODED = 50  # objects that may have to be decoded, in one go


Form = str | int  # that objects are served in: an apiVersion, or the number of a custom resource


class Encoder(Protocol):
    """Encodes stored objects as they are served."""

    def form_of(self, resource: Resource) -> Form: ...

    def served_all(self, resource: Resource, entries: Sequence[Entry]) -> list[tuple[bytes, int]]: ...


class _Run(NamedTuple):
    """`size` is that of its objects as they are stored."""

    entries: Sequence[Entry]
    items: bytes
    size: int


class ListCache:
    """Builds the items of lists, and remembers runs of them by the revision of their first entry."""

    def __init__(self) -> None:
        self._runs: TwoGenerationCache[tuple[int, Form], _Run] = TwoGenerationCache(
            _RUNS_MAX, lambda _, run: len(run.items), _KEPT_BYTES
        )

    async def runs(
        self, codec: Encoder, resource: Resource, entries: Sequence[Entry], *, keep: bool
    ) -> list[Callable[[], bytes]]:
        """Each item stands behind a comma; a run becomes bytes once it is asked for.

        A list that nobody reads thus holds little but what the store holds. New runs are remembered if
        `keep`. Raises what decoding raises; other tasks run in between.
        """
        form, time_slice = codec.form_of(resource), TimeSlice()
        found: list[Callable[[], bytes]] = []
        start = 0
        while start < len(entries):
            key = entries[start].revision, form
            run = self._runs.get(key)
            if run is not None and run.entries == entries[start : start + len(run.entries)]:
                found.append(partial(_items, run))
                start += len(run.entries)
                continue
            same, size = self._next(form, entries, start)
            served = await _served(codec, resource, same, time_slice)
            make = partial(list_items, resource, served)
            found.append(partial(self._kept, key, same, size, make) if keep else make)
            start += len(same)
        return found

    def _kept(
        self, key: tuple[int, Form], entries: Sequence[Entry], size: int, make: Callable[[], bytes]
    ) -> bytes:
        run = _Run(entries, make(), size)
        self._runs.put(key, run)
        return run.items

    def _next(self, form: Form, entries: Sequence[Entry], start: int) -> tuple[Sequence[Entry], int]:
        """A run ends when it is long enough, or before one that is known and does not fit in."""
        size = len(entries[start].value)
        for position in range(start + 1, len(entries)):
            entry = entries[position]
            known = self._runs.get((entry.revision, form))
            if size + (len(entry.value) if known is None else known.size) > _RUN_BYTES:
                return entries[start:position], size
            size += len(entry.value)
        return entries[start:], size


def _items(run: _Run) -> bytes:
    return run.items


async def _served(
    codec: Encoder, resource: Resource, entries: Sequence[Entry], time_slice: TimeSlice
) -> list[tuple[bytes, int]]:
    served: list[tuple[bytes, int]] = []
    for start in range(0, len(entries), _DECODED):
        if time_slice.is_over:
            await time_slice.give_way()
        served += codec.served_all(resource, entries[start : start + _DECODED])
    return served
