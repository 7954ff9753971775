"""Judges the devices of claims: I01 device-once, I02 claim-released, and of our own I23 device-inside.

It keeps, by the log, the creation and end of pods and the contents of pools' ResourceSlices: capacities of
devices, and counters that they share.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from kubeskew.apimachinery.claim_users import is_pod_group, reserved_for
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import Key, ObjectView
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.quantity import ZERO, Quantity
from kubeskew.conformance.evidence.aspects import claim_names, results
from kubeskew.conformance.evidence.components import drivers_of, version_at
from kubeskew.conformance.evidence.inside import DevicesInside
from kubeskew.conformance.evidence.log import uid_of
from kubeskew.conformance.evidence.nodes import DriverCall
from kubeskew.conformance.invariants.cluster import Change, Cluster, controller, named
from kubeskew.conformance.invariants.invariant import USUAL, Evidence, Tolerance

Pool = tuple[str, str]  # driver, name
CLAIMS = "resourceclaims.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
_SEMANTIC = "semantic.dra.k8s.io/delete-protection"


class PodLives:
    """Times of pods: how long each was there, and the end of the last one of a name."""

    def __init__(self) -> None:
        self._came: dict[str, datetime] = {}
        self._lasted: dict[str, float] = {}
        self._left: dict[Key, datetime] = {}  # by the last one's name

    def see(self, change: Change) -> None:
        write = change.write
        if write.resource != "pods":
            return
        time, uid = parse_timestamp(write.time), uid_of(write.value)
        came = self._came.setdefault(uid, time)
        if change.now is None:
            self._lasted[uid] = (time - came).total_seconds()
            self._left[write.namespace, write.name] = time

    def lasted(self, uid: str) -> str:
        """The text reads `, 0.1 s after it was created`; it is empty unless the pod is gone."""
        seconds = self._lasted.get(uid)
        return "" if seconds is None else f", {seconds:.1f} s after it was created"

    def former(self, pod: ObjectView, time: str) -> str:
        """Gives the seconds since a former pod of the same name was removed; it is empty if there was
        none."""
        metadata = pod["metadata"]
        left = self._left.get((metadata.get("namespace") or "", metadata["name"]))
        if left is None:
            return ""
        seconds = (parse_timestamp(time) - left).total_seconds()
        return f"; a former Pod of its name went {seconds:.1f} s before"


class Device(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"device {'/'.join(self)}"


def device_of(result: Mapping[str, Any]) -> Device | None:
    """None if the result names no device."""
    parts = (result.get("driver"), result.get("pool"), result.get("device"))
    return Device(*map(str, parts)) if all(parts) else None


class PoolDevices:
    """Follows the slices; only a pool's newest generation counts."""

    def __init__(self) -> None:
        self._slices: defaultdict[Pool, dict[str, Mapping[str, Any]]] = defaultdict(dict)

    def change(self, before: ObjectView | None, now: ObjectView | None) -> None:
        for entry in filter(None, (before,)):
            self._slices[_pool(entry)].pop(entry["metadata"]["name"], None)
        if now is not None:
            self._slices[_pool(now)][now["metadata"]["name"]] = now.get("spec") or {}

    def capacity(self, device: Device) -> dict[str, Quantity]:
        """Capacities are empty of a device that is not offered any more."""
        found = self._device(device)
        return {
            name: Quantity.of(value.get("value") if isinstance(value, Mapping) else value)
            for name, value in (found.get("capacity") or {}).items()
        }

    def overdrawn(self, pool: Pool, devices: Iterable[Device]) -> Iterator[tuple[str, Quantity, Quantity]]:
        """Each entry has name, use and limit of a counter that these devices of a pool overdraw."""
        used: defaultdict[str, Quantity] = defaultdict(lambda: ZERO)
        for device in devices:
            for name, value in _counters(self._device(device).get("consumesCounters"), "counterSet"):
                used[name] = used[name] + value
        limits = dict(
            _counters(
                [each for spec in self._newest(pool) for each in spec.get("sharedCounters") or []], "name"
            )
        )
        for name in sorted(used):
            if name in limits and used[name] > limits[name]:
                yield name, used[name], limits[name]

    def _device(self, device: Device) -> Mapping[str, Any]:
        for spec in self._newest((device.driver, device.pool)):
            for each in spec.get("devices") or []:
                if each.get("name") == device.device:
                    return {**each, **(each.get("basic") or {})}
        return {}

    def _newest(self, pool: Pool) -> list[Mapping[str, Any]]:
        slices = [spec for _, spec in sorted((self._slices.get(pool) or {}).items())]
        newest = max((_generation(spec) for spec in slices), default=0)
        return [spec for spec in slices if _generation(spec) == newest]


def _pool(entry: ObjectView) -> Pool:
    spec = entry.get("spec") or {}
    return str(spec.get("driver") or ""), str((spec.get("pool") or {}).get("name") or "")


def _generation(spec: Mapping[str, Any]) -> int:
    return int((spec.get("pool") or {}).get("generation") or 0)


def _counters(sets: Any, key: str) -> Iterator[tuple[str, Quantity]]:
    """Names are `set/counter`."""
    for each in sets or []:
        for name, counter in (each.get("counters") or {}).items():
            yield f"{each.get(key)}/{name}", Quantity.of(counter.get("value") or "0")


class DeviceOnce:
    """I01: no device, share of it or shared counter is allocated or prepared for two claims at once."""

    code = "I01"
    name = "device-once"

    def __init__(self) -> None:
        self._users: defaultdict[Device, dict[str, Mapping[str, Any]]] = defaultdict(dict)  # by claim's uid
        self._claims: dict[str, ObjectView] = {}
        self._pools = PoolDevices()

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        if change.write.resource == SLICES:
            self._pools.change(change.before, change.now)
        if change.write.resource != CLAIMS:
            return
        uid = uid_of(change.write.value)
        old = set(self._taken(change.before or {}))
        new = self._taken(change.now or {})
        for device in sorted(old - set(new)):
            self._users[device].pop(uid, None)
        self._claims[uid] = change.write.value
        for device in sorted(set(new) - old):
            yield from self._clashes(device, uid, new[device], change)
            self._users[device][uid] = new[device]
        if set(new) - old:
            yield from self._overdrawn(new, change)
        yield from _semantic_overdraft(change, cluster)

    def _clashes(self, device: Device, uid: str, result: Mapping[str, Any], change: Change) -> Iterator[str]:
        for other, held in sorted(self._users[device].items()):
            if other != uid and not (_is_share(result) and _is_share(held)):
                yield f"{device} is allocated to {change.text}, and still to {named(self._claims[other])}"

    def _overdrawn(self, new: Mapping[Device, Mapping[str, Any]], change: Change) -> Iterator[str]:
        """Reports capacities and counters of which more is allocated than there is."""
        for device in sorted(new):
            for name, limit in sorted(self._pools.capacity(device).items()):
                shares = [_consumed(held, name) for held in self._users[device].values() if _is_share(held)]
                used = sum(shares, ZERO)
                if shares and used > limit:
                    yield (
                        f"{used.canonical()} of {name} of {device} are allocated, which has "
                        f"{limit.canonical()}: last to {change.text}"
                    )
        allocated = [device for device, users in self._users.items() if users]
        for pool in sorted({(device.driver, device.pool) for device in new}):
            mine = [device for device in allocated if (device.driver, device.pool) == pool]
            for counter, used, limit in self._pools.overdrawn(pool, mine):
                yield (
                    f"{used.canonical()} of counter {counter} of pool {'/'.join(pool)} are consumed, of "
                    f"{limit.canonical()}: last by {change.text}"
                )

    def _taken(self, claim: ObjectView) -> dict[Device, Mapping[str, Any]]:
        return {device: result for result in _held(claim) if (device := device_of(result)) is not None}

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        """Reports devices that a node's driver prepared for two claims at once."""
        prepared: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for call in evidence.records.calls:
            uids = prepared[call.node, call.driver]
            if call.error:
                continue
            if call.unprepares:
                uids.discard(call.uid)
                continue
            for other in sorted(uids - {call.uid}):
                for device in sorted(self._both(call, other)):
                    first = named(self._claims[other])
                    yield (
                        f"{device} is prepared on node {call.node} for {first} and for ResourceClaim "
                        f"{call.namespace}/{call.name} at once ({call.time})"
                    )
            uids.add(call.uid)

    def _both(self, call: DriverCall, other: str) -> set[Device]:
        """Only devices that cannot be shared count."""
        mine, theirs = (self._taken(self._claims.get(uid) or {}) for uid in (call.uid, other))
        return {
            device
            for device in mine.keys() & theirs.keys()
            if device.driver == call.driver and not (_is_share(mine[device]) and _is_share(theirs[device]))
        }


def _held(claim: ObjectView) -> Iterator[Mapping[str, Any]]:
    """Results with administrator's access are left out; named resources count."""
    yield from (result for result in results(claim) if not result.get("adminAccess"))
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for handle in allocation.get("resourceHandles") or []:
        data = handle.get("structuredData") or {}
        for result in data.get("results") or []:
            name = (result.get("namedResources") or {}).get("name")
            if name:
                yield {"driver": handle.get("driverName"), "pool": data.get("nodeName"), "device": name}


def _is_share(result: Mapping[str, Any]) -> bool:
    return bool(result.get("shareID"))


def _consumed(result: Mapping[str, Any], name: str) -> Quantity:
    value = (result.get("consumedCapacity") or {}).get(name)
    return ZERO if value is None else Quantity.of(value)


def _semantic_allocations(claim: ObjectView) -> Iterator[tuple[tuple[str, str, str, str], int]]:
    """The key is (driver, node, resource, counter), of allocations with semantic parameters."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for handle in allocation.get("resourceHandles") or []:
        data = handle.get("semanticData") or {}
        for each in data.get("allocations") or []:
            counter = each.get("counter") or {}
            if counter:
                driver, node = str(handle.get("driverName")), str(data.get("nodeName"))
                key = (driver, node, str(counter["resourceID"]), str(counter["name"]))
                yield key, int(counter.get("count") or 0)


def _semantic_overdraft(change: Change, cluster: Cluster) -> Iterator[str]:
    """Reports counters of semantic resources (KEP-4381's draft) of which more is allocated than there is."""
    old = {key for key, _ in _semantic_allocations(change.before or {})}
    new = {key for key, _ in _semantic_allocations(change.now or {})} - old
    if not new:
        return
    used: defaultdict[tuple[str, str, str, str], int] = defaultdict(int)
    for claim in cluster.all(CLAIMS):
        for key, amount in _semantic_allocations(claim):
            used[key] += amount
    for entry in cluster.all("noderesourceslices.resource.k8s.io"):
        for resource in entry.get("resources") or []:
            for attribute in resource.get("attributes") or []:
                key = (entry["driverName"], entry["nodeName"], resource["id"], attribute["name"])
                count = (attribute.get("counter") or {}).get("count")
                if key in new and count is not None and used[key] > int(count):
                    what = f"{used[key]} of {' '.join(key)} are allocated"
                    yield f"{what}, which has {count}: last to {change.text}"


class ClaimReleased:
    """I02: what nobody uses any more is free: allocations, generated claims, prepared devices."""

    code = "I02"
    name = "claim-released"

    def __init__(self) -> None:
        self._was_reserved: set[str] = set()
        self._lives = PodLives()

    def see(self, change: Change, cluster: Cluster) -> Iterable[str]:
        self._lives.see(change)
        if change.write.resource == CLAIMS and reserved_for(change.write.value):
            self._was_reserved.add(uid_of(change.write.value))
        return ()

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        if not at_rest:
            return
        pods = {uid_of(pod): pod for pod in cluster.all("pods")}
        if cluster.running("controller-manager"):
            for claim in cluster.all(CLAIMS):
                yield from self._unreleased(claim, pods, cluster)
        for entry in cluster.all(SLICES):
            node = (entry.get("spec") or {}).get("nodeName")
            if node and cluster.get("nodes", "", node) is None and cluster.running("controller-manager"):
                yield f"{named(entry)} is of node {node}, which is gone"
        yield from _still_prepared(cluster, evidence, pods)

    def _unreleased(
        self, claim: ObjectView, pods: Mapping[str, ObjectView], cluster: Cluster
    ) -> Iterator[str]:
        consumers = reserved_for(claim)
        for consumer in consumers:
            pod = pods.get(str(consumer.get("uid")))
            if is_pod_group(consumer) or (consumer.get("resource") or consumer.get("kind")) not in {
                "pods",
                "Pod",
            }:
                continue
            if pod is None or is_terminal(pod):
                gone = f"gone{self._lives.lasted(str(consumer.get('uid')))}"
                state = gone if pod is None else "finished"
                yield f"{named(claim)} is reserved for Pod {consumer.get('name')}, which is {state}"
        owner = controller(claim)
        if owner.get("kind") == "Pod" and owner.get("uid") not in pods:
            yield f"{named(claim)} was made for Pod {owner.get('name')}, which is gone"
        allocation = (claim.get("status") or {}).get("allocation")
        if (
            allocation
            and not consumers
            and uid_of(claim) in self._was_reserved
            and _is_freed_by_kubernetes(claim)
        ):
            yield f"{named(claim)} is still allocated although nobody uses it"


def _is_freed_by_kubernetes(claim: ObjectView) -> bool:
    """The claim controller frees a claim by itself unless a driver's controller has to, or it was asked for
    at once and for good."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    if (claim.get("spec") or {}).get("allocationMode") == "Immediate":
        return False
    if "devices" in allocation:
        return not allocation.get("controller")
    return _SEMANTIC in (claim["metadata"].get("finalizers") or [])


def _still_prepared(cluster: Cluster, evidence: Evidence, pods: Mapping[str, ObjectView]) -> Iterator[str]:
    prepared: dict[tuple[str, str, str], DriverCall] = {}
    for call in evidence.records.calls:
        key = (call.node, call.driver, call.uid)
        if not call.unprepares:
            prepared[key] = call
        elif not call.error:
            prepared.pop(key, None)
    for (node, driver, uid), call in sorted(prepared.items()):
        if not cluster.up(f"kubelet/{node}") or cluster.get("nodes", "", node) is None:
            continue
        users = [
            pod
            for pod in pods.values()
            if (pod.get("spec") or {}).get("nodeName") == node
            and pod["metadata"].get("namespace") == call.namespace
            and call.name in claim_names(pod)
            and not is_terminal(pod)
        ]
        claim = cluster.get(CLAIMS, call.namespace, call.name)
        if users and claim is not None and uid_of(claim) == uid:
            continue
        if not users:
            yield (
                f"node {node} holds the devices of ResourceClaim {call.namespace}/{call.name} prepared by "
                f"driver {driver} (since {call.time}), which no pod uses there"
            )


class DeviceInside:
    """I23: what a container had inside when it started is what drivers had prepared for its requests, and
    that is what its claims were allocated. The code is kubeskew's own, behind those of documented bugs."""

    code = "I23"
    name = "device-inside"

    def __init__(self, tolerance: Tolerance = USUAL) -> None:
        self._inside = DevicesInside(tolerance.clock_skew, tolerance.cache_lag)

    def see(self, change: Change, cluster: Cluster) -> Iterable[str]:
        self._inside.see(change.write)
        return ()

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        for found in self._inside.disagreements(evidence.records, drivers_of(cluster.starts)):
            version = version_at(cluster.starts, found.component, found.time)
            yield f"{found.with_author(version)}, at {found.time}"
