"""Decides what lists, watches and gets see of upstream's watch cache: a part of features.py.

A list is one of six reads (`Read`). `WatchCacheFeatures.lists` says for each whether the watch cache answers
it or the store does; a resource without a cache (events) is always read from the store. All else follows
from that, in every release:

| | cache | store |
| --- | --- | --- |
| a revision to come | 3 s of waiting, then 504 with retryAfterSeconds 1 | 504 at once, without that |
| the same, exactly | as above | the same; 500 with etcd's words before 132374 was mended |
| a text that is no revision | 400; 500 of a get, and of a list up to 1.32 | 400 |
| `limit` at revision 0 | is not heeded | is heeded |
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
    """Returns whether upstream has a watch cache of a resource; events have none."""
    return storage_resource != _WITHOUT_CACHE


class Source(Enum):
    """Names what answers a read."""

    CACHE = auto()
    STORE = auto()


class Read(IntEnum):
    """Names what a list asks for, by its resourceVersion, resourceVersionMatch, limit and continue."""

    NEWEST = auto()  # no revision
    ANY = auto()  # revision 0
    NOT_OLDER = auto()  # a revision or newer
    LIMITED_AT = auto()  # a revision and a limit without a match: exact, but of a single object not older
    EXACT = auto()
    CONTINUED = auto()  # a token of a revision
    CONTINUED_NOW = auto()  # a token that goes on with what is there


class Sources(NamedTuple):
    """Holds the sources of a read: of whole lists, limited ones, and lists of one name (limited or not)."""

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
    """Holds the decisions about reads: who answers them, and what there is to be told."""

    lists: Mapping[Read, Sources] = made(
        _lists,
        consistent=gate("ConsistentListFromCache"),
        snapshots=gate("ListFromCacheSnapshot"),
        limited_from_store=until(30),
    )
    # A watch without a revision, and without a wish about initial events.
    watches_from_store: bool = gate("WatchFromStorageWithoutResourceVersion")
    # `sendInitialEvents` may be given; legacy watches of what is there have it set, so that those that take
    # bookmarks are told where the initial events end.
    watch_list: bool = gate("WatchList")
    # While the cache cannot be filled (KEP-4568), reads get 429 instead of waiting for it, and limited lists
    # without a selector are answered by the store; before, those that are content with any revision.
    refuses_unfilled: bool = gate("ResilientWatchCacheInitialization")
    reports_failure: bool = since(33)  # why it cannot be filled; clients wait longer and longer
    times_out_future_lists: bool = fixed("k8s-132374")  # 504, of exact lists that the store answers; else 500
    parse_failures: bool = until(32)  # a list that the cache answers gets 500 for what is no revision
    pages_deletions: bool = since(28)  # deletions of collections list in pages of 10,000: they have a limit

    def source(self, read: Read, *, limited: bool, single: bool) -> Source:
        """Returns what answers a list of a resource that has a cache; `single`: of one name."""
        sources = self.lists[read]
        if single:
            return sources.limited_single if limited else sources.single
        return sources.limited if limited else sources.whole
