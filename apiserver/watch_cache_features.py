"""The features of reads, which upstream's watch cache or the store answers; part of features.py.

A list is one of seven reads (`Read`). `WatchCacheFeatures.lists` says for each whether the watch cache
answers it or the store does; a resource without a cache (events) is always read from the store. All else
follows from that, in every release:

| | cache | store |
| --- | --- | --- |
| a revision to come | 3 s of waiting, then 504 with retryAfterSeconds 1 | 504 at once, without that |
| the same, exactly | as above | the same; 500 with etcd's words before the fix of 132374 |
| a text that is no revision | 400; 500 of a get, and of a list up to 1.32 | 400 |
| `limit` at revision 0 | has no effect | has effect |
| where a continue token goes on | `/a` below the resource or namespace | `a` |
| a page of what an index finds | ends with the last that is found | has a token if any object follows |
| while the cache is not filled | 429 or 503 | an answer |
| a watch from the past | 410 if that is before the cache was filled | 410 if etcd has compacted it |
| a watch that wants a future state | 3 s of waiting, then an ERROR event | an ERROR event at once |
| bookmarks | every minute and before the end | the one that ends initial events, no other |

Source: k8s.io/apiserver/pkg/storage (cacher/cacher.go, cacher/delegator.go, cacher/watch_cache.go,
etcd3/store.go, etcd3/watcher.go, interfaces.go), 1.25 to 1.36.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum, auto
from typing import NamedTuple

from kubeskew.apimachinery.features import FeatureTable, fixed, gate, made, since, until

_WITHOUT_CACHE = "events"  # pkg/kubeapiserver/default_storage_factory_builder.go


def has_watch_cache(storage_resource: str) -> bool:
    """True if upstream has a watch cache of the resource; events have none."""
    return storage_resource != _WITHOUT_CACHE


class Source(Enum):
    """The part of the server that answers a read."""

    CACHE = auto()
    STORE = auto()


class Read(IntEnum):
    """The kinds of lists, by resourceVersion, resourceVersionMatch, limit and continue."""

    NEWEST = auto()  # no revision
    ANY = auto()  # revision 0
    NOT_OLDER = auto()  # a revision or newer
    LIMITED_AT = auto()  # a revision and a limit without a match: exact, but of a single object not older
    EXACT = auto()
    CONTINUED = auto()  # a token of a revision
    CONTINUED_NOW = auto()  # a token that goes on with what is there


class Sources(NamedTuple):
    """The sources of a read: of whole lists, limited ones, and lists of one name (limited or not)."""

    whole: Source
    limited: Source
    single: Source
    limited_single: Source


def _lists(*, consistent: bool, snapshots: bool, limited_from_store: bool) -> Mapping[Read, Sources]:
    """`limited_from_store`: all limited lists are read from the store, but those at revision 0."""
    cache, store = Source.CACHE, Source.STORE
    newest = cache if consistent else store
    exact = cache if snapshots else store
    limited, limited_newest = (store, store) if limited_from_store else (cache, newest)
    continued_now = newest if exact is cache else store
    return {
        Read.NEWEST: Sources(newest, limited_newest, newest, limited_newest),
        Read.ANY: Sources(cache, cache, cache, cache),
        Read.NOT_OLDER: Sources(cache, limited, cache, limited),
        Read.LIMITED_AT: Sources(exact, exact, store, store),
        Read.EXACT: Sources(exact, exact, store, store),
        Read.CONTINUED: Sources(exact, exact, exact, exact),
        Read.CONTINUED_NOW: Sources(continued_now, continued_now, continued_now, continued_now),
    }


class WatchCacheFeatures(FeatureTable):
    """The reads of lists, watches and gets: from the watch cache or the store, and their errors."""

    lists: Mapping[Read, Sources] = made(
        _lists,
        consistent=gate("ConsistentListFromCache"),
        snapshots=gate("ListFromCacheSnapshot"),
        limited_from_store=until(30),
    )
    # Watches with neither resourceVersion nor sendInitialEvents.
    watches_from_store: bool = gate("WatchFromStorageWithoutResourceVersion")
    # `sendInitialEvents` may be given. Legacy watches that begin with the present objects have it set, so
    # that those that take bookmarks get one at the end of the initial events.
    watch_list: bool = gate("WatchList")
    # While the cache cannot be filled (KEP-4568), reads get 429 instead of waiting for it, and limited lists
    # without a selector are answered by the store; else the store answers those that take any revision.
    refuses_unfilled: bool = gate("ResilientWatchCacheInitialization")
    reports_failure: bool = since(33)  # why it cannot be filled; retryAfterSeconds grows
    # Exact lists of a future revision that the store answers: 504 instead of 500.
    times_out_future_lists: bool = fixed("k8s-132374")
    parse_failures: bool = until(32)  # lists from the cache: a malformed resourceVersion is a 500
    pages_deletions: bool = since(28)  # deletions of collections list in pages of 10,000, with a limit

    def source(self, read: Read, *, limited: bool, single: bool) -> Source:
        """The source of a list of a resource that has a cache; `single`: of one name."""
        sources = self.lists[read]
        if single:
            return sources.limited_single if limited else sources.single
        return sources.limited if limited else sources.whole
