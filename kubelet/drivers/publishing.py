"""Keeps a driver's pools at the API server as desired: upstream's ResourceSlice controller.

One watch and a few workers serve the pools of all nodes (upstream: a controller per node).

Source: k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kubeskew.apimachinery.client.refs import NODES, Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.client.workqueue import WorkQueue
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers import matching
from kubeskew.kubelet.drivers.checking import PoolError, check_pool
from kubeskew.kubelet.drivers.pools import Pool, Slice
from kubeskew.kubelet.drivers.stored_slices import WRITTEN_SECONDS, PoolKey, StoredSlices

log = logging.getLogger(__name__)

_WORKERS = 8
_BASE_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.05, 1.0
_GATHERING_SECONDS = 0.05  # a sync comes so much after what others did at the earliest
_SOON_SECONDS = 0.001
_REFUSED_SECONDS = 30.0  # seconds until a pool that the server found invalid is tried again


class _NodeMissingError(Exception):
    """The Node object that owns a slice does not exist yet."""


@dataclass(slots=True)
class _Wanted:
    """Holds a desired pool and its progress: `pool` is without the fields of `offered` that the server has
    dropped, `error` is why the server or the library refuses it.

    `changes` counts changes that others made to its slices, which the next sync has to find. `awaits_node`
    is set while its node is missing.
    """

    offered: Pool
    pool: Pool
    settled: bool = False
    error: str = ""
    changes: int = 0
    awaits_node: bool = False


class SlicePublisher:
    """Publishes slices: `update` sets the desired pools. The slices outlive the publisher."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        slices: Ref,
        driver: str,
        gates: FeatureGates,
        *,
        sync_delay: float,
    ) -> None:
        """`gates` are those of the library's release; `sync_delay` is the time in seconds between another's
        change to a pool and its sync, half of that for which the mutation cache keeps what was written.

        With 0 the sync comes when the changes of a moment are gathered, and the cache hears of the watch.
        """
        self.ref = slices
        self._client = client
        self._clock = clock
        self._driver = driver
        self._release = gates.version
        self._library = matching.Library.of(gates)
        self._sync_delay = max(sync_delay, _GATHERING_SECONDS)
        self._wanted: dict[PoolKey, _Wanted] = {}
        self._owners: dict[str, Object] = {}  # by node
        self._created: dict[PoolKey, float] = {}  # when slices were created last
        self._queue: WorkQueue[PoolKey] = WorkQueue(
            clock, base_delay=_BASE_DELAY_SECONDS, max_delay=_MAX_DELAY_SECONDS
        )
        self.stored = StoredSlices(
            *(client, clock, slices, driver, self._interfered, self._told),
            kept_seconds=2 * sync_delay if self._library.keeps_written else 0.0,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def update(self, pools: Mapping[str, Pool]) -> None:
        """Sets the desired pools. Pools of no single node are deleted if they are not desired any more.

        Slices of nodes that the driver left stay, as when it ends: the kubelet wipes them.
        """
        wanted = {PoolKey(pool.node_name, name): pool for name, pool in pools.items()}
        for key in [*self._wanted, *(key for key in wanted if key not in self._wanted)]:
            known = self._wanted.get(key)
            if key not in wanted:
                del self._wanted[key]
                if key.node:
                    continue
            elif known is None or known.offered != wanted[key]:
                self._wanted[key] = _Wanted(wanted[key], wanted[key])
            else:
                continue
            self._queue.add(key)

    def retry(self, node: str) -> None:
        """Retries the node's pools at once: the node exists now."""
        for key, wanted in self._wanted.items():
            if key.node == node and wanted.awaits_node:
                self._queue.add_after(key, _SOON_SECONDS)  # in place of the look that is due later

    def start(self) -> None:
        self.stored.informer.start()
        self._tasks = [asyncio.create_task(self._work(), name=f"slices {n}") for n in range(_WORKERS)]

    async def stop(self) -> None:
        self._queue.shut_down()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.stored.informer.stop()

    def pending(self) -> list[str]:
        """Returns the pools that are neither published nor refused yet."""
        return sorted(key.pool for key, wanted in self._wanted.items() if not wanted.settled)

    def state(self) -> dict[str, Any]:
        """Returns `{generation, slices: {name: uid}, wanted, error}` by pool; `wanted` is the number of
        slices desired."""
        return {key.pool: self._pool_state(key, wanted) for key, wanted in sorted(self._wanted.items())}

    def _pool_state(self, key: PoolKey, wanted: _Wanted) -> dict[str, Any]:
        slices = self.stored.of(key)
        return {
            "generation": max((slice_["spec"]["pool"]["generation"] for slice_ in slices), default=0),
            "slices": {slice_["metadata"]["name"]: slice_["metadata"]["uid"] for slice_ in slices},
            "wanted": len(wanted.pool.slices),
            "error": wanted.error,
        }

    # -- the loop

    def _interfered(self, key: PoolKey) -> None:
        """Syncs a pool that somebody changed; ignores pools of other nodes."""
        wanted = self._wanted.get(key)
        if wanted is not None:
            wanted.settled, wanted.changes = False, wanted.changes + 1
            self._queue.add_after(key, self._sync_delay)

    def _told(self, key: PoolKey, counted: bool) -> None:
        """Schedules a sync of the pool of an own write that the watch has shown, as upstream's does after
        every event. It ends the time for which the write counts whatever the watch shows.

        `counted`: `_interfered` has counted the write as another's change; that is taken back.
        """
        wanted = self._wanted.get(key)
        if wanted is not None and counted:
            wanted.changes -= 1
        self._queue.add_after(key, self._sync_delay)

    async def _work(self) -> None:
        await self.stored.informer.settled()
        await self._queue.work(self._process)

    async def _process(self, key: PoolKey) -> None:
        wanted = self._wanted.get(key)
        changes = wanted.changes if wanted is not None else 0
        created = self._created.get(key)
        try:
            if wanted is not None:
                check_pool(self._release, self._driver, key.pool, wanted.pool)
            await self._sync(key)
        except PoolError as error:
            log.error("pool validation failed: %s", error)
            self._settle(key, wanted, changes, str(error))
            return
        except _NodeMissingError:
            if wanted is not None:
                wanted.awaits_node = True
            self._queue.add_rate_limited(key)  # as upstream, where the look fails as a request does
            return
        except (StatusError, *CONNECTION_ERRORS) as error:
            log.warning("processing ResourceSlice objects: pool %s: %s", key.pool, error)
            if isinstance(error, StatusError) and error.code == 422:
                self._settle(key, wanted, changes, error.message)
                self._queue.add_after(key, _REFUSED_SECONDS)
            else:
                self._queue.add_rate_limited(key)
            return
        self._queue.forget(key)
        self._settle(key, wanted, changes, "")
        if not self._library.looks_once or created != self._created.get(key):
            self._look_again(key)

    def _settle(self, key: PoolKey, wanted: _Wanted | None, changes: int, error: str) -> None:
        """Notes how a sync ended that knew of so many changes; the next sync sees later ones."""
        current = self._wanted.get(key)
        if current is not None and current is wanted:
            current.settled, current.error = current.changes == changes, error
            current.awaits_node = False

    def _look_again(self, key: PoolKey) -> None:
        """Schedules a sync for the time when created slices are no longer assumed to exist: those that the
        watch has told of, if they are kept at all, then those that it has not.

        Every sync schedules one; the queue keeps the earliest per pool.
        """
        if key not in self._created:
            return
        age = self._clock.monotonic() - self._created[key]
        for seconds in (self.stored.kept_seconds, WRITTEN_SECONDS):
            if seconds and age <= seconds:
                self._queue.add_after(key, seconds - age + 1)
                return
        del self._created[key]

    # -- one pool

    async def _sync(self, key: PoolKey) -> None:
        present = self.stored.compared(key)
        wanted = self._wanted.get(key)
        if wanted is None:
            return await self._remove(present if not key.node else [])
        pool = wanted.pool
        newest = max((slice_["spec"]["pool"]["generation"] for slice_ in present), default=0)
        old = [slice_ for slice_ in present if slice_["spec"]["pool"]["generation"] < newest]
        latest = [slice_ for slice_ in present if slice_["spec"]["pool"]["generation"] == newest]
        matched = self._library.match(latest, pool.slices)
        changed = {
            index
            for index, slice_ in matched.current.items()
            if slice_["spec"]["pool"] != _pool(key, pool, newest)
            or not matching.same_content(slice_, pool, pool.slices[index])
        }
        generation = _generation(pool, newest, len(matched.current), len(changed))
        if pool.keeps_stale:
            return await self._add_beside(key, wanted, newest)
        await self._remove([*old, *matched.obsolete])
        for index, slice_ in sorted(matched.current.items()):
            if index in changed or generation != newest:
                await self._update(key, wanted, index, slice_, generation)
        for index in range(len(pool.slices)):
            if index not in matched.current:
                await self._create(key, wanted, index, generation)
        return None

    async def _add_beside(self, key: PoolKey, wanted: _Wanted, newest: int) -> None:
        """Adds, once, a new generation beside the old slices: the mistake of a driver that forgets them."""
        if newest < wanted.pool.generation:
            for index in range(len(wanted.pool.slices)):
                await self._create(key, wanted, index, wanted.pool.generation)

    async def _update(self, key: PoolKey, wanted: _Wanted, index: int, old: Object, generation: int) -> None:
        devices = matching.with_taint_times(
            old["spec"].get("devices") or (),
            wanted.pool.slices[index].devices,
            last_alone=self._library.keeps_last_time_alone,
        )
        content = _content(wanted.pool, wanted.pool.slices[index])
        kept = {name: value for name, value in old["spec"].items() if name in {"driver", "nodeName"}}
        spec = {**kept, "pool": _pool(key, wanted.pool, generation), **content}
        if devices:
            spec["devices"] = devices
        self._adopt(key, wanted, index, await self.stored.update({**old, "spec": spec}))

    async def _create(self, key: PoolKey, wanted: _Wanted, index: int, generation: int) -> None:
        pool = wanted.pool
        owners = [await self._owner(key.node)] if key.node else []
        name = self._library.generate_name(index, len(pool.slices), self._driver, key.node)
        spec = {
            "driver": self._driver,
            "pool": _pool(key, pool, generation),
            **({"nodeName": key.node} if key.node else {}),
            **_content(pool, pool.slices[index]),
        }
        metadata = {"generateName": name, **({"ownerReferences": owners} if owners else {})}
        self._adopt(key, wanted, index, await self.stored.create({"metadata": metadata, "spec": spec}))
        self._created[key] = self._clock.monotonic()

    def _adopt(self, key: PoolKey, wanted: _Wanted, index: int, stored: Object) -> None:
        """Drops the fields that the server did not keep; else they would be written again and again."""
        piece = wanted.pool.slices[index]
        if matching.same_content(stored, wanted.pool, piece):
            return
        log.error(
            'pool "%s", slice #%d: some fields were dropped by the apiserver, '
            "probably because these features are disabled: %s",
            key.pool,
            index,
            " ".join(matching.dropped_features(piece, stored)),
        )
        spec = stored["spec"]
        kept = Slice(
            tuple(spec.get("devices") or ()),
            tuple(spec.get("sharedCounters") or ()),
            bool(spec.get("perDeviceNodeSelection")),
        )
        slices = wanted.pool.slices
        wanted.pool = replace(wanted.pool, slices=(*slices[:index], kept, *slices[index + 1 :]))

    async def _remove(self, obsolete: Sequence[Object]) -> None:
        for slice_ in obsolete:
            try:
                await self.stored.delete(slice_)
            except StatusError as error:
                if error.code != 404:
                    raise

    async def _owner(self, node: str) -> Object:
        """Returns the Node object as the owner of slices; reads its UID once."""
        if node not in self._owners:
            try:
                uid = (await self._client.get(NODES, node))["metadata"]["uid"]
            except StatusError as error:
                raise _NodeMissingError(node) if error.code == 404 else error from error
            owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
            self._owners[node] = owner
        return self._owners[node]


def slice_specs(driver: str, node: str, name: str, pool: Pool) -> list[Object]:
    """Returns the specs of a node's pool as they are when it is published for the first time."""
    key = PoolKey(node, name)
    return [
        {
            "driver": driver,
            "pool": _pool(key, pool, max(1, pool.generation)),
            **({"nodeName": node} if node else {}),
            **_content(pool, piece),
        }
        for piece in pool.slices
    ]


def _generation(pool: Pool, newest: int, matched: int, changed: int) -> int:
    """Returns a new generation, unless a single update brings the pool up to date."""
    if pool.generation > newest:
        return pool.generation
    if matched == len(pool.slices) and changed <= 1:
        return newest
    return newest + 1


def _pool(key: PoolKey, pool: Pool, generation: int) -> Object:
    count = len(pool.slices) + pool.surplus
    return {"name": key.pool, "generation": generation, "resourceSliceCount": count}


def _content(pool: Pool, piece: Slice) -> Object:
    """Returns the spec of a slice without driver, pool and node name."""
    fields: Object = {
        "nodeSelector": pool.node_selector,
        "allNodes": pool.all_nodes,
        "perDeviceNodeSelection": piece.per_device_node_selection,
        "sharedCounters": [*piece.shared_counters],
        "devices": [*piece.devices],
    }
    return {name: value for name, value in fields.items() if value}
