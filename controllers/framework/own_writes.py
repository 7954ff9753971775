"""Holds back the reconciliation of an object until the informers show what was last written for it.

Semantics of k8s.io/kubernetes/pkg/controller/util/consistency, 1.36 (KEP-5647, stale controller mitigation).
"""

from collections.abc import Mapping

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Key, SyncError


class StaleCacheError(SyncError):
    """An informer does not show yet what the controller has written itself; tried again later."""


class OwnWrites:
    """Remembers by object and resource the newest revision that was written for it.

    Where it is not `enabled`, as before 1.36, nothing is remembered and nobody waits.
    """

    def __init__(self, informers: Mapping[Ref, Informer], *, enabled: bool) -> None:
        self._informers = informers if enabled else {}
        self._newest: dict[Key, dict[Ref, int]] = {}

    def note(self, key: Key, ref: Ref, written: Object) -> None:
        """Notes what the server answered to a write for the object of `key`."""
        if ref not in self._informers:
            return
        revision = int(written["metadata"]["resourceVersion"])
        newest = self._newest.setdefault(key, {})
        newest[ref] = max(revision, newest.get(ref, 0))

    def ensure_seen(self, key: Key) -> None:
        """Raises StaleCacheError if an informer is behind what was written for the object of `key`."""
        for ref, revision in self._newest.get(key, {}).items():
            seen = self._informers[ref].resource_version
            if int(seen or 0) < revision:
                raise StaleCacheError(
                    f"the cache of {ref.plural} is at revision {seen or 0}, and {revision} was written"
                )
        self._newest.pop(key, None)

    def forget(self, key: Key) -> None:
        """Forgets the writes for an object that is gone."""
        self._newest.pop(key, None)
