"""Keeps a driver's pools at the API server as desired: upstream's ResourceSlice controller.

One watch and a few workers serve the pools of all nodes (upstream: a controller per node). A pool is checked
before it is published for errors that no API server can see, as KEP-4815 has it.

A slice just written counts before the watch shows it, for a minute at most (upstream's mutation cache): a
slice deleted before anybody saw it must not be assumed to exist for ever. It does not count either once the
watch has passed the write's revision. Up to 1.36 (140063) the cache does not follow the watch: what was
written counts, though it is deleted, until its time is over or a sync has found it in what the watch shows.

How stored slices are paired with desired ones depends on the library's release: until 1.31 slices match by
the names of their devices; since 1.32 a single old one also matches a single new one; since 1.36 the name
begins with the place in the pool, and only the place counts.

Sources: k8s.io/dynamic-resource-allocation/resourceslice (resourceslicecontroller.go, validation.go), 1.35 to
1.37.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import NODES, Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.client.workqueue import WorkQueue
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.features import SliceLibrary
from kubeskew.kubelet.drivers.pools import Pool, Slice

WRITTEN_SECONDS = 60.0

_COMMON = GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice")
_INDEX_DIGITS = 5
log = logging.getLogger(__name__)

_WORKERS = 8
_BASE_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.05, 1.0
_GATHERING_SECONDS = 0.05  # a sync comes so much after what others did at the earliest
_SOON_SECONDS = 0.001
_REFUSED_SECONDS = 30.0  # seconds until a pool that the server found invalid is tried again


class PoolError(ValueError):
    """A pool that must not be published."""


def check_pool(library: Version, driver: str, name: str, pool: Pool) -> None:
    """Raises PoolError with the first error: a reference to nothing, or a duplicate."""
    counter_sets: dict[str, Object] = {}
    for counter_set in (counter_set for piece in pool.slices for counter_set in piece.shared_counters):
        if counter_set["name"] in counter_sets:
            raise PoolError(f'found duplicate counter set "{counter_set["name"]}" in pool "{name}"')
        counter_sets[counter_set["name"]] = counter_set
    devices: set[str] = set()
    for device in (device for piece in pool.slices for device in piece.devices):
        if device["name"] in devices:
            raise PoolError(f'found duplicate device "{device["name"]}" in pool "{name}"')
        devices.add(device["name"])
        if SliceLibrary.of(FeatureGates(library)).refuses_own_domain:
            _check_names(driver, name, device)
        _check_consumption(device, counter_sets)


def _check_names(driver: str, pool: str, device: Object) -> None:
    for what, field in (("attribute", "attributes"), ("capacity", "capacity")):
        for name in device.get(field) or {}:
            domain, separator, local = name.partition("/")
            if separator and domain == driver:
                raise PoolError(
                    f'pool "{pool}": device "{device["name"]}": {what} "{name}": '
                    f'use unqualified "{local}", the driver name is added implicitly'
                )


def _check_consumption(device: Object, counter_sets: dict[str, Object]) -> None:
    for consumption in device.get("consumesCounters") or []:
        name = consumption["counterSet"]
        if name not in counter_sets:
            raise PoolError(f'counter set "{name}" referenced by device "{device["name"]}" not found')
        for counter in consumption["counters"]:
            if counter not in counter_sets[name]["counters"]:
                raise PoolError(
                    f'counter "{counter}" referenced by device "{device["name"]}" '
                    f'not found in counter set "{name}"'
                )


class PoolKey(NamedTuple):
    """A pool of the driver; `node` is empty for those of no single node."""

    node: str
    pool: str


class StoredSlices:
    """Reads and writes slices in the shape of v1, in any version the server speaks."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        ref: Ref,
        driver: str,
        changed: Callable[[PoolKey], None],
        on_own_write: Callable[[PoolKey, bool], None],
        *,
        kept_seconds: float = 0.0,
    ) -> None:
        """`changed` is called with the pool of every change that the watch shows, but for known own writes.

        `on_own_write` is called once the watch has shown an own write, with the pool and whether `changed`
        was called:

        - with True where the watch was quicker than the answer: the write was taken for another's change,
          which the caller has to take back;
        - with False where the answer came first, but only if there are `kept_seconds`: a sync has to compare
          the write with what the watch shows, for it counts until then.

        With `kept_seconds` what was written counts for that long, no matter what the watch shows, else until
        the watch shows that revision or a later one.
        """
        self.kept_seconds = kept_seconds
        self._on_own_write = on_own_write
        self._client = client
        self._clock = clock
        self._ref = ref
        self._changed = changed
        self._written: dict[PoolKey, dict[str, tuple[float, Object]]] = {}  # by uid
        self.informer = Informer(client, ref, clock, "", f"spec.driver={driver}")
        self.informer.add_index("pool", lambda obj: [_index(pool_key(obj))])
        self.informer.add_handler(self._seen, lambda _, new: self._seen(new), self._gone)

    def of(self, key: PoolKey) -> list[Object]:
        """Slices are sorted by name, own writes among them."""
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
        """Own writes which the watch shows do not count any more after this look, which a sync begins with
        (mutation_cache.go, newerObject)."""
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
        """Has a write count; `before` is the revision that it was to change. The watch shows no write that
        left the slice as it was."""
        key, uid = pool_key(stored), stored["metadata"]["uid"]
        shown = self._shown(key).get(uid)
        changed = _revision(stored) != before
        if changed and shown is not None and _revision(shown) == _revision(stored):
            self._on_own_write(key, True)
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
                self._on_own_write(key, False)
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


@dataclass(frozen=True, slots=True)
class MatchedSlices:
    """Stored slices by the index of the desired one that they match; the others are obsolete."""

    current: Mapping[int, Object]
    obsolete: Sequence[Object]


class SliceNames:
    """Names slices, and finds which of the stored ones are the wanted ones."""

    def __init__(self, features: SliceLibrary) -> None:
        self._features = features

    def generate_name(self, index: int, count: int, driver: str, owner: str) -> str:
        """Returns `00000-DRIVER-OWNER-` or, in older releases, `OWNER-DRIVER-`; the owner may be empty."""
        parts = [driver, owner] if self._features.indexed_names else [owner, driver]
        prefix = [f"{index:0{_digits(count)}x}"] if self._features.indexed_names else []
        return "".join(f"{part}-" for part in [*prefix, *parts] if part)

    def match(self, stored: Iterable[Object], wanted: Sequence[Slice]) -> MatchedSlices:
        """`stored` are of the pool's newest generation."""
        slices = [*stored]
        if (
            self._features.single_matches
            and not self._features.indexed_names
            and len(slices) == len(wanted) == 1
        ):
            return MatchedSlices({0: slices[0]}, ())
        current: dict[int, Object] = {}
        obsolete = []
        for slice_ in slices:
            index = self._place(slice_, wanted, current)
            if index is None:
                obsolete.append(slice_)
            else:
                current[index] = slice_
        return MatchedSlices(current, obsolete)

    def _place(self, stored: Object, wanted: Sequence[Slice], taken: Mapping[int, Object]) -> int | None:
        free = [index for index in range(len(wanted)) if index not in taken]
        if self._features.indexed_names:
            index = _decoded_index(stored["metadata"]["name"], _digits(len(wanted)))
            return index if index in free else None
        names = _names(stored["spec"].get("devices") or ())
        return next((index for index in free if _names(wanted[index].devices) == names), None)


def _digits(count: int) -> int:
    return max(_INDEX_DIGITS, len(f"{max(count - 1, 0):x}"))


def _decoded_index(name: str, digits: int) -> int | None:
    prefix, separator, _ = name.partition("-")
    if not separator or len(prefix) != digits:
        return None
    try:
        return int(prefix, 16)
    except ValueError:
        return None


def _names(devices: Iterable[Object]) -> list[str]:
    return sorted(device["name"] for device in devices)


def same_content(stored: Object, pool: Pool, wanted: Slice) -> bool:
    """Compares a stored slice's spec with the desired one, apart from pool and driver."""
    spec = stored["spec"]
    return (
        (spec.get("nodeSelector") or None) == pool.node_selector
        and bool(spec.get("allNodes")) == pool.all_nodes
        and bool(spec.get("perDeviceNodeSelection")) == wanted.per_device_node_selection
        and comparable(spec.get("sharedCounters")) == comparable(wanted.shared_counters)
        and comparable(spec.get("devices")) == comparable(wanted.devices)
    )


def comparable(value: Any, key: str = "") -> Any:
    """Equal meanings become equal values: quantities count by value, empty fields as absent, taints without
    times."""
    if isinstance(value, Mapping):
        parts = {name: comparable(part, name) for name, part in value.items() if name != "timeAdded"}
        if key in {"capacity", "counters"}:
            return {name: _amount(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part not in (None, {}, [])}
    if isinstance(value, (list, tuple)):
        return [comparable(part) for part in value]
    return [] if value is None and not key else value


def _amount(entry: Any) -> Any:
    if not isinstance(entry, Mapping) or "value" not in entry:
        return entry
    return {
        **comparable({k: v for k, v in entry.items() if k != "value"}),
        "value": Quantity.of(entry["value"]),
    }


def with_taint_times(stored: Sequence[Object], wanted: Sequence[Object], *, last_alone: bool) -> list[Object]:
    """A desired taint that is stored already keeps its time (`last_alone`: of several of a device the last
    one does)."""
    times = {
        (device["name"], taint["key"], taint.get("value", ""), taint["effect"]): taint["timeAdded"]
        for device in stored
        for taint in device.get("taints") or []
        if "timeAdded" in taint
    }
    return [
        {**device, "taints": _timed(device, times, last_alone=last_alone)} if device.get("taints") else device
        for device in wanted
    ]


def _timed(
    device: Object, times: Mapping[tuple[str, str, str, str], str], *, last_alone: bool
) -> list[Object]:
    taints: list[Object] = [*device["taints"]]
    for index, taint in enumerate(device["taints"]):
        known = times.get((device["name"], taint["key"], taint.get("value", ""), taint["effect"]))
        if known is not None and "timeAdded" not in taint:
            if last_alone:  # upstream starts from the desired device for each
                taints = [*device["taints"]]
            taints[index] = {**taint, "timeAdded": known}
    return taints


def dropped_features(wanted: Slice, stored: Object) -> list[str]:
    """Guesses the features that the server does not have by the fields missing in what it stored."""
    spec = stored["spec"]
    pairs = [*zip(wanted.devices, spec.get("devices") or (), strict=False)]

    def lacks(*fields: str) -> bool:
        return any(len(a.get(f) or ()) != len(b.get(f) or ()) for a, b in pairs for f in fields)

    fewer_counters = len(wanted.shared_counters) > len(spec.get("sharedCounters") or ())
    lost_nodes = wanted.per_device_node_selection and not spec.get("perDeviceNodeSelection")
    shared = any("allowMultipleAllocations" in a and "allowMultipleAllocations" not in b for a, b in pairs)
    found = {
        "DRADeviceTaints": lacks("taints"),
        "DRAPartitionableDevices": lost_nodes or fewer_counters or lacks("consumesCounters"),
        "DRADeviceBindingConditions": lacks("bindingConditions", "bindingFailureConditions"),
        "DRAConsumableCapacity": shared,
    }
    return [feature for feature, lacking in found.items() if lacking] or ["unknown"]


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

        With 0 the sync comes when the changes of a moment are gathered, and the cache follows the watch.
        """
        self.ref = slices
        self._client = client
        self._clock = clock
        self._driver = driver
        self._release = gates.version
        self._library = SliceLibrary.of(gates)
        self._names = SliceNames(self._library)
        self._sync_delay = max(sync_delay, _GATHERING_SECONDS)
        self._wanted: dict[PoolKey, _Wanted] = {}
        self._owners: dict[str, Object] = {}  # by node
        self._created: dict[PoolKey, float] = {}  # when slices were created last
        self._queue: WorkQueue[PoolKey] = WorkQueue(
            clock, base_delay=_BASE_DELAY_SECONDS, max_delay=_MAX_DELAY_SECONDS
        )
        self.stored = StoredSlices(
            *(client, clock, slices, driver, self._interfered, self._on_own_write),
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
        return sorted(key.pool for key, wanted in self._wanted.items() if not wanted.settled)

    def state(self) -> dict[str, Any]:
        """`{generation, slices: {name: uid}, wanted, error}` stands under each pool; `wanted` is the number
        of slices desired."""
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

    def _on_own_write(self, key: PoolKey, counted: bool) -> None:
        """Schedules a sync of the pool of an own write that the watch has shown, as upstream's does after
        every event. It ends the time for which the write counts, no matter what the watch shows.

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
            if wanted is not None and self._library.checks_pools:
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
        """Notes how a sync ended that knew of `changes` changes; the next sync sees later ones."""
        current = self._wanted.get(key)
        if current is not None and current is wanted:
            current.settled, current.error = current.changes == changes, error
            current.awaits_node = False

    def _look_again(self, key: PoolKey) -> None:
        """Schedules a sync for the time when created slices are no longer assumed to exist: those that the
        watch has shown, if they are kept at all, then those that it has not.

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
        matched = self._names.match(latest, pool.slices)
        changed = {
            index
            for index, slice_ in matched.current.items()
            if slice_["spec"]["pool"] != _pool(key, pool, newest)
            or not same_content(slice_, pool, pool.slices[index])
        }
        generation = _generation(pool, newest, len(matched.current), len(changed))
        if pool.keeps_stale:
            return await self._add_generation(key, wanted, newest)
        obsolete = [*old, *matched.obsolete]
        if self._library.deletes_first:
            await self._remove(obsolete)
        for index, slice_ in sorted(matched.current.items()):
            if index in changed or generation != newest:
                await self._update(key, wanted, index, slice_, generation)
        for index in range(len(pool.slices)):
            if index not in matched.current:
                await self._create(key, wanted, index, generation)
        if not self._library.deletes_first:
            await self._remove(obsolete)
        return None

    async def _add_generation(self, key: PoolKey, wanted: _Wanted, newest: int) -> None:
        """Adds, once, a new generation next to the old slices: the mistake of a driver that forgets them."""
        if newest < wanted.pool.generation:
            for index in range(len(wanted.pool.slices)):
                await self._create(key, wanted, index, wanted.pool.generation)

    async def _update(self, key: PoolKey, wanted: _Wanted, index: int, old: Object, generation: int) -> None:
        devices = with_taint_times(
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
        name = self._names.generate_name(index, len(pool.slices), self._driver, key.node)
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
        if same_content(stored, wanted.pool, piece):
            return
        log.error(
            'pool "%s", slice #%d: some fields were dropped by the apiserver, '
            "probably because these features are disabled: %s",
            key.pool,
            index,
            " ".join(dropped_features(piece, stored)),
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
        """The Node object owns slices; its UID is read once. Raises _NodeMissingError."""
        if node not in self._owners:
            try:
                uid = (await self._client.get(NODES, node))["metadata"]["uid"]
            except StatusError as error:
                raise _NodeMissingError(node) if error.code == 404 else error from error
            owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
            self._owners[node] = owner
        return self._owners[node]


def slice_specs(driver: str, node: str, name: str, pool: Pool) -> list[Object]:
    """Specs are those of a node's pool that is published for the first time."""
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
    """The generation is a new one, unless a single update brings the pool up to date."""
    if pool.generation > newest:
        return pool.generation
    if matched == len(pool.slices) and changed <= 1:
        return newest
    return newest + 1


def _pool(key: PoolKey, pool: Pool, generation: int) -> Object:
    count = len(pool.slices) + pool.surplus
    return {"name": key.pool, "generation": generation, "resourceSliceCount": count}


def _content(pool: Pool, piece: Slice) -> Object:
    """Driver, pool and node name are left out."""
    fields: Object = {
        "nodeSelector": pool.node_selector,
        "allNodes": pool.all_nodes,
        "perDeviceNodeSelection": piece.per_device_node_selection,
        "sharedCounters": [*piece.shared_counters],
        "devices": [*piece.devices],
    }
    return {name: value for name, value in fields.items() if value}
