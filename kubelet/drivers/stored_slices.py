"""The slices of a driver at the API server, as seen through one watch and by its own writes.

A slice just written counts before the watch shows it, for a minute at most (upstream's mutation cache): a
slice deleted before anybody saw it must not be assumed to exist for ever. It does not count either once the
watch has passed the write's revision. Up to 1.36 (140063) the cache does not hear of the watch: what was
written counts, though it is deleted, until its time is over or a sync has found it in what the watch shows.
"""

from collections.abc import Callable
from typing import NamedTuple

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind

WRITTEN_SECONDS = 60.0

_COMMON = GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice")


class PoolKey(NamedTuple):
    """A pool of the driver; `node` is empty for those of no single node."""

    node: str
    pool: str


class StoredSlices:
    """Reads and writes slices in the shape of v1, whatever version the server speaks."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        ref: Ref,
        driver: str,
        changed: Callable[[PoolKey], None],
        told: Callable[[PoolKey, bool], None],
        *,
        kept_seconds: float = 0.0,
    ) -> None:
        """`changed` is called with the pool of every change that the watch shows, but for known own writes.

        `told` is called once the watch has shown an own write, with the pool and whether `changed` was:

        - with True where the watch was quicker than the answer: the write was taken for another's change,
          which the caller has to take back;
        - with False where the answer came first, but only if there are `kept_seconds`: a sync has to compare
          the write with what the watch shows, for it counts until then.

        With `kept_seconds` what was written counts for that long whatever the watch shows, else until the
        watch shows that revision or a later one.
        """
        self.kept_seconds = kept_seconds
        self._told = told
        self._client = client
        self._clock = clock
        self._ref = ref
        self._changed = changed
        self._written: dict[PoolKey, dict[str, tuple[float, Object]]] = {}  # by uid
        self.informer = Informer(client, ref, clock, "", f"spec.driver={driver}")
        self.informer.add_index("pool", lambda obj: [_index(pool_key(obj))])
        self.informer.add_handler(self._seen, lambda _, new: self._seen(new), self._gone)

    def of(self, key: PoolKey) -> list[Object]:
        """Returns the pool's slices, by name."""
        found = self._shown(key)
        now = self._clock.monotonic()
        seen = int(self.informer.resource_version or 0)
        for uid, (when, obj) in [*self._written.get(key, {}).items()]:
            lasts = WRITTEN_SECONDS if _revision(obj) > seen else self.kept_seconds
            if not lasts or now - when > lasts:
                del self._written[key][uid]
            elif uid not in found or _revision(obj) > _revision(found[uid]):
                found[uid] = obj
        return [
            self._common(obj) for obj in sorted(found.values(), key=lambda obj: str(obj["metadata"]["name"]))
        ]

    def compared(self, key: PoolKey) -> list[Object]:
        """Returns the pool's slices for a sync. Own writes which the watch shows do not count any more after
        that (mutation_cache.go, newerObject)."""
        written = self._written.get(key, {})
        for uid, obj in self._shown(key).items():
            if uid in written and _revision(written[uid][1]) <= _revision(obj):
                del written[uid]
        return self.of(key)

    def keys(self) -> set[PoolKey]:
        return {pool_key(obj) for obj in self.informer.list()}

    async def create(self, obj: Object) -> Object:
        return self._note(await self._client.create(self._ref, self._spoken(obj)))

    async def update(self, obj: Object) -> Object:
        """Updates a slice; raises StatusError if it changed meanwhile. The answer has the revision of `obj`
        if there was nothing to change."""
        return self._note(await self._client.update(self._ref, self._spoken(obj)), _revision(obj))

    async def delete(self, obj: Object) -> None:
        """Deletes a slice; raises StatusError if it changed meanwhile, or is gone."""
        metadata = obj["metadata"]
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        await self._client.delete(self._ref, metadata["name"], preconditions=preconditions)
        self._written.get(pool_key(obj), {}).pop(metadata["uid"], None)

    def _shown(self, key: PoolKey) -> dict[str, Object]:
        return {obj["metadata"]["uid"]: obj for obj in self.informer.by_index("pool", _index(key))}

    def _note(self, stored: Object, before: int = 0) -> Object:
        """Has a write count; `before` is the revision that it was to change. The watch tells of no write that
        left it as it was."""
        key, uid = pool_key(stored), stored["metadata"]["uid"]
        shown = self._shown(key).get(uid)
        changed = _revision(stored) != before
        if changed and shown is not None and _revision(shown) == _revision(stored):
            self._told(key, True)
        written = self._written.setdefault(key, {})
        written[uid] = (self._clock.monotonic(), stored)
        return self._common(stored)

    def _seen(self, obj: Object) -> None:
        key, uid = pool_key(obj), obj["metadata"]["uid"]
        written = self._written.get(key, {}).get(uid)
        if written is not None and _revision(written[1]) <= _revision(obj):
            own = _revision(written[1]) == _revision(obj)
            if not self.kept_seconds:
                del self._written[key][uid]
            elif own:
                self._told(key, False)
            if own:
                return  # there was no other change
        self._changed(key)

    def _gone(self, obj: Object) -> None:
        key = pool_key(obj)
        if not self.kept_seconds:
            self._written.get(key, {}).pop(obj["metadata"]["uid"], None)
        self._changed(key)

    def _common(self, obj: Object) -> Object:
        return convert(obj, _COMMON)

    def _spoken(self, obj: Object) -> Object:
        common = {"apiVersion": _COMMON.api_version, "kind": _COMMON.kind, **obj}
        return convert(common, GroupVersionKind(self._ref.group, self._ref.version, self._ref.kind))


def pool_key(obj: Object) -> PoolKey:
    return PoolKey(obj["spec"].get("nodeName") or "", obj["spec"]["pool"]["name"])


def _index(key: PoolKey) -> str:
    return f"{key.node}\n{key.pool}"


def _revision(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
