"""Pools of devices, kept up to date slice by slice, and what a node sees of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from scheduler.allocator.devices import Device, DeviceID, on_node
from scheduler.allocator.rules import AllocatorRules

Object = Mapping[str, Any]


class PoolID(NamedTuple):
    """Pool names belong to a driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as one node sees it: only slices of the newest generation that are for the node."""

    id: PoolID
    devices: Sequence[Device]
    incomplete: bool
    invalid: bool


class NodeView(Protocol):
    """What the allocator needs to know of a node."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...


class Start(NamedTuple):
    """Where a search for one device ended; it holds until a device becomes free."""

    releases: int  # the count of those so far
    position: int  # of the candidate that was found: none before it can be had
    device: Device | None  # the candidate, or that there was none


@dataclass(frozen=True, slots=True)
class NodePools:
    """All pools with devices for a node, in the order in which they are searched."""

    labels: Mapping[str, str]  # of the node, when this was computed
    pools: Sequence[Pool]
    candidates: Sequence[Device]  # of the pools that can be used
    any_invalid: bool
    starts: dict[object, Start] = field(default_factory=dict)


@dataclass(slots=True)
class _Slice:
    name: str
    spec: Object
    devices: list[Device]

    @property
    def generation(self) -> int:
        return int(self.spec["pool"].get("generation") or 0)

    def is_for(self, node: NodeView, *, per_device: bool) -> bool:
        """Unknown kinds of selection select nothing."""
        if self.spec.get("perDeviceNodeSelection"):
            return per_device and any(on_node(device.spec, node.labels, node.name) for device in self.devices)
        return bool(on_node(self.spec, node.labels, node.name))


class SliceIndex:
    """All slices of the cluster, by pool and by node."""

    def __init__(self, rules: AllocatorRules) -> None:
        self._rules = rules
        self._pools: dict[PoolID, dict[str, _Slice]] = {}
        self._local: dict[str, dict[PoolID, int]] = {}  # node → pools with slices for it alone
        self._shared: dict[PoolID, int] = {}  # pools with slices for several nodes
        self._views: dict[str, NodePools] = {}

    @classmethod
    def of(cls, rules: AllocatorRules, slices: Iterable[Object]) -> "SliceIndex":
        """A list of slices that will not change; names may repeat."""
        index = cls(rules)
        for serial, each in enumerate(slices):
            index._add(each, f"{each['metadata']['name']}\0{serial}")
        return index

    def set_slice(self, obj: Object) -> None:
        self.remove_slice(obj)
        self._add(obj, obj["metadata"]["name"])

    def _add(self, obj: Object, name: str) -> None:
        spec = obj["spec"]
        identity = PoolID(spec["driver"], spec["pool"]["name"])
        devices = [
            Device(DeviceID(*identity, device["name"]), device, spec, self._rules.cel)
            for device in spec.get("devices") or ()
        ]
        self._pools.setdefault(identity, {})[name] = _Slice(name, spec, devices)
        self._place(identity, spec, 1)

    def remove_slice(self, obj: Object) -> None:
        """The slice is found by its name and pool, which never change."""
        spec = obj["spec"]
        identity = PoolID(spec["driver"], spec["pool"]["name"])
        slices = self._pools.get(identity, {})
        known = slices.pop(obj["metadata"]["name"], None)
        if known is not None:
            self._place(identity, known.spec, -1)
            if not slices:
                del self._pools[identity]

    def _place(self, identity: PoolID, spec: Object, change: int) -> None:
        node = spec.get("nodeName")
        counts = self._local.setdefault(node, {}) if node else self._shared
        counts[identity] = counts.get(identity, 0) + change
        if not counts[identity]:
            del counts[identity]
        if not node or len(self._pools.get(identity, ())) > 1:
            self._views.clear()  # a pool may span nodes
        else:
            self._views.pop(node, None)

    def pools(self, node: NodeView) -> NodePools:
        """What the node sees; computed again only after a change that may concern it."""
        known = self._views.get(node.name)
        if known is not None and known.labels is node.labels:
            return known
        identities = {**self._local.get(node.name, {}), **self._shared}
        pools = [pool for identity in sorted(identities) if (pool := self._view(identity, node)) is not None]
        usable = [
            pool for pool in pools if not pool.invalid and not (self._rules.whole_pools and pool.incomplete)
        ]
        found = self._views[node.name] = NodePools(
            node.labels,
            pools,
            [device for pool in usable for device in pool.devices],
            any(pool.invalid for pool in pools),
        )
        return found

    def _view(self, identity: PoolID, node: NodeView) -> Pool | None:
        slices = sorted(self._pools[identity].values(), key=lambda each: each.name)
        mine = [each for each in slices if each.is_for(node, per_device=self._rules.per_device_nodes)]
        if not mine:
            return None
        newest = max(each.generation for each in mine)
        mine = [each for each in mine if each.generation == newest]
        judged = [each for each in slices if each.generation == newest] if self._rules.whole_pools else mine
        wanted = mine[0].spec["pool"].get("resourceSliceCount")
        return Pool(
            identity,
            [device for each in mine for device in each.devices],
            incomplete=len(judged) != wanted,
            invalid=self._rules.duplicate_devices_invalid and _has_duplicates(judged),
        )

    def slices(self) -> Iterator[Object]:
        """The specs of all slices."""
        for pool in self._pools.values():
            for each in pool.values():
                yield each.spec


def _has_duplicates(slices: Iterable[_Slice]) -> bool:
    names = [device.id.device for each in slices for device in each.devices]
    return len(names) != len(set(names))
